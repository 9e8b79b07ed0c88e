"""Empirical Bayes: how far true quantities lie apart, from noisy sightings of them with known noise."""

from __future__ import annotations

import numpy as np

from hushrec.solvers.base import Floats

ROUNDS = 20
LEAST = 1e-3  # of the spread that was expected


def spread_of(steps: Floats, variance: Floats, start: Floats, worth: float) -> Floats:
    """Variance (r,) of the true steps (n, r) seen with noise of this variance (n, r).

    The expected variance `start` counts as much as `worth` exactly known items, so that steps which are all noise
    tell nothing: where the noise is far larger than `start`, the answer is `start`.
    """
    spread = start.copy()
    for _ in range(ROUNDS):
        weight = 1 / np.square(variance + spread)
        prior = worth / np.square(start)
        found = ((weight * (np.square(steps) - variance)).sum(axis=0) + prior * start) / (weight.sum(axis=0) + prior)
        spread = np.maximum(found, LEAST * start)
    return spread
