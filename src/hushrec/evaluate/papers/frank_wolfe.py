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
from hushrec.evaluate.planning import ItemMeansOnly
from hushrec.evaluate.plots import PlotSpec
from hushrec.evaluate.tables import Record, Table, summarise
from hushrec.fit import fit
from hushrec.privacy.accounting import Budget, NonPrivate, Relation, gaussian_epsilon
from hushrec.solvers.cleansed_svd import CleansedSVD
from hushrec.solvers.frank_wolfe import FrankWolfe
from hushrec.solvers.svd import SVD

DELTA, TEST, MOST, RUNS = 1e-6, 0.01, 80, 10
USERS, USERS_QUICK, ITEMS = 500_000, 10_000, 400
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
RELATION: Relation = "add-remove"  # the papers' sensitivities are those of this relation
SPARE = 0.99  # of a budget for the paper's noise: the rest pays for the noisy number of users


PAPERS_OWN = "FW, the paper's noise and form"
NOT_PRIVATE = "FW, not private"
NONPRIVATE: dict[str, Any] = {
    NOT_PRIVATE: FrankWolfe(readout="replay", step_scale=2.0, averages="plain"),
    "FW, not private, ridge": FrankWolfe(),
}
ROUNDS_GRID = (5, 10, 20, 40, 80, 150)


def methods(most: int) -> dict[str, Any]:
    """The private solvers by name; `most`: how many ratings of a user the paper's own forms count with."""
    return {
        "FW, exact noise": FrankWolfe(),
        "FW, exact noise, replay": FrankWolfe(readout="replay"),
        PAPERS_OWN: FrankWolfe(noise="paper", ratings_per_user=most),
        "SVD": SVD(),
        "SVD after cleansing": CleansedSVD(),
        "SVD after cleansing, strawman": CleansedSVD(noise="paper", ratings_per_user=most),
        "item means": ItemMeansOnly(),
    }


# --- Figure 2 -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One panel of Figure 2: data sets that serve, top items, the scale of errors, and the paper's grid for k.

    most: how many of a user's ratings the paper samples; where it samples none, how many items there are.
    """

    serve: tuple[str, ...]
    what: str
    top: int | None = 400
    most: int = MOST
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
    for method, solver in methods(MOST).items():
        for epsilon in epsilons:
            cells += [{"method": method, "epsilon": epsilon, **tuned} for tuned in _grid(solver, figure, options)]
    cells += [{"method": method, "epsilon": None} for method in NONPRIVATE]
    if figure is not None:
        options.path(figure.what)  # a clear message before anything is written
    return [{**cell, "seed": options.seed + run} for cell in cells for run in range(runs)]


def _grid(solver: Any, figure: Figure | None, options: Options) -> list[Cell]:
    """The paper's hyper-parameters to try beside {}, the defaults; of planted data, k is their own norm."""
    if not options.tuned or not isinstance(solver, FrankWolfe) or solver.form != "replay":
        return [{}]
    norms = figure.nuclear_grid if figure is not None else (math.sqrt(_planted_users(options) * ITEMS) / 3,)
    return [{}, *({"iterations": rounds, "nuclear_norm": norm} for rounds in ROUNDS_GRID for norm in norms)]


def _planted_users(options: Options) -> int:
    return USERS_QUICK if options.quick else USERS


def _figure_run(figure: Figure | None, cell: Cell, options: Options) -> dict[str, Any]:
    train, test = _data(figure, options, cell["seed"])
    width = 1.0 if figure is None else figure.width()
    solver = {**methods(MOST if figure is None else figure.most), **NONPRIVATE}[cell["method"]]
    if "iterations" in cell:
        solver = replace(solver, iterations=cell["iterations"], nuclear_norm=cell["nuclear_norm"] * width)
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
        return _planted(_planted_users(options), ITEMS, MOST, seed)
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
    tuned = any("iterations" in record for record in records)
    hidden = () if tuned else ("iterations", "nuclear_norm")
    columns = tuple(column for column in table.columns if column not in hidden)
    return Table(columns=columns, rows=list(best.values()))


PLOT = PlotSpec(
    x="epsilon", y="rmse", log_x=True, x_label="ε (δ = 1e-6, add-remove)", y_label="RMSE on held-out ratings"
)


HELD_OUT = "1 % of the ratings held out at random, in each run others"


