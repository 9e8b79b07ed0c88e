"""Matrices that are never laid out: X = left · rightᵀ, kept as its two thin factors.

The box |X_ij| <= α must be checked on all m·n entries. By Cauchy-Schwarz |X_ij| <= ‖left_i‖ ‖right_j‖, so with
rows and columns sorted by these norms only a corner of X can pass α: `exceeding` multiplies out that corner,
a block of rows at a time, and misses nothing. Sparse matrices ("entries") carry what the corner contains.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

BLOCK = 1 << 20
"""Entries laid out at a time: 8 MiB, which stays near the cores."""


@dataclass(frozen=True, eq=False)
class LowRank:
    """X = left @ right.T with left (m, r) and right (n, r)."""

    left: Array
    right: Array

    @staticmethod
    def zeros(shape: tuple[int, int]) -> LowRank:
        """The zero matrix, of rank 0."""
        return LowRank(np.zeros((shape[0], 0)), np.zeros((shape[1], 0)))

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[0]

    @property
    def rank(self) -> int:
        """Number of factor columns: an upper bound on the rank."""
        return self.left.shape[1]

    @property
    def nuclear_bound(self) -> float:
        """Σ ‖left_k‖ ‖right_k‖: never below the nuclear norm, and equal to it when the factors are singular vectors."""
        return float(np.linalg.norm(self.left, axis=0) @ np.linalg.norm(self.right, axis=0))

    def entries(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> Array:
        """X at the given positions."""
        left, right = np.ascontiguousarray(self.left), np.ascontiguousarray(self.right)
        return _sampled_product(left, right, rows.astype(np.int64, copy=False), cols.astype(np.int64, copy=False))

    def toarray(self) -> Array:
        """X laid out, (m, n)."""
        return self.left @ self.right.T

    def inner(self, other: LowRank) -> float:
        """The sum over all entries of X times the other."""
        return float(np.sum((self.left.T @ other.left) * (self.right.T @ other.right)))

    def towards(self, other: LowRank, weight: float) -> LowRank:
        """(1 - weight) X + weight other, its factors side by side."""
        if weight == 1.0:
            return other
        left = np.hstack([self.left * (1.0 - weight), other.left * weight])
        return LowRank(left, np.hstack([self.right, other.right])).compressed()

    def compressed(self) -> LowRank:
        """The same matrix with as few factor columns as its rank to rounding error."""
        if self.rank == 0:
            return self
        q, a = np.linalg.qr(self.left)
        p, b = np.linalg.qr(self.right)
        u, s, vt = np.linalg.svd(a @ b.T)
        keep = s > 1e-14 * s[0]
        root = np.sqrt(s[keep])
        return LowRank(q @ u[:, keep] * root, p @ vt[keep].T * root)

    def exceeding(self, limit: float) -> Entries:
        """All entries with |X_ij| > limit."""
        flat, values = [], []
        for found, x in self._corner(limit):
            flat.append(found)
            values.append(x)
        if not flat:
            return Entries.empty()
        where = np.concatenate(flat)
        order = np.argsort(where, kind="stable")
        return Entries(where[order], np.concatenate(values)[order])

    def _corner(self, limit: float) -> Iterator[tuple[Index, Array]]:
        """Positions and values over the limit, from the blocks that can hold any."""
        a, b = np.linalg.norm(self.left, axis=1), np.linalg.norm(self.right, axis=1)
        # the norms carry rounding errors of their own: widen the corner by far more than those
        reach = limit * (1.0 - 1e-9)
        if self.rank == 0 or a.max(initial=0.0) * b.max(initial=0.0) <= reach:
            return
        rows, cols = np.argsort(-a, kind="stable"), np.argsort(-b, kind="stable")
        tall, wide = a[rows], b[cols]
        right = np.ascontiguousarray(self.right[cols])
        start = 0
        while start < len(rows) and tall[start] * wide[0] > reach:
            width = int(np.searchsorted(-(tall[start] * wide), -reach, side="left"))
            stop = min(len(rows), start + max(1, BLOCK // max(width, 1)))
            block = self.left[rows[start:stop]] @ right[:width].T
            i, j = np.nonzero(np.abs(block) > limit)
            yield rows[start:stop][i] * np.int64(self.shape[1]) + cols[j], block[i, j]
            start = stop


@dataclass(frozen=True, eq=False)
class Entries:
    """A sparse matrix as sorted flat positions (row · n + column) and their values."""

    flat: Index
    values: Array

    @staticmethod
    def empty() -> Entries:
        return Entries(np.empty(0, np.int64), np.empty(0))

    def at(self, flat: Index) -> Array:
        """Values at sorted positions, zero where there is none."""
        out = np.zeros(len(flat))
        if len(self.flat):
            k = np.minimum(np.searchsorted(self.flat, flat), len(self.flat) - 1)
            hit = self.flat[k] == flat
            out[hit] = self.values[k[hit]]
        return out

    def nonzero(self) -> Entries:
        """The same without stored zeros."""
        keep = self.values != 0.0
        return Entries(self.flat[keep], self.values[keep])

    def scaled(self, factor: float) -> Entries:
        return Entries(self.flat, self.values * factor)

    def tocsr(self, shape: tuple[int, int]) -> sp.csr_matrix:
        """The same as a SciPy sparse matrix."""
        rows, cols = np.divmod(self.flat, shape[1])
        indptr = np.searchsorted(rows, np.arange(shape[0] + 1))
        return sp.csr_matrix((self.values, cols, indptr), shape=shape)


@dataclass(frozen=True, eq=False)
class Completed:
    """The finished matrix: scale · clip(left · rightᵀ, ±limit), worked out wherever it is asked for."""

    factors: LowRank
    limit: float
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.factors.shape

    def entries(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> Array:
        """The completed values at the given positions."""
        return self.scale * np.clip(self.factors.entries(rows, cols), -self.limit, self.limit)

    def rows(self, start: int, stop: int) -> Array:
        """The completed values of a range of rows, (stop - start, n)."""
        block = self.factors.left[start:stop] @ self.factors.right.T
        return self.scale * np.clip(block, -self.limit, self.limit)

    def toarray(self) -> Array:
        """The whole completed matrix, (m, n)."""
        return self.rows(0, self.shape[0])


@dataclass(frozen=True, eq=False)
class Dense:
    """A finished matrix that has no short form: the noise of an output mechanism is on every entry."""

    values: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def entries(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> Array:
        """The values at the given positions."""
        return self.values[rows, cols]

    def toarray(self) -> Array:
        """The whole matrix, (m, n)."""
        return self.values


def merged(a: Index, b: Index) -> Index:
    """The union of two sorted lists of positions, sorted."""
    if len(a) == 0 or len(b) == 0:
        return b if len(a) == 0 else a
    both = np.concatenate([a, b])
    both.sort(kind="stable")
    return both[np.concatenate([[True], both[1:] != both[:-1]])]


def add_product(matrix: sp.csr_matrix, right: Array, out: Array) -> None:
    """out += matrix @ right, its rows shared among the cores (the same bits on any number of them)."""
    m, work = matrix.shape[0], matrix.nnz * right.shape[1]
    workers = min(available_cores(), 1 + work // 1_000_000)
    right = np.ascontiguousarray(right)
    edges = np.searchsorted(matrix.indptr, np.linspace(0, matrix.nnz, workers + 1)[1:-1])
    spans = list(pairwise([0, *edges.tolist(), m]))
    if len(spans) == 1:
        _add_rows(matrix.indptr, matrix.indices, matrix.data, right, out, 0, m)
        return
    with ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(_add_rows, matrix.indptr, matrix.indices, matrix.data, right, out, low, high)
            for low, high in spans
        ]
        for job in jobs:
            job.result()


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@numba.njit(nogil=True, cache=True, fastmath=True)
def _add_rows(
    indptr: Any, indices: Any, data: Array, right: Array, out: Array, low: int, high: int
) -> None:  # pragma: no cover - compiled
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            weight, j = data[e], indices[e]
            for k in range(right.shape[1]):
                out[i, k] += weight * right[j, k]


@numba.njit(nogil=True, cache=True, fastmath=True)
def _sampled_product(left: Array, right: Array, rows: Index, cols: Index) -> Array:  # pragma: no cover - compiled
    out = np.zeros(len(rows))
    for e in range(len(rows)):
        i, j = rows[e], cols[e]
        total = 0.0
        for k in range(left.shape[1]):
            total += left[i, k] * right[j, k]
        out[e] = total
    return out
