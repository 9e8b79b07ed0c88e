"""Experiments that repeat the papers' figures: cells (one run each), a resumable runner, a table and a plot.

An experiment lists its cells, JSON-able settings of one run each, and runs one cell at a time. The runner
appends one line to OUT/NAME.jsonl for every finished cell and flushes it, so that an interrupted run goes on
where it stopped; at the end it writes OUT/NAME.md and OUT/NAME.png from all lines.
Everything here is a simulation: it scores models on private ratings.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushrec.errors import ConfigError, DataError
from hushrec.evaluate.plots import PlotSpec, draw
from hushrec.evaluate.tables import Table, summarise

PAPERS = ("frank_wolfe", "factored", "onebit", "onebit_real", "onebit_flip", "solvers")
"""Modules of `hushrec.evaluate.papers`; each has a tuple `EXPERIMENTS`."""

Cell = dict[str, Any]
Progress = Callable[[int, int, Cell], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a caller may choose about an experiment; None and () leave it to the experiment.

    data: the user's own copies of data sets. runs: repetitions of each setting. tuned: the paper's grids of
    hyper-parameters instead of the defaults. quick: a small version, under a minute. out: folder for the results.
    """

    data: tuple[Path, ...] = ()
    runs: int | None = None
    epsilons: tuple[float, ...] | None = None
    tuned: bool = False
    quick: bool = False
    out: Path = Path("results")
    seed: int = 0

    def __post_init__(self) -> None:
        data = (self.data,) if isinstance(self.data, str | os.PathLike) else tuple(self.data or ())
        object.__setattr__(self, "data", tuple(Path(path) for path in data))
        object.__setattr__(self, "out", Path(self.out))
        if self.runs is not None and self.runs < 1:
            raise ConfigError(f"runs must be at least 1, not {self.runs}.")
        if self.epsilons is not None:
            object.__setattr__(self, "epsilons", tuple(float(epsilon) for epsilon in self.epsilons))
            if not self.epsilons or not all(0 < epsilon < math.inf for epsilon in self.epsilons):
                raise ConfigError(f"epsilons must be positive numbers, at least one, not {self.epsilons}.")

    def path(self, what: str) -> Path:
        """The one given data path; an error that says what is wanted where it was not given or is not there."""
        if len(self.data) != 1:
            raise ConfigError(f"This experiment needs one data path: {what}.")
        if not self.data[0].exists():
            raise ConfigError(f"There is nothing at {self.data[0]}; this experiment needs {what}.")
        return self.data[0]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One figure or table of a paper.

    about: data, split, relation and runs: what a reader of the figures must know. cells: the runs, each a dict
    of settings with a "seed". run: a cell's figures by name. summary: what becomes of all records (cell and
    figures in one dict); by default mean and spread over the seeds. tunable: whether there is a grid of
    hyper-parameters to try. fixed_epsilon: why a caller cannot choose ε, where she cannot.
    """

    name: str
    title: str
    about: str
    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Options], Mapping[str, Any]]
    summary: Callable[[list[dict[str, Any]]], Table] | None = None
    plot: PlotSpec | None = None
    tunable: bool = False
    fixed_epsilon: str | None = None

    def check(self, options: Options) -> None:
        """Refuse options that this experiment would ignore."""
        if options.tuned and not self.tunable:
            raise ConfigError(f"{self.name} has no grid of hyper-parameters to try, so tuned must be left out.")
        if options.epsilons is not None and self.fixed_epsilon is not None:
            raise ConfigError(f"{self.name} {self.fixed_epsilon}, so epsilon must be left out, not {options.epsilons}.")

    def remarks(self, options: Options) -> tuple[str, ...]:
        """What a reader must know of these results beside `about`: how the settings came to be."""
        chosen = (TUNED if options.tuned else DEFAULTS,) if self.tunable else ()
        return (*chosen, *((QUICK,) if options.quick else ()))


DEFAULTS = "Settings are the defaults: nothing was tuned."
TUNED = "Hyper-parameters were chosen on the test error itself. That choice was not charged to the budget."
QUICK = "Quick version: smaller generated data, fewer runs, fewer epsilons."


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an experiment came to: its records, their table, remarks on them, the files written, and new cells."""

    records: list[dict[str, Any]]
    table: Table
    files: tuple[Path, ...]
    ran: int
    remarks: tuple[str, ...] = ()


def __getattr__(name: str) -> Any:
    if name == "EXPERIMENTS":  # on first use, so that the runner imports no paper's solvers by itself
        found = {experiment.name: experiment for experiment in _registered()}
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _registered() -> Iterator[Experiment]:
    for paper in PAPERS:
        yield from importlib.import_module(f"hushrec.evaluate.papers.{paper}").EXPERIMENTS


