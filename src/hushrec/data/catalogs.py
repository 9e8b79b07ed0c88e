"""Known datasets in the formats of their publishers: one `Catalog` entry each, native values and ids.

A reader takes the opened files and returns three parallel arrays; everything after that is shared. Files are read
in place (folder, zip, tar), never unpacked to disk, in pieces of 16 MB that Polars parses, so there is no Python loop
over ratings. Peak memory is near 24 bytes a rating (measured up to 8 million), so the 100 million ratings of the
480,189 users of the Netflix prize take about 2.7 GB, of which the loaded table keeps 0.8 GB.
"""

from __future__ import annotations

import csv
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import IO, Any, Literal, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.data.readers import MOST_UNPACKED, factorise, gunzip, positions_in
from hushrec.errors import ConfigError, DataError

CHUNK = 2**24
NOT_RATED = 99.0  # Jester's mark for a joke that the user did not rate
NEVER_AGAIN = 255.0  # Yahoo! Music's "never play again", the strongest dislike: read as the lowest rating, 0

ItemList = Literal["rated", "published"]
Triples = tuple[Any, Any, Any]
"""Parallel arrays of user id, item id and value, (nnz,) each."""


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """One known dataset: where it comes from, how to recognise it and how to read it.

    files: patterns of the file names to recognise it by, the ratings first ("a|b": either); folder: the
    folder name that tells sets with equal file names apart. users, items, ratings: the counts of the complete
    set, None where they vary.
    downloads: addresses of the publisher's files, empty where a licence must be accepted first.
    """

    name: str
    title: str
    url: str
    value_range: tuple[float, float]
    files: tuple[str, ...]
    citation: str
    licence: str
    reader: Callable[[Files], Triples]
    titles: Callable[[Files], dict[Any, str]] | None = None
    folder: str = ""
    users: int | None = None
    items: int | None = None
    ratings: int | None = None
    downloads: tuple[str, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)  # file name -> "md5:..." or "sha256:..."


def load(name: str, path: str | os.PathLike[str], *, catalogue: ItemList = "rated") -> Ratings:
    """A known dataset as `Ratings`, with the publisher's own values and ids.

    path: the publisher's archive, the folder it unpacks to, or the file of ratings.
    catalogue: "rated": the item list is the items that occur ("observed"); "published": the publisher's own
    list, items without a rating included ("declared").

    >>> load("ml-1m", "nowhere.zip")
    Traceback (most recent call last):
    ...
    hushrec.errors.DataError: There is no file or folder nowhere.zip.
    """
    if catalogue not in ("rated", "published"):
        raise ConfigError(f"catalogue must be 'rated' or 'published', not {catalogue!r}.")
    entry = find(name)
    with Files(path) as files:
        users, items, values = entry.reader(files)
        published = None if catalogue == "rated" else _published_items(entry, files)
    return _assemble([users, items, values], entry, published)


def load_split(
    name: str, path: str | os.PathLike[str], split: str, *, catalogue: ItemList = "rated"
) -> tuple[Ratings, Ratings]:
    """The publisher's own (train, test) split of MovieLens 100K: "u1" to "u5", "ua" or "ub".

    Both parts have the same users and the same items, in the same order.
    """
    entry = find(name)
    if entry.name != "ml-100k":
        raise ConfigError(f"Only ml-100k comes with splits of its own, not {name!r}: use hushrec.split.")
    if split not in ML_100K_SPLITS:
        raise ConfigError(f"split must be one of {', '.join(ML_100K_SPLITS)}, not {split!r}.")
    with Files(path) as files:
        parts = [_delimited(files.one(f"{split}.{part}"), "\t") for part in ("base", "test")]
        published = None if catalogue == "rated" else _published_items(entry, files)
    both = [np.concatenate([part[column] for part in parts]) for column in range(3)]
    whole = _assemble(list(both), entry, published)
    train_size = len(parts[0][0])
    train, test = (
        Ratings.from_codes(
            np.searchsorted(cast(Any, whole.users), users).astype(np.int32),
            positions_in(whole.items, pl.Series(items)),
            values,
            items=whole.items,
            value_range=whole.value_range,
            users=whole.users,
            catalogue=whole.catalogue,
        )
        for users, items, values in (
            [column[:train_size] for column in both],
            [column[train_size:] for column in both],
        )
    )
    return train, test


