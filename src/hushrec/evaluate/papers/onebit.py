"""Experiments of the one-bit paper (Li, Fang, Feng, Ye 2021): Figures 1 to 5, and what they lack.

Every mechanism in three settings:
    paper    α = 1, τ = α √(d1 d2), no effects, its own forms; it does not say how many gradients it takes: 10 here
    public   the same with τ and α from public knowledge, nothing else changed
    ours     the library's defaults; beside them lines of solvers that protect all of a user's answers and
             which items they are about ("user level")
Errors: ARE = ‖M̂ − M‖²/‖M‖² where M is known (`onebit_real.py` has the real data, `onebit_flip.py` one flipped rating).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from hushrec.data.ratings import Ratings
from hushrec.evaluate.experiments import Cell, Experiment, Options
from hushrec.evaluate.plots import PlotSpec
from hushrec.evaluate.tables import Table, summarise
from hushrec.fit import fit
from hushrec.onebit.bounds import Problem, clear_bound, input_bound, objective_bound, output_bound
from hushrec.onebit.completion import least_ridge
from hushrec.onebit.links import make_link
from hushrec.onebit.solver import OneBit
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.privacy.curator import Curator
from hushrec.privacy.signs import Pattern
from hushrec.release.complete import predict_at
from hushrec.solvers.als import ALS
from hushrec.solvers.frank_wolfe import FrankWolfe
from hushrec.solvers.posterior import Posterior

SIZE, SHARE, DELTA = 100, 0.15, 1e-6
EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
LINKS = ("logistic", "probit")
RATIOS = (0.2, 0.35, 0.5, 0.65, 0.8)

CLEAR, POOLED = "Clear", "OutP pooled"
MECHANISMS: dict[str, dict[str, Any]] = {
    CLEAR: {"mechanism": "none"},
    "InP": {"mechanism": "input"},
    "ObjP": {"mechanism": "objective", "form": "paper"},
    "ObjP on signs": {"mechanism": "objective"},
    "GraP": {"mechanism": "gradient"},
    "OutP": {"mechanism": "output", "form": "paper"},
    "OutP convex": {"mechanism": "output", "form": "strongly-convex"},
    POOLED: {"mechanism": "output", "form": "strongly-convex"},
}
"""By name; the paper's own five as it calls them."""
PAPERS_FORMS = ("ObjP", "OutP")
POOLED_SHARE = 0.25
"""Of the ridge at which no constraint binds: here one does, and the fit pools what ratings say."""
USER_LEVEL: dict[str, Any] = {
    "user level: FrankWolfe": FrankWolfe,
    "user level: Posterior": Posterior,
    "user level: ALS": ALS,
}
PAPER: dict[str, Any] = {"rank": 1.0, "alpha": 1.0, "effects": False}
PAPERS_ROUNDS = 10
UNIFORM = 1.0 / 3.0
"""τ/(α √(d1 d2)) of a rank-one matrix of uniform factors: how the synthetic data are made is public, and α is right."""
SETTINGS: dict[str, dict[str, Any]] = {"paper": PAPER, "public": {**PAPER, "rank": UNIFORM**2}, "ours": {}}
BOUNDS = {CLEAR: clear_bound, "InP": input_bound, "ObjP": objective_bound, "OutP": output_bound}


@dataclass(frozen=True)
class Planted:
    """Signs with the matrix M (d, d) behind them."""

    ratings: Ratings
    truth: NDArray[np.float64]


@functools.lru_cache(maxsize=2)
def planted(link: str, share: float, seed: int, size: int = SIZE) -> Planted:
    """The paper's synthetic data: rank one, uniform factors, largest entry 1, a share of the signs seen."""
    rng = np.random.default_rng(seed)
    truth = np.outer(rng.uniform(-0.5, 0.5, size), rng.uniform(-0.5, 0.5, size))
    truth /= np.abs(truth).max()
    rows, columns = np.nonzero(rng.random(truth.shape) < share)
    yes = rng.random(len(rows)) < make_link(link).probability(truth[rows, columns])
    ratings = Ratings.from_codes(
        rows, columns, yes.astype(float), items=np.arange(size), value_range=(0.0, 1.0), n_users=size,
        catalogue="declared",
    )  # fmt: skip
    return Planted(ratings, truth)


