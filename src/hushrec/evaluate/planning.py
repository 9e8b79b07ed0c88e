"""plan: what to expect before anyone's ratings are touched, from generated ratings of the same public shape.

    1. generate a surrogate with the declared users, items, ratings per user and value range, and hold out a tenth
    2. fit every candidate at the asked budget; the default stays unless another is clearly better
    3. fit the chosen one, and item means alone, at several ε and without noise

Where there are more ratings than `most_ratings`, fewer users are generated and μ is raised by the same factor:
every sum over users then stands as far above its noise as it would with all of them. What does not shrink along is
the chance in who rated what, so a large data set is foretold a little too pessimistically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.data.split import split
from hushrec.data.synthetic import surrogate
from hushrec.errors import ConfigError
from hushrec.evaluate.metrics import evaluate
from hushrec.evaluate.plots import PlotSpec, check_picture, draw
from hushrec.evaluate.tables import Row, Table
from hushrec.fit import fit, jsonable
from hushrec.privacy.accounting import Budget, NonPrivate, gaussian_epsilon
from hushrec.privacy.curator import Curator
from hushrec.solvers.base import Model, Solver, public_settings
from hushrec.solvers.means import learn_means
from hushrec.solvers.posterior import Posterior
from hushrec.solvers.svd import SVD, USERS_SHARE, ridge_model

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
MOST_RATINGS = 1_000_000
CLEARLY = 0.003  # a candidate must beat the default by this part of the error: the surrogate is only a guess
LITTLE = 0.1  # a gain over item means below this part of what a model gains without noise is hardly one
OFFSET_PRIOR = 4.0
RANK = 2  # of the tastes: rating data has few strong factors, and a long tail that little can learn

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class ItemMeansOnly:
    """Item means and every user's own offset, with the whole budget: the line that a model has to beat.

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove only) and "means".

    >>> import hushrec as hr
    >>> train, _ = hr.synthetic(users=500, items=20, per_user=8)
    >>> hr.fit(train, ItemMeansOnly(), hr.Budget(1.0, 1e-6)).arrays["loadings"].shape
    (20, 1)
    """

    def solve(self, curator: Curator) -> Model:
        """Means alone."""
        users = curator.count_users(USERS_SHARE)
        items = learn_means(curator, users, curator.left() * (1 - 1e-12))
        return ridge_model(items, np.zeros((len(items.means), 0)), 1.0, OFFSET_PRIOR)


CANDIDATES: tuple[Solver, ...] = (Posterior(), Posterior(rounds=1), Posterior(rounds=4), Posterior(rank=8), SVD())


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The errors to expect at one ε: of the chosen solver, and of item means alone."""

    epsilon: float
    rmse: float
    means_only: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What `plan` found: the solver to use, the error to expect at several ε, and the lines beside it.

    candidates: (name and settings, error at the budget) of each; non_private, exact_means: the errors without noise.
    best: the smallest error of the model at all, which is without noise unless that happened to overfit.

    **Guarantee**: made of public values alone; it costs no privacy.
    """

    users: int
    items: int
    ratings_per_user: float
    value_range: tuple[float, float]
    budget: Budget
    solver: Solver
    candidates: tuple[tuple[Mapping[str, Any], float], ...]
    forecasts: tuple[Forecast, ...]
    non_private: float
    exact_means: float
    simulated_users: int

    @property
    def best(self) -> float:
        """The smallest error of the model that was simulated: without noise, or at some ε."""
        return min(self.non_private, *(one.rmse for one in self.forecasts))

    @property
    def best_name(self) -> str:
        """What `best` is the error of."""
        return "non-private" if self.best == self.non_private else "best at any ε"

    def gain(self, one: Forecast) -> float:
        """What the model gains over item means at the same ε, as a part of what the best one gains: in [0, 1]."""
        possible = max(self.exact_means, one.means_only) - self.best
        return max((one.means_only - one.rmse) / possible, 0.0) if possible > 0 else 0.0

    @property
    def expected(self) -> Forecast:
        """The forecast at the asked budget."""
        return next(one for one in self.forecasts if one.epsilon == self.budget.epsilon)

    @property
    def users_for_half(self) -> float | None:
        """About how many users keep half of the gain without noise at the asked ε; None beyond what was simulated.

        An error depends on users · μ, so the forecasts at other ε are those of other numbers of users.
        """
        sizes = np.array([replace(self.budget, epsilon=one.epsilon).mu for one in self.forecasts]) / self.budget.mu
        gains = np.array([self.gain(one) for one in self.forecasts])
        above = np.flatnonzero(gains >= 0.5)
        if above.size == 0 or above[0] == 0:
            return None
        low, high = int(above[0]) - 1, int(above[0])
        part = (0.5 - gains[low]) / (gains[high] - gains[low])
        return float(self.users * math.exp((1 - part) * math.log(sizes[low]) + part * math.log(sizes[high])))

    @property
    def advice(self) -> str:
        """Whether the data is big enough for the budget, in a sentence or two."""
        here, epsilon = self.expected, f"{self.budget.epsilon:g}"
        gain = self.gain(here)
        if gain < LITTLE:
            first = (
                f"Too small for ε = {epsilon}: a model will hardly tell more than item means (RMSE {here.rmse:.3g})."
            )
        else:
            first = (
                f"At ε = {epsilon} expect RMSE {here.rmse:.3g} against {here.means_only:.3g} of item means alone: "
                f"{gain:.0%} of the way to {self.best:.3g} ({self.best_name})."
            )
        needed = self.users_for_half
        if gain >= 0.5:
            return first
        if needed is None:
            return f"{first} Half of it takes more budget than any ε that was tried, or many more users."
        return f"{first} Half of it takes about {_rounded(needed):,} users, at the same ε."

    def table(self) -> Table:
        """One row for each ε: the expected error, item means alone, and the part of the gain kept."""
        rows: list[Row] = [
            {
                "epsilon": one.epsilon,
                "rmse": one.rmse,
                "item means only": one.means_only,
                self.best_name: self.best,
                "gain kept": f"{self.gain(one):.0%}",
            }
            for one in self.forecasts
        ]
        return Table(columns=tuple(rows[0]), rows=rows)

    def plot(self, path: str | Path) -> bool:
        """Write the table as a PNG; returns whether it could (that needs the extra `plot`)."""
        rows: list[Row] = []
        for one in self.forecasts:
            rows.append({"method": _name(self.solver), "epsilon": one.epsilon, "rmse": one.rmse})
            rows.append({"method": "item means only", "epsilon": one.epsilon, "rmse": one.means_only})
        rows.append({"method": self.best_name, "epsilon": None, "rmse": self.best})
        table = Table(columns=("method", "epsilon", "rmse"), rows=rows)
        spec = PlotSpec(x="epsilon", y="rmse", x_label="ε", y_label="expected RMSE", log_x=True)
        return draw(table, spec, f"Expected of {self.users:,} users and {self.items:,} items", check_picture(path))

    def to_dict(self) -> dict[str, Any]:
        """Everything as a plain dict, safe for JSON."""
        return {
            "users": self.users,
            "items": self.items,
            "ratings_per_user": self.ratings_per_user,
            "value_range": list(self.value_range),
            "budget": {name: getattr(self.budget, name) for name in ("epsilon", "delta", "relation", "unit")},
            "solver": jsonable(public_settings(self.solver)),
            "candidates": [{"solver": dict(settings), "rmse": rmse} for settings, rmse in self.candidates],
            "forecasts": [vars(one) | {"gain": self.gain(one)} for one in self.forecasts],
            "non_private": self.non_private,
            "exact_means": self.exact_means,
            "best": self.best,
            "users_for_half": self.users_for_half,
            "simulated_users": self.simulated_users,
            "advice": self.advice,
        }


def plan(
    *,
    users: int,
    items: int,
    ratings_per_user: float,
    value_range: tuple[float, float],
    budget: Budget,
    epsilons: Sequence[float] = EPSILONS,
    levels: int | None = None,
    solver: Solver | None = None,
    seed: int = 0,
    most_ratings: int = MOST_RATINGS,
    progress: Progress | None = None,
) -> Plan:
    """Choose a solver's settings and foretell its error at several ε, for ratings of this public shape.

    ratings_per_user: the mean; a tenth of the generated ratings is held out to measure on. levels: how
    many equally spaced values there are (5 for stars in (1, 5); None: values in between as well). solver: forecast
    this one instead of choosing. most_ratings: where there are more, fewer users are simulated at a larger μ.

    **Guarantee**: reads no ratings, so it costs no privacy. All figures rest on what ratings are usually like: on how
    skewed popularity and activity are and how far tastes differ, relative to the value range.

    >>> import hushrec as hr
    >>> found = hr.plan(users=2000, items=50, ratings_per_user=10, value_range=(1, 5), budget=hr.Budget(1.0, 1e-6),
    ...     epsilons=(10.0,), solver=hr.SVD())
    >>> [one.epsilon for one in found.forecasts]
    [1.0, 10.0]
    """
    _check(users=users, items=items, most_ratings=most_ratings)
    if not isinstance(budget, Budget):
        raise ConfigError("plan needs a Budget(epsilon=..., delta=...).")
    if not (isinstance(ratings_per_user, (int, float, np.number)) and 0.0 < ratings_per_user <= items):
        raise ConfigError(f"ratings_per_user must be above 0 and at most the {items} items, not {ratings_per_user!r}.")
    simulated = min(users, max(int(most_ratings / max(ratings_per_user, 1.0)), 1))
    ratings = surrogate(simulated, items, ratings_per_user, value_range, seed, levels=levels, rank=RANK)
    trial = _Trial(*split(ratings, test=0.1, seed=seed), users / simulated, seed, progress)
    tried = (solver,) if solver is not None else (*CANDIDATES, ItemMeansOnly())
    every = sorted({*map(float, epsilons), budget.epsilon})
    budgets = [replace(budget, epsilon=epsilon) for epsilon in every]
    trial.total = len(tried) + 2 * len(budgets) + (1 if solver is not None else 0)
    errors = [trial.error(one, budget) for one in tried]
    chosen = chosen_solver(tried, errors)
    forecasts = tuple(
        Forecast(epsilon=one.epsilon, rmse=trial.error(chosen, one), means_only=trial.error(ItemMeansOnly(), one))
        for one in budgets
    )
    return Plan(
        users=users,
        items=items,
        ratings_per_user=float(ratings_per_user),
        value_range=ratings.value_range,
        budget=budget,
        solver=chosen,
        candidates=tuple((jsonable(public_settings(one)), error) for one, error in zip(tried, errors, strict=True)),
        forecasts=forecasts,
        non_private=trial.error(chosen, NonPrivate()),
        exact_means=trial.error(ItemMeansOnly(), NonPrivate()),
        simulated_users=simulated,
    )


def chosen_solver(tried: Sequence[Solver], errors: Sequence[float]) -> Solver:
    """The first one, unless another has a clearly smaller error."""
    best = int(np.argmin(errors))
    return tried[best] if errors[best] < errors[0] * (1 - CLEARLY) else tried[0]


def check_plan(plan: Plan, measured: Mapping[float, float]) -> dict[str, Any]:
    """How well a plan foretold errors that were measured at some of its ε.

    level: the mean ratio measured/expected, as the residuals' spread is only guessed relative to the value range;
    worst, worst_shape: the largest part by which a forecast is off, as it is and times the level.
    **Guarantee**: none; measured errors come from private ratings. Not private.

    >>> plan = Plan(users=9, items=9, ratings_per_user=3, value_range=(1, 5), budget=Budget(1.0, 1e-6), solver=SVD(),
    ...     candidates=(), forecasts=(Forecast(epsilon=1.0, rmse=0.9, means_only=1.0),), non_private=0.8,
    ...     exact_means=0.9, simulated_users=9)
    >>> round(check_plan(plan, {1.0: 0.99})["level"], 3)
    1.1
    """
    foretold = {one.epsilon: one.rmse for one in plan.forecasts}
    unknown = [epsilon for epsilon in measured if epsilon not in foretold]
    if unknown or not measured:
        raise ConfigError(f"measured must have errors at some of the plan's ε, {', '.join(map(str, foretold))}.")
    ratios = {epsilon: error / foretold[epsilon] for epsilon, error in measured.items()}
    level = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
    return {
        "rows": [
            {"epsilon": epsilon, "expected": foretold[epsilon], "measured": measured[epsilon], "ratio": ratio}
            for epsilon, ratio in ratios.items()
        ],
        "level": level,
        "worst": _worst(ratios.values()),
        "worst_shape": _worst(ratio / level for ratio in ratios.values()),
    }


@dataclass
class _Trial:
    """Generated ratings, split; the users that each simulated one stands for; errors that were found already."""

    train: Ratings
    test: Ratings
    worth: float
    seed: int
    progress: Progress | None = None
    total: int = 0

    def __post_init__(self) -> None:
        self.known: dict[Any, float] = {}

    def error(self, solver: Solver, budget: Budget | NonPrivate) -> float:
        """The error of the solver at the budget, as if all users had been simulated."""
        if (solver, budget) not in self.known:
            release = fit(self.train, solver, self.scaled(budget), seed=self.seed)
            figures = evaluate(release, self.train, self.test)
            if "rmse" not in figures:
                raise ConfigError(f"{_name(solver)} ranks items: it has no error that a plan could foretell.")
            self.known[solver, budget] = figures["rmse"]
            if self.progress is not None:
                self.progress(len(self.known), max(self.total, len(self.known)))
        return self.known[solver, budget]

    def scaled(self, budget: Budget | NonPrivate) -> Budget | NonPrivate:
        """The budget whose μ is larger by as much as the users are fewer."""
        if not isinstance(budget, Budget) or self.worth == 1.0:
            return budget
        return replace(budget, epsilon=gaussian_epsilon(budget.mu * self.worth, budget.delta))


def _worst(ratios: Iterable[float]) -> float:
    return max(abs(1.0 / ratio - 1.0) for ratio in ratios)


def _name(solver: Solver) -> str:
    return type(solver).__name__


def _rounded(count: float) -> int:
    """Two significant digits."""
    step = 10.0 ** (math.floor(math.log10(count)) - 1)
    return int(round(count / step) * step)


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, not {size!r}.")
