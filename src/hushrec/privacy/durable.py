"""A budget that survives crashes: the ledger file of a data set, shared by all fits on it.

One line a record: JSON, then a checksum that covers all lines before it too. A record is appended under a file
lock and is on disk before what it announces happens, so a crash can lose a spend that was never used, and never
forget one that was. The records, after the total of the data set in the first line:

  opens    a run begins and sets its whole budget aside; refused if that would pass the total
  spends   one query is paid for, before data is read and noise is drawn
  answers  the noisy answer with this digest is the one that leaves; no second one ever will
  closes   a run ends: it can spend no more, and what it set aside beyond its spends is free again

A last line without its end was cut by a crash before it was in force: it does not count, and the next record
takes its place. Times are for the reader; no rule looks at a clock.

A ledger is for real runs or, as its first line says, for a simulation, whose runs are seeded: their noise can be
taken off, so they count for nothing and may not stand among runs that do.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hushrec.errors import BudgetError, ConfigError
from hushrec.privacy.accounting import Budget, Ledger, LedgerEntry, NonPrivate
from hushrec.privacy.book import FORMAT, LONGEST_LINE, VERSION, Book, Damaged, Run, chained, parse

LARGEST_FILE = 16 * 2**20
LOCK_SECONDS = 60.0

Change = Callable[["Book"], dict[str, Any] | None]


class LedgerFile:
    """The total budget of one data set, kept in a file that any number of processes share.

    **Guarantee**: the runs that it admits are together (ε, δ)-DP at the total, whatever crashes: what may have
    been spent is on disk before data is read, and a request that would pass the total is refused.
    """

    def __init__(self, path: str | os.PathLike[str], total: Budget | None = None, *, simulation: bool = False) -> None:
        self.path = Path(path)
        if total is not None and not isinstance(total, Budget):
            raise ConfigError("total must be a Budget(epsilon, delta).")
        if total is None and not self.path.exists():
            raise ConfigError(f"There is no ledger at {self.path}: give total=Budget(...) to start one.")
        self._seen = 0, ""
        with _closing("no data was read"):
            book = self.read() if total is None else self._start(total, simulation)
        if total not in (None, book.total):
            raise ConfigError(f"The ledger {self.path} has another total, and a total cannot be changed.")
        if total is not None and simulation != book.simulation:
            kind = "a simulation" if book.simulation else "real runs"
            raise ConfigError(f"The ledger {self.path} was started for {kind}, and that cannot be changed.")
        self.identity = book.first

    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"

    def read(self) -> Book:
        """All that the file says, checked."""
        with self._locked(os.O_RDONLY) as handle:
            return self._book(handle)

    def check(self, budget: Budget | NonPrivate, *, seeded: bool = False) -> None:
        """Refuse a run that this ledger cannot count, or that does not fit into what is left, before data is read."""
        with _closing("no data was read"):
            self._with_run(self.read(), "", budget, seeded)

    def open_run(self, name: str, budget: Budget | NonPrivate, solver: str = "", *, seeded: bool = False) -> None:
        """Set the whole budget of a run aside; a run that is known already keeps what it has."""

        def change(book: Book) -> dict[str, Any] | None:
            if name in book.runs:
                return None
            asked = self._with_run(book, name, budget, seeded)
            return {"opens": asdict(asked.budget), "solver": solver[:100], "seeded": seeded}

        self._append(name, change, "no data was read")

    def spend(self, name: str, entry: LedgerEntry) -> None:
        """Write a spend down, before it happens; what the run paid for before a crash is not paid for again."""

        def change(book: Book) -> dict[str, Any] | None:
            run = self._known(book, name)
            paid = next((old for old in run.spent if old.name == entry.name), None)
            if paid is not None and (entry.name in run.answers or entry.mu > paid.mu or entry.epsilon > paid.epsilon):
                raise BudgetError(f"{entry.name!r} was answered already, or for less, in another copy of this run.")
            if paid is not None:
                return None
            if run.closed:
                raise BudgetError(f"The run {name} is closed in the ledger {self.path}.")
            self._require_room(book, replace(run, spent=run.spent.add(entry)))
            return {"spends": asdict(entry), "mu": entry.mu, "epsilon": entry.epsilon}

        self._append(name, change, f"no data was read for {entry.name!r}")

    def answer(self, name: str, label: str, digest: str) -> None:
        """Write down which answer leaves for a query that was paid for; refused when another one has left."""

        def change(book: Book) -> dict[str, Any] | None:
            run = self._known(book, name)
            if run.answers.get(label, digest) != digest or all(entry.name != label for entry in run.spent):
                raise BudgetError(f"Another answer to {label!r} has left already: this run is a copy.")
            return None if label in run.answers else {"answers": label, "digest": digest}

        self._append(name, change, f"this answer to {label!r} was not released")

    def close_run(self, name: str) -> None:
        """End a run: it can spend no more, and what it set aside and did not spend is free again."""

        def change(book: Book) -> dict[str, Any] | None:
            return None if self._known(book, name).closed else {"closes": True}

        self._append(name, change, "no run was closed")

    def _known(self, book: Book, name: str) -> Run:
        if name not in book.runs:
            raise BudgetError(f"The ledger {self.path} knows no run {name!r}.")
        return book.runs[name]

    def _with_run(self, book: Book, name: str, budget: Budget | NonPrivate, seeded: bool) -> Run:
        if not isinstance(budget, Budget):
            raise ConfigError("A ledger cannot count a fit without a budget: NonPrivate() protects nothing.")
        kind = (book.total.relation, book.total.unit)
        if (budget.relation, budget.unit) != kind:
            raise ConfigError(f"The ledger {self.path} counts per {kind[1]} under {kind[0]}, unlike this fit.")
        if seeded and not book.simulation:
            raise ConfigError(
                f"The ledger {self.path} counts real runs, and a seeded one has no guarantee: leave the seed out, or "
                f"use a ledger that was started for a simulation."
            )
        if book.simulation and not seeded:
            raise ConfigError(f"The ledger {self.path} was started for a simulation: it takes seeded runs only.")
        if budget.delta > 0.0 == book.total.delta:
            raise ConfigError(
                f"The total of the ledger {self.path} has δ = 0, and this fit asks for δ = {budget.delta:g}: Gaussian "
                f"noise needs a total with a δ above 0, which must be given when a ledger is started."
            )
        run = Run(name=name, budget=budget, spent=Ledger(), answers={})
        self._require_room(book, run)
        return run

    def _require_room(self, book: Book, run: Run) -> None:
        after = replace(book, runs={**book.runs, run.name: run})
        if after.full:
            raise BudgetError(
                f"The ledger {self.path} has ε = {book.epsilon:.6g} of its total {book.total.epsilon:g} spent or set "
                f"aside, and this fit would pass the total: together ε = {after.epsilon:.6g} at δ = "
                f"{book.total.delta:g}."
            )

    # --- the file ---------------------------------------------------------------------------------

    def _start(self, total: Budget, simulation: bool) -> Book:
        with self._locked(os.O_RDWR | os.O_CREAT) as handle:
            content = self._content(handle)
            begun = b'{"' + FORMAT.encode() + b'"'
            if b"\n" not in content and (content.startswith(begun) or begun.startswith(content)):
                # Nothing, or a first line that was cut: there is no ledger yet.
                first = {FORMAT: VERSION, "total": asdict(total), "at": _now(), "id": os.urandom(4).hex()}
                self._write(handle, "", 0, {**first, "simulation": True} if simulation else first)
                try:
                    sync_folder(self.path.resolve().parent)
                except OSError as problem:
                    raise BudgetError(f"The ledger {self.path} could not be written: {problem.strerror}.") from None
            return self._book(handle)

    def _append(self, name: str, change: Change, refused: str) -> None:
        with _closing(refused), self._locked(os.O_RDWR) as handle:
            book = self._book(handle)
            record = change(book)
            if record is not None:
                self._write(handle, book.last, book.length, {"run": name, "at": _now(), **record})

    @contextmanager
    def _locked(self, flags: int) -> Iterator[int]:
        handle = self._opened(flags)
        try:
            yield handle
            if not self._is_here(handle):
                raise BudgetError(f"The ledger {self.path} was moved while it was used.")
        finally:
            os.close(handle)

    def _opened(self, flags: int) -> int:
        """The file, locked; opened again where another one took its name while this process waited for the lock."""
        while True:
            try:
                handle = os.open(self.path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
            except (OSError, ValueError) as problem:
                reason = getattr(problem, "strerror", None) or "the name is not usable"
                raise BudgetError(f"The ledger {self.path} could not be opened: {reason}.") from None
            try:
                if not lock(handle, LOCK_SECONDS):
                    raise BudgetError(f"The ledger {self.path} is locked by another process.")
                if self._is_here(handle):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _is_here(self, handle: int) -> bool:
        """Whether the open file is still the one that its name leads to, by whatever links."""
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path))
        except OSError:
            return False

    def _content(self, handle: int) -> bytes:
        size = os.fstat(handle).st_size
        if size > LARGEST_FILE:
            raise BudgetError(f"{self.path} is larger than a ledger may be.")
        try:
            return os.pread(handle, size, 0)
        except OSError:
            raise BudgetError(f"The ledger {self.path} could not be read.") from None

    def _book(self, handle: int) -> Book:
        content = self._content(handle)
        try:
            book = parse(content)
        except Damaged as problem:
            raise BudgetError(f"{self.path} is not a ledger, or is damaged at line {problem.line}.") from None
        length, last = self._seen
        if not content[:length].endswith(f"{last}\n".encode() if length else b""):
            raise BudgetError(
                f"The ledger {self.path} is not the file that it was: another or an older copy has taken its place."
            )
        self._seen = book.length, book.last
        return book

    def _write(self, handle: int, last: str, length: int, record: dict[str, Any]) -> None:
        try:
            line = chained(last, json.dumps(record, allow_nan=False).encode())
            if len(line) > LONGEST_LINE or length + len(line) > LARGEST_FILE:  # nobody could read it again
                raise BudgetError(f"The ledger {self.path} takes no line that is so long, or is full.")
            os.ftruncate(handle, length)  # a torn last line was never in force
            write_all(handle, line, length)
            os.fsync(handle)
            self._seen = length + len(line), line[-17:-1].decode()
        except OSError as problem:
            with suppress(OSError):
                os.ftruncate(handle, length)
            reason = problem.strerror or "the disk refused"
            raise BudgetError(f"The ledger {self.path} could not be written: {reason}.") from None


@contextmanager
def _closing(consequence: str) -> Iterator[None]:
    """End every refusal with what is true of the data at this point."""
    try:
        yield
    except BudgetError as refusal:
        raise BudgetError(f"{str(refusal).removesuffix('.')}; {consequence}.") from None


# --- files ----------------------------------------------------------------------------------------


def write_all(handle: int, content: bytes, offset: int) -> None:
    """Write all bytes at an offset, however few the system takes at a time."""
    while content:
        written = os.pwrite(handle, content, offset)
        content, offset = content[written:], offset + written


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(handle: int, seconds: float) -> bool:
    """Lock an open file for this process alone, for as long as it is open; False where another keeps it."""
    try:
        import fcntl  # a system without it can do all but this
    except ImportError:
        raise BudgetError("This system cannot lock files, which ledgers and runs that go on need.") from None
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        except OSError as problem:
            raise BudgetError(f"This file system cannot lock files: {problem.strerror}.") from None


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
