"""Ratings from files and data frames: any column names, any ids, one public value range.

The flow is short: `_table` finds the three columns as a lazy Polars frame, `_encode` turns ids into
positions, and `Ratings.from_codes` checks the rest. No message of this file quotes a cell: Polars' own errors
may, so they are replaced, not passed on.

Memory: text is parsed in streaming batches, so what stays is 20 bytes a rating (two 64-bit ids and a value)
until ids become positions. A compressed file is decompressed in memory, never to a temporary file, because
ratings are private.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.ratings import Duplicates, Ratings, check_range
from hushrec.errors import ConfigError, DataError

Column = str | int
Unknown = Literal["error", "drop"]

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
LONGEST_ID = 1000  # ids become fixed-width text arrays, where one endless id would multiply by all the others
LONGEST_NAME, MOST_LISTED = 60, 12  # of column names in a message
MOST_UNPACKED = 200  # times its own size, beyond 256 MB: a file that claims more is a trap
LARGEST_OWN_FILE = 64 * 2**20
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
    user, item, value: columns by name or by position; ``value=None`` means that every row counts as 1.
    value_range: the public (lowest, highest) value; required, except for ``value=None`` where it is (0, 1).
    items: (n,) public item list, in the order given ("declared"); without it, the sorted items that occur.
    unknown_items: "error" or "drop" for ratings of items that are not in `items`.

    >>> read({"u": [7, 7, 9], "i": ["b", "a", "a"], "r": [1, 5, 3]}, user="u", item="i", value="r",
    ...      value_range=(1, 5)).items.tolist()
    ['a', 'b']
    """
    if value_range is None and value is not None:
        raise ConfigError(RANGE_REASON)
    bounds = check_range(value_range if value_range is not None else (0.0, 1.0))
    if unknown_items not in ("error", "drop"):
        raise ConfigError(f"unknown_items must be 'error' or 'drop', not {unknown_items!r}.")
    declared = None if items is None else declared_items(items)
    columns = {"user": user, "item": item} | ({} if value is None else {"value": value})
    table = _table(source, columns, separator, has_header)
    return _encode(table, bounds, declared, unknown_items, duplicates)


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
    listed = _series(items, "items")
    try:
        ids = _id_array(_as_ids(listed.to_frame().lazy(), "items"), "items")
    except DataError as error:
        raise ConfigError(str(error)) from None
    if len(ids) == 0:
        raise ConfigError("items must name at least one item.")
    if len(np.unique(ids)) != len(ids):
        raise ConfigError("items must not name an item twice.")
    return ids


# --- sources: everything becomes a lazy frame with the columns user, item and (maybe) value --------


def _table(source: Any, columns: Mapping[str, Column], separator: str | None, has_header: bool) -> pl.LazyFrame:
    if isinstance(source, (str, os.PathLike)):
        return _file_table(_existing_file(source), columns, separator, has_header)
    if isinstance(source, pl.LazyFrame):
        return _pick(source, columns)
    if isinstance(source, pl.DataFrame):
        return _pick(source.lazy(), columns)
    if isinstance(source, Mapping):
        return _columns_table(source, columns)
    if isinstance(source, tuple):
        return _tuple_table(source, columns)
    if type(source).__module__.partition(".")[0] == "pandas":
        return _frame_by_columns(source, columns)
    if hasattr(source, "__arrow_c_stream__"):
        with _Quiet("the data frame", "an Arrow table"):
            return _pick(pl.DataFrame(source).lazy(), columns)
    if hasattr(source, "__dataframe__") and hasattr(source, "columns"):
        return _frame_by_columns(source, columns)
    given = type(source).__name__
    raise DataError(f"source must be a path, a data frame, a mapping of columns or three arrays, not {given}.")


def _existing_file(source: str | os.PathLike[str]) -> Path:
    path = Path(source).expanduser()
    if path.is_dir():
        raise DataError(f"{path} is a folder: give one file, or use hushrec.load for a known dataset.")
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    return path