def _figure(name: str, title: str, figure: Figure | None, data: str, test: str = HELD_OUT) -> Experiment:
    norms = "k = the planted norm" if figure is None else f"k in {figure.nuclear_grid}"
    most = MOST if figure is None else figure.most
    sampled = f"a sample of at most {most} ratings a user" if most == MOST else "all ratings, without sampling"
    return Experiment(
        name=name,
        title=title,
        about=(
            f"{data} Scored on {test}. delta = 1e-6, add-remove, {RUNS} runs (--quick: 1), each with its own noise. "
            "Epsilon is what a method promises; for the paper's noise it is what the paper claims, and 'exact epsilon' "
            f"is what the noise is worth. The paper's form uses {sampled}, as in its Figure 2; the other methods use "
            f"all. The strawman is SVD after cleansing as run there, with the noise of one rating times {most}. "
            "'FW, not private' is the paper's Algorithm 2: plain averages of items, then of users, taken out, 400 "
            "rounds (--quick: 40), step 2/(t + 2). The grid of --tuned, for both private forms with replay: "
            f"the defaults, and {norms}, T in {ROUNDS_GRID}."
        ),
        cells=functools.partial(_figure_cells, figure),
        run=functools.partial(_figure_run, figure),
        summary=_figure_summary,
        plot=PLOT,
        tunable=True,
    )