# --- methods and cells ----------------------------------------------------------------------------


def make_solver(cell: Cell, settings: dict[str, Any], pattern: Pattern, **more: Any) -> OneBit:
    """The mechanism of a cell with these settings ({} for ours), for ratings of this pattern."""
    if cell["method"] == "GraP" and settings:
        more["gradient_rounds"] = PAPERS_ROUNDS
    made = OneBit(link=cell["link"], **settings, **MECHANISMS[cell["method"]], **more)
    if cell["method"] != POOLED:
        return made
    return replace(made, ridge=POOLED_SHARE * least_ridge(pattern, made.radius(pattern.shape), made))


def budget_of(cell: Cell) -> Budget | NonPrivate:
    """For single ratings, or for users where the method protects them."""
    if cell["epsilon"] is None:
        return NonPrivate(unit="rating")
    return Budget(cell["epsilon"], DELTA, unit="user" if cell["method"] in USER_LEVEL else "rating")


def is_proved(curator: Curator) -> str | None:
    """Whether the ε of what was released is a guarantee; not a question where nothing is promised."""
    if not curator.budget.private:
        return None
    return "yes" if curator.proved else "no"


def methods(settings: str, link: str) -> tuple[str, ...]:
    """What there is in these settings; the paper's ObjP adds noise to the signs anyway where the link is logistic."""
    if settings == "ours":
        return (*(name for name in MECHANISMS if name not in PAPERS_FORMS), *USER_LEVEL)
    return tuple(name for name in MECHANISMS if (name, link) != ("ObjP on signs", "logistic"))


def make_cells(
    options: Options, runs: int, *, quick: tuple[float, ...], settings: tuple[str, ...] = (),
    links: tuple[str, ...] = (), **more: tuple[Any, ...],
) -> list[Cell]:  # fmt: skip
    """All combinations of link, settings (of these, or all), method, epsilon and seed, and of what is given beside."""
    epsilons = options.epsilons or (quick if options.quick else EPSILONS)
    cells: list[Cell] = [
        {"link": link, "settings": setting, "method": method, "epsilon": epsilon}
        for link in links or LINKS
        for setting in settings or SETTINGS
        for method in methods(setting, link)
        for epsilon in ((None,) if method == CLEAR else epsilons)
    ]
    for name, values in more.items():
        cells = [{**cell, name: value} for cell in cells for value in values]
    count = options.runs or (1 if options.quick else runs)
    return [{**cell, "seed": options.seed + run} for cell in cells for run in range(count)]


# --- synthetic: Figures 1, 4, 5 -------------------------------------------------------------------


def _run(cell: Cell, options: Options) -> dict[str, Any]:
    data = planted(cell["link"], cell.get("observed", SHARE), cell["seed"])
    curator = Curator(data.ratings, budget_of(cell), seed=cell["seed"])
    if cell["method"] in USER_LEVEL:
        return {"ARE": _error(_user_level(cell, data.ratings), data), "proved": "yes"}
    solver = make_solver(cell, SETTINGS[cell["settings"]], curator.pattern)
    _, completion = solver.complete(curator)
    figures = {"ARE": _error(completion.matrix.toarray(), data), "proved": is_proved(curator)}
    return figures | (_bound(cell, data) if cell["settings"] == "paper" else {})


def _error(found: NDArray[np.float64], data: Planted) -> float:
    return float(np.sum((found - data.truth) ** 2) / np.sum(data.truth**2))