def titles(name: str, path: str | os.PathLike[str]) -> dict[Any, str]:
    """The published title of every item, by item id."""
    entry = find(name)
    if entry.titles is None:
        raise DataError(f"{entry.title} comes without item titles.")
    with Files(path) as files:
        return entry.titles(files)


def find(name: str) -> Catalog:
    """The registered dataset of that name.

    >>> find("ml-1m").value_range
    (1.0, 5.0)
    """
    if name not in CATALOGS:
        raise ConfigError(f"There is no dataset {name!r}; known are {', '.join(CATALOGS)}.")
    return CATALOGS[name]


def _assemble(columns: list[Any], entry: Catalog, published: NDArray[Any] | None) -> Ratings:
    """Ratings from the three columns; each is dropped as soon as it is coded, to keep the peak low."""
    if len(columns[2]) == 0:
        raise DataError(f"The file of {entry.title} holds no rating.")
    items = published
    if items is None:
        items, item_codes = factorise(pl.Series(columns[1]), "item")
    else:
        item_codes = positions_in(items, pl.Series(columns[1]))
    columns[1] = None
    users, user_codes = factorise(pl.Series(columns[0]), "user")
    columns[0] = None
    missing = int(np.count_nonzero(item_codes < 0))
    if missing:
        raise DataError(f"{missing} ratings are of items that the published list of {entry.title} does not have.")
    return Ratings.from_codes(
        user_codes,
        item_codes,
        columns[2],
        items=items,
        value_range=entry.value_range,
        users=users,
        catalogue="observed" if published is None else "declared",
    )


def _published_items(entry: Catalog, files: Files) -> NDArray[Any]:
    if entry.name.startswith("jester"):
        return np.arange(1, 101)
    if entry.titles is None:
        raise DataError(f"{entry.title} comes without a published item list: use catalogue='rated'.")
    ids = sorted(entry.titles(files))
    if not ids:
        raise DataError(f"The published item list of {entry.title} is empty.")
    return np.asarray(ids)


# --- the files behind a path -----------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """One file, wherever it lies: its name with folders, and how to open it for reading."""

    name: str
    open: Callable[[], IO[bytes]]

    @property
    def base(self) -> str:
        """The name without folders, in lower case and without .gz."""
        return PurePosixPath(self.name).name.lower().removesuffix(".gz")

    def read(self) -> bytes:
        """The whole content."""
        with _readable(self.name), self.open() as stream:
            return stream.read()


class Files:
    """All files behind a path: one file, a folder (and the archives in it), a zip or a tar archive."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        self.single: Member | None = None
        self.members: list[Member] = []
        self._open = ExitStack()

    def __enter__(self) -> Files:
        try:
            with _readable(self.path.name):
                self._list(self.path)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _list(self, path: Path) -> None:
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders.sort()
                for name in sorted(names):
                    self._add_file(Path(folder, name))
        elif not path.is_file():
            raise DataError(f"There is no file or folder {path}.")
        elif zipfile.is_zipfile(path) and path.suffix.lower() not in (".xlsx", ".xls"):
            self._add_zip(path)
        elif tarfile.is_tarfile(path):
            self._add_tar(self._open.enter_context(tarfile.open(path)))  # noqa: SIM115 (the stack closes it)
        else:
            self.single = Member(path.as_posix(), _opener(path))
            for sibling in sorted(path.parent.iterdir()):  # the movie list beside the file of ratings
                if sibling.is_file():
                    self.members.append(Member(sibling.as_posix(), _opener(sibling)))

    def _add_file(self, path: Path) -> None:
        if path.suffix.lower() == ".zip" and zipfile.is_zipfile(path):
            self._add_zip(path)
        elif path.suffix.lower() == ".tar" and tarfile.is_tarfile(path):
            self._add_tar(self._open.enter_context(tarfile.open(path)))  # noqa: SIM115 (the stack closes it)
        else:
            self.members.append(Member(path.as_posix(), _opener(path)))

    def _add_zip(self, path: Path) -> None:
        archive = self._open.enter_context(zipfile.ZipFile(path))
        for entry in archive.infolist():
            if entry.file_size > max(2**28, MOST_UNPACKED * entry.compress_size):
                raise DataError(f"A file in {path.name} unpacks to more than {MOST_UNPACKED} times its size.")
            if entry.filename and not entry.is_dir() and not entry.filename.startswith("__MACOSX/"):
                self.members.append(Member(f"{path.as_posix()}/{entry.filename}", _zip_opener(archive, entry)))

    def _add_tar(self, archive: tarfile.TarFile) -> None:
        for entry in archive.getmembers():
            if entry.isfile():
                self.members.append(Member(entry.name, _tar_opener(archive, entry)))
                if entry.name.endswith("training_set.tar"):  # Netflix: an archive inside the archive
                    inner = self._open.enter_context(self.members.pop().open())
                    self._add_tar(self._open.enter_context(tarfile.open(fileobj=inner)))  # noqa: SIM115

    def all(self, *patterns: str) -> list[Member]:
        """Every file whose name, without folders, matches one of the patterns."""
        return [m for m in self.members if any(fnmatch(m.base, pattern) for pattern in patterns)]

    def find(self, *patterns: str) -> Member | None:
        """The first file that matches the first pattern that matches any."""
        return next((found[0] for pattern in patterns if (found := self.all(pattern))), None)

    def one(self, *patterns: str) -> Member:
        """Like `find`, but the file must be there."""
        member = self.find(*patterns)
        if member is None:
            raise DataError(f"{self.path} holds no file {' or '.join(patterns)}.")
        return member

    def ratings(self, *patterns: str) -> Member:
        """The file of ratings: the given path itself where it is one plain file, whatever its name."""
        return self.single or self.one(*patterns)


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    if path.suffix.lower() == ".gz":
        return lambda: io.BytesIO(gunzip(path))
    return lambda: path.open("rb")


def _zip_opener(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(entry)


def _tar_opener(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    return lambda: cast(IO[bytes], archive.extractfile(entry))


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turns every way in which a damaged file or archive fails into one sentence without its content."""
    where = PurePosixPath(name).name
    try:
        yield
    except DataError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError, csv.Error):
        raise DataError(f"{where} is not in the published format of this dataset.") from None
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, RuntimeError, ValueError):
        raise DataError(f"{where} could not be read: it is damaged, cut short or locked.") from None


