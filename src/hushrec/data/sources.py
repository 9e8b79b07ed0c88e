"""Everything that holds ratings becomes a lazy Polars frame with the columns user, item and (maybe) value."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hushrec.data.archives import gunzip
from hushrec.data.columns import no_missing
from hushrec.data.quiet import Quiet
from hushrec.data.trial import decodes
from hushrec.errors import ConfigError, DataError

Column = str | int

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
USUAL_NAMES = ("user", "userid", "uid", "item", "itemid", "movieid", "productid", "rating", "ratings", "timestamp")
LONGEST_NAME, MOST_LISTED = 60, 12  # of column names in a message


def table_of(source: Any, columns: Mapping[str, Column], separator: str | None, has_header: bool) -> pl.LazyFrame:
    if isinstance(source, (str, os.PathLike)):
        return _file_table(existing_file(source), columns, separator, has_header)
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
        with Quiet("the data frame", "an Arrow table"):
            return _pick(pl.DataFrame(source).lazy(), columns)
    if hasattr(source, "__dataframe__") and hasattr(source, "columns"):
        return _frame_by_columns(source, columns)
    given = type(source).__name__
    raise DataError(f"source must be a path, a data frame, a mapping of columns or three arrays, not {given}.")


def existing_file(source: str | os.PathLike[str]) -> Path:
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
        if not decodes(path if content is None else content):
            raise DataError(f"{path.name} could not be read as Parquet: it is damaged, cut short or of another format.")
        with Quiet(path.name, "Parquet"):
            frame = pl.scan_parquet(path if content is None else io.BytesIO(content), glob=False)
            return _pick(frame, columns, path.name)
    return _text_table(path, content, kind, columns, separator, has_header)


def _text_table(
    path: Path,
    content: bytes | None,
    kind: str,
    columns: Mapping[str, Column],
    separator: str | None,
    has_header: bool,
) -> pl.LazyFrame:
    chosen = separator or guess_separator(_first_line(path, content), kind)
    source: Path | io.BytesIO = path if content is None else io.BytesIO(content)
    if len(chosen.encode()) > 1:  # Polars separates by one byte only
        whole = path.read_bytes() if content is None else content
        source, chosen = io.BytesIO(whole.replace(chosen.encode(), b"\x1f")), "\x1f"
    if not has_header:
        positions = dict(zip(("user", "item", "value"), range(3), strict=True))
        columns = {name: positions[name] if column == name else column for name, column in columns.items()}
    with Quiet(path.name, "text"):
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


def guess_separator(line: str, kind: str) -> str:
    order = ["\t", "::", ",", ";", "|", " "]
    preferred = {".csv": ",", ".tsv": "\t"}.get(kind)
    if preferred is not None:
        order = [preferred, *[s for s in order if s not in (preferred, " ")]]
    return next((s for s in order if s in line), order[0])


def _pick(
    frame: pl.LazyFrame, columns: Mapping[str, Column], where: str = "the data frame", header: bool = False
) -> pl.LazyFrame:
    with Quiet(where, "table"):
        names = frame.collect_schema().names()
    chosen = {new: _column_name(names, column, new, where, header) for new, column in columns.items()}
    if header and "value" in chosen and is_number(chosen["value"]):
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
    if header and any(is_number(name) for name in names):  # the "names" may be somebody's rating
        raise DataError(
            f"{where}: there is no column {column!r}, and the first line does not look like column names: "
            "pass has_header=False and columns by position."
        )
    if all(_is_name(name) for name in names) and (not header or any(_is_usual(name) for name in names)):
        listed = ", ".join(repr(name.strip()) for name in names[:MOST_LISTED])
        more = "" if len(names) <= MOST_LISTED else ", ..."
        raise DataError(f"{where} has no column {column!r} for {role}; its columns are {listed}{more}.")
    raise DataError(
        f"{where} has no column {column!r} for {role}: name the columns that it has, or, where its first line is a "
        "rating, pass has_header=False and columns by position."
    )


def _is_name(text: str) -> bool:
    """Whether a column's name may be shown: short, printable, and without a number that stands by itself.

    Where lines end in an unknown way, or columns are parted by an unknown mark, a "name" is somebody's rating.
    """
    words = re.split(r"[^\w.+-]+", text)
    return len(text) <= LONGEST_NAME and text.isprintable() and not any(is_number(word) for word in words)


def _is_usual(text: str) -> bool:
    """Whether this is what columns of ratings are called: the first line is then one of names, and no rating."""
    return re.sub(r"[\W_]", "", text.lower()) in USUAL_NAMES


def is_number(text: str) -> bool:
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
        series[role] = series_of(source[keys[name]], role)
    return _series_table(series)


def _tuple_table(source: tuple[Any, ...], columns: Mapping[str, Column]) -> pl.LazyFrame:
    if len(source) != len(columns):
        raise DataError(f"A tuple of ratings must hold {len(columns)} arrays ({', '.join(columns)}).")
    return _series_table({role: series_of(array, role) for role, array in zip(columns, source, strict=True)})


def _frame_by_columns(source: Any, columns: Mapping[str, Column]) -> pl.LazyFrame:
    """pandas and its relatives, column by column through NumPy: needs no PyArrow, unlike their Arrow interface."""
    keys = {str(key): key for key in source.columns}
    series = {}
    for role, column in columns.items():
        picked = source[keys[_column_name(list(keys), column, role, "the data frame", False)]]
        if hasattr(picked, "isna"):
            no_missing(int(np.asarray(picked.isna()).sum()), role)
        series[role] = series_of(picked.to_numpy() if hasattr(picked, "to_numpy") else picked, role)
    return _series_table(series)


def _series_table(series: Mapping[str, pl.Series]) -> pl.LazyFrame:
    if len({len(column) for column in series.values()}) != 1:
        raise DataError(f"The arrays {', '.join(series)} must have the same length.")
    return pl.DataFrame([column.alias(role) for role, column in series.items()]).lazy()


def series_of(array: Any, role: str) -> pl.Series:
    if isinstance(array, pl.Series):
        return array.alias(role)
    if hasattr(array, "__arrow_c_stream__") or hasattr(array, "__arrow_c_array__"):
        with Quiet(f"The {role} column", "an Arrow array"):
            return pl.Series(role, array)
    if np.ma.isMaskedArray(array):
        no_missing(int(np.ma.count_masked(array)), role)
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
