"""The user half of the factored solvers: alternating least squares and factored gradient rounds.

Every function treats each user by herself, from her own row and public values; see `kernels.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from hushrec.device.kernels import _solve_in_place

ROOT_TWO = np.sqrt(2.0)


@njit(nogil=True, cache=True, error_model="numpy")
def row_energy(indptr: Any, errors: Any) -> Any:
    """Each user's mean square of `errors` (nnz,), as (m, 1); 0 for a user without a rating."""
    out = np.zeros((len(indptr) - 1, 1))
    for i in range(len(out)):
        for p in range(indptr[i], indptr[i + 1]):
            out[i, 0] += errors[p] * errors[p]
        out[i, 0] /= max(indptr[i + 1] - indptr[i], 1)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def user_weights(indptr: Any, indices: Any, item_weights: Any, priority: Any, most: int) -> Any:
    """A weight (nnz,) for each rating: item_weights, scaled to unit norm over each user's ratings.

    Of a user with more than `most` ratings, those of the items with the highest `priority` (n,) count, ties in
    the order of the items; the others weigh nothing.
    """
    out = np.zeros(len(indices))
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        for p in range(start, stop):
            out[p] = item_weights[indices[p]]
        if stop - start > most:
            order = np.argsort(-priority[indices[start:stop]], kind="mergesort")
            for k in range(most, stop - start):
                out[start + order[k]] = 0.0
        norm = np.sqrt(np.sum(out[start:stop] * out[start:stop]))
        if norm > 0.0:
            out[start:stop] /= norm
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def user_scales(indptr: Any, indices: Any, item_weights: Any, priority: Any, most: int) -> Any:
    """What `user_weights` multiplied each user's item weights by, (m,); 0 for a user without a rating."""
    weights = user_weights(indptr, indices, item_weights, priority, most)
    out = np.zeros(len(indptr) - 1)
    for i in range(len(out)):
        for p in range(indptr[i], indptr[i + 1]):
            if weights[p] > 0.0:
                out[i] = weights[p] / item_weights[indices[p]]
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def second_moments(users: Any) -> Any:
    """u_i u_iᵀ in isometric coordinates (m, r(r+1)/2): lower triangle row by row, times √2 off the diagonal."""
    count, rank = users.shape
    out = np.empty((count, rank * (rank + 1) // 2))
    for i in range(count):
        k = 0
        for a in range(rank):
            for b in range(a):
                out[i, k] = ROOT_TWO * users[i, a] * users[i, b]
                k += 1
            out[i, k] = users[i, a] * users[i, a]
            k += 1
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def add_covariances(indptr: Any, indices: Any, loadings: Any, precision: Any, noise: Any, moments: Any) -> None:
    """Add each user's posterior covariance to her `moments`, in the same coordinates.

    The model is that of `kernels.posterior_means`: with it, moments are E[u uᵀ] given her row.
    """
    rank = loadings.shape[1]
    normal = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    for i in range(len(indptr) - 1):
        normal[:] = 0.0
        for a in range(rank):
            normal[a, a] = precision[a]
        for p in range(indptr[i], indptr[i + 1]):
            vector, weight = loadings[indices[p]], 1.0 / noise[indices[p]]
            for a in range(rank):
                scaled = vector[a] * weight
                for b in range(a + 1):
                    normal[a, b] += scaled * vector[b]
        _invert_factor(normal, inverse)
        k = 0
        for a in range(rank):
            for b in range(a + 1):
                total = 0.0
                for c in range(a, rank):
                    total += inverse[c, a] * inverse[c, b]
                moments[i, k] += total if a == b else ROOT_TWO * total
                k += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _invert_factor(normal: Any, inverse: Any) -> None:
    """The inverse of the Cholesky factor of `normal` (lower triangle; overwritten by its factor)."""
    rank = len(normal)
    for a in range(rank):
        for b in range(a + 1):
            total = normal[a, b]
            for c in range(b):
                total -= normal[a, c] * normal[b, c]
            normal[a, b] = np.sqrt(total) if a == b else total / normal[b, b]
    for a in range(rank):
        inverse[a, a] = 1.0 / normal[a, a]
        for b in range(a):
            total = 0.0
            for c in range(b, a):
                total -= normal[a, c] * inverse[c, b]
            inverse[a, b] = total / normal[a, a]


@njit(nogil=True, cache=True, error_model="numpy")
def preferences(indptr: Any, indices: Any, loadings: Any, prior: Any) -> Any:
    """Each user's solution (m, r) of (prior + Σ v_j v_jᵀ) u = Σ v_j over the items she used; prior: (r, r).

    Implicit feedback: every item she used wants the score 1, and the prior holds that all others want 0.
    """
    rank = loadings.shape[1]
    out = np.zeros((len(indptr) - 1, rank))
    normal = np.empty((rank, rank))
    for i in range(len(out)):
        normal[:] = prior
        for p in range(indptr[i], indptr[i + 1]):
            vector = loadings[indices[p]]
            for a in range(rank):
                out[i, a] += vector[a]
                for b in range(a + 1):
                    normal[a, b] += vector[a] * vector[b]
        _solve_in_place(normal, out[i])
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def first_factors(
    indptr: Any, indices: Any, values: Any, start: Any, density: float, catalogue: float, longest: float
) -> Any:
    """U⁰ (m, r): the row on `start` (n, r), divided by her density (see `own_density`), cut to norm `longest`."""
    out = np.zeros((len(indptr) - 1, start.shape[1]))
    for i in range(len(out)):
        share = own_density(indptr[i + 1] - indptr[i], catalogue, density)
        for p in range(indptr[i], indptr[i + 1]):
            for a in range(start.shape[1]):
                out[i, a] += values[p] / share * start[indices[p], a]
        _cut(out[i], longest)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def own_density(count: int, catalogue: float, density: float) -> float:
    """The p in a user's own 1/p: the public one, or her own share of the items where that is larger.

    A user with many ratings has a steeper loss than the average one; with the public p alone her step would be
    too long, and her factors would swing between the bounds. catalogue: number of items, infinite for p alone.
    """
    return max(density, count / catalogue)


@njit(nogil=True, cache=True, error_model="numpy")
def next_factors(
    indptr: Any,
    indices: Any,
    values: Any,
    users: Any,
    loadings: Any,
    balance: Any,
    step: float,
    density: float,
    catalogue: float,
    longest: float,
) -> Any:
    """U^{t+1} (m, r) from U^t: eq. (4.4), a gradient step on the own row, then a cut to norm `longest`.

    loadings: V^t (n, r); balance: R^t (r, r).
    """
    rank = loadings.shape[1]
    out = np.empty_like(users)
    for i in range(len(users)):
        share = own_density(indptr[i + 1] - indptr[i], catalogue, density)
        for a in range(rank):
            pull = 0.0
            for b in range(rank):
                pull += users[i, b] * balance[b, a]
            out[i, a] = users[i, a] - step / 2.0 * pull
        for p in range(indptr[i], indptr[i + 1]):
            vector = loadings[indices[p]]
            error = -values[p]
            for a in range(rank):
                error += vector[a] * users[i, a]
            for a in range(rank):
                out[i, a] -= step / share * error * vector[a]
        _cut(out[i], longest)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def _cut(vector: Any, longest: float) -> None:
    total = 0.0
    for a in range(len(vector)):
        total += vector[a] * vector[a]
    if total > longest * longest:
        shrink = longest / np.sqrt(total)
        for a in range(len(vector)):
            vector[a] *= shrink


@njit(nogil=True, cache=True, error_model="numpy")
def replay(
    indptr: Any,
    indices: Any,
    values: Any,
    start: Any,
    path: Any,
    balances: Any,
    steps: Any,
    density: float,
    catalogue: float,
    longest: float,
) -> Any:
    """U^T (m, r) of Algorithm 1 from the public V^0..V^{T-1} (T, n, r), R^t (T, r, r) and steps (T,).

    What a user computed round by round in training, and what her device computes from the release.
    """
    users = first_factors(indptr, indices, values, start, density, catalogue, longest)
    for t in range(len(steps)):
        users = next_factors(
            indptr, indices, values, users, path[t], balances[t], steps[t], density, catalogue, longest
        )
    return users


@njit(nogil=True, cache=True, error_model="numpy")
def row_errors(indptr: Any, indices: Any, values: Any, users: Any, loadings: Any, longest: float) -> Any:
    """Û_i·V_j − value at every rating, each user's row cut to norm `longest` (line 7 of Algorithm 1)."""
    out = np.empty(len(indices))
    for i in range(len(users)):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = -values[p]
            for a in range(loadings.shape[1]):
                out[p] += loadings[indices[p], a] * users[i, a]
        _cut(out[indptr[i] : indptr[i + 1]], longest)
    return out
