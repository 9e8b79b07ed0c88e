"""The user half: compiled loops over users' rows, the same functions for one row or a million.

Every function takes CSR arrays (indptr, indices, values) and public values, and treats each user by herself:
what comes out for a user depends on her own row and on public values only. `reference.py` has the same in
plain NumPy. Nothing here is trusted by the privacy core, and everything here runs on a user's own device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def activity_weights(indptr: NDArray[Any], power: float) -> Floats:
    """For each rating, (the user's number of ratings)^-power: her rows then weigh alike, however active she is."""
    counts = np.diff(indptr)
    return np.repeat(np.maximum(counts, 1.0) ** -power, counts)


@njit(nogil=True, cache=True, error_model="numpy")
def residuals(indptr: Any, indices: Any, values: Any, means: Any, offset_prior: float) -> Any:
    """values − item means − the user's own offset, shrunk by `offset_prior` ratings worth of doubt (inf: none).

    means: (n,); returns (nnz,) float64.
    """
    out = np.empty(len(values))
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        total = 0.0
        for p in range(start, stop):
            out[p] = values[p] - means[indices[p]]
            total += out[p]
        offset = total / (stop - start + offset_prior)
        for p in range(start, stop):
            out[p] -= offset
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def row_means(indptr: Any, indices: Any, values: Any, means: Any) -> Any:
    """Each user's mean deviation from the item means, (m,); 0 for a user without a rating."""
    out = np.zeros(len(indptr) - 1)
    for i in range(len(out)):
        for p in range(indptr[i], indptr[i + 1]):
            out[i] += values[p] - means[indices[p]]
        out[i] /= max(indptr[i + 1] - indptr[i], 1)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def posterior_means(indptr: Any, indices: Any, deviations: Any, loadings: Any, precision: Any, noise: Any) -> Any:
    """Each user's posterior mean in the model deviation_j = loadings_j · u + N(0, noise_j), u ~ N(0, 1/precision).

    deviations: (nnz,) values minus item means; loadings: (n, r); precision: (r,); noise: (n,).
    Returns (m, r). This is ridge regression of the user's own row on the public loadings.
    """
    users, rank = len(indptr) - 1, loadings.shape[1]
    out = np.zeros((users, rank))
    normal = np.empty((rank, rank))
    right = np.empty(rank)
    for i in range(users):
        normal[:] = 0.0
        right[:] = 0.0
        for a in range(rank):
            normal[a, a] = precision[a]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            weight = 1.0 / noise[j]
            vector = loadings[j]
            for a in range(rank):
                scaled = vector[a] * weight
                right[a] += scaled * deviations[p]
                for b in range(a + 1):
                    normal[a, b] += scaled * vector[b]
        _solve_in_place(normal, right)
        out[i] = right
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def _solve_in_place(normal: Any, right: Any) -> None:
    """Cholesky on the lower triangle; leaves the solution in `right`, and the factor in `normal`."""
    rank = len(right)
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
    for a in range(rank):
        total = right[a]
        for c in range(a):
            total -= normal[a, c] * right[c]
        right[a] = total / normal[a, a]
    for a in range(rank - 1, -1, -1):
        total = right[a]
        for c in range(a + 1, rank):
            total -= normal[c, a] * right[c]
        right[a] = total / normal[a, a]


@njit(nogil=True, cache=True, error_model="numpy")
def predict_at(indptr: Any, indices: Any, means: Any, loadings: Any, users: Any) -> Any:
    """means_j + loadings_j · u_i at every stored (i, j); users: (m, r); returns (nnz,)."""
    out = np.empty(len(indices))
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            total = means[j]
            for a in range(loadings.shape[1]):
                total += loadings[j, a] * users[i, a]
            out[p] = total
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def projections(indptr: Any, indices: Any, deviations: Any, loadings: Any, offset_prior: float, scale: float) -> Any:
    """Coordinates (m, r): the user's own shrunk offset first, then scale × the residual row on the other loadings."""
    rank = loadings.shape[1]
    out = np.zeros((len(indptr) - 1, rank))
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        if start == stop:
            continue
        total = 0.0
        for p in range(start, stop):
            total += deviations[p]
        offset = total / (stop - start + offset_prior)
        out[i, 0] = offset
        for p in range(start, stop):
            for a in range(1, rank):
                out[i, a] += scale * (deviations[p] - offset) * loadings[indices[p], a]
    return out
