"""Each publisher's own format: from the opened files to three parallel arrays, and to the titles of the items."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.archives import Files, Member
from hushrec.data.layouts import Triples, blocks, delimited
from hushrec.data.quiet import readable
from hushrec.errors import DataError

NOT_RATED = 99.0  # Jester's mark for a joke that the user did not rate
NEVER_AGAIN = 255.0  # Yahoo! Music's "never play again", the strongest dislike: read as the lowest rating, 0


def jester_part(files: Files, part: int) -> Triples:
    """One of the three files of Jester dataset 1: a row a user, the number rated, then 100 jokes."""
    stem = f"jester-data-{part}"
    member = files.ratings(f"{stem}.csv", f"{stem}.xls", f"{stem}.xlsx")
    with readable(member.name):
        content = member.read()
        table = _sheet(content) if member.base.endswith((".xls", ".xlsx")) else _number_table(content)
    name = PurePosixPath(member.name).name
    if table.shape[1] != 101:
        raise DataError(f"{name} must have 101 columns (the number rated, then 100 jokes), not {table.shape[1]}.")
    rated = table[:, 1:] != NOT_RATED
    wrong = int(np.count_nonzero(rated.sum(axis=1) != table[:, 0]))
    if wrong:
        raise DataError(f"In {name}, {wrong} rows do not have as many ratings as their first column says.")
    users, items = np.nonzero(rated)
    return users.astype(np.int32) + 1, items.astype(np.int32) + 1, table[:, 1:][rated]


def _number_table(content: bytes) -> NDArray[np.float32]:
    width = content.split(b"\n", 1)[0].count(b",") + 1
    schema = {f"column_{k + 1}": pl.Float32 for k in range(width)}
    frame = pl.read_csv(content, has_header=False, schema=schema, quote_char=None)
    if sum(frame.null_count().row(0)):
        raise DataError("The table of ratings has empty cells.")
    return frame.to_numpy()


def _sheet(content: bytes) -> NDArray[np.float32]:
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise DataError(
            "Reading a spreadsheet needs the optional extra 'excel': pip install 'hushrec[excel]'."
        ) from None
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
        rows = book.get_sheet_by_index(0).to_python()
        return np.asarray(rows, dtype=np.float32)
    except Exception:  # the reader has error types of its own, whose texts may quote cells
        raise DataError("The spreadsheet could not be read as a table of numbers.") from None


def jester_all(files: Files) -> Triples:
    """The three parts below each other; users are numbered on from part to part."""
    if files.single is not None:
        raise DataError("jester needs the folder with all three parts; jester-1, -2 and -3 read one file.")
    parts = [jester_part(files, part) for part in (1, 2, 3)]
    before = 0
    numbered = []
    for users, _, _ in parts:
        numbered.append(users + np.int32(before))
        before += int(users.max(initial=0))
    return (
        np.concatenate(numbered),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def netflix(files: Files) -> Triples:
    """17,770 files mv_0000001.txt, or four files combined_data_1.txt: a line "movie:", then its ratings."""
    members = [files.single] if files.single is not None else files.all("mv_*.txt", "combined_data_*.txt")
    if not members:
        raise DataError(f"{files.path} holds no file mv_*.txt or combined_data_*.txt.")
    return blocks(members, ",", ":", owner="item")


def yahoo_music(files: Files) -> Triples:
    """Webscope R1, lines of user, artist, rating; or the blocks of KDD Cup 2011, "user|count", then item and score."""
    member = files.ratings("ydata-ymusic-*artist-ratings*.txt", "train*idx1*.txt", "train*idx2*.txt")
    with readable(member.name), member.open() as stream:
        head = stream.read(200).lstrip().split(b"\n", 1)[0]
    if b"|" in head:
        return blocks([member], "\t", "|", owner="user")
    users, items, values = delimited(member, "\t")
    return users, items, np.where(values == NEVER_AGAIN, np.float32(0), values)


def yahoo_songs(files: Files) -> Triples:
    """Webscope R2, lines of user, song, rating, the users in ten parts; its test parts are left alone."""
    members = [files.single] if files.single is not None else sorted(files.all("train_[0-9].txt"), key=lambda m: m.base)
    if not members:
        raise DataError(f"{files.path} holds no file train_0.txt.")
    there = [member.base for member in members]
    missing = [name for name in (f"train_{k}.txt" for k in range(10)) if name < there[-1] and name not in there]
    if len(set(there)) < len(there) or (missing and files.single is None):
        raise DataError(f"{files.path} must hold each part from train_0.txt to {there[-1]} once.")
    parts = [delimited(member, "\t") for member in members]
    users, songs, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return users, songs, values


def yahoo_study(files: Files) -> Triples:
    """Webscope R3, lines of user, song, rating of songs that users chose; its random test is left alone."""
    return delimited(files.ratings("ydata-ymusic-rating-study-*train*.txt"), "\t")


def movielens_dat(files: Files) -> Triples:
    return delimited(files.ratings("ratings.dat"), "::")


def movielens_csv(files: Files) -> Triples:
    return delimited(files.ratings("ratings.csv"), ",", header="userId,movieId,rating")


def movielens_100k(files: Files) -> Triples:
    return delimited(files.ratings("u.data"), "\t")


def restaurant(files: Files) -> Triples:
    header = "userID,placeID,rating"
    return delimited(files.ratings("rating_final.csv"), ",", header=header, text_users=True)


# --- titles ----------------------------------------------------------------------------------------


def title_lines(pattern: str, separator: str) -> Callable[[Files], Any]:
    """Reader of lines that start with an id and a title."""

    def titles_of(files: Files) -> dict[Any, str]:
        member = files.one(pattern)
        rows = [line.split(separator, 2) for line in _text(member.read()).split("\n") if line.strip()]
        with readable(member.name):
            return {int(row[0]): row[1].strip() for row in _long_enough(rows, 1, member)}

    return titles_of


def _long_enough(rows: list[list[str]], last: int, member: Member) -> list[list[str]]:
    if any(len(row) <= last for row in rows):
        raise DataError(f"{PurePosixPath(member.name).name} is not in the published format of this dataset.")
    return rows


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # the older MovieLens and the Netflix files


def title_table(pattern: str, id_name: str, title_name: str) -> Callable[[Files], Any]:
    """Reader of a CSV file with a header, where titles may be quoted."""

    def titles_of(files: Files) -> dict[Any, str]:
        member = files.one(pattern)
        rows = csv.DictReader(io.StringIO(_text(member.read()), newline=""))
        with readable(member.name):
            try:
                return {int(row[id_name]): row[title_name].strip() for row in rows}
            except (KeyError, TypeError, AttributeError):
                raise DataError(f"{pattern} must have the columns {id_name} and {title_name}.") from None

    return titles_of


def netflix_titles(files: Files) -> dict[Any, str]:
    member = files.one("movie_titles.txt", "movie_titles.csv")
    rows = [line.split(",", 2) for line in _text(member.read()).split("\n") if line.strip()]
    with readable(member.name):
        return {int(row[0]): row[2].strip() for row in _long_enough(rows, 2, member)}
