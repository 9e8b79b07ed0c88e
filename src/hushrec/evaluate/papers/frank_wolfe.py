"""The experiments of the Frank-Wolfe paper: its Figure 2 on five data sets, error against users, incoherent data.

Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018), section 4 and Remarks 5, 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushrec.data.catalogs import find, load
from hushrec.data.fetch import identify
from hushrec.data.ratings import Ratings
from hushrec.data.split import split
from hushrec.data.synthetic import synthetic
from hushrec.errors import ConfigError
from hushrec.evaluate.experiments import Cell, Experiment, Options
from hushrec.evaluate.metrics import evaluate
from hushrec.evaluate.plots import PlotSpec
from hushrec.evaluate.tables import Record, Table, summarise
from hushrec.fit import fit
from hushrec.privacy.accounting import Budget, NonPrivate, Relation, gaussian_epsilon
from hushrec.privacy.curator import Curator
from hushrec.solvers.base import Model
from hushrec.solvers.cleansed_svd import CleansedSVD
from hushrec.solvers.frank_wolfe import FrankWolfe
from hushrec.solvers.means import learn_means, means_share
from hushrec.solvers.svd import SVD, USERS_SHARE, ridge_model

DELTA, TEST, MOST, RUNS = 1e-6, 0.01, 80, 10
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
RELATION: Relation = "add-remove"  # the papers' sensitivities are those of this relation
SPARE = 0.99  # of a budget for the paper's noise: the rest pays for the noisy number of users


@dataclass(frozen=True, kw_only=True)
class ItemMeansOnly:
    """The plainest private baseline: noisy item means and the user's own offset."""

    def solve(self, curator: Curator) -> Model:
        """All of the budget for the means."""
        users = curator.count_users(USERS_SHARE)
        items = learn_means(curator, users, max(curator.left() - 1e-12, means_share(curator.shape, users, math.inf)))
        return ridge_model(items, np.zeros((len(items.means), 0)), 1.0, 4.0)


PAPERS_OWN = "FW, the paper's noise and form"
NOT_PRIVATE = "FW, not private"
METHODS: dict[str, Any] = {
    "FW, exact noise": FrankWolfe(),
    "FW, exact noise, replay": FrankWolfe(readout="replay"),
    PAPERS_OWN: FrankWolfe(readout="replay", noise="paper", ratings_per_user=MOST),
    "SVD": SVD(),
    "SVD after cleansing": CleansedSVD(),
    "SVD after cleansing, strawman": CleansedSVD(noise="paper", ratings_per_user=MOST),
    "item means": ItemMeansOnly(),
}
NONPRIVATE = {
    NOT_PRIVATE: FrankWolfe(readout="replay", step_scale=2.0),
    "FW, not private, ridge": FrankWolfe(),
}
ROUNDS_GRID = (5, 10, 20, 40, 80, 150)


# --- Figure 2 -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One panel of Figure 2: data sets that serve, top items, the scale of errors, and the paper's grid for k."""

    serve: tuple[str, ...]
    what: str
    top: int | None = 400
    scale: float | None = None  # errors are given as if the value range were this wide; None: native
    nuclear_grid: tuple[float, ...] = ()

    def load(self, path: Path) -> Ratings:
        """The data at the path, with the most rated items."""
        entry = identify(path)
        if entry is None or entry.name not in self.serve:
            raise ConfigError(f"{path} does not hold the data of this experiment, which needs {self.what}.")
        ratings = _loaded(entry.name, path)
        return ratings if self.top is None else ratings.restrict(top=min(self.top, ratings.n_items))

    def width(self) -> float:
        """What an error is divided by."""
        if self.scale is None:
            return 1.0
        low, high = find(self.serve[0]).value_range
        return (high - low) / self.scale


@functools.lru_cache(maxsize=1)
def _loaded(name: str, path: Path) -> Ratings:
    return load(name, path)


def _figure_cells(figure: Figure | None, options: Options) -> list[Cell]:
    epsilons = options.epsilons or ((1.0, 5.0) if options.quick else EPSILONS)
    runs = options.runs or (1 if options.quick else RUNS)
    cells = []
    for method in METHODS:
        for epsilon in epsilons:
            cells += [{"method": method, "epsilon": epsilon, **tuned} for tuned in _grid(method, figure, options)]
    cells += [{"method": method, "epsilon": None} for method in NONPRIVATE]
    if figure is not None:
        options.path(figure.what)  # a clear message before anything is written
    return [{**cell, "seed": options.seed + run} for cell in cells for run in range(runs)]


