"""Experiments of the one-bit paper (Li, Fang, Feng, Ye 2021): Figures 1 to 5, and what they lack.

Methods named as in the paper have its settings: α = 1, τ = α √(d1 d2), no effects, its own forms of the objective
and output mechanisms. "Ours" have the library's defaults, and "user level" lines protect all of a user's answers
and which items they are about. Errors: ARE = ‖M̂ − M‖²/‖M‖² where M is known, else how often the likelier answer
is right, once by M̂ itself and once on a user's own device. The paper does not say how many gradients it takes: 10.
"""

from __future__ import annotations

import functools
import io
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.catalogs import load
from hushrec.data.ratings import Ratings
from hushrec.data.split import split
from hushrec.errors import ConfigError, DataError
from hushrec.evaluate.experiments import Cell, Experiment, Options
from hushrec.evaluate.metrics import evaluate
from hushrec.evaluate.plots import PlotSpec
from hushrec.evaluate.tables import Table, summarise
from hushrec.fit import fit
from hushrec.onebit.bounds import Problem, clear_bound, input_bound, objective_bound, output_bound
from hushrec.onebit.links import make_link
from hushrec.onebit.solver import OneBit
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.privacy.curator import Curator
from hushrec.solvers.frank_wolfe import FrankWolfe
from hushrec.solvers.posterior import Posterior