JESTER = Figure(
    serve=("jester", "jester-1", "jester-2", "jester-3"),
    what="the Jester joke ratings (all three parts, or one), as published",
    top=None,
    most=100,
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
SLOPE_SIZES, SLOPE_QUICK = range(12, 20), range(12, 16)  # logarithms of the numbers of users
SLOPE_PAPER, SLOPE_SVD = "FW, the paper's noise and form", "SVD, Algorithm 3"
SLOPE_METHODS: dict[str, Any] = {
    SLOPE_PAPER: FrankWolfe(noise="paper", iterations=10, user_mean="none"),
    "FW, exact noise, replay": FrankWolfe(readout="replay", iterations=10),
    "FW, exact noise, ridge": FrankWolfe(),
    SLOPE_SVD: SVD(readout="projection", rank=1, density=SLOPE_RATED / SLOPE_ITEMS),
    "SVD, ridge": SVD(),
}
SLOPE_EPSILON = {SLOPE_PAPER: 20.0}  # where λ stands above its own bias; 1 for all others
# At fixed items and rounds, each from the first price of the method that it is about.
THEORY = {"equation (3) of Theorem 3.2, scaled": (-0.5, SLOPE_PAPER), "Theorem B.3, scaled": (-2.0, SLOPE_SVD)}


def _slope_cells(options: Options) -> list[Cell]:
    exponents = SLOPE_QUICK if options.quick else SLOPE_SIZES
    runs = options.runs or (1 if options.quick else 5)
    return [
        {"method": method, "users": 2**exponent, "epsilon": epsilon, "seed": options.seed + run}
        for method in SLOPE_METHODS
        for epsilon in options.epsilons or (SLOPE_EPSILON.get(method, 1.0),)
        for exponent in exponents
        for run in range(runs)
    ]


def _slope_run(cell: Cell, options: Options) -> dict[str, Any]:
    """The mean squared error, and what it is without noise: the difference is the price of privacy."""
    train, test = _planted(cell["users"], SLOPE_ITEMS, SLOPE_RATED, cell["seed"])
    solver = SLOPE_METHODS[cell["method"]]
    errors = [
        evaluate(fit(train, *asked, seed=cell["seed"]), train, test)["rmse"] ** 2
        for asked in (_with_budget(solver, cell["epsilon"]), (solver, NonPrivate(relation=RELATION)))
    ]
    return {"mse": errors[0], "mse without noise": errors[1], "price": errors[0] - errors[1]}


def _slope_summary(records: list[Record]) -> Table:
    """With the slope of log(price) against log(users), and the theory's lines."""
    table = summarise(records, ("method", "users", "epsilon"), spread=("mse", "price"))
    rows: list[Record] = []
    for method, epsilon in dict.fromkeys((row["method"], row["epsilon"]) for row in table.rows):
        line = [row for row in table.rows if (row["method"], row["epsilon"]) == (method, epsilon)]
        slope = fitted_slope([(row["users"], row["price"], _error(row)) for row in line])
        rows += _drawn(f"{method}, epsilon {epsilon:g}", [{**row, "slope": slope} for row in line])
    for name, (slope, method) in THEORY.items():
        like = [row for row in table.rows if row["method"] == method]
        start, sizes = like[0], sorted({row["users"] for row in like})
        prices = {users: start["price"] * (users / start["users"]) ** slope for users in sizes}
        line = [{"method": name, "users": m, "price": price, "slope": slope} for m, price in prices.items()]
        rows += _drawn(name, line)
    return Table(columns=(*table.columns, "slope"), rows=rows)


def _error(row: Record) -> float:
    """The standard error of a row's price; 0 where a single run tells nothing of it."""
    return (row["price sd"] or 0.0) / math.sqrt(row["runs"])


def _drawn(name: str, line: list[Record]) -> list[Record]:
    """The rows with what the picture shows: prices above 0; a line that has none becomes a level, at its largest size.

    A price that is not above 0 has no place on a logarithmic axis: noise costs nothing there that could be seen.
    """
    level = max(abs(row["price"]) for row in line)
    if any(row["price"] > 0 for row in line):
        return [{**row, "line": name, "at": row["users"], "drawn": max(row["price"], 0.0) or None} for row in line]
    rows = [{**row, "line": f"{name}: none, |price| at most {level:.2g}", "drawn": None} for row in line]
    return [rows[0] | {"at": None, "drawn": level}, *rows[1:]]


def fitted_slope(prices: list[tuple[float, float, float]]) -> float | None:
    """The slope of log price against log users, from (users, price, standard error) in the order of users.

    Only where the price has fallen to half of its first value or less, and is beyond two standard errors.
    """
    kept = [(m, price) for m, price, error in prices if 2 * error < price <= 0.5 * prices[0][1]]
    if len(kept) < 2:
        return None
    logs = np.log(np.array(kept))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


# --- incoherent data ------------------------------------------------------------------------------

INCOHERENT_ITEMS = 400
INCOHERENT_SIZES, INCOHERENT_QUICK = tuple(10_000 * 2**step for step in range(7)), (10_000, 40_000)
INCOHERENT_METHODS: dict[str, Any] = {
    "SVD, Algorithm 3": SVD(readout="projection", rank=1, density=1 / math.sqrt(INCOHERENT_ITEMS)),
    "SVD, ridge": SVD(),
    "FW, Algorithm 1, exact noise": FrankWolfe(readout="replay"),
    "FW, ridge": FrankWolfe(),
}


def _incoherent_cells(options: Options) -> list[Cell]:
    sizes = INCOHERENT_QUICK if options.quick else INCOHERENT_SIZES
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


def _incoherent_summary(records: list[Record]) -> Table:
    """Mean and spread over the runs, the kind of data in a column of its own."""
    parted = []
    for record in records:
        method, data = record["method"].removesuffix(" data").rsplit(" on ", 1)
        parted.append({**record, "method": method, "data": data})
    return summarise(parted, ("method", "data", "users", "epsilon"))


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
        "Private completion of a planted rank-one matrix",
        None,
        "A rank-one matrix u vᵀ, entries of u and v uniform, largest entry 1, 500,000 users (--quick: 10,000), 400 "
        "items, 80 ratings a user.",
        test="one further entry of every user, in each run of another matrix",
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
            "Planted rank-one data, 100 items, 30 ratings a user, delta 1e-6, add-remove, 5 runs (--quick: 1). Price: "
            "mean squared error minus that of the same method on the same data without noise; 'slope' is that of its "
            "logarithm against that of the number of users, where the price has halved and is beyond two standard "
            "errors. Sizes where it is not above 0 are in the table alone. Dashed lines without marks are "
            "methods with no price at any size. The bounds' lines have the theorems' exponents at fixed items and "
            "rounds, and start at the first price of the method that they are about. "
            "-1/2 of equation (3) is the price of the paper's bias of λ, √(σ log(n/β)) n^¼, which takes a part of "
            "every step that falls as 1/√m; so the paper's own form has this slope (at epsilon 20, as it claims; at "
            "1 these sizes are too small for λ to stand above its bias). With exact noise there is no bias: what noise "
            "does to λ and v falls as 1/m, and the price faster than the bound says, which is an upper bound."
        ),
        cells=_slope_cells,
        run=_slope_run,
        summary=_slope_summary,
        plot=PlotSpec(
            x="at",
            y="drawn",
            series="line",
            log_x=True,
            log_y=True,
            x_label="users m",
            y_label="price of privacy (MSE)",
            guides=tuple(THEORY),
        ),
    ),
    Experiment(
        name="svd-incoherent",
        title="Algorithm 3 and Algorithm 1 on incoherent and on coherent rank-one data",
        about=(
            "Rank one, 400 items, 20 ratings a user (Remarks 5 and 6), epsilon 1, delta 1e-6, add-remove, 5 runs "
            "(--quick: 1). Incoherent: entries ±1. Coherent: sizes U² for users and U⁴ for items, U uniform, so that "
            "few entries carry most of the matrix."
        ),
        cells=_incoherent_cells,
        run=_incoherent_run,
        summary=_incoherent_summary,
        plot=PlotSpec(x="users", y="rmse", log_x=True, log_y=True, x_label="users m", y_label="RMSE", across="data"),
    ),
)
