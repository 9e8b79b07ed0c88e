"""One column of ratings at a time: from what a source held to checked ids and values, and from ids to positions.

No message of this file quotes a cell. Text is parsed in streaming batches, so what stays is 20 bytes a rating (two
64-bit ids and a value) until ids become positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.quiet import Quiet
from hushrec.errors import DataError

LONGEST_ID = 1000  # ids become fixed-width text arrays, where one endless id would multiply by all the others


def integer_ids(name: str, dtype: pl.DataType) -> pl.Expr:
    """The column as 64-bit integers, null where an id is not one written the usual way ("007" is text)."""
    column = pl.col(name)
    if dtype.is_integer():
        return column.cast(pl.Int64, strict=False)
    if dtype.is_float():
        return pl.when(column == column.round(0)).then(column).otherwise(None).cast(pl.Int64, strict=False)
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        text = column.cast(pl.String).str.strip_chars()
        padded = text.str.starts_with("0") & (text != "0") | text.str.starts_with("-0")
        return pl.when(~padded).then(text).otherwise(None).cast(pl.Int64, strict=False).alias(name)
    raise DataError(f"The {name} column must hold integers or text, not {dtype}.")


def checked_ids(table: pl.LazyFrame, integers: pl.Series, name: str, as_text: bool = False) -> pl.Series:
    dtype = table.collect_schema()[name]
    textual = dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    if not integers.null_count() and not (as_text and textual):
        return integers
    if not textual:
        no_missing(_count(table, pl.col(name).is_null() | pl.col(name).cast(pl.Float64).is_nan()), name)
        raise DataError(f"{integers.null_count()} ids in the {name} column are not whole numbers.")
    with Quiet("the ratings", "ratings"):
        text = table.select(pl.col(name).cast(pl.String).str.strip_chars()).collect(engine="streaming")[name]
    no_missing(text.null_count() + int((text == "").sum()), name)
    if int(text.str.len_chars().max() or 0) > LONGEST_ID:  # type: ignore[arg-type]
        raise DataError(f"The {name} column holds ids longer than {LONGEST_ID} characters.")
    return text


def as_ids(table: pl.LazyFrame, name: str) -> pl.Series:
    integers = table.select(integer_ids(name, table.collect_schema()[name])).collect()[name]
    textual = table.collect_schema()[name] == pl.String
    return checked_ids(table, integers, name, as_text=textual)


def numbers_of(dtype: pl.DataType) -> pl.Expr:
    column = pl.col("value")
    if dtype == pl.String:
        return column.str.strip_chars().cast(pl.Float32, strict=False)
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Float32, strict=False)
    raise DataError(f"The value column must hold numbers, not {dtype}.")


def checked_values(table: pl.LazyFrame, first_try: pl.DataFrame) -> NDArray[np.float32]:
    if "value" not in first_try.columns:
        return np.ones(first_try.height, dtype=np.float32)
    values = first_try["value"]
    if values.null_count():
        empty = pl.col("value").is_null()
        if table.collect_schema()["value"] == pl.String:
            empty = empty | (pl.col("value").str.strip_chars() == "")
        no_missing(_count(table, empty), "value")
        raise DataError(f"{values.null_count()} entries of the value column are not numbers.")
    return values.to_numpy()


def _count(table: pl.LazyFrame, condition: pl.Expr) -> int:
    with Quiet("the ratings", "ratings"):
        return int(table.select(condition.sum()).collect(engine="streaming").item() or 0)


def no_missing(count: int, name: str) -> None:
    if count:
        raise DataError(f"{count} rows have nothing (null or an empty field) in the {name} column.")


def factorise(ids: pl.Series, name: str) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Sorted distinct ids and, for each of the (nnz,) ids, its position among them.

    >>> factorise(pl.Series([30, 10, 30]), "item")[1].tolist()
    [1, 0, 1]
    """
    if ids.dtype == pl.String:
        distinct = ids.unique().sort()
        codes = ids.cast(pl.Enum(distinct)).to_physical().cast(pl.Int32).to_numpy()
        return id_array(distinct, name), codes
    numbers = ids.to_numpy()
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < 4 * len(numbers) + 2**20:  # a table over the span: linear time, no sort
        offsets = numbers - low
        present = np.zeros(high - low + 1, dtype=bool)
        present[offsets] = True
        position = np.cumsum(present, dtype=np.int32) - np.int32(1)
        return np.flatnonzero(present) + low, position[offsets]
    found = ids.unique().sort().to_numpy()
    return found, np.searchsorted(found, numbers).astype(np.int32)


def positions_in(items: NDArray[Any], ids: pl.Series) -> NDArray[np.int32]:
    """For each of the (nnz,) ids, its position in the item list (n,), or -1 where it is not in the list.

    >>> positions_in(np.array([5, 3]), pl.Series([3, 4])).tolist()
    [1, -1]
    """
    found, codes = factorise(ids, "item")
    if (found.dtype.kind == "U") != (items.dtype.kind == "U"):  # "12" names the item 12, in either direction
        found, items = found.astype(str), items.astype(str)
    order = np.argsort(items, kind="stable")
    place = np.minimum(np.searchsorted(items[order], found), len(items) - 1)
    matched = np.where(items[order][place] == found, order[place], -1).astype(np.int32)
    return matched[codes]


def id_array(ids: pl.Series, name: str) -> NDArray[Any]:
    if ids.dtype != pl.String:
        return ids.to_numpy().astype(np.int64, copy=False)
    if bool(ids.str.contains("\0", literal=True).any()):
        raise DataError(f"The {name} column holds ids with a zero byte.")
    return np.asarray(ids.to_list(), dtype=str)
