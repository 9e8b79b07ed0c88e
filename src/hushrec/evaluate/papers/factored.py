"""Experiments of the DPLMC paper (Wang, Zhao, Kolar 2023): Figures 1, 2 and 3, and the linear rate of Theorem 5.2.

The data are the paper's: Gaussian factors, every row of norm above 2 scaled down to 2, so that entries lie within
±4; every entry is observed with probability r log(m)/n; noise of variance 1 or 0. The error is ‖X̂ − X*‖²/(mn).
Every method runs at one setting for all cells: nothing is tuned on a validation set. Beside the error stand that of
the items' true means, which use no user's ratings, and the part of the runs that fell back to a constant because the
budget allows no round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.evaluate.experiments import Cell, Experiment, Options
from hushrec.evaluate.plots import PlotSpec
from hushrec.evaluate.tables import Table, summarise
from hushrec.fit import fit
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.release.complete import predict_at
from hushrec.release.file import Release
from hushrec.solvers.als import ALS
from hushrec.solvers.base import Solver
from hushrec.solvers.factored_gradient import FactoredGradient
from hushrec.solvers.posterior import Posterior

ITEMS, RANK, DELTA, LONGEST_ROW = 100, 5, 1e-5, 2.0
USERS, EPSILONS, RANKS = (5_000, 10_000, 15_000), (2.0, 5.0, 10.0, 20.0), (3, 5, 7)
RANK_SETTINGS = ((15_000, 5.0), (10_000, 10.0))
QUICK_SIZES, QUICK_EPSILONS = (2_000,), (10.0, 20.0)
QUICK_RANKS, QUICK_RANK_SETTINGS = (3, 7), ((1_500, 10.0), (1_000, 20.0))
HALF_WIDTH = 8.0  # public range ±8: 4 for the matrix, 4 standard deviations for the noise
ROUNDS = (2, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60)
BLOCK = 2_000
METHODS = (
    "DPLMC, random",
    "DPLMC, private",
    "DPALS, random",
    "DPALS, private",
    "DPLMC, random, paper's noise",
    "DPLMC, private, ridge readout",
    "Posterior",
)


@dataclass(frozen=True)
class Planted:
    """Ratings with the factors (m, r), (n, r) behind them, and the public probability of an entry."""

    ratings: Ratings
    users: NDArray[np.float64]
    items: NDArray[np.float64]
    density: float


def planted(users: int, items: int, rank: int, noise: float, seed: int) -> Planted:
    """The paper's synthetic data."""
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(users, rank)), rng.normal(size=(items, rank))
    for factor in (left, right):
        factor *= np.minimum(1.0, LONGEST_ROW / np.linalg.norm(factor, axis=1))[:, None]
    density = min(rank * math.log(users) / items, 1.0)
    counts = rng.binomial(items, density, size=users)
    rows = np.repeat(np.arange(users), counts)
    order = np.argsort(rng.random((users, items), dtype=np.float32), axis=1)
    columns = order[np.arange(items) < counts[:, None]]
    values = np.einsum("ik,ik->i", left[rows], right[columns]) + noise * rng.normal(size=len(rows))
    ratings = Ratings.from_codes(
        rows,
        columns,
        np.clip(values, -HALF_WIDTH, HALF_WIDTH),
        items=np.arange(items),
        value_range=(-HALF_WIDTH, HALF_WIDTH),
        n_users=users,
        catalogue="declared",
    )
    return Planted(ratings, left, right, density)


def solver(method: str, rank: int, density: float) -> Solver:
    """The solver behind a method's name in the figures; the paper's noise goes with the paper's p for every user."""
    if method == "Posterior":
        return Posterior()
    name, start, *rest = method.split(", ")
    published = "paper's noise" in rest
    if name == "DPALS":
        start = "gram" if start == "private" else "random"
        return ALS(start=start, rank=rank, weights="uniform", centre=False)  # type: ignore[arg-type]
    return FactoredGradient(
        begin_with=start,  # type: ignore[arg-type]
        rank=rank,
        density=density,
        centre=False,
        readout="ridge" if "ridge readout" in rest else "factors",
        noise="paper" if published else "exact",
        own_density=not published,
    )


def squared_error(release: Release, data: Planted) -> float:
    """‖X̂ − X*‖²/(mn) over all entries."""
    total = 0.0
    for at in range(0, len(data.users), BLOCK):
        own = data.ratings.rows(at, min(at + BLOCK, len(data.users)))
        every = np.arange(own.n_users + 1) * own.n_items, np.tile(np.arange(own.n_items), own.n_users)
        found = predict_at(release, (own.indptr, own.indices, own.values.astype(np.float64)), every)
        truth = data.users[at : at + BLOCK] @ data.items.T
        total += float(np.square(found - truth.ravel()).sum())
    return total / (len(data.users) * len(data.items))


def means_error(data: Planted) -> float:
    """The same for the true mean of every item's column: what knowing all items and no user gives."""
    left, right = data.users - data.users.mean(axis=0), data.items
    return float(np.trace((left.T @ left) @ (right.T @ right)) / (len(left) * len(right)))


