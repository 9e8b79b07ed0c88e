"""Ratings from files and data frames: any column names, any ids, one public value range.

The flow is short: `table_of` finds the three columns as a lazy Polars frame, `_encode` turns ids into
positions, and `Ratings.from_codes` checks the rest. No message on this way quotes a cell: Polars' own errors
may, so they are replaced, not passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec import require
from hushrec.data.columns import (
    as_ids,
    checked_ids,
    checked_values,
    factorise,
    id_array,
    integer_ids,
    numbers_of,
    positions_in,
)
from hushrec.data.quiet import Quiet
from hushrec.data.ratings import DUPLICATES, Duplicates, Ratings, check_range
from hushrec.data.sources import Column, series_of, table_of
from hushrec.errors import ConfigError, DataError

Unknown = Literal["error", "drop"]

RANGE_REASON = (
    "value_range=(lowest, highest) is required: it must be public knowledge, such as (1, 5) for stars, "
    "because a range taken from the ratings would reveal the most extreme of them."
)


def read(
    source: Any,
    *,
    user: Column = "user",
    item: Column = "item",
    value: Column | None = "value",
    value_range: tuple[float, float] | None = None,
    items: Sequence[Any] | NDArray[Any] | None = None,
    unknown_items: Unknown = "error",
    duplicates: Duplicates = "error",
    separator: str | None = None,
    has_header: bool = True,
) -> Ratings:
    """Ratings from a file (.csv, .tsv, .txt, .parquet, or gzip of these), a data frame or arrays.

    source: a path; a Polars or pandas data frame, a PyArrow table or anything with the Arrow stream or the
    data frame interchange interface; a mapping of column name to (nnz,) array; or a tuple of three of them.
    user, item, value: columns by name or by position; ``value=None`` means that there are none, as for clicks: every
    row counts as 1, and a fit that names no solver learns to rank.
    value_range: the public (lowest, highest) value; required, except for ``value=None`` where it is (0, 1).
    items: (n,) public item list, in the order given ("declared"); without it, the sorted items that occur.
    unknown_items: "error" or "drop" for ratings of items that are not in `items`.

    >>> read({"u": [7, 7, 9], "i": ["b", "a", "a"], "r": [1, 5, 3]}, user="u", item="i", value="r",
    ...      value_range=(1, 5)).items.tolist()
    ['a', 'b']
    """
    if value_range is None and value is not None:
        raise ConfigError(RANGE_REASON)
    require.choice("duplicates", duplicates, DUPLICATES)
    bounds = check_range(value_range if value_range is not None else (0.0, 1.0))
    if unknown_items not in ("error", "drop"):
        raise ConfigError(f"unknown_items must be 'error' or 'drop', not {unknown_items!r}.")
    declared = None if items is None else declared_items(items)
    columns = {"user": user, "item": item} | ({} if value is None else {"value": value})
    table = table_of(source, columns, separator, has_header)
    ratings = _encode(table, bounds, declared, unknown_items, duplicates)
    return replace(ratings, implicit=True) if value is None else ratings


def ratings_from_arrays(
    users: Any,
    items: Any,
    values: Any = None,
    *,
    value_range: tuple[float, float] | None = None,
    item_list: Sequence[Any] | NDArray[Any] | None = None,
    unknown_items: Unknown = "error",
    duplicates: Duplicates = "error",
) -> Ratings:
    """Ratings from three parallel (nnz,) arrays of user id, item id and value, in any order.

    item_list: (n,) public item list; values=None: every pair counts as 1. The other arguments are `read`'s.

    >>> ratings_from_arrays([3, 1], ["x", "y"], [2.0, 4.0], value_range=(1, 5)).users.tolist()
    [1, 3]
    """
    source = {"user": users, "item": items} | ({} if values is None else {"value": values})
    return read(
        source,
        value=None if values is None else "value",
        value_range=value_range,
        items=item_list,
        unknown_items=unknown_items,
        duplicates=duplicates,
    )


def declared_items(items: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """The public item list as an (n,) array of integers or text, in the given order, checked.

    >>> declared_items(["b", "a"]).tolist()
    ['b', 'a']
    """
    listed = series_of(items, "items")
    try:
        ids = id_array(as_ids(listed.to_frame().lazy(), "items"), "items")
    except DataError as error:
        raise ConfigError(str(error)) from None
    if len(ids) == 0:
        raise ConfigError("items must name at least one item.")
    if len(np.unique(ids)) != len(ids):
        raise ConfigError("items must not name an item twice.")
    return ids


def _encode(
    table: pl.LazyFrame,
    value_range: tuple[float, float],
    declared: NDArray[Any] | None,
    unknown_items: Unknown,
    duplicates: Duplicates,
) -> Ratings:
    schema = table.collect_schema()
    with Quiet("the ratings", "ratings"):
        first_try = table.select(
            [integer_ids(name, schema[name]) for name in ("user", "item")]
            + ([numbers_of(schema["value"])] if "value" in schema else [])
        ).collect(engine="streaming")
    if first_try.height == 0:
        raise DataError("There is no rating in the data.")
    as_text = declared is not None and declared.dtype.kind == "U"
    user_ids = checked_ids(table, first_try["user"], "user")
    item_ids = checked_ids(table, first_try["item"], "item", as_text)
    values = checked_values(table, first_try)
    del first_try
    users, user_codes = factorise(user_ids, "user")
    del user_ids
    if declared is None:
        found, item_codes = factorise(item_ids, "item")
        return Ratings.from_codes(
            user_codes, item_codes, values, items=found, value_range=value_range, users=users,
            duplicates=duplicates,
        )  # fmt: skip
    item_codes = positions_in(declared, item_ids)
    known = _known(item_codes, unknown_items)
    return Ratings.from_codes(
        user_codes[known], item_codes[known], values[known], items=declared, value_range=value_range,
        users=users, catalogue="declared", duplicates=duplicates,
    )  # fmt: skip


def _known(item_codes: NDArray[np.int32], unknown_items: Unknown) -> NDArray[np.bool_] | slice:
    known = item_codes >= 0
    missing = int(len(known) - np.count_nonzero(known))
    if missing == 0:
        return slice(None)
    if unknown_items == "error":
        raise DataError(
            f"{missing} ratings are of items that are not in the item list: complete the list or choose "
            "unknown_items='drop'."
        )
    return known
