"""The ratings of all users, user by user: the private input of everything.

`Ratings` is a compressed sparse row table (CSR): the ratings of user i stand at positions
``indptr[i]:indptr[i+1]`` of ``indices`` (positions in the item list) and ``values``. Its invariants are
checked once, on construction, so that no later code needs to check them again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from hushrec import require
from hushrec.errors import ConfigError, DataError

Catalogue = Literal["declared", "observed", "fixed"]
Duplicates = Literal["error", "first", "last", "mean"]

DUPLICATES = ("error", "first", "last", "mean")

MAX_USERS = 2**32
"""The public bound on the number of users that makes integer overflow impossible by construction."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of m users for n items, user-major.

    indptr: (m+1,) int64; indices: (nnz,) int32, strictly increasing within each user; values: (nnz,) float32.
    items: (n,) public item ids. value_range: the public (lowest, highest) value. users: (m,) ids or None.
    catalogue: how the public item list came to be, which the privacy card repeats: "declared" (given by the
    caller), "observed" (the items that occur in the ratings), "fixed" (reduced by `restrict`).
    implicit: the table had no values (clicks, plays, purchases), so every one is 1.
    randomized: the ε at which each value was randomized before it got here, on its user's device; None: it was not.
    threshold: the value above which it was a yes there, before it was randomized.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    items: NDArray[Any]
    value_range: tuple[float, float]
    users: NDArray[Any] | None = None
    catalogue: Catalogue = "observed"
    randomized: float | None = None
    threshold: float | None = None
    implicit: bool = False

    def __post_init__(self) -> None:
        low, high = check_range(self.value_range)
        object.__setattr__(self, "value_range", (low, high))
        for name, dtype in (("indptr", np.int64), ("indices", np.int32), ("values", np.float32)):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        object.__setattr__(self, "items", np.asarray(self.items))
        _check_structure(self.indptr, self.indices, self.values, len(self.items))
        _check_values(self.values, low, high)
        if self.users is not None and len(self.users) != self.n_users:
            raise DataError("The list of user ids must have one id per row of the ratings.")
        if len(np.unique(self.items)) != len(self.items):
            raise DataError("The item list must not name an item twice.")

    @property
    def n_users(self) -> int:
        """Number of users m, those without a rating included."""
        return len(self.indptr) - 1

    @property
    def n_items(self) -> int:
        """Number of items n in the public item list."""
        return len(self.items)

    @property
    def n_ratings(self) -> int:
        """Number of ratings; private, like every count of the data."""
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Ratings(items={self.n_items}, value_range={self.value_range}, catalogue={self.catalogue!r})"

    def rows(self, start: int, stop: int) -> Ratings:
        """Users start..stop-1 as Ratings of their own; arrays are views, nothing but `indptr` is copied."""
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        part = object.__new__(Ratings)  # the invariants hold already: no second check of each shard
        for name, value in (
            ("indptr", self.indptr[start : stop + 1] - low),
            ("indices", self.indices[low:high]),
            ("values", self.values[low:high]),
            ("items", self.items),
            ("value_range", self.value_range),
            ("users", None if self.users is None else self.users[start:stop]),
            ("catalogue", self.catalogue),
        ):
            object.__setattr__(part, name, value)
        return part

    def user(self, row: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """One user's own (item ids, values), as `Release.complete` takes them."""
        span = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
        return self.items[self.indices[span]], self.values[span]

    def keep(self, mask: NDArray[np.bool_]) -> Ratings:
        """The ratings where the mask (nnz,) is true; users and items stay the same."""
        before = np.concatenate(([0], np.cumsum(mask)))
        return replace(self, indptr=before[self.indptr], indices=self.indices[mask], values=self.values[mask])

    def restrict(self, top: int) -> Ratings:
        """Only the `top` most rated items, in item order; users left without a rating stay, as empty rows.

        **Guarantee**: the choice reads exact counts, so it is covered by no ε: the smaller catalogue counts
        as *fixed beforehand*, and every card says so. `fit(..., top=...)` chooses by noisy counts instead,
        charged.
        """
        require.whole("top", top, 1, self.n_items)
        counts = np.bincount(self.indices, minlength=self.n_items)
        chosen = np.sort(np.argsort(-counts, kind="stable")[:top])
        return self.select(chosen, catalogue="fixed")

    def select(self, chosen: NDArray[np.integer[Any]], catalogue: Catalogue | None = None) -> Ratings:
        """Only the items at the given increasing positions of the item list."""
        new_position = np.full(self.n_items, -1, dtype=np.int32)
        new_position[chosen] = np.arange(len(chosen), dtype=np.int32)
        kept = self.keep(new_position[self.indices] >= 0)
        return replace(
            kept,
            indices=new_position[kept.indices],
            items=self.items[chosen],
            catalogue=catalogue or self.catalogue,
        )

    @classmethod
    def from_codes(
        cls,
        user_codes: NDArray[Any],
        item_codes: NDArray[Any],
        values: NDArray[Any],
        *,
        items: NDArray[Any],
        value_range: tuple[float, float],
        n_users: int | None = None,
        users: NDArray[Any] | None = None,
        catalogue: Catalogue = "observed",
        duplicates: Duplicates = "error",
    ) -> Ratings:
        """Ratings from parallel arrays of user position, item position and value, in any order.

        duplicates: what to do where a user rated an item twice: "error" (says how many), or keep the "first",
        the "last" (in the given order) or the "mean" value.
        """
        count = n_users if n_users is not None else (len(users) if users is not None else None)
        if count is None:
            count = int(user_codes.max()) + 1 if len(user_codes) else 0
        require.choice("duplicates", duplicates, DUPLICATES)
        _check_codes(user_codes, count, "user")
        _check_codes(item_codes, len(items), "item")
        indptr, indices, merged = _by_user(user_codes, item_codes, values, count, len(items), duplicates)
        return cls(
            indptr=indptr,
            indices=indices,
            values=merged,
            items=items,
            value_range=value_range,
            users=users,
            catalogue=catalogue,
        )


def check_range(value_range: tuple[float, float]) -> tuple[float, float]:
    """The public value range as two floats, lowest below highest."""
    if isinstance(value_range, (str, bytes)):  # "15" is a pair of digits to Python
        raise ConfigError(f"value_range must be two numbers (lowest, highest), not {value_range!r}.")
    try:
        low, high = (float(v) for v in value_range)
    except (TypeError, ValueError):
        raise ConfigError(f"value_range must be two numbers (lowest, highest), not {value_range!r}.") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ConfigError(f"value_range must be (lowest, highest) with lowest < highest, not {value_range!r}.")
    return low, high


def _check_structure(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float32], n_items: int
) -> None:
    if n_items == 0:
        raise DataError("The item list is empty.")
    if indptr.ndim != 1 or len(indptr) < 2:
        raise DataError("There is no user in the ratings.")
    if len(indptr) - 1 > MAX_USERS:
        raise DataError(f"At most {MAX_USERS} users are supported.")
    if indptr[0] != 0 or indptr[-1] != len(indices) or bool(np.any(np.diff(indptr) < 0)):
        raise DataError("indptr must start at 0, never fall, and end at the number of ratings.")
    if len(values) != len(indices):
        raise DataError("indices and values must have the same length.")
    if len(indices) == 0:
        return
    if indices.min() < 0 or indices.max() >= n_items:
        raise DataError("A rating refers to an item that is not in the item list.")
    rising = np.diff(indices) > 0
    row_starts = indptr[1:-1]
    row_starts = row_starts[(row_starts > 0) & (row_starts < len(indices))]
    rising[row_starts - 1] = True
    if not bool(rising.all()):
        raise DataError("Within each user the items must be in increasing order and without duplicates.")


