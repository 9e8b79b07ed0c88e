"""Signs that were randomized on the users' own devices, on their way to a server that nobody needs to trust.

A file has the columns item, value (0 for no, 1 for yes), epsilon, flip and threshold: yes is a rating above threshold,
and flip = 1/(1 + e^epsilon) is the chance with which each value was turned round. So a file says itself what was done
to it, and the server checks that all of them say the same. Many users' files are a folder (each file is one user, by
its name) or one table with a further column of user ids.

Whoever sends a file is a stranger. No file may be larger than `MOST_ANSWERS`, or than the declared item list, and a
message names the file that cannot be used: the name of a file is no rating.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.quiet import Quiet
from hushrec.data.ratings import Duplicates, Ratings, check_range
from hushrec.data.readers import declared_items, read
from hushrec.data.sources import table_of
from hushrec.errors import ConfigError, DataError

COLUMNS = ("item", "value", "epsilon", "flip", "threshold")
AGREE = 1e-9
MOST_ANSWERS = 10_000
"""In one user's file, where no item list was declared."""
LARGEST_FILE = 16 * 2**20


class Terms(NamedTuple):
    """What a file says was done to it: public, and the same for everybody."""

    epsilon: float
    threshold: float


@dataclass(frozen=True)
class Rules:
    """What one user may send: item ids (None: any), and what to do where an item stands twice."""

    known: frozenset[str] | None
    duplicates: Duplicates

    @property
    def most(self) -> int:
        """How many answers."""
        return MOST_ANSWERS if self.known is None else len(self.known)

    def too_many(self, whose: str, count: int) -> DataError:
        """What is said of more."""
        why = "" if self.known is not None else ": declare the item list to accept more"
        return DataError(f"{whose} {count} answers, more than the {self.most} that one user may send{why}.")


@dataclass(frozen=True)
class Folder:
    """The users' files in a folder, and how many others lie there."""

    files: tuple[Path, ...]
    skipped: int


def flip_chance(epsilon: float) -> float:
    """1/(1 + e^epsilon)."""
    return 1.0 / (1.0 + math.exp(min(epsilon, 700.0)))


def randomized_text(items: Iterable[Any], signs: NDArray[np.integer[Any]], epsilon: float, threshold: float) -> str:
    """One user's randomized signs as the text of a file.

    >>> print(randomized_text([12, 7], np.array([1, 0]), 2.0, 3.5), end="")
    item,value,epsilon,flip,threshold
    12,1,2.0,0.11920292202211755,3.5
    7,0,2.0,0.11920292202211755,3.5
    """
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    terms = repr(float(epsilon)), repr(flip_chance(epsilon)), repr(float(threshold))
    lines.writerows([item, int(sign), *terms] for item, sign in zip(items, signs, strict=True))
    return out.getvalue()


def read_randomized(
    path: str | os.PathLike[str],
    *,
    user: str | int = "user",
    item: str | int = "item",
    items: Sequence[Any] | NDArray[Any] | None = None,
    value_range: tuple[float, float] = (0.0, 1.0),
    duplicates: Duplicates = "error",
) -> Ratings:
    """All users' randomized signs from a folder of their files or from one table.

    user, item: the columns of a table. items: the public item list; without it, the items that occur, so that whoever
    sends a file can add to it. value_range: of the ratings as users have them; a no becomes the lowest of its
    values, and a yes the highest. duplicates: "error", or the "first" or "last" answer about an item.
    """
    low, high = check_range(value_range)
    if duplicates == "mean":
        raise ConfigError("duplicates must be 'error', 'first' or 'last' here: a yes and a no have no mean.")
    declared = None if items is None else declared_items(items)
    rules = Rules(None if declared is None else frozenset(map(str, declared.tolist())), duplicates)
    folder = Path(path)
    source: Any = folder
    if folder.is_dir():
        if (user, item) != ("user", "item"):
            raise ConfigError("user and item name the columns of one table: the files of a folder have their own.")
        source, terms = _collected(folder, rules)
    else:
        terms = _table_terms(path, user, item)
    if not low <= terms.threshold < high:
        raise ConfigError(
            f"value_range is ({low:g}, {high:g}), but the answers were randomized with threshold={terms.threshold:g}, "
            "which must lie inside it: give the range of the ratings as users have them, such as 1 5 for stars."
        )
    ratings = read(source, user=user, item=item, value="value", value_range=(0.0, 1.0), items=declared,
                   duplicates=duplicates)  # fmt: skip
    if not bool(np.isin(ratings.values, (0.0, 1.0)).all()):
        raise DataError("The values of randomized ratings must be 0 and 1.")
    longest = int(np.diff(ratings.indptr).max())
    if longest > rules.most:
        raise rules.too_many("A user has", longest)
    values = np.where(ratings.values == 1.0, high, low)
    return replace(ratings, values=values, value_range=(low, high), randomized=terms.epsilon, threshold=terms.threshold)