# --- formats ---------------------------------------------------------------------------------------


def _delimited(
    member: Member,
    separator: str,
    header: str = "",
    columns: tuple[int, int, int] = (0, 1, 2),
    text_users: bool = False,
) -> Triples:
    """One rating a line; header: how the first line starts, where it names the columns."""
    pieces: list[pl.DataFrame] = []
    with _readable(member.name), member.open() as stream:
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


def _blocks(members: list[Member], separator: str, mark: str, owner: Literal["user", "item"]) -> Triples:
    """Ratings in blocks: a line that ends in the mark ("movie:" or "user|count") owns the lines below it.

    Small files are joined into pieces of 16 MB, so 17,770 files cost about as much as four.
    """
    pieces: list[pl.DataFrame] = []
    last_owner = -1
    for piece in _joined(members, mark.encode()):
        with _readable(members[0].name):
            block = _parse_blocks(piece, separator, mark, last_owner)
        last_owner = cast(int, block["owner"][-1])
        other = "item" if owner == "user" else "user"
        pieces.append(block.drop_nulls("value").rename({"owner": owner, "key": other}))
    return _columns(pieces, members[0].name)


def _joined(members: list[Member], mark: bytes) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for member in members:
        with _readable(member.name), member.open() as stream:
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


def _jester_part(files: Files, part: int) -> Triples:
    """One of the three files of Jester dataset 1: a row a user, the number rated, then 100 jokes."""
    stem = f"jester-data-{part}"
    member = files.ratings(f"{stem}.csv", f"{stem}.xls", f"{stem}.xlsx")
    with _readable(member.name):
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


def _jester_all(files: Files) -> Triples:
    """The three parts below each other; users are numbered on from part to part."""
    if files.single is not None:
        raise DataError("jester needs the folder with all three parts; jester-1, -2 and -3 read one file.")
    parts = [_jester_part(files, part) for part in (1, 2, 3)]
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


def _netflix(files: Files) -> Triples:
    """17,770 files mv_0000001.txt, or four files combined_data_1.txt: a line "movie:", then its ratings."""
    members = [files.single] if files.single is not None else files.all("mv_*.txt", "combined_data_*.txt")
    if not members:
        raise DataError(f"{files.path} holds no file mv_*.txt or combined_data_*.txt.")
    return _blocks(members, ",", ":", owner="item")


