"""The low-rank covariance inside a noisy symmetric matrix whose diagonal is not known.

For a rank-r matrix plus symmetric noise of variance s² an entry (a Wigner matrix), the noise alone has its
eigenvalues within 2s√n; an eigenvalue ℓ of the signal shows at λ = ℓ + n s²/ℓ, with squared overlap
1 − n s²/ℓ² of its eigenvector (Benaych-Georges, Nadakuditi 2011). The best value to give the observed
eigenvector in Frobenius norm is ℓ · overlap = √(λ² − 4 n s²) (Shabalin, Nobel 2013).
All of it is post-processing of a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SEMICIRCLE_MEDIAN = 0.8079  # median of |λ| in units of s√n: half of the semicircle's mass lies within
SAFETY = 1.02  # how far past the edge of the noise an eigenvalue must be to count as signal
DIAGONAL_ROUNDS = 6


@dataclass(frozen=True)
class Spectrum:
    """Denoised eigenvalues (r,) in falling order, their eigenvectors (n, r), and the noise deviation found."""

    values: Floats
    vectors: Floats
    noise: float


def denoise(matrix: Floats, known_noise: float, rank: int | None = None) -> Spectrum:
    """The signal in a symmetric (n, n) matrix with zero diagonal, off-diagonal noise at least `known_noise`.

    The noise may be larger than what was added for privacy (sampling): the bulk of the spectrum tells. The
    diagonal is filled in from the low-rank part, a few times over.
    """
    n = len(matrix)
    filled = matrix.copy()
    for _ in range(DIAGONAL_ROUNDS):
        values, vectors = np.linalg.eigh(filled)
        noise = max(known_noise, float(np.median(np.abs(values))) / (SEMICIRCLE_MEDIAN * math.sqrt(n)))
        edge = 2 * noise * math.sqrt(n)
        keep = values > SAFETY * edge
        keep[: n - (n if rank is None else min(rank, n))] = False
        shrunk = np.sqrt(values[keep] ** 2 - edge**2)
        vectors = vectors[:, keep]
        np.fill_diagonal(filled, np.square(vectors) @ shrunk)
    return Spectrum(shrunk[::-1], vectors[:, ::-1], noise)
