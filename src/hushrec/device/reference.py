"""The user half in plain NumPy, one user at a time: slow, obvious, and what the compiled kernels are tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def _users(indptr: NDArray[Any]) -> Iterator[tuple[int, slice]]:
    for i in range(len(indptr) - 1):
        yield i, slice(int(indptr[i]), int(indptr[i + 1]))


def _each_user(indptr: NDArray[Any], width: int, one: Callable[[slice], Floats]) -> Floats:
    out = np.zeros((len(indptr) - 1, width))
    for i, own in _users(indptr):
        if own.stop > own.start:
            out[i] = one(own)
    return out


def residuals(
    indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], means: Floats, offset_prior: float
) -> Floats:
    """values − item means − own shrunk offset."""
    out = values - means[indices]
    for _, own in _users(indptr):
        if own.stop > own.start:
            out[own] -= out[own].sum() / (own.stop - own.start + offset_prior)
    return np.asarray(out)


def row_means(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], means: Floats) -> Floats:
    """Each user's mean deviation from the item means."""
    return _each_user(indptr, 1, lambda own: np.mean(values[own] - means[indices[own]]))[:, 0]


def posterior_means(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    deviations: Floats,
    loadings: Floats,
    precision: Floats,
    noise: Floats,
) -> Floats:
    """Each user's posterior mean, by the normal equations."""

    def one(own: slice) -> Floats:
        seen, weight = loadings[indices[own]], 1 / noise[indices[own]]
        normal = np.diag(precision) + seen.T @ (seen * weight[:, None])
        return np.linalg.solve(normal, seen.T @ (weight * deviations[own]))

    return _each_user(indptr, loadings.shape[1], one)


def projections(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    deviations: Floats,
    loadings: Floats,
    offset_prior: float,
    scale: float,
) -> Floats:
    """Own offset, then scale × the residual row on the other loadings."""

    def one(own: slice) -> Floats:
        offset = deviations[own].sum() / (own.stop - own.start + offset_prior)
        rest = scale * (deviations[own] - offset) @ loadings[indices[own], 1:]
        return np.concatenate(([offset], rest))

    return _each_user(indptr, loadings.shape[1], one)


def predict_at(indptr: NDArray[Any], indices: NDArray[Any], means: Floats, loadings: Floats, users: Floats) -> Floats:
    """means_j + loadings_j · u_i at every stored (i, j)."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return means[indices] + np.einsum("pr,pr->p", loadings[indices], users[rows])