def _grid(method: str, figure: Figure | None, options: Options) -> list[Cell]:
    """The paper's hyper-parameters to try, {} for the defaults."""
    solver = METHODS[method]
    if not options.tuned or not isinstance(solver, FrankWolfe) or solver.readout != "replay":
        return [{}]
    norms = figure.nuclear_grid if figure is not None else ()
    return [{"iterations": rounds, "nuclear_norm": norm} for rounds in ROUNDS_GRID for norm in (norms or (None,))]


def _figure_run(figure: Figure | None, cell: Cell, options: Options) -> dict[str, Any]:
    train, test = _data(figure, options, cell["seed"])
    width = 1.0 if figure is None else figure.width()
    solver = {**METHODS, **NONPRIVATE}[cell["method"]]
    if "iterations" in cell:
        norm = cell["nuclear_norm"]
        solver = replace(solver, iterations=cell["iterations"], nuclear_norm=None if norm is None else norm * width)
    if cell["epsilon"] is None and options.quick and cell["method"] == NOT_PRIVATE:
        solver = replace(solver, iterations=40)
    release = fit(train, *_with_budget(solver, cell["epsilon"]), seed=cell["seed"])
    return {"rmse": evaluate(release, train, test)["rmse"] / width, "exact epsilon": release.guarantee.spent}


def _with_budget(solver: Any, epsilon: float | None) -> tuple[Any, Budget | NonPrivate]:
    """The paper's noise for a claimed epsilon gets the budget that it really costs, and the claim stays."""
    if epsilon is None:
        return solver, NonPrivate(relation=RELATION)
    if not (isinstance(solver, FrankWolfe) and solver.noise == "paper"):
        return solver, Budget(epsilon, DELTA, relation=RELATION)
    mu = epsilon / (2 * math.sqrt(math.log(1 / DELTA)))  # 4 L² √T / σ: what the claim amounts to
    return replace(solver, claim=epsilon), Budget(gaussian_epsilon(mu / SPARE, DELTA), DELTA, relation=RELATION)


def _data(figure: Figure | None, options: Options, seed: int) -> tuple[Ratings, Ratings]:
    if figure is None:
        return _planted(10_000 if options.quick else 500_000, 400, MOST, seed)
    return split(figure.load(options.path(figure.what)), test=TEST, seed=seed)


@functools.lru_cache(maxsize=1)
def _planted(users: int, items: int, per_user: int, seed: int) -> tuple[Ratings, Ratings]:
    return synthetic(users=users, items=items, rank=1, per_user=per_user, seed=seed, test_per_user=1)


def _figure_summary(records: list[Record]) -> Table:
    """Mean and spread over the runs; of a grid, only the best of each method and epsilon."""
    table = summarise(records, ("method", "epsilon", "iterations", "nuclear_norm"))
    best: dict[tuple[str, float | None], Record] = {}
    for row in table.rows:
        key = row["method"], row["epsilon"]
        if key not in best or row["rmse"] < best[key]["rmse"]:
            best[key] = row
    tuned = any(row["iterations"] is not None for row in best.values())
    hidden = () if tuned else ("iterations", "nuclear_norm")
    columns = tuple(column for column in table.columns if column not in hidden)
    return Table(columns=columns, rows=list(best.values()))


PLOT = PlotSpec(x="epsilon", y="rmse", log_x=True, x_label="epsilon", y_label="RMSE on held-out ratings")


def _figure(name: str, title: str, figure: Figure | None, data: str) -> Experiment:
    grid = "" if figure is None or not figure.nuclear_grid else f" --tuned tries k in {figure.nuclear_grid}."
    return Experiment(
        name=name,
        title=title,
        about=(
            f"{data} 1 % of the ratings held out at random, delta = 1e-6, add-remove, {RUNS} runs, each with its own "
            "split and noise. Settings are the defaults. Epsilon is what a method promises; for the paper's noise it "
            "is what the paper claims, and 'exact epsilon' is what the noise is worth. The strawman is SVD after "
            f"cleansing as that figure ran it, with the noise of one rating times {MOST}.{grid}"
        ),
        cells=functools.partial(_figure_cells, figure),
        run=functools.partial(_figure_run, figure),
        summary=_figure_summary,
        plot=PLOT,
    )


