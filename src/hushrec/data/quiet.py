"""Errors of the libraries that parse files may quote a cell: here they become one sentence that does not."""

from __future__ import annotations

import csv
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

import polars as pl

from hushrec.errors import ConfigError, DataError


class Quiet:
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


@contextmanager
def readable(name: str) -> Iterator[None]:
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
