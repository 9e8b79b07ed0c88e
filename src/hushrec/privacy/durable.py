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
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hushrec.errors import BudgetError, ConfigError, HushrecError
from hushrec.privacy.accounting import Budget, Ledger, LedgerEntry, NonPrivate, gaussian_epsilon

FORMAT = "hushrec-ledger"
VERSION = 1
LARGEST_FILE = 16 * 2**20
LONGEST_LINE = 16_384
LOCK_SECONDS = 60.0
# Inside what `gaussian_mu` and `laplace_scale` leave unspent: 0.1 + 0.2 fits into 0.3.
TOLERANCE = 1e-12

Change = Callable[["Book"], dict[str, Any] | None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One fit on the data set: what it set aside, what it spent, and the digests of its answers."""

    name: str
    budget: Budget
    solver: str = ""
    seeded: bool = False
    opened: str = ""
    spent: Ledger
    answers: Mapping[str, str]
    closed: bool = False

    @property
    def cost(self) -> tuple[float, float]:
        """(mu, pure epsilon): what is spent and, while the run is open, all that is set aside."""
        mu, pure = self.spent.mu, self.spent.pure_epsilon
        if self.closed:
            return mu, pure
        gaussian = self.budget.delta > 0.0
        return max(mu, self.budget.mu if gaussian else 0.0), max(pure, 0.0 if gaussian else self.budget.epsilon)


@dataclass(frozen=True)
class Book:
    """What a ledger file says: total, runs, the checksums of its first and last line, and the bytes that count."""

    total: Budget
    runs: Mapping[str, Run]
    first: str
    last: str
    length: int

    @property
    def epsilon(self) -> float:
        """The epsilon that all runs together may have cost, at the total's delta."""
        costs = [run.cost for run in self.runs.values()]
        mu = math.hypot(*(mu for mu, _ in costs)) * (1.0 + 2.0**-50)
        pure = math.fsum(pure for _, pure in costs)
        return gaussian_epsilon(mu, self.total.delta) + pure

    @property
    def full(self) -> bool:
        """Whether the runs cost more than the total."""
        return not self.epsilon <= self.total.epsilon * (1.0 + TOLERANCE)


class LedgerFile:
    """The total budget of one data set, kept in a file that any number of processes share.

    **Guarantee**: the runs that it admits are together (ε, δ)-DP at the total, whatever crashes: what may have
    been spent is on disk before data is read, and a request that would pass the total is refused.
    """

    def __init__(self, path: str | os.PathLike[str], total: Budget | None = None) -> None:
        self.path = Path(path)
        if total is not None and not isinstance(total, Budget):
            raise ConfigError("total must be a Budget(epsilon, delta).")
        if total is None and not self.path.exists():
            raise ConfigError(f"There is no ledger at {self.path}: give total=Budget(...) to start one.")
        book = self.read() if total is None else self._start(total)
        if total not in (None, book.total):
            raise ConfigError(f"The ledger {self.path} has another total, and a total cannot be changed.")
        self.identity = book.first

    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"

    def read(self) -> Book:
        """All that the file says, checked."""
        with self._locked(os.O_RDONLY) as handle:
            return self._book(handle)

    def check(self, budget: Budget | NonPrivate) -> None:
        """Refuse a budget that does not fit into what is left, before any data is read."""
        self._with_run(self.read(), "", budget)

    def open_run(self, name: str, budget: Budget | NonPrivate, solver: str = "", *, seeded: bool = False) -> None:
        """Set the whole budget of a run aside; a run that is known already keeps what it has."""

        def change(book: Book) -> dict[str, Any] | None:
            if name in book.runs:
                return None
            asked = self._with_run(book, name, budget)
            return {"opens": asdict(asked.budget), "solver": solver[:100], "seeded": seeded}

        self._append(name, change)

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
                raise BudgetError(f"The run {name} is closed in the ledger {self.path}; no data was read.")
            self._require_room(book, replace(run, spent=run.spent.add(entry)))
            return {"spends": asdict(entry), "mu": entry.mu, "epsilon": entry.epsilon}

        self._append(name, change)

    def answer(self, name: str, label: str, digest: str) -> None:
        """Write down which answer leaves for a query that was paid for; refused when another one has left."""

        def change(book: Book) -> dict[str, Any] | None:
            run = self._known(book, name)
            if run.answers.get(label, digest) != digest or all(entry.name != label for entry in run.spent):
                raise BudgetError(f"Another answer to {label!r} has left already: this run is a copy.")
            return None if label in run.answers else {"answers": label, "digest": digest}

        self._append(name, change)

    def close_run(self, name: str) -> None:
        """End a run: it can spend no more, and what it set aside and did not spend is free again."""
        self._append(name, lambda book: None if self._known(book, name).closed else {"closes": True})

    def _known(self, book: Book, name: str) -> Run:
        if name not in book.runs:
            raise BudgetError(f"The ledger {self.path} knows no run {name!r}; no data was read.")
        return book.runs[name]

    def _with_run(self, book: Book, name: str, budget: Budget | NonPrivate) -> Run:
        if not isinstance(budget, Budget):
            raise ConfigError("A ledger cannot count a fit without a budget: NonPrivate() protects nothing.")
        kind = (book.total.relation, book.total.unit)
        if (budget.relation, budget.unit) != kind:
            raise ConfigError(f"The ledger {self.path} counts per {kind[1]} under {kind[0]}, unlike this fit.")
        run = Run(name=name, budget=budget, spent=Ledger(), answers={})
        self._require_room(book, run)
        return run

    def _require_room(self, book: Book, run: Run) -> None:
        if replace(book, runs={**book.runs, run.name: run}).full:
            raise BudgetError(
                f"The ledger {self.path} has ε = {book.epsilon:.6g} of its total {book.total.epsilon:g} spent or set "
                f"aside, and this fit would pass the total; no data was read."
            )

    # --- the file ---------------------------------------------------------------------------------

    def _start(self, total: Budget) -> Book:
        with self._locked(os.O_RDWR | os.O_CREAT) as handle:
            content = self._content(handle)
            begun = b'{"' + FORMAT.encode() + b'"'
            if b"\n" not in content and (content.startswith(begun) or begun.startswith(content)):
                # Nothing, or a first line that was cut: there is no ledger yet.
                salt = os.urandom(4).hex()
                self._write(handle, "", 0, {FORMAT: VERSION, "total": asdict(total), "at": _now(), "id": salt})
                sync_folder(self.path.absolute().parent)
            return self._book(handle)

    def _append(self, name: str, change: Change) -> None:
        with self._locked(os.O_RDWR) as handle:
            book = self._book(handle)
            record = change(book)
            if record is not None:
                self._write(handle, book.last, book.length, {"run": name, "at": _now(), **record})

    @contextmanager
    def _locked(self, flags: int) -> Iterator[int]:
        try:
            handle = os.open(self.path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or "the name is not usable"
            raise BudgetError(f"The ledger {self.path} could not be opened: {reason}; no data was read.") from None
        try:
            if not lock(handle, LOCK_SECONDS):
                raise BudgetError(f"The ledger {self.path} is locked by another process; no data was read.")
            yield handle
        finally:
            os.close(handle)

    def _content(self, handle: int) -> bytes:
        size = os.fstat(handle).st_size
        if size > LARGEST_FILE:
            raise BudgetError(f"{self.path} is larger than a ledger may be.")
        try:
            return os.pread(handle, size, 0)
        except OSError:
            raise BudgetError(f"The ledger {self.path} could not be read.") from None

    def _book(self, handle: int) -> Book:
        try:
            return parse(self._content(handle))
        except Damaged as problem:
            raise BudgetError(f"{self.path} is not a ledger, or is damaged at line {problem.line}.") from None

    def _write(self, handle: int, last: str, length: int, record: dict[str, Any]) -> None:
        try:
            line = _line(last, json.dumps(record, allow_nan=False).encode())
            os.ftruncate(handle, length)  # a torn last line was never in force
            write_all(handle, line, length)
            os.fsync(handle)
        except OSError as problem:
            with suppress(OSError):
                os.ftruncate(handle, length)
            reason = problem.strerror or "the disk refused"
            raise BudgetError(f"The ledger {self.path} could not be written: {reason}; no data was read.") from None


class Damaged(Exception):
    """A line of a ledger file that does not follow from the lines before it."""

    def __init__(self, line: int) -> None:
        self.line = line


def parse(content: bytes) -> Book:
    """The content of a ledger file, up to its last whole line; `Damaged` on anything unexpected."""
    total, first, last, length, number = None, "", "", 0, 1
    runs: dict[str, dict[str, Any]] = {}
    try:
        for number, line in enumerate(content.split(b"\n")[:-1], start=1):
            text = line.rpartition(b"  #")[0]
            if len(line) > LONGEST_LINE or _line(last, text) != line + b"\n":
                raise Damaged(number)
            record = json.loads(text)
            last, length = line[-16:].decode(), length + len(line) + 1
            if total is None:
                total, first = _total(record), last
            else:
                _follow(runs, record)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, HushrecError):
        raise Damaged(number) from None
    if total is None:
        raise Damaged(1)
    finished = {run["name"]: Run(**{**run, "spent": Ledger(tuple(run["spent"]))}) for run in runs.values()}
    return Book(total, finished, first, last, length)


def _total(record: Any) -> Budget:
    if record[FORMAT] != VERSION:
        raise ValueError("version")
    return Budget(**record["total"])


def _follow(runs: dict[str, dict[str, Any]], record: Any) -> None:
    name = record["run"]
    if "opens" in record and isinstance(name, str) and name not in runs:
        runs[name] = {"name": name, "budget": Budget(**record["opens"]), "solver": str(record["solver"])}
        runs[name] |= {"seeded": bool(record["seeded"]), "opened": str(record["at"]), "spent": [], "answers": {}}
    elif "spends" in record:
        runs[name]["spent"].append(LedgerEntry(**record["spends"]))
    elif "answers" in record:
        runs[name]["answers"][str(record["answers"])] = str(record["digest"])
    elif record["closes"] is True:
        runs[name]["closed"] = True
    else:
        raise ValueError("record")


def _line(last: str, text: bytes) -> bytes:
    return text + b"  #" + hashlib.sha256(last.encode() + text).hexdigest()[:16].encode() + b"\n"


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
    import fcntl  # a system without it can do all but this

    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
