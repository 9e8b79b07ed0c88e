"""From float rows to certified bounded integer sums: the only code through which ratings can reach a sum.

A user-half function computes, for each user of a shard, a float contribution. Nothing about those floats is
trusted. Here each contribution is clipped, scaled to the integer grid, truncated toward zero (so that no norm
grows) and its integer norm is checked exactly; a contribution that holds a NaN or an infinity, or fails the
check, becomes zero. So whatever the user half computed, the integer that is added for one user obeys the bound.

No integer wraps on the way. A norm is taken with what its squares may lose to underflow added, so it is never too
small by more than rounding; a contribution whose norm on the grid is above FAR times the bound becomes zero before
anything is made an integer. What is left has units, and a sum of squares, that 32 and 64 bits hold.

A row whose positions do not rise strictly inside the item list (an item twice, a position outside) becomes zero
as well: `Ratings` cannot hold one, and the bounds do not rest on that.

Two forms of contribution exist:
  gram    a_i aᵢᵀ for a sparse row a_i over (a head of) the items, ‖a_i‖ ≤ bound. The *row* is made integer, so
          the product is an exact integer too and ‖a_i a_iᵀ‖_F = ‖a_i‖² needs no further check.
  blocks  one or more stacked blocks, each a sparse row over the items, a short dense vector, or the outer
          product of the two; the whole stack has norm ≤ bound.

Without noise (epsilon = infinity) the grid is `None`: the same loops then add plain floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A float product may exceed its exact value by a few parts in 2^53; shrinking every contribution by 2^-40
# makes the exact check below practically never fail, and costs nothing that could be measured.
SHRINK = 1.0 - 2.0**-40

# Units on the grid are below 2^30: FAR times as many fit into 32 bits, and their squares into 64, with room.
FAR = 1.4

# A square loses less than this to underflow, in double precision.
LOST = 2.0**-1022


@dataclass(frozen=True)
class Block:
    """One block of the users' contributions in a shard: `entries` over items, `dense` (m, k), or both.

    entries (nnz,) alone add to a vector (n,), dense alone to a vector (k,), the outer product of both to a matrix
    (n, k); entries (nnz, k), a vector for each rating, add to a matrix (n, k) by themselves.
    """

    entries: Floats | None = None
    dense: Floats | None = None


def clip_factors(norms_squared: Floats, bound: float, units_per_bound: int | None) -> Floats:
    """What each user's contribution is multiplied by: clipped to `bound`, then in grid units; 0 where not finite."""
    with np.errstate(all="ignore"):
        norms = np.sqrt(norms_squared)
        factors = bound / np.maximum(norms, bound)
        if units_per_bound is not None:
            factors *= SHRINK * units_per_bound / bound
            factors[~(norms * factors <= FAR * units_per_bound)] = 0.0
    factors[~np.isfinite(norms_squared)] = 0.0
    return factors


def integer_rows(
    indptr: NDArray[Any],
    indices: NDArray[np.int32],
    n_items: int,
    values: Floats,
    bound: float,
    units_per_bound: int | None,
) -> NDArray[Any]:
    """The rows of a Gram query, clipped and on the grid: int32 with ‖row‖² ≤ units_per_bound², certified."""
    if len(values) != len(indices):
        raise ValueError("a row needs one value for each of its items")
    factors = clip_factors(_row_norms_squared(indptr, values), bound, units_per_bound)
    _zero_malformed(indptr, indices, n_items, factors)
    if units_per_bound is None:
        return _scaled_rows(indptr, values, factors)
    return _certified_rows(indptr, values, factors, np.int64(units_per_bound) ** 2)


def add_grams(indptr: NDArray[Any], positions: NDArray[np.int32], rows: NDArray[Any], into: NDArray[Any]) -> None:
    """Add every row's outer product to the lower triangle of `into`; entries at position -1 are left out."""
    _add_grams(indptr, positions, rows, into)


def add_blocks(
    indptr: NDArray[Any],
    indices: NDArray[np.int32],
    n_items: int,
    blocks: tuple[Block, ...],
    bound: float,
    units_per_bound: int | None,
    into: tuple[NDArray[Any], ...],
) -> None:
    """Clip, certify and add the users' stacked blocks to the sums `into`, one array a block."""
    users = len(indptr) - 1
    for block, total in zip(blocks, into, strict=True):
        _require_fit(block, users, len(indices), n_items, total.shape)
    with np.errstate(all="ignore"):  # a NaN or an overflow here makes the contribution zero, below
        norms_squared = sum((_block_norms_squared(indptr, block) for block in blocks), np.zeros(users))
    factors = clip_factors(np.asarray(norms_squared), bound, units_per_bound)
    _zero_malformed(indptr, indices, n_items, factors)
    certified = np.zeros(users, dtype=into[0].dtype)
    for block, total in zip(blocks, into, strict=True):
        _add_block(indptr, indices, block, factors, certified, total)
    if units_per_bound is None:
        return
    failed = certified > np.int64(units_per_bound) ** 2
    if failed.any():  # take exactly the same integers out again: they are truncated alike on both sides of zero
        factors = np.where(failed, -factors, 0.0)
        for block, total in zip(blocks, into, strict=True):
            _add_block(indptr, indices, block, factors, certified, total)


def _require_fit(block: Block, users: int, ratings: int, n_items: int, total: tuple[int, ...]) -> None:
    """The compiled loops check no index: a block must have the users' and the ratings' number, and its sum's shape."""
    entries, dense = block.entries, block.dense
    if entries is None and dense is None:
        raise ValueError("a block needs entries, dense, or both")
    wide = entries is not None and entries.ndim == 2
    shape: tuple[int, ...] = () if entries is None else (n_items,)
    shape += () if dense is None else dense.shape[1:]
    shape += entries.shape[1:] if wide and entries is not None else ()
    lengths = (len(entries) if entries is not None else ratings, len(dense) if dense is not None else users)
    if lengths != (ratings, users) or shape != total or (wide and dense is not None):
        raise ValueError("a block does not fit its users, their ratings, or its sum")