def user_solver(cell: Cell) -> Any:
    """The solver of a user-level line, with the link as its loss where it has one."""
    made = USER_LEVEL[cell["method"]]
    return made(loss=cell["link"]) if made is FrankWolfe else made()


def _user_level(cell: Cell, ratings: Ratings) -> NDArray[np.float64]:
    """What all users' devices make of the release, as M̂ within ±1, which is public."""
    release = fit(ratings, user_solver(cell), budget_of(cell), seed=cell["seed"])
    rows = ratings.indptr, ratings.indices, ratings.values.astype(np.float64)
    m, n = ratings.n_users, ratings.n_items
    everything = np.arange(m + 1) * n, np.tile(np.arange(n), m)
    chances = np.clip(predict_at(release, rows, everything), 1e-9, 1.0 - 1e-9).reshape(m, n)
    return np.clip(logit(chances) if cell["link"] == "logistic" else ndtri(chances), -1.0, 1.0)


def _bound(cell: Cell, data: Planted) -> dict[str, float]:
    """The theorem's bound of the same figure, with constants of 1."""
    made = BOUNDS.get(cell["method"])
    if made is None:
        return {}
    task = Problem(shape=data.truth.shape, rank=1, entry_bound=1.0, observed=data.ratings.n_ratings)
    link = make_link(cell["link"])
    bound = made(task, link) if cell["epsilon"] is None else made(task, link, cell["epsilon"])  # type: ignore[operator]
    return {"bound": float(bound.total / np.mean(data.truth**2))}


def _summary(records: list[dict[str, Any]]) -> Table:
    names = ("link", "settings", "method", "epsilon", "observed")
    return summarise(records, tuple(name for name in names if name in records[0]), spread=("ARE",))


# --- the list -------------------------------------------------------------------------------------

SYNTHETIC = (
    f"{SIZE} by {SIZE}, rank 1, uniform factors, largest entry 1; yes with probability h(M) for the logistic and the "
    "Gaussian (probit) noise model. ARE = ‖M̂ − M‖²/‖M‖² over all entries, 1 for a matrix of zeros; 'bound': the "
    "theorems' with constants of 1."
)
FORMS = (
    " Settings: 'paper' has α = 1, τ = √(d1 d2), no effects; 'public' the same with τ and α from public knowledge; "
    "'ours' the library's defaults, nothing tuned. ObjP and OutP are the paper's forms, 'on signs' and 'convex' the "
    f"proved ones; 'pooled' is the convex one at {POOLED_SHARE:g} of its ridge. 'proved': whether ε is a guarantee for "
    "the release. Unit: a single rating, and which are rated is public; at user level both are protected."
)
RUNS = " Column 'runs': how many"
PANELS: dict[str, Any] = {"down": "settings", "across": "link", "y_label": "ARE", "log_y": True}

EXPERIMENTS = (
    Experiment(
        name="onebit-synthetic",
        title="One-bit completion of planted signs, 15 % observed (Figure 1)",
        about=f"{SYNTHETIC} 15 % observed.{RUNS} draws (40 in full).{FORMS}",
        cells=functools.partial(make_cells, runs=40, quick=(2.0, 8.0)),
        run=_run,
        summary=_summary,
        plot=PlotSpec(x="epsilon", y="ARE", x_label="ε", log_x=True, **PANELS),
    ),
    Experiment(
        name="onebit-ratios",
        title="One-bit completion at observation ratios of 20 to 80 % (Figures 4 and 5; the plot: ε=4 or nearest)",
        about=f"{SYNTHETIC}{RUNS} draws (10 in full).{FORMS}",
        cells=lambda options: make_cells(
            options, 10, quick=(4.0,), observed=(RATIOS[0], RATIOS[-1]) if options.quick else RATIOS
        ),
        run=_run,
        summary=_summary,
        plot=PlotSpec(x="observed", y="ARE", x_label="share of entries observed", nearest=("epsilon", 4.0), **PANELS),
    ),
)