def _file_table(path: Path, columns: Mapping[str, Column], separator: str | None, has_header: bool) -> pl.LazyFrame:
    suffixes = [s.lower() for s in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    kind = suffixes[-2 if packed and len(suffixes) > 1 else -1] if suffixes else ""
    if kind not in SUFFIXES:
        raise DataError(f"{path.name}: a ratings file must end in .csv, .tsv, .txt or .parquet (or that and .gz).")
    content = gunzip(path) if packed else None
    if kind == ".parquet":
        with _Quiet(path.name, "Parquet"):
            frame = pl.scan_parquet(path if content is None else io.BytesIO(content), glob=False)
            return _pick(frame, columns, path.name)
    return _text_table(path, content, kind, columns, separator, has_header)


def gunzip(path: Path) -> bytes:
    """The content of a gzip file; `DataError` when it is damaged or cut short."""
    try:
        most = max(2**28, MOST_UNPACKED * path.stat().st_size)
        content = bytearray()
        with gzip.open(path) as stream:
            while block := stream.read(2**20):
                content += block
                if len(content) > most:
                    raise DataError(f"{path.name} unpacks to more than {MOST_UNPACKED} times its size.")
        return bytes(content)
    except (EOFError, zlib.error, OSError):
        raise DataError(f"{path.name} is damaged or cut short: it could not be decompressed.") from None


def _text_table(
    path: Path,
    content: bytes | None,
    kind: str,
    columns: Mapping[str, Column],
    separator: str | None,
    has_header: bool,
) -> pl.LazyFrame:
    chosen = separator or _guess_separator(_first_line(path, content), kind)
    source: Path | io.BytesIO = path if content is None else io.BytesIO(content)
    if len(chosen.encode()) > 1:  # Polars separates by one byte only
        whole = path.read_bytes() if content is None else content
        source, chosen = io.BytesIO(whole.replace(chosen.encode(), b"\x1f")), "\x1f"
    if not has_header:
        positions = dict(zip(("user", "item", "value"), range(3), strict=True))
        columns = {name: positions[name] if column == name else column for name, column in columns.items()}
    with _Quiet(path.name, "text"):
        frame = pl.scan_csv(
            source,
            separator=chosen,
            has_header=has_header,
            infer_schema=False,
            glob=False,
            raise_if_empty=True,
        )
        return _pick(frame, columns, path.name, header=has_header)


def _first_line(path: Path, content: bytes | None) -> str:
    if content is None:
        try:
            with path.open("rb") as stream:
                content = stream.read(2**16)
        except OSError:
            raise DataError(f"{path} could not be opened.") from None
    return content[: 2**16].split(b"\n", 1)[0].decode("utf-8", errors="replace")


def _guess_separator(line: str, kind: str) -> str:
    order = ["\t", "::", ",", ";", "|", " "]
    preferred = {".csv": ",", ".tsv": "\t"}.get(kind)
    if preferred is not None:
        order = [preferred, *[s for s in order if s not in (preferred, " ")]]
    return next((s for s in order if s in line), order[0])


def _pick(
    frame: pl.LazyFrame, columns: Mapping[str, Column], where: str = "the data frame", header: bool = False
) -> pl.LazyFrame:
    with _Quiet(where, "table"):
        names = frame.collect_schema().names()
    chosen = {new: _column_name(names, column, new, where, header) for new, column in columns.items()}
    if header and "value" in chosen and _is_number(chosen["value"]):
        raise DataError(f"{where}: the first line holds data, not column names: pass has_header=False.")
    return frame.select([pl.col(old).alias(new) for new, old in chosen.items()])


def _column_name(names: list[str], column: Column, role: str, where: str, header: bool) -> str:
    if isinstance(column, bool) or not isinstance(column, (str, int)):
        raise ConfigError(f"{role} must be a column name or a position, not {column!r}.")
    if isinstance(column, int):
        if not 0 <= column < len(names):
            raise DataError(f"{where} has {len(names)} columns, so position {column} for {role} does not exist.")
        return names[column]
    stripped = {name.strip(): name for name in reversed(names)}
    if column in stripped:
        return stripped[column]
    if header and any(_is_number(name) for name in names):  # the "names" may be somebody's rating
        raise DataError(
            f"{where}: there is no column {column!r}, and the first line does not look like column names: "
            "pass has_header=False and columns by position."
        )
    if all(_is_name(name) for name in names):
        listed = ", ".join(repr(name.strip()) for name in names[:MOST_LISTED])
        more = "" if len(names) <= MOST_LISTED else ", ..."
        raise DataError(f"{where} has no column {column!r} for {role}; its columns are {listed}{more}.")
    raise DataError(f"{where} has no column {column!r} for {role}, and its first line does not look like names.")


def _is_name(text: str) -> bool:
    """Whether a column's name may be shown: short, printable, and without a number that stands by itself.

    Where lines end in an unknown way, or columns are parted by an unknown mark, a "name" is somebody's rating.
    """
    words = re.split(r"[^\w.+-]+", text)
    return len(text) <= LONGEST_NAME and text.isprintable() and not any(_is_number(word) for word in words)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _columns_table(source: Mapping[Any, Any], columns: Mapping[str, Column]) -> pl.LazyFrame:
    names = [str(name) for name in source]
    keys = dict(zip(names, source, strict=True))
    series = {}
    for role, column in columns.items():
        name = _column_name(names, column, role, "the mapping", False)
        series[role] = _series(source[keys[name]], role)
    return _series_table(series)


def _tuple_table(source: tuple[Any, ...], columns: Mapping[str, Column]) -> pl.LazyFrame:
    if len(source) != len(columns):
        raise DataError(f"A tuple of ratings must hold {len(columns)} arrays ({', '.join(columns)}).")
    return _series_table({role: _series(array, role) for role, array in zip(columns, source, strict=True)})


def _frame_by_columns(source: Any, columns: Mapping[str, Column]) -> pl.LazyFrame:
    """pandas and its relatives, column by column through NumPy: needs no PyArrow, unlike their Arrow interface."""
    keys = {str(key): key for key in source.columns}
    series = {}
    for role, column in columns.items():
        picked = source[keys[_column_name(list(keys), column, role, "the data frame", False)]]
        if hasattr(picked, "isna"):
            _no_missing(int(np.asarray(picked.isna()).sum()), role)
        series[role] = _series(picked.to_numpy() if hasattr(picked, "to_numpy") else picked, role)
    return _series_table(series)


def _series_table(series: Mapping[str, pl.Series]) -> pl.LazyFrame:
    if len({len(column) for column in series.values()}) != 1:
        raise DataError(f"The arrays {', '.join(series)} must have the same length.")
    return pl.DataFrame([column.alias(role) for role, column in series.items()]).lazy()


def _series(array: Any, role: str) -> pl.Series:
    if isinstance(array, pl.Series):
        return array.alias(role)
    if hasattr(array, "__arrow_c_stream__") or hasattr(array, "__arrow_c_array__"):
        with _Quiet(f"The {role} column", "an Arrow array"):
            return pl.Series(role, array)
    if np.ma.isMaskedArray(array):
        _no_missing(int(np.ma.count_masked(array)), role)
    flat = np.asarray(array)
    if flat.ndim != 1:
        raise DataError(f"{role} must be a one-dimensional array, not {flat.ndim}-dimensional.")
    if flat.dtype.kind in "iufb":
        return pl.Series(role, np.ascontiguousarray(flat))
    try:
        kinds = {type(x) for x in array} if isinstance(array, (list, tuple)) else {str}
        if flat.dtype.kind == "U" and kinds <= {str, np.str_}:
            return pl.Series(role, flat.astype(object), dtype=pl.String)
        return pl.Series(role, list(array), strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise DataError(f"{role} must hold numbers only or text only, not a mixture.") from None


class _Quiet:
    """Replaces the errors of the reading library, which may quote cells, by one sentence that does not."""

    def __init__(self, where: str, kind: str) -> None:
        self.where, self.kind = where, kind

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, (DataError, ConfigError, KeyboardInterrupt, MemoryError)):
            return
        if isinstance(error, (Exception, pl.exceptions.PanicException)):
            raise DataError(f"{self.where} {self._sentence(error)}") from None

    def _sentence(self, error: BaseException) -> str:
        text = str(error).lower()
        if isinstance(error, pl.exceptions.NoDataError):
            return "is empty."
        if "utf-8" in text or "utf8" in text:
            return "holds bytes that are not UTF-8 text."
        if "more fields" in text:
            return "has rows with more fields than the first row: check the separator and the quotes."
        return f"could not be read as {self.kind}: it is damaged, cut short or of another format."


# --- ids and values --------------------------------------------------------------------------------


def _encode(
    table: pl.LazyFrame,
    value_range: tuple[float, float],
    declared: NDArray[Any] | None,
    unknown_items: Unknown,
    duplicates: Duplicates,
) -> Ratings:
    schema = table.collect_schema()
    with _Quiet("the ratings", "ratings"):
        first_try = table.select(
            [_integer_ids(name, schema[name]) for name in ("user", "item")]
            + ([_numbers(schema["value"])] if "value" in schema else [])
        ).collect(engine="streaming")
    if first_try.height == 0:
        raise DataError("There is no rating in the data.")
    as_text = declared is not None and declared.dtype.kind == "U"
    user_ids = _checked_ids(table, first_try["user"], "user")
    item_ids = _checked_ids(table, first_try["item"], "item", as_text)
    values = _checked_values(table, first_try)
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


def _integer_ids(name: str, dtype: pl.DataType) -> pl.Expr:
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


def _checked_ids(table: pl.LazyFrame, integers: pl.Series, name: str, as_text: bool = False) -> pl.Series:
    dtype = table.collect_schema()[name]
    textual = dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    if not integers.null_count() and not (as_text and textual):
        return integers
    if not textual:
        _no_missing(_count(table, pl.col(name).is_null() | pl.col(name).cast(pl.Float64).is_nan()), name)
        raise DataError(f"{integers.null_count()} ids in the {name} column are not whole numbers.")
    with _Quiet("the ratings", "ratings"):
        text = table.select(pl.col(name).cast(pl.String).str.strip_chars()).collect(engine="streaming")[name]
    _no_missing(text.null_count() + int((text == "").sum()), name)
    if int(text.str.len_chars().max() or 0) > LONGEST_ID:  # type: ignore[arg-type]
        raise DataError(f"The {name} column holds ids longer than {LONGEST_ID} characters.")
    return text


def _as_ids(table: pl.LazyFrame, name: str) -> pl.Series:
    integers = table.select(_integer_ids(name, table.collect_schema()[name])).collect()[name]
    textual = table.collect_schema()[name] == pl.String
    return _checked_ids(table, integers, name, as_text=textual)


def _numbers(dtype: pl.DataType) -> pl.Expr:
    column = pl.col("value")
    if dtype == pl.String:
        return column.str.strip_chars().cast(pl.Float32, strict=False)
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Float32, strict=False)
    raise DataError(f"The value column must hold numbers, not {dtype}.")