def _run(cell: Cell, options: Options) -> dict[str, Any]:
    data = planted(cell["users"], ITEMS, cell["rank"], cell["noise"], cell["seed"])
    made = solver(cell["method"], cell["rank"], data.density)
    release = fit(data.ratings, made, Budget(cell["epsilon"], DELTA), seed=cell["seed"])
    asked = {entry.name for entry in release.guarantee.ledger}
    return {
        "error": squared_error(release, data),
        "item means": means_error(data),
        "fallback": 0.0 if asked & {"gradient 1", "round 1"} else 1.0,
        "exact epsilon": release.guarantee.spent,
    }


def _cells(noise: float) -> Any:
    def cells(options: Options) -> list[Cell]:
        sizes, epsilons = (QUICK_SIZES, QUICK_EPSILONS) if options.quick else (USERS, EPSILONS)
        return [
            {"method": method, "users": users, "rank": RANK, "noise": noise, "epsilon": epsilon, "seed": seed}
            for users in sizes
            for epsilon in options.epsilons or epsilons
            for seed in seeds(options)
            for method in METHODS
        ]

    return cells


def _rank_cells(options: Options) -> list[Cell]:
    settings, ranks = (QUICK_RANK_SETTINGS, QUICK_RANKS) if options.quick else (RANK_SETTINGS, RANKS)
    return [
        {"method": method, "users": users, "rank": rank, "noise": 1.0, "epsilon": epsilon, "seed": seed}
        for users, epsilon in settings
        for rank in ranks
        for seed in seeds(options)
        for method in METHODS
        if "ridge" not in method
    ]


def seeds(options: Options) -> range:
    """Ten trials, as in the paper; one in a quick version."""
    return range(options.seed, options.seed + (options.runs or (1 if options.quick else 10)))


def _rate_cells(options: Options) -> list[Cell]:
    rounds, users = ((2, 10, 30), 600) if options.quick else (ROUNDS, USERS[0])
    return [
        {"method": f"DPLMC, {start}", "users": users, "rounds": count, "seed": seed}
        for start in ("random", "private")
        for seed in seeds(options)
        for count in rounds
    ]


def _rate_run(cell: Cell, options: Options) -> dict[str, Any]:
    data = planted(cell["users"], ITEMS, RANK, 0.0, cell["seed"])
    made = FactoredGradient(
        begin_with=cell["method"].split(", ")[1],
        rank=RANK,
        rounds=cell["rounds"],
        density=data.density,
        centre=False,
        readout="factors",
        user_bound=1e3,
        item_bound=1e3,
        row_bound=1e3,
    )
    return {"error": squared_error(fit(data.ratings, made, NonPrivate(), seed=cell["seed"]), data)}


def _summary(records: list[dict[str, Any]]) -> Table:
    """Mean and spread over the trials; a setting is the m and the ε of a panel of Figure 3."""
    table = summarise(records, ("method", "users", "rank", "noise", "epsilon"), spread=("error",))
    rows = [{**row, "setting": f"m = {row['users']:,}, ε = {row['epsilon']:g}"} for row in table.rows]
    return Table(columns=table.columns, rows=rows)


def _rate_summary(records: list[dict[str, Any]]) -> Table:
    return summarise(records, ("method", "users", "rounds"), spread=())


def _figure(name: str, number: int, noise: float) -> Experiment:
    kind = "noisy" if noise else "noiseless"
    return Experiment(
        name=name,
        title=f"Squared error per entry against ε, {kind} (Figure {number} of the DPLMC paper)",
        about=ABOUT.format(noise=f"noise of variance {noise:g}", settings="m = 5,000, 10,000, 15,000 users"),
        cells=_cells(noise),
        run=_run,
        summary=_summary,
        plot=PlotSpec(
            x="epsilon",
            y="error",
            x_label="ε (δ = 1e-5)",
            y_label=ERROR,
            log_x=True,
            log_y=True,
            across="users",
        ),
    )


ERROR = "‖X̂ − X*‖² / (mn)"
ABOUT = (
    "Generated data: n = 100 items, {settings}, r = 5, rows of U*, V* of norm at most 2, r log(m) ratings a user on "
    "average, {noise}. Replace-one, δ = 1e-5, 10 trials, exact accounting. One setting for all cells, not tuned."
)
EXPERIMENTS = (
    _figure("dplmc-noisy", 1, 1.0),
    _figure("dplmc-noiseless", 2, 0.0),
    Experiment(
        name="dplmc-rank",
        title="Squared error per entry against the rank (Figure 3 of the DPLMC paper)",
        about=ABOUT.format(
            noise="noise of variance 1", settings="m = 15,000 at ε = 5 and m = 10,000 at ε = 10"
        ).replace("r = 5", "r = 3, 5, 7"),
        cells=_rank_cells,
        fixed_epsilon="has its own epsilon for each number of users",
        run=_run,
        summary=_summary,
        plot=PlotSpec(x="rank", y="error", y_label=ERROR, log_y=True, across="setting"),
    ),
    Experiment(
        name="dplmc-rate",
        title="Squared error per entry against rounds, without privacy (linear rate of Theorem 5.2)",
        about="Generated data as in Figure 2 with m = 5,000, no observation noise, no privacy, nothing clipped, "
        "mean of 10 trials: a straight line on a logarithmic axis is a linear rate, which holds near a solution; "
        "before, a factor that the start has missed has to grow.",
        cells=_rate_cells,
        fixed_epsilon="is without privacy",
        run=_rate_run,
        summary=_rate_summary,
        plot=PlotSpec(x="rounds", y="error", y_label=ERROR, log_y=True),
    ),
)