def _check_values(values: NDArray[np.float32], low: float, high: float) -> None:
    bad = int(len(values) - np.count_nonzero(np.isfinite(values)))
    if bad:
        raise DataError(f"{bad} ratings are not finite numbers (NaN or infinity).")
    slack = 1e-6 * (high - low)  # float32 cannot hold most decimal bounds exactly
    outside = int(np.count_nonzero((values < low - slack) | (values > high + slack)))
    if outside:
        raise DataError(f"{outside} ratings lie outside the declared value range ({low:g}, {high:g}).")


def _check_codes(codes: NDArray[Any], count: int, role: str) -> None:
    if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= count):
        raise DataError(f"A rating has a {role} position outside 0..{count - 1}.")


def _by_user(
    user_codes: NDArray[Any],
    item_codes: NDArray[Any],
    values: NDArray[Any],
    n_users: int,
    n_items: int,
    duplicates: Duplicates,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(indptr, indices, values), users in order and items rising within each user."""
    if n_users == 0 or n_items == 0:
        return np.zeros(n_users + 1, dtype=np.int64), item_codes[:0], np.asarray(values)[:0]
    as_float = np.asarray(values, dtype=np.float32)
    table = coo_array((as_float, (user_codes, item_codes)), shape=(n_users, n_items)).tocsr()
    if table.nnz == len(as_float):  # no pair repeated: the counting sort is all there is to do
        return table.indptr, table.indices, table.data
    keys = user_codes.astype(np.int64) * n_items + item_codes
    order = np.argsort(keys, kind="stable")
    keys, merged = _merge_duplicates(keys[order], np.asarray(values)[order], duplicates)
    rows = keys // n_items
    return np.searchsorted(rows, np.arange(n_users + 1)), keys - rows * n_items, merged


def _merge_duplicates(
    keys: NDArray[np.int64], values: NDArray[Any], rule: Duplicates
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    first = np.concatenate(([True], keys[1:] != keys[:-1]))
    repeated = int(len(keys) - np.count_nonzero(first))
    if repeated == 0:
        return keys, values
    if rule == "error":
        raise DataError(f"{repeated} ratings repeat a (user, item) pair: choose duplicates='first', 'last' or 'mean'.")
    starts = np.flatnonzero(first)
    if rule == "first":
        return keys[starts], values[starts]
    if rule == "last":
        return keys[starts], values[np.append(starts[1:], len(keys)) - 1]
    sizes = np.diff(np.append(starts, len(keys)))
    with np.errstate(invalid="ignore"):  # what is not finite is refused later, and counted
        return keys[starts], np.add.reduceat(values.astype(np.float64), starts) / sizes