def _checked_values(table: pl.LazyFrame, first_try: pl.DataFrame) -> NDArray[np.float32]:
    if "value" not in first_try.columns:
        return np.ones(first_try.height, dtype=np.float32)
    values = first_try["value"]
    if values.null_count():
        empty = pl.col("value").is_null()
        if table.collect_schema()["value"] == pl.String:
            empty = empty | (pl.col("value").str.strip_chars() == "")
        _no_missing(_count(table, empty), "value")
        raise DataError(f"{values.null_count()} entries of the value column are not numbers.")
    return values.to_numpy()


def _count(table: pl.LazyFrame, condition: pl.Expr) -> int:
    with _Quiet("the ratings", "ratings"):
        return int(table.select(condition.sum()).collect(engine="streaming").item() or 0)


def _no_missing(count: int, name: str) -> None:
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
        return _id_array(distinct, name), codes
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


def _id_array(ids: pl.Series, name: str) -> NDArray[Any]:
    if ids.dtype != pl.String:
        return ids.to_numpy().astype(np.int64, copy=False)
    if bool(ids.str.contains("\0", literal=True).any()):
        raise DataError(f"The {name} column holds ids with a zero byte.")
    return np.asarray(ids.to_list(), dtype=str)


# --- one user's own ratings, on her own device -----------------------------------------------------