JESTER = Figure(
    serve=("jester", "jester-1", "jester-2", "jester-3"),
    what="the Jester joke ratings (all three parts, or one), as published",
    top=None,
    scale=5.0,
    nuclear_grid=(20_000, 25_000),
)
MOVIELENS = Figure(
    serve=("ml-10m", "ml-1m", "ml-20m", "ml-25m", "ml-32m", "ml-100k"),
    what="MovieLens (10M in the paper; 100K, 1M, 20M, 25M and 32M serve as well), as published",
    nuclear_grid=(30_000, 40_000),
)
NETFLIX = Figure(
    serve=("netflix",),
    what="your own copy of the Netflix prize data, which is no longer published: its folder or archive",
    nuclear_grid=(120_000, 130_000),
)
YAHOO = Figure(
    serve=("yahoo-music",),
    what="your own copy of the Yahoo! Music ratings, which are given out for research on request: the folder or file",
    scale=5.0,
    nuclear_grid=(130_000, 150_000),
)


# --- error against the number of users ------------------------------------------------------------

SLOPE_ITEMS, SLOPE_RATED = 100, 30
SLOPE_METHODS: dict[str, Any] = {
    "FW, replay": FrankWolfe(readout="replay", iterations=10),
    "FW, ridge": FrankWolfe(),
    "SVD, Algorithm 3": SVD(readout="projection", rank=1, density=SLOPE_RATED / SLOPE_ITEMS),
    "SVD, ridge": SVD(),
}
THEORY = {"Corollary 3.1 (scaled)": -0.5, "Theorem B.3 (scaled)": -2.0}


def _slope_cells(options: Options) -> list[Cell]:
    exponents = range(12, 16, 1) if options.quick else range(12, 20)
    runs = options.runs or (1 if options.quick else 5)
    return [
        {"method": method, "users": 2**exponent, "epsilon": epsilon, "seed": options.seed + run}
        for method in SLOPE_METHODS
        for epsilon in options.epsilons or (1.0,)
        for exponent in exponents
        for run in range(runs)
    ]


def _slope_run(cell: Cell, options: Options) -> dict[str, Any]:
    """The mean squared error, and what it is without noise: the difference is the price of privacy."""
    train, test = _planted(cell["users"], SLOPE_ITEMS, SLOPE_RATED, cell["seed"])
    solver = SLOPE_METHODS[cell["method"]]
    errors = [
        evaluate(fit(train, solver, budget, seed=cell["seed"]), train, test)["rmse"] ** 2
        for budget in (Budget(cell["epsilon"], DELTA, relation=RELATION), NonPrivate(relation=RELATION))
    ]
    return {"mse": errors[0], "mse without noise": errors[1], "price": max(errors[0] - errors[1], 0.0)}


def _slope_summary(records: list[Record]) -> Table:
    """With the slope of log(price) against log(users) beyond the first quarter of its fall, and the theory's lines."""
    table = summarise(records, ("method", "users", "epsilon"), spread=("mse",))
    rows = []
    for method in dict.fromkeys(row["method"] for row in table.rows):
        line = [row for row in table.rows if row["method"] == method]
        slope = fitted_slope([row["users"] for row in line], [row["price"] for row in line])
        rows += [{**row, "slope": slope} for row in line]
    first = max(row["price"] for row in rows)
    sizes = sorted({row["users"] for row in rows})
    for name, slope in THEORY.items():
        rows += [{"method": name, "users": m, "price": first * (m / sizes[0]) ** slope, "slope": slope} for m in sizes]
    return Table(columns=(*table.columns, "slope"), rows=rows)


def fitted_slope(users: list[float], errors: list[float]) -> float | None:
    """The slope of log error against log users where the error has fallen to half of its first value or less."""
    kept = [(m, error) for m, error in zip(users, errors, strict=True) if 0 < error <= 0.5 * errors[0]]
    if len(kept) < 2:
        return None
    logs = np.log(np.array(kept))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


# --- incoherent data ------------------------------------------------------------------------------

INCOHERENT_ITEMS = 400
INCOHERENT_METHODS: dict[str, Any] = {
    "SVD, Algorithm 3": SVD(readout="projection", rank=1, density=1 / math.sqrt(INCOHERENT_ITEMS)),
    "SVD, ridge": SVD(),
    "FW, Algorithm 1, exact noise": FrankWolfe(readout="replay"),
    "FW, ridge": FrankWolfe(),
}