def _yahoo_music(files: Files) -> Triples:
    """Lines user, item, rating (Webscope), or the blocks of KDD Cup 2011: "user|count", then item, score."""
    member = files.ratings("ydata-ymusic-*ratings*.txt", "train*idx1*.txt", "train*.txt")
    with _readable(member.name), member.open() as stream:
        head = stream.read(200).lstrip().split(b"\n", 1)[0]
    if b"|" in head:
        return _blocks([member], "\t", "|", owner="user")
    users, items, values = _delimited(member, "\t")
    return users, items, np.where(values == NEVER_AGAIN, np.float32(0), values)


def _movielens_dat(files: Files) -> Triples:
    return _delimited(files.ratings("ratings.dat"), "::")


def _movielens_csv(files: Files) -> Triples:
    return _delimited(files.ratings("ratings.csv"), ",", header="userId,movieId,rating")


def _movielens_100k(files: Files) -> Triples:
    return _delimited(files.ratings("u.data"), "\t")


def _restaurant(files: Files) -> Triples:
    header = "userID,placeID,rating"
    return _delimited(files.ratings("rating_final.csv"), ",", header=header, text_users=True)


# --- titles ----------------------------------------------------------------------------------------


def _title_lines(pattern: str, separator: str) -> Callable[[Files], Any]:
    """Reader of lines that start with an id and a title."""

    def titles_of(files: Files) -> dict[Any, str]:
        member = files.one(pattern)
        rows = [line.split(separator, 2) for line in _text(member.read()).split("\n") if line.strip()]
        with _readable(member.name):
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


def _title_table(pattern: str, id_name: str, title_name: str) -> Callable[[Files], Any]:
    """Reader of a CSV file with a header, where titles may be quoted."""

    def titles_of(files: Files) -> dict[Any, str]:
        member = files.one(pattern)
        rows = csv.DictReader(io.StringIO(_text(member.read()), newline=""))
        with _readable(member.name):
            try:
                return {int(row[id_name]): row[title_name].strip() for row in rows}
            except (KeyError, TypeError, AttributeError):
                raise DataError(f"{pattern} must have the columns {id_name} and {title_name}.") from None

    return titles_of


def _netflix_titles(files: Files) -> dict[Any, str]:
    member = files.one("movie_titles.txt", "movie_titles.csv")
    rows = [line.split(",", 2) for line in _text(member.read()).split("\n") if line.strip()]
    with _readable(member.name):
        return {int(row[0]): row[2].strip() for row in _long_enough(rows, 2, member)}


# --- the registry: one entry is one dataset --------------------------------------------------------

ML_100K_SPLITS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")
_HARPER = "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015."
_GOLDBERG = (
    "K. Goldberg, T. Roeder, D. Gupta and C. Perkins. Eigentaste: A Constant Time Collaborative Filtering "
    "Algorithm. Information Retrieval 4(2), 2001."
)
_GROUPLENS = "Research use with acknowledgement; no redistribution and no commercial use without permission."
_GROUPLENS_FILES = "https://files.grouplens.org/datasets/movielens/"
_JESTER_FILES = "https://eigentaste.berkeley.edu/dataset/"


def _movielens(
    size: str, md5: str, counts: tuple[int, int, int], reader: Callable[[Files], Triples], **more: Any
) -> Catalog:
    archive = f"ml-{size}.zip"
    return Catalog(
        name=f"ml-{size}",
        title=f"MovieLens {size.upper()}",
        url=f"https://grouplens.org/datasets/movielens/{size}/",
        citation=_HARPER,
        licence=_GROUPLENS,
        reader=reader,
        users=counts[0],
        items=counts[1],
        ratings=counts[2],
        downloads=(_GROUPLENS_FILES + archive,),
        checksums={archive: f"md5:{md5}"},
        **more,
    )


def _movielens_dat_set(size: str, md5: str, counts: tuple[int, int, int], low: float, folder: str) -> Catalog:
    return _movielens(
        size,
        md5,
        counts,
        _movielens_dat,
        value_range=(low, 5.0),
        files=("ratings.dat", "movies.dat"),
        titles=_title_lines("movies.dat", separator="::"),
        folder=folder,
    )


def _movielens_csv_set(size: str, md5: str, counts: tuple[int, int, int]) -> Catalog:
    return _movielens(
        size,
        md5,
        counts,
        _movielens_csv,
        value_range=(0.5, 5.0),
        files=("ratings.csv", "movies.csv"),
        titles=_title_table("movies.csv", "movieId", "title"),
        folder=f"ml-{size}",
    )


