"""One user's own ratings from a small file, on her own device."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.columns import checked_ids, id_array, integer_ids
from hushrec.data.ratings import check_range
from hushrec.data.sources import existing_file, guess_separator, is_number
from hushrec.errors import DataError

LARGEST_OWN_FILE = 64 * 2**20
LARGEST_VALUE = float(np.finfo(np.float32).max)


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
    file = existing_file(path)
    text = _content(file)
    pairs = _json_pairs(text, file.name) if file.suffix.lower() == ".json" else _text_pairs(text, file)
    if not pairs:
        raise DataError(f"{file.name} holds no rating.")
    return _own_arrays(pairs, file.name, value_range)


def read_own_items(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The items that one user used, (k,) ids, from a small file: what counts where values do not.

    path: .csv, .tsv or .txt with the column item (without a header, the first column), or .json with ``[item, ...]``
    or any form that `read_own` takes. Values, where there are any, are not looked at.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.csv")
    ...     _ = path.write_text("item\\n12\\n7\\n")
    ...     read_own_items(path).tolist()
    [12, 7]
    """
    file = existing_file(path)
    text = _content(file)
    used = _json_items(text, file.name) if file.suffix.lower() == ".json" else _text_items(text, file)
    if not used:
        raise DataError(f"{file.name} holds no item.")
    return _own_arrays([(item, 1.0) for item in used], file.name, None)[0]


def _content(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST_OWN_FILE:
            raise DataError(f"{file.name} is too large to be one user's ratings.")
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{file.name} holds bytes that are not UTF-8 text.") from None
    except OSError:
        raise DataError(f"{file} could not be opened.") from None


def _cells(text: str, file: Path) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    separator = guess_separator(lines[0], file.suffix.lower())
    if separator == "::":
        lines, separator = [line.replace("::", "\x1f") for line in lines], "\x1f"
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:
        raise DataError(f"{file.name} could not be read as text in columns.") from None


def _text_items(text: str, file: Path) -> list[str]:
    rows = _cells(text, file)
    if any(len(row) != len(rows[0]) for row in rows):
        raise DataError(f"{file.name} must have the same columns in every row, one of them item.")
    names = [name.lower() for name in rows[0]] if rows else []
    place = names.index("item") if "item" in names else 0
    return [row[place] for row in rows[1 if "item" in names else 0 :]]


def _json_items(text: str, where: str) -> list[Any]:
    try:
        content = json.loads(text)
        if isinstance(content, list) and not any(isinstance(entry, (dict, list)) for entry in content):
            return content
    except (ValueError, RecursionError):
        pass
    return [item for item, _ in _json_pairs(text, where)]


def _text_pairs(text: str, file: Path) -> list[tuple[Any, Any]]:
    rows = _cells(text, file)
    if not rows:
        return []
    width = len(rows[0])
    if width < 2 or any(len(row) != width for row in rows):
        raise DataError(f"{file.name} must have the two columns item and value in every row.")
    item, value = 0, 1
    if not is_number(rows[0][1]) or not is_number(rows[0][-1]):
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
    integers = frame.select(integer_ids("item", pl.String())).collect()["item"]
    return id_array(checked_ids(frame, integers, "item"), "item"), values


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
    return number if abs(number) <= LARGEST_VALUE else None