def _incoherent_cells(options: Options) -> list[Cell]:
    sizes = (10_000, 40_000) if options.quick else tuple(10_000 * 2**step for step in range(7))
    runs = options.runs or (1 if options.quick else 5)
    return [
        {"method": f"{method} on {data} data", "users": users, "epsilon": epsilon, "seed": options.seed + run}
        for data in ("incoherent", "coherent")
        for method in INCOHERENT_METHODS
        for epsilon in options.epsilons or (1.0,)
        for users in sizes
        for run in range(runs)
    ]


def _incoherent_run(cell: Cell, options: Options) -> dict[str, Any]:
    method, data = cell["method"].removesuffix(" data").rsplit(" on ", 1)
    train, test = signed(cell["users"], INCOHERENT_ITEMS, data == "incoherent", cell["seed"])
    release = fit(
        train, INCOHERENT_METHODS[method], Budget(cell["epsilon"], DELTA, relation=RELATION), seed=cell["seed"]
    )
    return {"rmse": evaluate(release, train, test)["rmse"]}


@functools.lru_cache(maxsize=1)
def signed(users: int, items: int, incoherent: bool, seed: int) -> tuple[Ratings, Ratings]:
    """Rank one in [−1, 1], √n ratings a user: entries ±1 (incoherence 1), or steeply unequal ones (coherent)."""
    rng = np.random.default_rng(seed)
    pattern, held_out = synthetic(
        users=users, items=items, per_user=round(math.sqrt(items)), seed=seed, test_per_user=2
    )
    left, right = rng.choice((-1.0, 1.0), users), rng.choice((-1.0, 1.0), items)
    if not incoherent:
        left *= rng.uniform(size=users) ** 2
        right *= rng.uniform(size=items) ** 4
    filled = []
    for part in (pattern, held_out):
        rows = np.repeat(np.arange(users), np.diff(part.indptr))
        filled.append(replace(part, values=(left[rows] * right[part.indices]).astype(np.float32)))
    return filled[0], filled[1]


# --- the list -------------------------------------------------------------------------------------

Cells = Callable[[Options], list[Cell]]

EXPERIMENTS: tuple[Experiment, ...] = (
    _figure(
        "fw-synthetic",
        "Private completion of a planted rank-one matrix (500,000 users, 400 items)",
        None,
        "A rank-one matrix u vᵀ, entries of u and v uniform, largest entry 1, 500,000 users (--quick: 10,000), 400 "
        "items, 80 ratings a user; scored on one other entry of every user instead of held-out ratings.",
    ),
    _figure("fw-jester", "Private completion of Jester", JESTER, "Jester, errors on the scale 0 to 5."),
    _figure(
        "fw-movielens", "Private completion of MovieLens, top 400", MOVIELENS, "MovieLens, the 400 most rated films."
    ),
    _figure(
        "fw-netflix", "Private completion of Netflix, top 400", NETFLIX, "Netflix prize, the 400 most rated films."
    ),
    _figure(
        "fw-yahoo",
        "Private completion of Yahoo! Music, top 400",
        YAHOO,
        "Yahoo! Music, the 400 most rated items, errors on the scale 0 to 5.",
    ),
    Experiment(
        name="fw-slope",
        title="The price of privacy against the number of users",
        about=(
            "Planted rank-one data, 100 items, 30 ratings a user, epsilon 1, delta 1e-6, add-remove, 5 runs. Price: "
            "mean squared error minus that of the same method on the same data without noise. The bounds' lines have "
            "the theorems' exponents and start at the largest price; errors must fall at least as steeply."
        ),
        cells=_slope_cells,
        run=_slope_run,
        summary=_slope_summary,
        plot=PlotSpec(
            x="users", y="price", log_x=True, log_y=True, x_label="users m", y_label="price of privacy (MSE)"
        ),
    ),
    Experiment(
        name="svd-incoherent",
        title="Algorithm 3 and Algorithm 1 on incoherent and on coherent rank-one data",
        about=(
            "Rank one, 400 items, 20 ratings a user (Remarks 5 and 6), epsilon 1, delta 1e-6, add-remove, 5 runs. "
            "Incoherent: entries ±1. Coherent: sizes U² for users and U⁴ for items, U uniform, so that few entries "
            "carry most of the matrix."
        ),
        cells=_incoherent_cells,
        run=_incoherent_run,
        plot=PlotSpec(x="users", y="rmse", log_x=True, log_y=True, x_label="users m", y_label="RMSE"),
    ),
)