def _jester(
    name: str, title: str, parts: tuple[int, ...], counts: tuple[int, int], reader: Callable[[Files], Triples]
) -> Catalog:
    return Catalog(
        name=name,
        title=title,
        url=_JESTER_FILES,
        value_range=(-10.0, 10.0),
        files=tuple(f"jester-data-{part}.*" for part in parts),
        citation=_GOLDBERG,
        licence="Research use with acknowledgement; no redistribution.",
        reader=reader,
        users=counts[0],
        items=100,
        ratings=counts[1],
        downloads=tuple(f"{_JESTER_FILES}jester_dataset_1_{part}.zip" for part in parts),
    )


_ENTRIES = (
    _movielens(
        "100k",
        "0e33842e24a9c977be4e0107933c0723",
        (943, 1_682, 100_000),
        _movielens_100k,
        value_range=(1.0, 5.0),
        files=("u.data", "u.item"),
        titles=_title_lines("u.item", separator="|"),
        folder="ml-100k",
    ),
    _movielens_dat_set("1m", "c4d9eecfca2ab87c1945afe126590906", (6_040, 3_706, 1_000_209), 1.0, "ml-1m"),
    _movielens_dat_set("10m", "ce571fd55effeba0271552578f2648bd", (69_878, 10_677, 10_000_054), 0.5, "ml-10M100K"),
    _movielens_csv_set("20m", "cd245b17a1ae2cc31bb14903e1204af3", (138_493, 26_744, 20_000_263)),
    _movielens_csv_set("25m", "6b51fb2759a8657d3bfcbfc42b592ada", (162_541, 59_047, 25_000_095)),
    _movielens_csv_set("32m", "d472be332d4daa821edc399621853b57", (200_948, 84_432, 32_000_204)),
    _jester("jester-1", "Jester dataset 1, part 1", (1,), (24_983, 1_810_455), lambda f: _jester_part(f, 1)),
    _jester("jester-2", "Jester dataset 1, part 2", (2,), (23_500, 1_708_993), lambda f: _jester_part(f, 2)),
    _jester("jester-3", "Jester dataset 1, part 3", (3,), (24_938, 616_912), lambda f: _jester_part(f, 3)),
    _jester("jester", "Jester dataset 1", (1, 2, 3), (73_421, 4_136_360), _jester_all),
    Catalog(
        name="netflix",
        title="Netflix Prize",
        url="https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
        value_range=(1.0, 5.0),
        files=("mv_*.txt|combined_data_*.txt",),
        citation="J. Bennett and S. Lanning. The Netflix Prize. KDD Cup and Workshop, 2007.",
        licence="Withdrawn by Netflix in 2010; the terms of the copy you use apply.",
        reader=_netflix,
        titles=_netflix_titles,
        users=480_189,
        items=17_770,
        ratings=100_480_507,
    ),
    Catalog(
        name="yahoo-music",
        title="Yahoo! Music",
        url="https://webscope.sandbox.yahoo.com/catalog.php?datatype=r",
        value_range=(0.0, 100.0),
        files=("ydata-ymusic-*ratings*.txt|train*idx1*.txt",),
        citation="G. Dror, N. Koenigstein, Y. Koren and M. Weimer. The Yahoo! Music Dataset and KDD-Cup'11. "
        "JMLR W&CP 18, 2012.",
        licence="Research only, under a data sharing agreement with Yahoo!; no redistribution.",
        reader=_yahoo_music,
        titles=_title_lines("ydata-ymusic-*names*.txt", separator="\t"),
    ),
    Catalog(
        name="restaurant",
        title="Restaurant & consumer data",
        url="https://archive.ics.uci.edu/dataset/232/restaurant+consumer+data",
        value_range=(0.0, 2.0),
        files=("rating_final.csv",),
        citation="B. Vargas-Govea, G. González-Serna and R. Ponce-Medellín. Effects of relevant contextual "
        "features in the performance of a restaurant recommender system. CARS, RecSys 2011.",
        licence="Creative Commons Attribution 4.0.",
        reader=_restaurant,
        titles=_title_table("geoplaces2.csv", "placeID", "name"),
        users=138,
        items=130,
        ratings=1_161,
        downloads=("https://archive.ics.uci.edu/static/public/232/restaurant+consumer+data.zip",),
    ),
)

CATALOGS: Mapping[str, Catalog] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every known dataset by name; a new one is one more entry above."""
