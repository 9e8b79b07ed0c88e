"""Empirical Bayes: how far true quantities lie apart, from noisy sightings of them with known noise."""

from __future__ import annotations

import numpy as np

from hushrec.solvers.base import Floats

ROUNDS = 20
LEAST = 1e-3  # of the spread that was expected
GRID = np.arange(0.0, 12.01, 0.25)  # true amounts, in standard deviations of the noise
CLEAR = 8.0  # standard deviations above which an amount is taken as seen
FINENESS = 0.05  # sightings are binned as finely as that
MIXING_ROUNDS = 200
COEFFICIENTS_WORTH = 2.0  # how many known coefficients the expected size counts for


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


def regress(
    across: Floats, among: Floats, exposure: Floats | float, sigma: float, floor: float, error: float, start: float
) -> Floats:
    """Empirical Bayes coefficients (..., q) from noisy moments: across (..., q) = exposure · coefficients · among.

    sigma: noise of `across`. floor: of the eigenvalues of `among` (q, q), above its own noise. error: variance that
    the sum itself adds, for one of `among`. start: expected size of a coefficient.
    """
    values, vectors = np.linalg.eigh(among)
    weight = exposure * np.maximum(values, floor)
    seen, variance = (across @ vectors) / weight, (sigma**2 + error * weight) / weight**2
    spread = spread_of(seen.reshape(-1, 1), variance.reshape(-1, 1), np.array([start**2]), COEFFICIENTS_WORTH)[0]
    return np.asarray((seen * spread / (spread + variance)) @ vectors.T)


def deconvolve(seen: Floats, sigma: float, expected: float, worth: float) -> tuple[Floats, Floats]:
    """Posterior means and variances (n,) of amounts of at least 0, seen (n,) with Gaussian noise of deviation sigma.

    How amounts are distributed is estimated too, as a mixture of any form (Kiefer and Wolfowitz 1956, by the EM of
    Laird 1978), which heavy tails need: most items have next to nothing, a few have nearly all. An exponential
    law with mean `expected` counts as `worth` items. What stands clear of the noise is taken as it was seen.
    """
    mean, variance = seen.copy(), np.full(len(seen), sigma**2)
    if sigma == 0.0:
        return mean, variance
    near = np.flatnonzero(seen < CLEAR * sigma)
    bins, which = np.unique(np.round(np.maximum(seen[near] / sigma, -6.0) / FINENESS), return_inverse=True)
    likelihood = np.exp(-0.5 * np.square(bins[:, None] * FINENESS - GRID))
    prior = np.diff(-np.exp(-np.append(GRID, np.inf) * sigma / expected)) + 1e-12
    prior /= prior.sum()
    counts = np.bincount(which, minlength=len(bins))
    mixture = prior
    for _ in range(MIXING_ROUNDS):
        part = (counts / (likelihood @ mixture)) @ likelihood * mixture
        mixture = (part + worth * prior) / (counts.sum() + worth)
    belief = likelihood * mixture
    belief /= belief.sum(axis=1, keepdims=True)
    first = belief @ GRID
    mean[near] = sigma * first[which]
    variance[near] = sigma**2 * np.maximum(belief @ GRID**2 - first**2, 0.0)[which]
    return mean, variance
