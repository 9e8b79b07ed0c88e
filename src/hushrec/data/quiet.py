"""Errors of the libraries that parse files may quote a cell: here they become one sentence that does not."""

from __future__ import annotations

import csv
import os
import sys
import tarfile
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import PurePosixPath
from types import TracebackType

import polars as pl

from hushrec.errors import ConfigError, DataError

_ONE_AT_A_TIME = threading.RLock()


class Quiet:
    """Replaces the errors of the reading library, which may quote cells, by one sentence that does not."""

    def __init__(self, where: str, kind: str) -> None:
        self.where, self.kind = where, kind
        self._muffled = ExitStack()

    def __enter__(self) -> None:
        self._muffled.enter_context(muffled())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._muffled.__exit__(kind, error, trace)
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
def muffled() -> Iterator[None]:
    """Hold back what is written to file descriptor 2 meanwhile, and drop it after a failure.

    A library in Rust that panics tells so there, past Python: a few lines, or a whole traceback, for every thread.
    """
    with _ONE_AT_A_TIME:
        try:
            sys.stderr.flush()
            real = os.dup(2)
        except (OSError, ValueError, AttributeError):  # there is no standard error to write to
            yield
            return
        with os.fdopen(real, "wb", buffering=0) as shown, tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), 2)
            try:
                yield
                failed = False
            except BaseException:
                failed = True
                raise
            finally:
                with suppress(OSError, ValueError, AttributeError):
                    sys.stderr.flush()
                os.dup2(real, 2)
                if not failed:
                    held.seek(0)
                    shown.write(held.read())


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turns every way in which a damaged file or archive fails into one sentence without its content."""
    where = PurePosixPath(name).name
    try:
        with muffled():
            yield
    except DataError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError, csv.Error):
        raise DataError(f"{where} is not in the published format of this dataset.") from None
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, RuntimeError, ValueError):
        raise DataError(f"{where} could not be read: it is damaged, cut short or locked.") from None
