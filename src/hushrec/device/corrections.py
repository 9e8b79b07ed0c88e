"""The user half of corrections: what predictions of a posterior have in common wrong, by what a device knows of each.

Five traits of a prediction, each about 0 and about 1 in size, cut off at ±CUT:

    p  the prediction itself          s  log of its posterior variance       k  log of the number of her ratings
    m  the item's mean                a  log of the item's popularity

A correction is a polynomial in them: 1, the traits, their products of two (squares less 1), and four terms more in p,
in which ratings that end at a lowest and a highest value are bent.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

TRAITS, FEATURES = 5, 25
CUT = 3.0
BUSIER = 1.0  # ratings are mostly those of busy users: e times as many as the usual one


class Gauge(NamedTuple):
    """Public zeros and units of the traits: p is (prediction − centre)/unit; usual_spread and usual_count are logs."""

    centre: float
    unit: float
    usual_spread: float
    usual_count: float


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(score: float, spread: float, count: float, item: Any, gauge: Any, traits: Any, out: Any) -> None:
    """The features (25,) of one prediction; item: (2,) its mean and popularity as traits."""
    traits[0] = (score - gauge.centre) / gauge.unit
    traits[1] = item[0]
    traits[2] = 2.0 * (math.log(max(spread, 1e-300)) - gauge.usual_spread)
    traits[3] = math.log(max(count, 1.0)) - gauge.usual_count - BUSIER
    traits[4] = item[1]
    for a in range(TRAITS):
        traits[a] = min(max(traits[a], -CUT), CUT)
    out[0] = 1.0
    at = 1
    for a in range(TRAITS):
        out[at] = traits[a]
        at += 1
        for b in range(a):
            out[at] = traits[a] * traits[b]
            at += 1
        out[at] = traits[a] * traits[a] - 1.0
        at += 1
    p, square = traits[0], traits[0] * traits[0]
    out[at] = p * square - 3.0 * p
    out[at + 1] = traits[1] * (square - 1.0)
    out[at + 2] = traits[2] * (square - 1.0)
    out[at + 3] = square * square - 6.0 * square + 3.0


@njit(nogil=True, cache=True, error_model="numpy")
def regression_rows(
    indptr: Any, indices: Any, errors: Any, scores: Any, spreads: Any, weights: Any, items: Any, gauge: Any
) -> Any:
    """For every user Σ weights · f · errors (m, 25) and Σ weights · f fᵀ, its lower triangle row by row (m, 325).

    errors, scores, spreads, weights: (nnz,); items: (n, 2). f are the features of each of her predictions.
    """
    users = len(indptr) - 1
    across, among = np.zeros((users, FEATURES)), np.zeros((users, FEATURES * (FEATURES + 1) // 2))
    traits, f = np.empty(TRAITS), np.empty(FEATURES)
    for i in range(users):
        count = indptr[i + 1] - indptr[i]
        for p in range(indptr[i], indptr[i + 1]):
            _fill(scores[p], spreads[p], count, items[indices[p]], gauge, traits, f)
            k = 0
            for a in range(FEATURES):
                weighted = weights[p] * f[a]
                across[i, a] += weighted * errors[p]
                for b in range(a + 1):
                    among[i, k] += weighted * f[b]
                    k += 1
    return across, among


@njit(nogil=True, cache=True, error_model="numpy")
def corrections_at(
    counts: Any, indptr: Any, indices: Any, scores: Any, spreads: Any, items: Any, gauge: Any, correction: Any
) -> Any:
    """What to add to the predictions (nnz,) at every wanted entry; counts: (m,) how many ratings each user has."""
    out = np.empty(len(indices))
    traits, f = np.empty(TRAITS), np.empty(FEATURES)
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            _fill(scores[p], spreads[p], counts[i], items[indices[p]], gauge, traits, f)
            total = 0.0
            for a in range(FEATURES):
                total += correction[a] * f[a]
            out[p] = gauge.unit * total
    return out
