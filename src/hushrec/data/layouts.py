"""The two layouts in which publishers lay out ratings as text: one rating a line, or blocks under a heading line.

Files are read in pieces of 16 MB that Polars parses, so there is no Python loop over ratings. Peak memory is near 24
bytes a rating (measured up to 8 million), so the 100 million ratings of the 480,189 users of the Netflix prize take
about 2.7 GB, of which the loaded table keeps 0.8 GB.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any, Literal, cast

import numpy as np
import polars as pl

from hushrec.data.archives import Member
from hushrec.data.quiet import readable
from hushrec.errors import DataError

CHUNK = 2**24

Triples = tuple[Any, Any, Any]
"""Parallel arrays of user id, item id and value, (nnz,) each."""


def delimited(
    member: Member,
    separator: str,
    header: str = "",
    columns: tuple[int, int, int] = (0, 1, 2),
    text_users: bool = False,
) -> Triples:
    """One rating a line; header: how the first line starts, where it names the columns."""
    pieces: list[pl.DataFrame] = []
    with readable(member.name), member.open() as stream:
        for number, chunk in enumerate(_chunks(stream)):
            if number == 0 and header:
                first, _, chunk = chunk.partition(b"\n")
                if not first.decode("utf-8-sig", "replace").strip().lower().startswith(header.lower()):
                    raise DataError(f"{PurePosixPath(member.name).name} does not start with the line {header}.")
            if chunk.strip():
                pieces.append(_parse(chunk, separator, columns, text_users))
    return _columns(pieces, member.name)


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """The content in pieces of about 16 MB that end with a line."""
    rest = b""
    while block := stream.read(CHUNK):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
        if len(rest) > 4 * CHUNK:
            raise DataError("The file of ratings has no lines.")
    if rest.strip():
        yield rest + b"\n"


def _parse(chunk: bytes, separator: str, columns: tuple[int, int, int], text_users: bool = False) -> pl.DataFrame:
    if len(separator) > 1:
        chunk, separator = chunk.replace(separator.encode(), b"\t"), "\t"
    width = chunk.split(b"\n", 1)[0].count(separator.encode()) + 1
    names = [f"c{position}" for position in range(width)]
    user, item, value = columns
    kinds: dict[int, Any] = {user: pl.String if text_users else pl.Int32, item: pl.Int32, value: pl.Float32}
    if width <= max(columns):
        raise DataError(f"A line of the ratings file has only {width} fields.")
    frame = pl.read_csv(
        chunk,
        has_header=False,
        separator=separator,
        quote_char=None,
        columns=sorted(columns),
        schema={name: kinds.get(position, pl.String) for position, name in enumerate(names)},
    )
    return frame.select(
        pl.col(f"c{user}").alias("user"), pl.col(f"c{item}").alias("item"), pl.col(f"c{value}").alias("value")
    )


def _columns(pieces: list[pl.DataFrame], name: str) -> Triples:
    where = PurePosixPath(name).name
    if not pieces:
        raise DataError(f"{where} holds no rating.")
    missing = sum(sum(row) for piece in pieces for row in piece.null_count().rows())
    if missing:
        raise DataError(f"{missing} fields in {where} are empty.")
    columns: list[Any] = []
    for name_of_column in ("user", "item", "value"):  # one at a time: two copies of one column, not of three
        arrays = [piece.drop_in_place(name_of_column) for piece in pieces]
        if arrays[0].dtype == pl.String:
            columns.append(pl.concat(arrays))
        else:
            columns.append(np.concatenate([array.to_numpy() for array in arrays]))
    return columns[0], columns[1], columns[2]


def blocks(members: list[Member], separator: str, mark: str, owner: Literal["user", "item"]) -> Triples:
    """Ratings in blocks: a line that ends in the mark ("movie:" or "user|count") owns the lines below it.

    Small files are joined into pieces of 16 MB, so 17,770 files cost about as much as four.
    """
    pieces: list[pl.DataFrame] = []
    last_owner = -1
    for piece in _joined(members, mark.encode()):
        with readable(members[0].name):
            block = _parse_blocks(piece, separator, mark, last_owner)
        last_owner = cast(int, block["owner"][-1])
        other = "item" if owner == "user" else "user"
        pieces.append(block.drop_nulls("value").rename({"owner": owner, "key": other}))
    return _columns(pieces, members[0].name)


def _joined(members: list[Member], mark: bytes) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for member in members:
        with readable(member.name), member.open() as stream:
            for number, chunk in enumerate(_chunks(stream)):
                if number == 0 and mark not in chunk.lstrip()[:64].split(b"\n", 1)[0]:
                    name = PurePosixPath(member.name).name
                    raise DataError(f"{name} does not start with a line of the form id{mark.decode()}.")
                waiting.append(chunk)
                size += len(chunk)
                if size >= CHUNK:
                    yield b"".join(waiting)
                    waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _parse_blocks(piece: bytes, separator: str, mark: str, last_owner: int) -> pl.DataFrame:
    """Columns owner, key, value; the value is null in the lines that name an owner."""
    frame = pl.read_csv(
        f"key{separator}value\n".encode() + piece,  # fixes the width: the first line of a block has one field
        separator=separator,
        quote_char=None,
        schema_overrides={"key": pl.String, "value": pl.Float32},
        truncate_ragged_lines=True,
    )
    is_owner = pl.col("key").str.contains(mark, literal=True)
    owner_id = pl.col("key").str.split(mark).list.first().cast(pl.Int32)
    lone = pl.col("value").is_null() & ~is_owner
    if frame.select(lone.any()).item():
        raise DataError("A line of the ratings file has an id without a value.")
    return frame.select(
        pl.when(is_owner).then(owner_id).otherwise(None).forward_fill().fill_null(last_owner).alias("owner"),
        pl.when(is_owner).then(None).otherwise(pl.col("key")).cast(pl.Int32).alias("key"),
        pl.when(is_owner).then(None).otherwise(pl.col("value")).alias("value"),
    )