SIZE, SHARE, DELTA = 100, 0.15, 1e-6
EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
LINKS = ("logistic", "probit")
PAPER = {"rank": 1.0, "alpha": 1.0, "effects": False}
METHODS: dict[str, OneBit] = {
    "Clear": OneBit(mechanism="none", **PAPER),  # type: ignore[arg-type]
    "InP": OneBit(mechanism="input", **PAPER),  # type: ignore[arg-type]
    "ObjP": OneBit(mechanism="objective", form="paper", **PAPER),  # type: ignore[arg-type]
    "GraP": OneBit(mechanism="gradient", gradient_rounds=10, **PAPER),  # type: ignore[arg-type]
    "OutP": OneBit(mechanism="output", form="paper", **PAPER),  # type: ignore[arg-type]
    "ours, none": OneBit(mechanism="none"),
    "ours, input": OneBit(mechanism="input"),
    "ours, objective": OneBit(mechanism="objective"),
    "ours, gradient": OneBit(mechanism="gradient"),
    "ours, output": OneBit(mechanism="output"),
}
USER_LEVEL: dict[str, Any] = {"user level, FrankWolfe": FrankWolfe, "user level, Posterior": Posterior}
CLEAR = ("Clear", "ours, none")
PAPERS_OWN = tuple(list(METHODS)[:5])
BOUNDS = {"Clear": clear_bound, "InP": input_bound, "ObjP": objective_bound, "OutP": output_bound}
RATIOS = (0.2, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class Planted:
    """Signs with the matrix M (d, d) behind them."""

    ratings: Ratings
    truth: NDArray[np.float64]


@functools.lru_cache(maxsize=2)
def planted(link: str, share: float, seed: int) -> Planted:
    """The paper's synthetic data: rank one, uniform factors, largest entry 1, a share of the signs seen."""
    rng = np.random.default_rng(seed)
    truth = np.outer(rng.uniform(-0.5, 0.5, SIZE), rng.uniform(-0.5, 0.5, SIZE))
    truth /= np.abs(truth).max()
    rows, columns = np.nonzero(rng.random(truth.shape) < share)
    yes = rng.random(len(rows)) < make_link(link).probability(truth[rows, columns])
    ratings = Ratings.from_codes(
        rows, columns, yes.astype(float), items=np.arange(SIZE), value_range=(0.0, 1.0), n_users=SIZE,
        catalogue="declared",
    )  # fmt: skip
    return Planted(ratings, truth)


def _budget(method: str, epsilon: float | None) -> Budget | NonPrivate:
    if epsilon is None:
        return NonPrivate(unit="rating")
    return Budget(epsilon, DELTA, unit="user" if method in USER_LEVEL else "rating")


def _cells(methods: tuple[str, ...], options: Options, runs: int, **more: tuple[Any, ...]) -> list[Cell]:
    """All combinations of link, method, epsilon and seed, and of what is given beside them."""
    epsilons = options.epsilons or ((2.0, 8.0) if options.quick else EPSILONS)
    cells: list[Cell] = [
        {"link": link, "method": method, "epsilon": epsilon}
        for link in LINKS
        for method in methods
        for epsilon in ((None,) if method in CLEAR else epsilons)
    ]
    for name, values in more.items():
        cells = [{**cell, name: value} for cell in cells for value in (values[:1] if options.quick else values)]
    count = options.runs or (1 if options.quick else runs)
    return [{**cell, "seed": options.seed + run} for cell in cells for run in range(count)]


# --- synthetic: Figures 1, 4, 5 -------------------------------------------------------------------


def _synthetic_run(cell: Cell, options: Options) -> dict[str, Any]:
    share = cell.get("observed", SHARE)
    data = planted(cell["link"], share, cell["seed"])
    solver = replace(METHODS[cell["method"]], link=cell["link"])
    curator = Curator(data.ratings, _budget(cell["method"], cell["epsilon"]), seed=cell["seed"])
    _, completion = solver.complete(curator)
    missed = completion.matrix.toarray() - data.truth
    figures = {"ARE": float(np.sum(missed**2) / np.sum(data.truth**2)), "proved": curator.proved}
    return figures | _bound(cell, data)


def _bound(cell: Cell, data: Planted) -> dict[str, float]:
    """The theorem's bound of the same figure, with constants of 1."""
    made = BOUNDS.get(cell["method"])
    if made is None:
        return {}
    task = Problem(shape=data.truth.shape, rank=1, entry_bound=1.0, observed=data.ratings.n_ratings)
    link = make_link(cell["link"])
    bound = made(task, link) if cell["epsilon"] is None else made(task, link, cell["epsilon"])  # type: ignore[operator]
    return {"bound": float(bound.total / np.mean(data.truth**2))}


def _synthetic_summary(records: list[dict[str, Any]]) -> Table:
    names = tuple(name for name in ("link", "method", "epsilon", "observed") if name in records[0])
    return summarise(records, names, spread=("ARE",))


# --- real data: Figures 2, 3 ----------------------------------------------------------------------


def _real_run(train: Ratings, test: Ratings, threshold: float, cell: Cell) -> dict[str, Any]:
    method, budget = cell["method"], _budget(cell["method"], cell["epsilon"])
    if method in USER_LEVEL:
        return _user_level(train, test, threshold, cell, budget)
    solver = replace(METHODS[method], link=cell["link"], threshold=threshold)
    curator = Curator(train, budget, seed=cell["seed"])
    _, completion = solver.complete(curator)
    rows = np.repeat(np.arange(test.n_users), np.diff(test.indptr))
    yes = test.values > threshold
    found = completion.matrix.entries(rows, test.indices) > 0
    release = fit(train, solver, budget, seed=cell["seed"])
    figures = evaluate(release, train, test)
    return {
        "accuracy": float(np.mean(found == yes)),
        "on the device": figures["accuracy"],
        "majority": figures["majority"],
        "proved": curator.proved,
    }


def _user_level(train: Ratings, test: Ratings, threshold: float, cell: Cell, budget: Any) -> dict[str, Any]:
    """Yes and no as values 1 and 0, all of a user's answers protected at once."""
    made = USER_LEVEL[cell["method"]]
    solver = made(loss=cell["link"]) if made is FrankWolfe else made()
    known, wanted = (
        replace(part, values=(part.values > threshold).astype(float), value_range=(0.0, 1.0)) for part in (train, test)
    )
    release = fit(known, solver, budget, seed=cell["seed"])
    from hushrec.release.complete import predict_at

    rows = known.indptr, known.indices, known.values.astype(np.float64)
    found = predict_at(release, rows, (wanted.indptr, wanted.indices)) > 0.5
    share = float(np.mean(wanted.values))
    return {"on the device": float(np.mean(found == (wanted.values > 0.5))), "majority": max(share, 1 - share),
            "proved": True}  # fmt: skip


SPLITS = 5


def _ml100k_cells(options: Options) -> list[Cell]:
    options.path("MovieLens 100K as published (ml-100k.zip, or its folder)")
    cells = _cells((*list(METHODS)[5:], *USER_LEVEL, *PAPERS_OWN), options, 1, split=tuple(range(1, SPLITS + 1)))
    wanted = [cell for cell in cells if not (options.quick and cell["method"] in PAPERS_OWN)]  # those take minutes
    return sorted(wanted, key=lambda cell: cell["method"] in PAPERS_OWN)


def _ml100k_run(cell: Cell, options: Options) -> dict[str, Any]:
    path = options.path("MovieLens 100K")
    train, test = (published_part(path, f"u{cell['split']}.{part}") for part in ("base", "test"))
    return _real_run(train, test, 3.5, cell)


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


def _restaurant_cells(options: Options) -> list[Cell]:
    options.path("the UCI restaurant and consumer data (rating_final.csv, or its folder)")
    return _cells((*METHODS, *USER_LEVEL), options, 10)


def _restaurant_run(cell: Cell, options: Options) -> dict[str, Any]:
    train, test = split(_restaurants(options.path("the restaurant data")), test=0.2, seed=cell["seed"])
    return _real_run(train, test, 1.5, cell)


@functools.lru_cache(maxsize=1)
def _restaurants(path: Path) -> Ratings:
    return load("restaurant", path)


def _real_summary(records: list[dict[str, Any]]) -> Table:
    records = [{key: value for key, value in record.items() if key != "split"} for record in records]
    return summarise(records, ("link", "method", "epsilon"), spread=("accuracy", "on the device"))


# --- the list -------------------------------------------------------------------------------------

SYNTHETIC = (
    f"{SIZE} by {SIZE}, rank 1, uniform factors, largest entry 1; yes with probability h(M) for the logistic and the "
    "Gaussian (probit) noise model. ARE = ‖M̂ − M‖²/‖M‖² over all entries; 'bound': the theorems' with constants of 1."
)
FORMS = (
    " Methods of the paper in its settings (α = 1, τ = √(d1 d2)); 'proved' says whether its ε is a guarantee for the "
    "release. Unit: a single rating; which are rated is public. Ours: default settings, nothing tuned."
)
DEVICE = " Accuracy of M̂ at the test ratings, and of the release on each user's own device with her own answers."


def _plot(y: str, label: str) -> PlotSpec:
    return PlotSpec(
        x="epsilon", y=y, x_label="ε", y_label=label, log_x=True, log_y=y == "ARE", only=(("link", "logistic"),)
    )


EXPERIMENTS = (
    Experiment(
        name="onebit-synthetic",
        title="One-bit completion of planted signs, 15 % observed (Figure 1; the plot: logistic)",
        about=f"{SYNTHETIC} 15 % observed, 40 draws.{FORMS}",
        cells=lambda options: _cells(tuple(METHODS), options, 40),
        run=_synthetic_run,
        summary=_synthetic_summary,
        plot=_plot("ARE", "ARE"),
    ),
    Experiment(
        name="onebit-ratios",
        title="One-bit completion at observation ratios of 20 to 80 % (Figures 4 and 5; the plot: logistic, ours)",
        about=f"{SYNTHETIC} 10 draws.{FORMS}",
        cells=lambda options: _cells(tuple(METHODS), options, 10, observed=RATIOS),
        run=_synthetic_run,
        summary=_synthetic_summary,
        plot=PlotSpec(
            x="observed",
            y="ARE",
            x_label="share of entries observed",
            y_label="ARE",
            log_y=True,
            only=(("link", "logistic"), ("epsilon", 4.0)),
        ),
    ),
    Experiment(
        name="onebit-ml100k",
        title="One-bit completion of MovieLens 100K (Figure 2; the plot: logistic)",
        about=f"MovieLens 100K on its own splits u1 to u5, yes: 4 or 5 stars, mean over the splits.{FORMS}{DEVICE}",
        cells=_ml100k_cells,
        run=_ml100k_run,
        summary=_real_summary,
        plot=_plot("on the device", "accuracy on the device"),
    ),
    Experiment(
        name="onebit-restaurant",
        title="One-bit completion of restaurant ratings (Figure 3; the plot: logistic)",
        about="UCI restaurant and consumer data, yes: the highest of three values, 8:2 at random, 10 splits."
        f"{FORMS}{DEVICE}",
        cells=_restaurant_cells,
        run=_restaurant_run,
        summary=_real_summary,
        plot=_plot("on the device", "accuracy on the device"),
    ),
)
