"""The one-bit paper's experiments on real data (its Figures 2, 3), by how often the likelier answer is right.

Twice: by M̂ itself, the paper's figure, and on a user's own device with her own answers. Methods and settings are
those of `onebit.py`; what is public knowledge here are the ratings of other people.
"""

from __future__ import annotations

import functools
import io
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.catalogs import load
from hushrec.data.ratings import Ratings
from hushrec.data.split import split
from hushrec.errors import ConfigError, DataError
from hushrec.evaluate.experiments import Cell, Experiment, Options
from hushrec.evaluate.metrics import evaluate
from hushrec.evaluate.papers.onebit import (
    CLEAR,
    FORMS,
    PAPER,
    RUNS,
    SETTINGS,
    USER_LEVEL,
    budget_of,
    is_proved,
    make_cells,
    make_solver,
    user_solver,
)
from hushrec.evaluate.plots import PlotSpec
from hushrec.evaluate.tables import Table, summarise
from hushrec.fit import fit, learn
from hushrec.onebit.completion import Matrix
from hushrec.onebit.model import released
from hushrec.onebit.solver import OneBit
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.privacy.curator import Curator
from hushrec.release.complete import predict_at
from hushrec.release.file import Release

KNOWN_SHARE, KNOWN_ALPHA = 0.3, 1.0
"""τ/(α √(d1 d2)) and α that served best on MovieLens 1M, whose users are others: `benchmarks/onebit_public.py`."""
REAL_SETTINGS = {**SETTINGS, "public": {**PAPER, "rank": KNOWN_SHARE**2, "alpha": KNOWN_ALPHA}}
LEVELS = ("majority class", "own answers alone")
"""What is known without anybody else's ratings, or next to none of them."""
SPLITS = 5


def completed(
    train: Ratings, solver: OneBit, budget: Budget | NonPrivate, seed: int
) -> tuple[Matrix, Release, Curator]:
    """The completed matrix and the release of one and the same run."""
    curator = Curator(train, budget, seed=seed)
    threshold, completion = solver.complete(curator)
    model = released(solver, completion, threshold, curator)
    done: Any = SimpleNamespace(solve=lambda _: model)
    return completion.matrix, learn(curator, done, seed), curator


def accuracies(train: Ratings, test: Ratings, threshold: float, cell: Cell) -> dict[str, Any]:
    """One run: accuracy of M̂ and on the device, and that of the levels to compare with."""
    wanted = _answers(test, threshold)
    if cell["method"] in USER_LEVEL:
        return _user_level(train, test, threshold, cell) | _levels(train, wanted, test, threshold)
    pattern = Curator(train, budget_of(cell)).pattern
    solver = make_solver(cell, REAL_SETTINGS[cell["settings"]], pattern, threshold=threshold)
    matrix, release, curator = completed(train, solver, budget_of(cell), cell["seed"])
    rows = np.repeat(np.arange(test.n_users), np.diff(test.indptr))
    found = matrix.entries(rows, test.indices) > 0
    return {
        "accuracy": float(np.mean(found == wanted)),
        "on the device": evaluate(release, train, test)["accuracy"],
        "proved": is_proved(curator),
    } | _levels(train, wanted, test, threshold)


def _answers(ratings: Ratings, threshold: float) -> NDArray[np.bool_]:
    return np.asarray(ratings.values > np.float32(threshold))


def _levels(train: Ratings, wanted: NDArray[np.bool_], test: Ratings, threshold: float) -> dict[str, float]:
    """Accuracy of the commoner answer of the test ratings, and of what each user mostly answered in training."""
    rows = np.repeat(np.arange(train.n_users), np.diff(train.indptr))
    leaning = np.bincount(rows, 2.0 * _answers(train, threshold) - 1.0, minlength=train.n_users)
    own = np.repeat(leaning > 0.0, np.diff(test.indptr))
    share = float(np.mean(wanted))
    return dict(zip(LEVELS, (max(share, 1.0 - share), float(np.mean(own == wanted))), strict=True))


def _user_level(train: Ratings, test: Ratings, threshold: float, cell: Cell) -> dict[str, Any]:
    """Yes and no as values 1 and 0; a user's row of M̂ is what her device makes of the release."""
    known, wanted = (
        replace(part, values=_answers(part, threshold).astype(float), value_range=(0.0, 1.0)) for part in (train, test)
    )
    release = fit(known, user_solver(cell), budget_of(cell), seed=cell["seed"])
    rows = known.indptr, known.indices, known.values.astype(np.float64)
    found = predict_at(release, rows, (wanted.indptr, wanted.indices)) > 0.5
    right = float(np.mean(found == (wanted.values > 0.5)))
    return {"accuracy": right, "on the device": right, "proved": "yes"}