def read_own(
    path: str | os.PathLike[str], *, value_range: tuple[float, float] | None = None
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """One user's own ratings from a small file, as `Release.complete` takes them: (k,) ids, (k,) values.

    path: .csv, .tsv or .txt with the columns item and value (a header is optional), or .json with
    ``{"item": value}``, ``[[item, value], ...]`` or ``[{"item": ..., "value": ...}, ...]``.
    value_range: when given, values outside it are refused.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.csv")
    ...     _ = path.write_text("item,value\\n12,4.5\\n7,1\\n")
    ...     read_own(path)[0].tolist()
    [12, 7]
    """
    file = _existing_file(path)
    try:
        if file.stat().st_size > LARGEST_OWN_FILE:
            raise DataError(f"{file.name} is too large to be one user's ratings.")
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{file.name} holds bytes that are not UTF-8 text.") from None
    except OSError:
        raise DataError(f"{file} could not be opened.") from None
    pairs = _json_pairs(text, file.name) if file.suffix.lower() == ".json" else _text_pairs(text, file)
    if not pairs:
        raise DataError(f"{file.name} holds no rating.")
    return _own_arrays(pairs, file.name, value_range)


def _text_pairs(text: str, file: Path) -> list[tuple[Any, Any]]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    separator = _guess_separator(lines[0], file.suffix.lower())
    if separator == "::":
        lines, separator = [line.replace("::", "\x1f") for line in lines], "\x1f"
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:
        raise DataError(f"{file.name} could not be read as text with two columns.") from None
    width = len(rows[0])
    if width < 2 or any(len(row) != width for row in rows):
        raise DataError(f"{file.name} must have the two columns item and value in every row.")
    item, value = 0, 1
    if not _is_number(rows[0][1]) or not _is_number(rows[0][-1]):
        names = [name.lower() for name in rows.pop(0)]
        item, value = _own_columns(names, file.name)
    elif width > 2:
        raise DataError(f"{file.name} must have the two columns item and value.")
    return [(row[item], row[value]) for row in rows]


def _own_columns(names: list[str], where: str) -> tuple[int, int]:
    if "item" in names and "value" in names:
        return names.index("item"), names.index("value")
    if len(names) == 2:
        return 0, 1
    raise DataError(f"{where} must have the columns item and value.")


def _json_pairs(text: str, where: str) -> list[tuple[Any, Any]]:
    try:
        content = json.loads(text)
        if isinstance(content, dict):
            return list(content.items())
        return [(e["item"], e["value"]) if isinstance(e, dict) else (e[0], e[1]) for e in content]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        raise DataError(
            f'{where} must hold JSON of the form {{"item": value}}, [[item, value], ...] or '
            '[{"item": ..., "value": ...}, ...].'
        ) from None


def _own_arrays(
    pairs: list[tuple[Any, Any]], where: str, value_range: tuple[float, float] | None
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    numbers = [_own_number(value) for _, value in pairs]
    bad = sum(number is None for number in numbers)
    if bad:
        raise DataError(f"{bad} values in {where} are not finite numbers.")
    names = [_own_name(item) for item, _ in pairs]
    if not all(names):
        raise DataError(f"{names.count('')} item ids in {where} are missing or neither integers nor text.")
    if len(set(names)) != len(names):
        raise DataError(f"{len(names) - len(set(names))} items stand in {where} more than once.")
    values = np.asarray(numbers, dtype=np.float32)
    if value_range is not None:
        low, high = check_range(value_range)
        outside = int(np.count_nonzero((values < low - 1e-6) | (values > high + 1e-6)))
        if outside:
            raise DataError(f"{outside} values in {where} lie outside the value range ({low:g}, {high:g}).")
    frame = pl.DataFrame({"item": names}, schema={"item": pl.String}).lazy()
    integers = frame.select(_integer_ids("item", pl.String())).collect()["item"]
    return _id_array(_checked_ids(frame, integers, "item"), "item"), values


def _own_name(item: Any) -> str:
    try:
        name = str(item).strip() if isinstance(item, (str, int)) else ""
        name.encode()
    except ValueError:  # half a character, or a number of thousands of digits
        return ""
    return name


def _own_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if np.isfinite(np.float32(number)) else None
