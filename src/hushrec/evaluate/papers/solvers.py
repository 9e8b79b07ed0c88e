"""All solvers on the same data at the same exact budget with default settings: error, seconds, bytes per user.

Bytes are those of one user in a federated run: she downloads the public arrays of every question that she has not
got yet, and the release file; she uploads, for every question, one number (8 bytes) for each coordinate of the sum,
as secure aggregation needs, which hides even which of them are zero.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushrec.data.catalogs import load
from hushrec.data.fetch import identify
from hushrec.data.ratings import Ratings
from hushrec.data.split import split
from hushrec.data.synthetic import surrogate
from hushrec.engines.base import Job, Sums, Work
from hushrec.engines.local import LocalEngine
from hushrec.errors import ConfigError
from hushrec.evaluate.experiments import Cell, Experiment, Options
from hushrec.evaluate.metrics import evaluate
from hushrec.evaluate.plots import PlotSpec
from hushrec.fit import fit
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.release.file import Release
from hushrec.solvers.registry import USER_SOLVERS, solver_class

EPSILONS, DELTA, TEST = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0), 1e-6, 0.1
NUMBER = 8
RANKERS = ("implicit-posterior",)  # rank items by use and predict no rating: no error to compare


@dataclass
class CountingEngine:
    """The local engine, which also counts what one user would download and upload."""

    inner: LocalEngine = field(default_factory=LocalEngine)
    down: int = 0
    up: int = 0
    known: set[bytes] = field(default_factory=set)

    def attach(self, ratings: Ratings) -> CountingJob:
        """Lay the ratings out with the local engine."""
        return CountingJob(self, self.inner.attach(ratings))

    def count(self, work: Work) -> None:
        """Count the public arrays of a question that no earlier one had, and the coordinates of its sum."""
        for piece in pieces(getattr(work, "query", None)):
            content = piece.tobytes()
            name = hashlib.blake2b(content, digest_size=16).digest()
            if name not in self.known:
                self.known.add(name)
                self.down += len(content)
        query: Any = getattr(work, "query", None)
        self.up += NUMBER * query.coordinates(work.n_items)  # type: ignore[attr-defined]


@dataclass
class CountingJob:
    """A job whose questions are counted."""

    engine: CountingEngine
    inner: Job

    def total(self, work: Work) -> Sums:
        """The sum, after counting."""
        self.engine.count(work)
        return self.inner.total(work)


def pieces(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """All arrays inside a question, matrices row by row: what grows by a row is downloaded by the row."""
    if isinstance(value, np.ndarray):
        yield from value if value.ndim > 1 else (value,)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from pieces(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from pieces(getattr(value, item.name))


def importable() -> tuple[str, ...]:
    """The names of all registered solvers that can be imported and that predict ratings."""
    found = []
    for name in USER_SOLVERS:
        if name in RANKERS:
            continue
        try:
            solver_class(name)
        except ImportError:
            continue
        found.append(name)
    return tuple(found)


def ratings(options: Options) -> Ratings:
    """The caller's data set, recognised by its files; generated stars where none was given."""
    if not options.data:
        size = (400, 60, 15) if options.quick else (20_000, 800, 60)
        return surrogate(*size, seed=options.seed, levels=5)
    path = options.path("a known data set")
    entry = identify(path)
    if entry is None:
        raise ConfigError(f"{path} is none of the known data sets; 'hushrec data list' lists them.")
    return load(entry.name, path)


def _cells(options: Options) -> list[Cell]:
    seeds = range(options.seed, options.seed + (options.runs or (1 if options.quick else 3)))
    epsilons = options.epsilons or ((5.0, 20.0) if options.quick else EPSILONS)
    return [
        {"method": name, "epsilon": epsilon, "seed": seed}
        for name in importable()
        for seed in seeds
        for epsilon in (*epsilons, None)
    ]


def _run(cell: Cell, options: Options) -> dict[str, Any]:
    train, test = split(ratings(options), test=TEST, seed=cell["seed"])
    epsilon, engine = cell["epsilon"], CountingEngine()
    budget = NonPrivate() if epsilon is None else Budget(epsilon, DELTA)
    started = time.perf_counter()
    release = fit(train, solver_class(cell["method"])(), budget, seed=cell["seed"], engine=engine)
    seconds = time.perf_counter() - started
    figures = evaluate(release, train, test)
    return {
        "rmse": figures["rmse"],
        "mae": figures["mae"],
        "exact epsilon": release.guarantee.spent,
        "seconds": round(seconds, 3),
        "bytes down": engine.down + file_size(release),
        "bytes up": engine.up,
    }


def file_size(release: Release) -> int:
    """The bytes of the release file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.hush"
        release.save(path)
        return path.stat().st_size


EXPERIMENTS = (
    Experiment(
        name="all-solvers",
        title="All solvers at the same budget with default settings",
        about="10 % of the ratings held out at random, 3 runs (each with its own split), replace-one, δ = 1e-6, exact "
        "accounting, default settings; without --data, generated stars (20,000 users, 800 items, 60 ratings each). "
        "ε = – is without privacy. Bytes are one user's in a federated run with secure aggregation.",
        cells=_cells,
        run=_run,
        plot=PlotSpec(
            x="epsilon", y="rmse", x_label="ε (δ = 1e-6)", y_label="RMSE", log_x=True, level="without privacy"
        ),
    ),
)