# --- MovieLens 100K: Figure 2 ---------------------------------------------------------------------


def _ml100k_cells(options: Options) -> list[Cell]:
    options.path("MovieLens 100K as published (ml-100k.zip, or its folder)")
    if options.quick:  # all of it is over a thousand fits
        return make_cells(options, 1, quick=(2.0, 8.0), settings=("ours",), links=("logistic",), split=(1,))
    return make_cells(options, 1, quick=(), split=tuple(range(1, SPLITS + 1)))


def _ml100k_run(cell: Cell, options: Options) -> dict[str, Any]:
    path = options.path("MovieLens 100K")
    train, test = (published_part(path, f"u{cell['split']}.{part}") for part in ("base", "test"))
    return accuracies(train, test, 3.5, cell)


@functools.lru_cache(maxsize=2)
def published_part(path: Path, name: str) -> Ratings:
    """One of the parts into which MovieLens 100K comes split, users and items numbered as published."""
    try:
        if path.is_dir():
            content = (path / name).read_bytes()
        else:
            with zipfile.ZipFile(path) as archive:
                content = archive.read(next(one for one in archive.namelist() if one.rpartition("/")[2] == name))
        table = np.loadtxt(io.BytesIO(content), dtype=np.int64, usecols=(0, 1, 2), ndmin=2)
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile):
        raise DataError(
            f"{path} holds no readable {name}: this experiment needs MovieLens 100K as published."
        ) from None
    if len(table) == 0 or table[:, 0].max() > 943 or table[:, 1].max() > 1682:
        raise ConfigError(f"{name} is not that of MovieLens 100K.")
    return Ratings.from_codes(
        table[:, 0] - 1, table[:, 1] - 1, table[:, 2], items=np.arange(1, 1683), value_range=(1.0, 5.0), n_users=943,
        catalogue="declared",
    )  # fmt: skip


# --- restaurants: Figure 3 ------------------------------------------------------------------------


def _restaurant_cells(options: Options) -> list[Cell]:
    options.path("the UCI restaurant and consumer data (rating_final.csv, or its folder)")
    return make_cells(options, 10, quick=(2.0, 8.0))


def _restaurant_run(cell: Cell, options: Options) -> dict[str, Any]:
    train, test = split(_restaurants(options.path("the restaurant data")), test=0.2, seed=cell["seed"])
    return accuracies(train, test, 1.5, cell)


@functools.lru_cache(maxsize=1)
def _restaurants(path: Path) -> Ratings:
    return load("restaurant", path)


# --- the list -------------------------------------------------------------------------------------


def _summary(records: list[dict[str, Any]]) -> Table:
    """Mean and spread over splits and runs, and the levels as methods of their own."""
    levels = [
        {**record, "method": level, **dict.fromkeys(("accuracy", "on the device"), record[level])}
        for level in LEVELS
        for record in records
        if record["method"] == CLEAR
    ]
    hidden = ("split", *LEVELS)
    plain = [{name: value for name, value in one.items() if name not in hidden} for one in [*records, *levels]]
    return summarise(plain, ("link", "settings", "method", "epsilon"), spread=("accuracy", "on the device"))


DEVICE = (
    " Accuracy of M̂ at the test ratings, and on each user's own device with her own answers; at user level there is "
    "no other M̂ than that. 'own answers alone': what each user mostly answered, a model that knows nobody else. "
    "Public knowledge: τ and α that serve on MovieLens 1M, of other people."
)
PLOT = PlotSpec(
    x="epsilon", y="accuracy", x_label="ε", y_label="accuracy of M̂", log_x=True, down="settings", across="link"
)

EXPERIMENTS = (
    Experiment(
        name="onebit-ml100k",
        title="One-bit completion of MovieLens 100K (Figure 2)",
        about="MovieLens 100K on its own splits u1 to u5 (quick: u1, our settings, logistic), yes: 4 or 5 stars."
        f"{RUNS} fits, one a split.{FORMS}{DEVICE}",
        cells=_ml100k_cells,
        run=_ml100k_run,
        summary=_summary,
        plot=PLOT,
    ),
    Experiment(
        name="onebit-restaurant",
        title="One-bit completion of restaurant ratings (Figure 3)",
        about="UCI restaurant and consumer data, yes: the highest of three values, 8:2 at random."
        f"{RUNS} splits (10 in full).{FORMS}{DEVICE}",
        cells=_restaurant_cells,
        run=_restaurant_run,
        summary=_summary,
        plot=PLOT,
    ),
)
