"""The user half of uncertainty: how sure a user's device can be of its predictions, and what it should ask next.

The model is that of `kernels.posterior_means`, with one thing more that is hers alone: a scale s of all variances,
since some users rate as the model expects and some do not. With the prior s ~ inverse gamma(doubt/2, doubt/2) her
coordinates, her scale and her next rating have the closed form of Bayesian regression: the posterior mean stays what
it was, and a rating is Student-t with doubt + (number of ratings) degrees of freedom about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from hushrec.device.posterior import _invert


@njit(nogil=True, cache=True, error_model="numpy")
def own_scales(
    indptr: Any, indices: Any, deviations: Any, loadings: Any, precision: Any, noise: Any, doubt: float
) -> Any:
    """Each user's posterior scale of all variances, (m,): 1 without a rating.

    (doubt + Q)/(doubt + k) with Q the squared length of her k deviations in units of what the model expects,
    Q = Σ deviation²/noise − bᵀ (posterior covariance) b, b = Σ deviation · loadings/noise.
    """
    rank = loadings.shape[1]
    out = np.ones(len(indptr) - 1)
    covariance = np.empty((rank, rank))
    normal = np.empty((rank, rank))
    right = np.empty(rank)
    for i in range(len(out)):
        start, stop = indptr[i], indptr[i + 1]
        _posterior_covariance(indices[start:stop], loadings, precision, noise, normal, covariance)
        right[:] = 0.0
        length = 0.0
        for p in range(start, stop):
            weighted = deviations[p] / noise[indices[p]]
            length += deviations[p] * weighted
            for a in range(rank):
                right[a] += weighted * loadings[indices[p], a]
        length -= _quadratic(covariance, right)
        out[i] = (doubt + max(length, 0.0)) / (doubt + stop - start)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def spreads_at(
    indptr: Any, indices: Any, at_indptr: Any, at_indices: Any, loadings: Any, precision: Any, noise: Any
) -> Any:
    """The posterior variance of loadings_j · u (nnz,) at every wanted entry (at_indptr, at_indices), for s = 1."""
    rank = loadings.shape[1]
    out = np.empty(len(at_indices))
    covariance = np.empty((rank, rank))
    normal = np.empty((rank, rank))
    for i in range(len(at_indptr) - 1):
        if at_indptr[i] == at_indptr[i + 1]:
            continue
        _posterior_covariance(indices[indptr[i] : indptr[i + 1]], loadings, precision, noise, normal, covariance)
        for p in range(at_indptr[i], at_indptr[i + 1]):
            out[p] = _quadratic(covariance, loadings[at_indices[p]])
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def worth_of_asking(
    indptr: Any, indices: Any, at_indptr: Any, at_indices: Any, loadings: Any, precision: Any, noise: Any, gram: Any
) -> Any:
    """By how much one more rating of each wanted entry would lower the summed variance of all predictions, (nnz,).

    gram: Σ_l weight_l loadings_l loadings_lᵀ (r, r), the sum over predictions. A rating of item j changes the
    covariance C to C − C l lᵀ C/(noise_j + lᵀ C l) with l = loadings_j, whatever its value: so the worth is
    lᵀ C gram C l/(noise_j + lᵀ C l), in closed form, for s = 1.
    """
    rank = loadings.shape[1]
    out = np.empty(len(at_indices))
    covariance = np.empty((rank, rank))
    normal = np.empty((rank, rank))
    gain = np.empty(rank)
    for i in range(len(at_indptr) - 1):
        if at_indptr[i] == at_indptr[i + 1]:
            continue
        _posterior_covariance(indices[indptr[i] : indptr[i + 1]], loadings, precision, noise, normal, covariance)
        for p in range(at_indptr[i], at_indptr[i + 1]):
            j = at_indices[p]
            along = 0.0
            for a in range(rank):
                gain[a] = 0.0
                for b in range(rank):
                    gain[a] += covariance[a, b] * loadings[j, b]
                along += gain[a] * loadings[j, a]
            out[p] = _quadratic(gram, gain) / (noise[j] + along)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def _posterior_covariance(seen: Any, loadings: Any, precision: Any, noise: Any, normal: Any, covariance: Any) -> None:
    """(diag precision + Σ over the seen items of loadings loadingsᵀ/noise)⁻¹ into `covariance`."""
    rank = len(precision)
    normal[:] = 0.0
    for a in range(rank):
        normal[a, a] = precision[a]
    for j in seen:
        for a in range(rank):
            scaled = loadings[j, a] / noise[j]
            for b in range(a + 1):
                normal[a, b] += scaled * loadings[j, b]
    _invert(normal, covariance)


@njit(nogil=True, cache=True, error_model="numpy")
def _quadratic(matrix: Any, vector: Any) -> float:
    """vectorᵀ matrix vector for a symmetric matrix."""
    total = 0.0
    for a in range(len(vector)):
        across = 0.5 * matrix[a, a] * vector[a]
        for b in range(a):
            across += matrix[a, b] * vector[b]
        total += 2.0 * across * vector[a]
    return total