def find_experiment(name: str) -> Experiment:
    """The experiment of this name; an unknown name is refused with the list of known ones.

    >>> find_experiment("fw-synthetic").name
    'fw-synthetic'
    """
    known: dict[str, Experiment] = __getattr__("EXPERIMENTS")
    if name not in known:
        raise ConfigError(f"There is no experiment {name!r}; known are: {', '.join(sorted(known))}.")
    return known[name]


def run_experiment(experiment: Experiment, options: Options, progress: Progress | None = None) -> Outcome:
    """Run the cells that are not in OUT/NAME.jsonl yet, then write the table and the plot of all cells.

    progress: called before each cell with (cells done, all cells, the cell).
    **Guarantee**: none; the figures are computed from private ratings. Do not publish them as private.
    """
    experiment.check(options)
    cells = experiment.cells(options)
    options.out.mkdir(parents=True, exist_ok=True)
    path, header = options.out / f"{experiment.name}.jsonl", _header(experiment, options)
    done = _finished(path, header)
    todo = [cell for cell in cells if _key(cell) not in done]
    for number, cell in enumerate(todo):
        if progress is not None:
            progress(len(cells) - len(todo) + number, len(cells), cell)
        started = time.perf_counter()
        figures = dict(experiment.run(dict(cell), options))
        figures.setdefault("seconds", round(time.perf_counter() - started, 3))
        done[_key(cell)] = {**cell, **_plain(figures)}
        _append(path, header, {"cell": cell, "figures": _plain(figures)})
    records = [done[_key(cell)] for cell in cells]
    table = experiment.summary(records) if experiment.summary else summarise(records, settings(cells))
    files = (path, *_report(experiment, options, table))
    return Outcome(records=records, table=table, files=files, ran=len(todo), remarks=experiment.remarks(options))


def settings(cells: list[Cell]) -> tuple[str, ...]:
    """What cells differ in, beside their seed."""
    return tuple(name for name in dict.fromkeys(key for cell in cells for key in cell) if name != "seed")


def _report(experiment: Experiment, options: Options, table: Table) -> tuple[Path, ...]:
    remarks = (experiment.about, *experiment.remarks(options))
    text = options.out / f"{experiment.name}.md"
    text.write_text("\n\n".join([f"# {experiment.title}", *remarks, table.markdown()]) + "\n", encoding="utf-8")
    if experiment.plot is None:
        return (text,)
    picture = options.out / f"{experiment.name}.png"
    return (text, picture) if draw(table, experiment.plot, experiment.title, picture) else (text,)


# --- the file of finished cells -------------------------------------------------------------------

RESULTS = (".jsonl", ".md", ".png")


def _header(experiment: Experiment, options: Options) -> dict[str, Any]:
    """What all lines of one file must have in common, beside what stands in the cells."""
    data = [fingerprint(path, options.out) for path in options.data]
    return {"experiment": experiment.name, "data": data, "tuned": options.tuned, "quick": options.quick}


def fingerprint(path: Path, out: Path) -> str:
    """A hash of what a file holds, or of all files of a folder and their names; results beside them are no data."""
    found = hashlib.blake2b(digest_size=16)
    try:
        if not path.exists():
            raise ConfigError(f"There is nothing at {path}.")
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            if file.suffix in RESULTS and file.parent.resolve() == out.resolve():
                continue
            with file.open("rb") as content:
                inside = [file.relative_to(path).as_posix(), hashlib.file_digest(content, "blake2b").hexdigest()]
            found.update(json.dumps(inside).encode())
    except OSError:
        raise DataError(f"{path} cannot be read as a whole.") from None
    return found.hexdigest()


def _finished(path: Path, header: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The records of an earlier run by cell; a torn last line, or a header without any result, is cut off."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    first, *rest = [_parsed(line, path) for line in whole.splitlines()] or [header]
    keep = len(whole) if rest else 0
    if keep < len(content):
        os.truncate(path, keep)
    if rest and first != header:
        raise ConfigError(f"{path} holds results of other data or other options; choose another folder, or remove it.")
    return {_key(line["cell"]): {**line["cell"], **line["figures"]} for line in rest}


def _parsed(line: bytes, path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or not (parsed.keys() >= {"cell", "figures"} or "experiment" in parsed):
        raise DataError(f"{path} holds a line that is no result of an experiment; remove the file to start again.")
    return parsed


def _append(path: Path, header: dict[str, Any], record: dict[str, Any]) -> None:
    """One more line, on the disk before the next cell is run; the first one brings the header with it."""
    first = not path.exists() or path.stat().st_size == 0
    with path.open("a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(line, allow_nan=False) + "\n" for line in ([header] if first else []) + [record])
        lines.flush()
        os.fsync(lines.fileno())


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True, allow_nan=False)


def _plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures as plain JSON values; what is not finite becomes null."""
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in figures.items()}
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in plain.items()}
