"""The user half of the posterior solver: what each of a user's ratings says once the others are known.

For every rating the user's coordinates are inferred from all her *other* ratings (leave one out), so that the
rating itself never explains itself. Costs O(r³) a user and O(r²) a rating.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

LEAST_ACTIVE = 1.0


@njit(nogil=True, cache=True, error_model="numpy")
def leave_one_out(indptr: Any, indices: Any, deviations: Any, loadings: Any, precision: Any, noise: Any) -> Any:
    """For each rating: the user's posterior mean from her other ratings (nnz, r), and its predictive variance (nnz,).

    The variance is that of loadings_j · u given the other ratings, without the rating's own noise. Same model and
    arguments as `kernels.posterior_means`.
    """
    rank = loadings.shape[1]
    out = np.empty((len(indices), rank))
    spread = np.empty(len(indices))
    normal = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    right = np.empty(rank)
    mean = np.empty(rank)
    gain = np.empty(rank)
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        if start == stop:
            continue
        normal[:] = 0.0
        right[:] = 0.0
        for a in range(rank):
            normal[a, a] = precision[a]
        for p in range(start, stop):
            vector, weight = loadings[indices[p]], 1.0 / noise[indices[p]]
            for a in range(rank):
                scaled = vector[a] * weight
                right[a] += scaled * deviations[p]
                for b in range(a + 1):
                    normal[a, b] += scaled * vector[b]
        _invert(normal, inverse)
        for a in range(rank):
            total = 0.0
            for b in range(rank):
                total += inverse[a, b] * right[b]
            mean[a] = total
        for p in range(start, stop):
            j = indices[p]
            vector = loadings[j]
            along, fitted = 0.0, 0.0
            for a in range(rank):
                total = 0.0
                for b in range(rank):
                    total += inverse[a, b] * vector[b]
                gain[a] = total
            for a in range(rank):
                along += gain[a] * vector[a]
                fitted += mean[a] * vector[a]
            rest = noise[j] - along  # positive: the posterior variance of a seen entry is below its noise
            step = (deviations[p] - fitted) / rest
            spread[p] = along * noise[j] / rest
            for a in range(rank):
                out[p, a] = mean[a] - step * gain[a]
    return out, spread


@njit(nogil=True, cache=True, error_model="numpy")
def _invert(normal: Any, inverse: Any) -> None:
    """The inverse of a positive definite matrix given by its lower triangle, by Cholesky; `normal` is overwritten."""
    rank = len(normal)
    for a in range(rank):
        for b in range(a):
            total = normal[a, b]
            for c in range(b):
                total -= normal[a, c] * normal[b, c]
            normal[a, b] = total / normal[b, b]
        total = normal[a, a]
        for c in range(a):
            total -= normal[a, c] * normal[a, c]
        normal[a, a] = np.sqrt(total)
    for k in range(rank):  # column k of the inverse: forward, then backward
        for a in range(rank):
            total = 1.0 if a == k else 0.0
            for c in range(k, a):
                total -= normal[a, c] * inverse[c, k]
            inverse[a, k] = total / normal[a, a] if a >= k else 0.0
        for a in range(rank - 1, -1, -1):
            total = inverse[a, k]
            for c in range(a + 1, rank):
                total -= normal[c, a] * inverse[c, k]
            inverse[a, k] = total / normal[a, a]


@njit(nogil=True, cache=True, error_model="numpy")
def regression_rows(
    indptr: Any, indices: Any, errors: Any, coordinates: Any, weights: Any, loadings: Any, spread: Any, noise: Any
) -> Any:
    """What a user adds to the regression of errors on her coordinates, and to its moments.

    errors: (nnz,) ratings freed of means and own offset; coordinates: (nnz, r), a constant 1 first; loadings:
    (n, r) the present ones, 0 for the constant. Returns weights · errors · coordinates (nnz, r), and for each user
    (m, r(r+1)/2 + 2): Σ weights · c cᵀ packed (lower triangle row by row, off-diagonal times √2), then
    Σ weights · (errors − loadings · c)², and the value that the model expects of that last sum.
    """
    rank = coordinates.shape[1]
    vectors = np.empty_like(coordinates)
    moments = np.zeros((len(indptr) - 1, rank * (rank + 1) // 2 + 2))
    root = np.sqrt(2.0)
    for i in range(len(indptr) - 1):
        own = moments[i]
        for p in range(indptr[i], indptr[i + 1]):
            j, k, rest = indices[p], 0, errors[p]
            for a in range(rank):
                along = weights[p] * coordinates[p, a]
                vectors[p, a] = along * errors[p]
                rest -= loadings[j, a] * coordinates[p, a]
                for b in range(a):
                    own[k] += root * along * coordinates[p, b]
                    k += 1
                own[k] += along * coordinates[p, a]
                k += 1
            own[k] += weights[p] * rest * rest
            own[k + 1] += weights[p] * (spread[p] + noise[j])
    return vectors, moments


@njit(nogil=True, cache=True, error_model="numpy")
def choice_features(indptr: Any, indices: Any, leanings: Any, usual_log: float) -> Any:
    """What a user chose to rate, (m, 2 + q): 1, how active she is, and Σ leanings/√ratings over the items she rated.

    leanings: (n, q). How active: log(ratings) less the usual log, and at least −LEAST_ACTIVE, since a device that has
    been told a few ratings is not that of somebody who rates little. A user without a rating has zeros throughout.
    """
    width = leanings.shape[1]
    out = np.zeros((len(indptr) - 1, 2 + width))
    for i in range(len(out)):
        count = indptr[i + 1] - indptr[i]
        if count == 0:
            continue
        out[i, 0] = 1.0
        out[i, 1] = max(np.log(count) - usual_log, -LEAST_ACTIVE)
        for p in range(indptr[i], indptr[i + 1]):
            for a in range(width):
                out[i, 2 + a] += leanings[indices[p], a]
        for a in range(width):
            out[i, 2 + a] /= np.sqrt(count)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def reliabilities(indptr: Any, indices: Any, loadings: Any, precision: Any, noise: Any) -> Any:
    """Which part of each coordinate's prior variance the user's ratings take away, (m, r), in [0, 1)."""
    rank = loadings.shape[1]
    out = np.zeros((len(indptr) - 1, rank))
    normal = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    for i in range(len(out)):
        normal[:] = 0.0
        for a in range(rank):
            normal[a, a] = precision[a]
        for p in range(indptr[i], indptr[i + 1]):
            vector, weight = loadings[indices[p]], 1.0 / noise[indices[p]]
            for a in range(rank):
                for b in range(a + 1):
                    normal[a, b] += vector[a] * weight * vector[b]
        _invert(normal, inverse)
        for a in range(rank):
            out[i, a] = 1.0 - inverse[a, a] * precision[a]
    return out