def _block_norms_squared(indptr: NDArray[Any], block: Block) -> Floats:
    if block.entries is None:
        return _dense_norms_squared(block.dense)
    if block.entries.ndim == 2:
        norms = _row_norms_squared(indptr, np.sqrt(_dense_norms_squared(block.entries)))
    else:
        norms = _row_norms_squared(indptr, block.entries)
    return norms if block.dense is None else norms * _dense_norms_squared(block.dense)


def _dense_norms_squared(dense: Any) -> Floats:
    return np.asarray(np.einsum("ik,ik->i", dense, dense) + LOST * dense.shape[1])


def _add_block(
    indptr: NDArray[Any],
    indices: NDArray[np.int32],
    block: Block,
    factors: Floats,
    certified: NDArray[Any],
    into: NDArray[Any],
) -> None:
    entries, dense = block.entries, block.dense
    if entries is None:  # as if every user had rated one and the same item
        alone = np.arange(len(factors) + 1), np.zeros(len(factors), dtype=np.int32)
        _add_vectors(*alone, dense, factors, certified, into[None])
    elif dense is not None:
        _add_outer(indptr, indices, entries, dense, factors, certified, into)
    elif entries.ndim == 1:
        _add_vectors(indptr, indices, entries[:, None], factors, certified, into[:, None])
    else:
        _add_vectors(indptr, indices, entries, factors, certified, into)


@njit(nogil=True, cache=True, error_model="numpy")
def _row_norms_squared(indptr: Any, values: Any) -> Any:
    users = len(indptr) - 1
    out = np.zeros(users)
    for i in range(users):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += values[p] * values[p]
        out[i] = total + LOST * (indptr[i + 1] - indptr[i])
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def _zero_malformed(indptr: Any, indices: Any, n_items: int, factors: Any) -> None:
    for i in range(len(indptr) - 1):
        before = -1
        for p in range(indptr[i], indptr[i + 1]):
            if indices[p] <= before or indices[p] >= n_items:
                factors[i] = 0.0
            before = indices[p]


@njit(nogil=True, cache=True, error_model="numpy")
def _scaled_rows(indptr: Any, values: Any, factors: Any) -> Any:
    out = np.zeros(len(values))
    for i in range(len(indptr) - 1):
        if factors[i] != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                out[p] = values[p] * factors[i]
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def _certified_rows(indptr: Any, values: Any, factors: Any, most: Any) -> Any:
    out = np.zeros(len(values), dtype=np.int32)
    for i in range(len(indptr) - 1):
        if factors[i] == 0.0:
            continue
        norm_squared = np.int64(0)
        for p in range(indptr[i], indptr[i + 1]):
            unit = np.int32(values[p] * factors[i])
            out[p] = unit
            norm_squared += np.int64(unit) * np.int64(unit)
        if norm_squared > most:
            for p in range(indptr[i], indptr[i + 1]):
                out[p] = 0
    return out


@njit(nogil=True, cache=True, boundscheck=False)
def _add_grams(indptr: Any, positions: Any, rows: Any, into: Any) -> None:
    head = np.empty(into.shape[0], dtype=np.int64)
    units = np.empty(into.shape[0], dtype=into.dtype)
    for i in range(len(indptr) - 1):
        count = 0
        for p in range(indptr[i], indptr[i + 1]):
            if positions[p] >= 0 and rows[p] != 0:
                head[count] = positions[p]
                units[count] = rows[p]
                count += 1
        for a in range(count):
            line = into[head[a]]
            unit = units[a]
            for b in range(a + 1):
                line[head[b]] += unit * units[b]


def _on_grid(value: float, into: NDArray[Any]) -> Any:
    """The value as it is added: truncated toward zero on an integer grid, itself where there is no grid."""
    return np.int64(value) if into.dtype == np.int64 else value


@overload(_on_grid)
def _compiled_on_grid(value, into):  # type: ignore[no-untyped-def]  # Numba wants the lambdas' own signature
    if isinstance(into.dtype, types.Integer):  # by way of int32, which vectorises; units stay below FAR · 2^30
        return lambda value, into: np.int64(np.int32(value))
    return lambda value, into: value


@njit(nogil=True, cache=True, error_model="numpy")
def _add_vectors(indptr: Any, indices: Any, entries: Any, factors: Any, certified: Any, into: Any) -> None:
    width = entries.shape[1]
    for i in range(len(indptr) - 1):
        if factors[i] == 0.0:
            continue
        norm_squared = certified[i]
        for p in range(indptr[i], indptr[i + 1]):
            line = into[indices[p]]
            for k in range(width):
                unit = _on_grid(entries[p, k] * factors[i], into)
                line[k] += unit
                norm_squared += unit * unit
        certified[i] = norm_squared


@njit(nogil=True, cache=True, error_model="numpy")
def _add_outer(indptr: Any, indices: Any, entries: Any, dense: Any, factors: Any, certified: Any, into: Any) -> None:
    width = dense.shape[1]
    for i in range(len(indptr) - 1):
        if factors[i] == 0.0:
            continue
        vector = dense[i]
        norm_squared = certified[i]
        for p in range(indptr[i], indptr[i + 1]):
            line = into[indices[p]]
            entry = entries[p] * factors[i]
            for k in range(width):
                unit = _on_grid(entry * vector[k], into)
                line[k] += unit
                norm_squared += unit * unit
        certified[i] = norm_squared
