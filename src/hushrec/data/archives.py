"""The files behind a path: one file, a folder, a zip or a tar archive, read in place and never unpacked to disk.

A compressed file is decompressed in memory, never to a temporary file, because ratings are private.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from hushrec.data.quiet import readable
from hushrec.errors import DataError

MOST_UNPACKED = 200  # times its own size, beyond 256 MB: a file that claims more is a trap


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
        with readable(self.name), self.open() as stream:
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
            with readable(self.path.name):
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
                    if Path(folder, name).is_file():  # a pipe would keep its reader waiting
                        self._add_file(Path(folder, name))
        elif not path.is_file():
            raise DataError(f"There is no file or folder {path}.")
        elif zipfile.is_zipfile(path) and path.suffix.lower() not in (".xlsx", ".xls"):
            self._add_zip(path)
        elif mode := _tar_mode(path):
            self._add_tar(path, mode)
        else:
            self.single = Member(path.as_posix(), _opener(path))
            for sibling in sorted(path.parent.iterdir()):  # the movie list beside the file of ratings
                if sibling.is_file():
                    self.members.append(Member(sibling.as_posix(), _opener(sibling)))

    def _add_file(self, path: Path) -> None:
        if path.suffix.lower() == ".zip" and zipfile.is_zipfile(path):
            self._add_zip(path)
        elif path.suffix.lower() == ".tar" and (mode := _tar_mode(path)):
            self._add_tar(path, mode)
        else:
            self.members.append(Member(path.as_posix(), _opener(path)))

    def _add_zip(self, path: Path) -> None:
        archive = self._open.enter_context(zipfile.ZipFile(path))
        room = _room(path.stat().st_size)
        for entry in archive.infolist():
            room -= entry.file_size
            if room < 0 or entry.file_size > _room(entry.compress_size):
                raise DataError(f"{path.name} unpacks to more than {MOST_UNPACKED} times its size.")
            if entry.filename and not entry.is_dir() and not entry.filename.startswith("__MACOSX/"):
                self.members.append(Member(f"{path.as_posix()}/{entry.filename}", _zip_opener(archive, entry)))

    def _add_tar(self, path: Path, mode: Any, inside: IO[bytes] | None = None) -> None:
        archive = self._open.enter_context(tarfile.open(path, mode, inside))  # noqa: SIM115 (the stack closes it)
        room = _room(path.stat().st_size)
        for entry in archive:
            if entry.offset_data + entry.size > room:
                raise DataError(f"{path.name} unpacks to more than {MOST_UNPACKED} times its size.")
            if entry.isfile():
                self.members.append(Member(entry.name, _tar_opener(archive, entry)))
                if entry.name.endswith("training_set.tar") and inside is None:  # Netflix: one inside the other
                    self._add_tar(path, "r:", self._open.enter_context(self.members.pop().open()))

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


def _tar_mode(path: Path) -> str | None:
    """How to open a tar archive, plain, .gz or .bz2; None for other files.

    Python's own guess takes any start for that of an old LZMA stream, and sets aside up to 4 GB, as it asks for.
    """
    with path.open("rb") as file:
        start = file.read(3)
    mode: Any = "r:gz" if start[:2] == b"\x1f\x8b" else "r:bz2" if start == b"BZh" else "r:"
    try:
        with tarfile.open(path, mode):
            return str(mode)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error):
        return None


def _room(packed: int) -> int:
    """What so many packed bytes may unpack to."""
    return max(2**28, MOST_UNPACKED * packed)


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    if path.suffix.lower() == ".gz":
        return lambda: io.BytesIO(gunzip(path))
    return lambda: path.open("rb")


def _zip_opener(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(entry)


def _tar_opener(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    return lambda: cast(IO[bytes], archive.extractfile(entry))


def gunzip(path: Path) -> bytes:
    """The content of a gzip file; `DataError` when it is damaged or cut short."""
    try:
        most = _room(path.stat().st_size)
        content = bytearray()
        with gzip.open(path) as stream:
            while block := stream.read(2**20):
                content += block
                if len(content) > most:
                    raise DataError(f"{path.name} unpacks to more than {MOST_UNPACKED} times its size.")
        return bytes(content)
    except (EOFError, zlib.error, OSError):
        raise DataError(f"{path.name} is damaged or cut short: it could not be decompressed.") from None
