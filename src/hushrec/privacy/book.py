"""What a ledger file says: the total of a data set, its runs, and what they may have cost together.

Gaussian costs compose exactly and pure ones add to that, as in `accounting.Ledger`. A tuning, the best of a random
number of runs, has no mu; its Renyi divergence is known at every order, and adds to that of everything Gaussian
(`selection.py`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hushrec.errors import HushrecError
from hushrec.privacy.accounting import Budget, Ledger, LedgerEntry, gaussian_epsilon
from hushrec.privacy.selection import Selected, composed_epsilon

FORMAT = "hushrec-ledger"
VERSION = 1
LONGEST_LINE = 16_384
# Inside what `gaussian_mu` and `laplace_scale` leave unspent: 0.1 + 0.2 fits into 0.3.
TOLERANCE = 1e-12


class Cost(NamedTuple):
    """What a run may have cost: Gaussian mu, pure epsilon, and the selection that it made, if any."""

    mu: float
    pure: float
    selected: tuple[Selected, ...] = ()


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
    def cost(self) -> Cost:
        """What is spent and, while the run is open, all that is set aside."""
        mu, pure = self.spent.run_mu, self.spent.pure_epsilon
        if self.spent.selections:
            return self._selected(mu, pure)
        if self.closed:
            return Cost(mu, pure)
        # Set aside in the coin in which the run spends: what is left of it costs what the run may still cost.
        if self.budget.delta == 0.0 or pure > 0.0:
            left = self.budget.epsilon - (gaussian_epsilon(mu, self.budget.delta) if mu else 0.0)
            return Cost(mu, max(pure, left))
        return Cost(max(mu, self.budget.mu), pure)

    def _selected(self, mu: float, pure: float) -> Cost:
        """A selection among Gaussian runs has a proved price; with anything else it has none."""
        if len(self.spent.selections) > 1 or pure:
            return Cost(math.inf, pure)
        (entry,) = self.spent.selections
        return Cost(0.0, 0.0, (Selected(mu, entry.sensitivity, entry.scale),) if mu else ())


@dataclass(frozen=True)
class Book:
    """What a ledger file says: total, runs, the checksums of its first and last line, and the bytes that count.

    simulation: it is for seeded runs, which protect nobody.
    """

    total: Budget
    runs: Mapping[str, Run]
    first: str
    last: str
    length: int
    simulation: bool = False

    @property
    def epsilon(self) -> float:
        """The epsilon that all runs together may have cost, at the total's delta."""
        costs = [run.cost for run in self.runs.values()]
        mu = math.hypot(*(cost.mu for cost in costs)) * (1.0 + 2.0**-50)
        pure = math.fsum(cost.pure for cost in costs)
        selected = [one for cost in costs for one in cost.selected]
        delta = self.total.delta
        return (composed_epsilon(mu, selected, delta) if selected else gaussian_epsilon(mu, delta)) + pure

    @property
    def full(self) -> bool:
        """Whether the runs cost more than the total."""
        return not self.epsilon <= self.total.epsilon * (1.0 + TOLERANCE)


class Damaged(Exception):
    """A line of a ledger file that does not follow from the lines before it."""

    def __init__(self, line: int) -> None:
        self.line = line


def parse(content: bytes) -> Book:
    """The content of a ledger file, up to its last whole line; `Damaged` on anything unexpected."""
    total, first, last, length, number, simulation = None, "", "", 0, 1, False
    runs: dict[str, dict[str, Any]] = {}
    try:
        for number, line in enumerate(content.split(b"\n")[:-1], start=1):
            text = line.rpartition(b"  #")[0]
            if len(line) > LONGEST_LINE or chained(last, text) != line + b"\n":
                raise Damaged(number)
            record = json.loads(text)
            last, length = line[-16:].decode(), length + len(line) + 1
            if total is None:
                total, first, simulation = _total(record), last, record.get("simulation", False) is True
            else:
                _follow(runs, record)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, HushrecError):
        raise Damaged(number) from None
    if total is None:
        raise Damaged(1)
    finished = {run["name"]: Run(**{**run, "spent": Ledger(tuple(run["spent"]))}) for run in runs.values()}
    return Book(total, finished, first, last, length, simulation)


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


def chained(last: str, text: bytes) -> bytes:
    """A line of a ledger file: its text, and a checksum that covers all lines before it too."""
    return text + b"  #" + hashlib.sha256(last.encode() + text).hexdigest()[:16].encode() + b"\n"