def find_files(folder: Path) -> Folder:
    """The .csv files of a folder, in any spelling of that, hidden ones left out; each must name another user."""
    found = sorted(path for path in folder.iterdir() if path.is_file())
    files = [path for path in found if path.suffix.lower() == ".csv" and not path.name.startswith(".")]
    repeated = [name for name, count in Counter(path.stem for path in files).items() if count > 1]
    if repeated:
        twins = " and ".join(path.name for path in files if path.stem == repeated[0])
        raise DataError(f"{twins} would be one user: the name of a file, without its ending, says whose it is.")
    return Folder(tuple(files), len(found) - len(files))


# --- one table ------------------------------------------------------------------------------------


def _table_terms(source: Any, user: str | int, item: str | int) -> Terms:
    """What all rows of a table carry, checked."""
    epsilon, flip, threshold = (_one_number(source, user, item, column) for column in COLUMNS[2:])
    return _checked_terms(epsilon, flip, threshold, "the randomized ratings")


def _one_number(source: Any, user: str | int, item: str | int, column: str) -> float:
    table = table_of(source, {"user": user, "item": item, "value": column}, None, True)
    number = pl.col("value").cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    with Quiet("the randomized ratings", "ratings"):
        found = table.select(number.value_counts(sort=True)).collect().unnest("value")
    if found["value"].null_count():
        raise DataError(f"The column {column} of the randomized ratings is not a number everywhere.")
    if found.height == 0:
        raise DataError("There is no rating in the data.")
    if found.height > 1:
        others = int(found["count"][1:].sum())
        raise DataError(
            f"The randomized ratings do not all have the same {column}: {others} of them differ from the others."
        )
    return float(found["value"][0])


def _checked_terms(epsilon: float, flip: float, threshold: float, where: str) -> Terms:
    if not (0.0 < epsilon < math.inf and abs(flip / flip_chance(epsilon) - 1.0) < AGREE):
        raise DataError(f"The columns epsilon and flip of {where} contradict each other.")
    if not math.isfinite(threshold):
        raise DataError(f"The column threshold of {where} is not a finite number.")
    return Terms(epsilon, threshold)


# --- a folder of users' files ---------------------------------------------------------------------


def _collected(folder: Path, rules: Rules) -> tuple[pl.DataFrame, Terms]:
    """The users' files in a folder as one table, the name of each file as its user's id."""
    names: list[str] = []
    items: list[str] = []
    values: list[float] = []
    terms: dict[str, Terms] = {}
    for path in find_files(folder).files:
        mine, answers, terms[path.name] = _one_file(path, rules)
        names += [path.stem] * len(mine)
        items += mine
        values += answers
    if not names:
        raise DataError(f"{folder} holds no file of 'hushrec randomize'.")
    return pl.DataFrame({"user": names, "item": items, "value": values}), _common(terms)


def _one_file(path: Path, rules: Rules) -> tuple[list[str], list[float], Terms]:
    """The items, the answers and the terms of one user's file."""
    name = path.name
    header, *lines = _lines(path)
    if tuple(header) != COLUMNS or not lines or any(len(line) != len(COLUMNS) for line in lines):
        raise DataError(f"{name} is not a file of 'hushrec randomize'.")
    if len(lines) > rules.most:
        raise rules.too_many(f"{name} holds", len(lines))
    items = [line[0].strip() for line in lines]
    _check_items(items, rules, name)
    try:
        numbers = np.array([line[1:] for line in lines], dtype=np.float64)
    except ValueError:
        raise DataError(f"{name} holds something that is not a number where one must be.") from None
    if not bool(np.isin(numbers[:, 0], (0.0, 1.0)).all()):
        raise DataError(f"The values in {name} must be 0 and 1.")
    if bool((numbers[:, 1:] != numbers[0, 1:]).any()):
        raise DataError(f"The answers in {name} do not all have the same epsilon, flip and threshold.")
    epsilon, flip, threshold = numbers[0, 1:].tolist()
    return items, numbers[:, 0].tolist(), _checked_terms(epsilon, flip, threshold, name)


def _check_items(items: list[str], rules: Rules, name: str) -> None:
    repeated = len(items) - len(set(items))
    if repeated and rules.duplicates == "error":
        raise DataError(f"{name} has {repeated} items more than once: choose duplicates='first' or 'last'.")
    strange = 0 if rules.known is None else sum(item not in rules.known for item in items)
    if strange:
        raise DataError(f"{name} has {strange} answers about items that are not in the declared item list.")


def _common(terms: dict[str, Terms]) -> Terms:
    """What all files say, or else which of them say something else than the most."""
    usual = Counter(terms.values()).most_common(1)[0][0]
    for index, what in enumerate(Terms._fields):
        others = [name for name, one in terms.items() if one[index] != usual[index]]
        if others:
            raise DataError(
                f"The randomized ratings do not all have the same {what}: {len(others)} of {len(terms)} files differ "
                f"from the others, the first of them {others[0]}."
            )
    return usual


def _lines(path: Path) -> list[list[str]]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DataError(f"{path.name} is larger than one user's answers may be.")
        lines = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DataError(f"{path.name} could not be read.") from None
    return [line for line in lines if line] or [[]]
