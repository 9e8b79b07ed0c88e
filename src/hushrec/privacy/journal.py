"""The journal of one run: what the curator writes down around each release, so that the run survives a crash.

In the ledger: a spend, before data is read; which answer leaves, before the solver sees it. In the folder: one file
for each answer, exactly the noisy numbers that leave. A run that goes on recalls these answers: no new noise, no new
spend. A spend without an answer was seen by nobody, so that query is answered now, at the cost already paid.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.errors import BudgetError, ConfigError
from hushrec.privacy.accounting import Budget, LedgerEntry, NonPrivate
from hushrec.privacy.durable import LedgerFile, lock, sync_folder, write_all
from hushrec.privacy.noise import BitSource, SeededBits

Arrays = tuple[NDArray[np.float64], ...]


class Journal:
    """What one run writes down around each release, in a ledger file, a folder, both or neither.

    **Guarantee**: of each planned query at most one noisy answer ever leaves the curator, and its cost stands in
    the ledger before; the folder holds nothing but answers that left.
    """

    def __init__(
        self,
        budget: Budget | NonPrivate,
        *,
        ledger: LedgerFile | None = None,
        folder: str | os.PathLike[str] | None = None,
        solver: str = "",
        settings: Mapping[str, Any] | None = None,
        seeded: bool = False,
    ) -> None:
        if not budget.private and (ledger is not None or folder is not None):
            raise ConfigError("A fit with NonPrivate() can use neither ledger nor resume: it protects nothing.")
        self._ledger, self._folder, self._lock = ledger, None if folder is None else Path(folder), -1
        self._name = os.urandom(6).hex()
        fit = {**(settings or {}), "ledger": None if ledger is None else ledger.identity}
        try:
            if self._folder is not None:
                self._name = self._claim(self._folder, json.loads(json.dumps(fit)))
            if ledger is not None:
                ledger.open_run(self._name, budget, solver, seeded=seeded)
        except BaseException:
            self._unlock()
            raise

    def recall(self, entry: LedgerEntry, bits: BitSource) -> Arrays | None:
        """The answer that this run gave before it was interrupted, if it did."""
        path = self._path(entry)
        if path is None or not path.exists():
            return None
        try:
            content = _content(path)
            head, _, body = content.partition(b"\n")
            header = json.loads(head)
            if header.pop("checksum") != _digest(header, body):
                raise ValueError("checksum")
            shapes, drawn, known = header["shapes"], int(header["drawn"]), header["entry"]
            if not all(type(size) is int and 0 <= size <= len(body) for shape in shapes for size in shape):
                raise ValueError("shapes")  # a product with anything else may be of any size
            numbers = np.frombuffer(body, dtype="<f8").astype(np.float64)
            cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
            parts = tuple(part.reshape(shape) for part, shape in zip(np.split(numbers, cuts), shapes, strict=True))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise BudgetError(
                f"The answer {path} of the interrupted run is damaged; no data was read for {entry.name!r}."
            ) from None
        if known != asdict(entry):
            raise BudgetError(
                f"The answer {path} is not to the question {entry.name!r}; no data was read for {entry.name!r}."
            )
        self._announce(entry, content)
        if isinstance(bits, SeededBits):
            bits.skip(drawn - bits.drawn)
        return parts

    def spend(self, entry: LedgerEntry) -> None:
        """Put the cost of a release on disk, before data is read and noise is drawn."""
        if self._ledger is not None:
            self._ledger.spend(self._name, entry)

    def record(self, entry: LedgerEntry, parts: Arrays, bits: BitSource) -> None:
        """Put an answer on disk, before anyone sees it."""
        path = self._path(entry)
        if path is None:
            return
        body = b"".join(np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts)
        drawn = bits.drawn if isinstance(bits, SeededBits) else 0
        header = {"entry": asdict(entry), "shapes": [list(part.shape) for part in parts], "drawn": drawn}
        content = json.dumps({**header, "checksum": _digest(header, body)}).encode() + b"\n" + body
        _write_whole(path, content, f"the answer to {entry.name!r} was not released")
        try:
            self._announce(entry, content)
        except BudgetError:  # another answer has left: this one leaves in no way, not as a file either
            path.unlink(missing_ok=True)
            raise

    def close(self, finished: bool) -> None:
        """End the run; an unfinished one that can be resumed stays open in the ledger."""
        if self._ledger is not None and (finished or self._folder is None):
            with suppress(BudgetError):  # it then stays open: more than was spent is counted, never less
                self._ledger.close_run(self._name)
        self._unlock()

    def _announce(self, entry: LedgerEntry, content: bytes) -> None:
        if self._ledger is not None:
            self._ledger.answer(self._name, entry.name, hashlib.sha256(content).hexdigest()[:16])

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _path(self, entry: LedgerEntry) -> Path | None:
        # Labels are chosen by solvers: the name of the file is a hash, the label stands inside.
        name = hashlib.sha256(entry.name.encode()).hexdigest()[:24]
        return None if self._folder is None else self._folder / f"{name}.answer"

    def _claim(self, folder: Path, settings: dict[str, Any]) -> str:
        """Take the folder for this process alone, and return the name of the run that it belongs to."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or "the name is not usable"
            raise BudgetError(f"The folder {folder} cannot be used to resume: {reason}.") from None
        if not lock(self._lock, 0.0):
            raise BudgetError(f"Another fit is at work in the folder {folder}; no data was read.")
        path = folder / "run.json"
        if not path.exists():
            _write_whole(path, json.dumps({"run": self._name, "fit": settings}, indent=1).encode(), "no data was read")
        try:
            known = json.loads(_content(path))
            name, fit = str(known["run"]), known["fit"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            raise BudgetError(f"{path} is damaged: this run cannot be resumed.") from None
        if fit != settings:
            raise ConfigError(f"The folder {folder} belongs to a fit with other settings or another ledger.")
        return name


def answers_in(folder: str | os.PathLike[str]) -> set[str]:
    """The names of the answers that a folder of an interrupted run holds."""
    return {path.name for path in Path(folder).glob("*.answer")}


def run_in(folder: str | os.PathLike[str]) -> str | None:
    """The name of the run that a folder says it belongs to, if it says one; a `Journal` checks whether it does."""
    try:
        return str(json.loads(_content(Path(folder, "run.json")))["run"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _content(path: Path) -> bytes:
    """What a file holds; anything else under its name, such as a pipe, might keep its reader waiting without end."""
    if not path.is_file():
        raise ValueError("no file")
    return path.read_bytes()


def _write_whole(path: Path, content: bytes, refused: str) -> None:
    """Write a file completely or not at all, and know that it is on disk; `refused`: what is true where it fails."""
    part = path.with_name(path.name + ".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        try:
            handle = os.open(part, flags, 0o666)
        except FileExistsError:  # what a crash left there, or a link to somewhere else
            part.unlink()
            handle = os.open(part, flags, 0o666)
        try:
            write_all(handle, content, 0)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(part, path)
        sync_folder(path.parent)
    except OSError as problem:
        with suppress(OSError):
            part.unlink()
        raise BudgetError(f"{path} could not be written: {problem.strerror}; {refused}.") from None


def _digest(header: dict[str, Any], body: bytes) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + b"\n" + body).hexdigest()
