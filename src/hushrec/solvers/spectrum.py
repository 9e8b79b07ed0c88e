"""The low-rank covariance inside a noisy symmetric matrix whose diagonal is not known.

For a rank-r matrix plus symmetric noise of variance s² an entry (a Wigner matrix), the noise alone has its
eigenvalues within 2s√n; an eigenvalue ℓ of the signal shows at λ = ℓ + n s²/ℓ, with squared overlap
1 − n s²/ℓ² of its eigenvector (Benaych-Georges, Nadakuditi 2011). The best value to give the observed
eigenvector in Frobenius norm is ℓ · overlap = √(λ² − 4 n s²) (Shabalin, Nobel 2013).
All of it is post-processing of a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

SEMICIRCLE_MEDIAN = 0.8079  # median of |λ| in units of s√n: half of the semicircle's mass lies within
SAFETY = 1.02  # how far past the edge of the noise an eigenvalue must be to count as signal
DIAGONAL_ROUNDS = 6
BISECTIONS = 100
NARROW = 1e-6  # variance of the sampling, in units of a row
ALONE = 2000  # up to this size more threads gain little, and on a busy machine they wait for each other ten times over


@dataclass(frozen=True)
class Spectrum:
    """Denoised eigenvalues (r,) in falling order, their eigenvectors (n, r), and the noise deviation found."""

    values: Floats
    vectors: Floats
    noise: float


@dataclass(frozen=True)
class Sampling:
    """The noise of who rated what: a Gram of `rows` independent rows of norm 1, spread over `spread` items each."""

    rows: float
    spread: float

    @property
    def variance(self) -> float:
        """n times the variance of an off-diagonal entry."""
        return self.rows / self.spread


def denoise(matrix: Floats, known_noise: float, rank: int | None = None, sampling: Sampling | None = None) -> Spectrum:
    """The signal in a symmetric (n, n) matrix with zero diagonal, off-diagonal noise at least `known_noise`.

    The noise may be larger than what was added for privacy, since few rows scatter by themselves: the bulk of the
    spectrum tells, and what is known of the `sampling`. The diagonal is filled in from the low-rank part, a few
    times over.
    """
    with threadpool_limits(limits=1 if len(matrix) <= ALONE else None):
        return _denoised(matrix.copy(), known_noise, rank, sampling)


def _denoised(filled: Floats, known_noise: float, rank: int | None, sampling: Sampling | None) -> Spectrum:
    n = len(filled)
    for _ in range(DIAGONAL_ROUNDS):
        values, vectors = np.linalg.eigh(filled)
        bulk = n * (float(np.median(np.abs(values))) / (SEMICIRCLE_MEDIAN * math.sqrt(n))) ** 2
        added, sampled = _variances(known_noise**2 * n, bulk, sampling)
        vectors = vectors[:, ::-1][:, :rank]
        kept = spikes(values[::-1][:rank], added, sampled)
        vectors, kept = vectors[:, kept > 0], kept[kept > 0]
        np.fill_diagonal(filled, np.square(vectors) @ kept)
    return Spectrum(kept, vectors, math.sqrt((added + sampled) / n))


def _variances(added: float, bulk: float, sampling: Sampling | None) -> tuple[float, float]:
    """n times an entry's variance, of the noise that was added and of sampling.

    The bulk's width shows their sum, but too little of it where most eigenvalues belong to no row at all, or to items
    that hardly anybody rated: the width that the rows must have is the least.
    """
    if sampling is None:
        return max(added, bulk), 0.0
    return added, max(bulk - added, sampling.variance)


def spikes(seen: Floats, added: float, sampled: float) -> Floats:
    """The best values (r,) for the observed eigenvectors, largest eigenvalue first; 0 for those within the noise.

    The noise is a semicircle of variance `added` (n times an entry's) plus, free of it, a Gram of rows of norm 1 less
    its diagonal, of variance `sampled`: R(z) = added z + sampled z/(1 − z). An eigenvalue l of the signal shows
    at l + R(1/l), with squared overlap 1 − R'(1/l)/l² of its eigenvector, as long as that is positive.
    """

    def shown(true: Floats) -> Floats:
        return true + added / true + sampled / (true - skew)

    def overlap(true: Floats) -> Floats:
        return 1.0 - added / true / true - sampled / (true - skew) / (true - skew)

    if added + sampled == 0.0:
        return np.maximum(seen, 0.0)
    if sampled < NARROW:  # as a semicircle: the two differ by less than can be computed
        added, sampled = added + sampled, 0.0
    skew = 1.0 if sampled > 0 else 0.0
    least = bisect(overlap, np.full(1, skew), np.full(1, skew + 2 * math.sqrt(added + sampled)))
    clear = seen > SAFETY * shown(least)
    floor = np.broadcast_to(least, seen.shape)
    true = bisect(lambda true: shown(true) - seen, floor, np.maximum(seen, floor))
    return np.where(clear, true * np.maximum(overlap(true), 0.0), 0.0)


def bisect(rising: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Where a rising function passes 0 between `low` and `high`, elementwise; the upper end of what is undecided."""
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        under = rising(middle) < 0
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return high
