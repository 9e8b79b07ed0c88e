"""Signs that were randomized on the users' own devices, on their way to a server that nobody needs to trust.

A file has the columns item, value (0 for no, 1 for yes), epsilon and flip, where flip = 1/(1 + e^epsilon) is the
chance with which each value was turned round. So a file says itself what was done to it, and the server checks that
all of them say the same. Many users' files are a folder (each file is one user, by its name) or one table with a
further column of user ids.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings, check_range
from hushrec.data.readers import read
from hushrec.data.sources import table_of
from hushrec.errors import DataError

COLUMNS = ("item", "value", "epsilon", "flip")
AGREE = 1e-9


def flip_chance(epsilon: float) -> float:
    """1/(1 + e^epsilon)."""
    return 1.0 / (1.0 + math.exp(min(epsilon, 700.0)))


def randomized_text(items: Iterable[Any], signs: NDArray[np.integer[Any]], epsilon: float) -> str:
    """One user's randomized signs as the text of a file.

    >>> print(randomized_text([12, 7], np.array([1, 0]), 2.0), end="")
    item,value,epsilon,flip
    12,1,2.0,0.11920292202211755
    7,0,2.0,0.11920292202211755
    """
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    price = repr(epsilon), repr(flip_chance(epsilon))
    lines.writerows([item, int(sign), *price] for item, sign in zip(items, signs, strict=True))
    return out.getvalue()


def read_randomized(
    path: str | os.PathLike[str],
    *,
    user: str | int = "user",
    item: str | int = "item",
    items: Any = None,
    value_range: tuple[float, float] = (0.0, 1.0),
) -> Ratings:
    """All users' randomized signs from a folder of their files or from one table.

    items: the public item list; without it, the items that occur. value_range: of the ratings as users have them;
    a no becomes the lowest of its values, and a yes the highest.
    """
    low, high = check_range(value_range)
    source: Any = _collected(Path(path)) if Path(path).is_dir() else path
    ratings = read(source, user=user, item=item, value="value", value_range=(0.0, 1.0), items=items)
    if not bool(np.isin(ratings.values, (0.0, 1.0)).all()):
        raise DataError("The values of randomized ratings must be 0 and 1.")
    values = np.where(ratings.values == 1.0, high, low)
    return replace(ratings, values=values, value_range=(low, high), randomized=_one_epsilon(source, user, item))


def _one_epsilon(source: Any, user: str | int, item: str | int) -> float:
    """The epsilon that all rows carry, checked against the flips that they carry."""
    epsilon, flip = (_one_number(source, user, item, column) for column in ("epsilon", "flip"))
    if not (0.0 < epsilon < math.inf and abs(flip / flip_chance(epsilon) - 1.0) < AGREE):
        raise DataError("The columns epsilon and flip of the randomized ratings contradict each other.")
    return epsilon


def _one_number(source: Any, user: str | int, item: str | int, column: str) -> float:
    table = table_of(source, {"user": user, "item": item, "value": column}, None, True)
    found = table.select(pl.col("value").cast(pl.String).str.strip_chars().unique()).collect()["value"].to_list()
    if len(found) != 1:
        raise DataError(f"The randomized ratings do not all have the same {column}: they cannot be fitted together.")
    try:
        return float(found[0])
    except (TypeError, ValueError):
        raise DataError(f"The column {column} of the randomized ratings is not a number.") from None


def _collected(folder: Path) -> pl.DataFrame:
    """The users' files in a folder as one table, the name of each file as its user's id."""
    names: list[str] = []
    rows: list[list[str]] = []
    for path in sorted(folder.glob("*.csv")):
        header, *lines = _lines(path)
        if tuple(header) != COLUMNS or any(len(line) != len(COLUMNS) for line in lines):
            raise DataError(f"{path.name} is not a file of 'hushrec randomize'.")
        names += [path.stem] * len(lines)
        rows += lines
    if not rows:
        raise DataError(f"{folder} holds no file of 'hushrec randomize'.")
    columns = {name: [row[k] for row in rows] for k, name in enumerate(COLUMNS)}
    return pl.DataFrame({"user": names, **columns})


def _lines(path: Path) -> list[list[str]]:
    try:
        lines = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DataError(f"{path.name} could not be read.") from None
    return [line for line in lines if line] or [[]]
