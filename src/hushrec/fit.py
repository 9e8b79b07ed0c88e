"""fit: ratings, solver and budget in; a release out. The whole flow on one page."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec import require
from hushrec.data.ratings import Ratings
from hushrec.engines.base import Engine
from hushrec.errors import ConfigError, EngineError
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.privacy.curator import Curator, usable_mu
from hushrec.privacy.durable import LedgerFile
from hushrec.privacy.guarantee import Guarantee
from hushrec.privacy.journal import Journal
from hushrec.privacy.queries import ItemCounts
from hushrec.release.file import Release
from hushrec.solvers.base import Model, Solver, public_settings
from hushrec.solvers.implicit import ImplicitPosterior
from hushrec.solvers.posterior import Posterior

TOP_SHARE = 0.05
SEEDED = "The run was seeded: whoever knows the seed can subtract the noise."
LARGE_DELTA = (
    "δ is not below 1/m for the m users of this fit: what gives one whole row away, each with probability 1/m, keeps "
    "such a δ. Choose one that is far smaller."
)
SEEDED_IN_VAIN = "The run was seeded, so it counts as an experiment, although no noise was drawn from the seed."


def fit(
    ratings: Ratings,
    solver: Solver | None = None,
    budget: Budget | NonPrivate | None = None,
    *,
    seed: int | None = None,
    engine: Engine | None = None,
    top: int | None = None,
    ledger: LedgerFile | str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> Release:
    """Learn a model from all users' ratings and return what may be published.

    solver: any solver (None: Posterior(), or ImplicitPosterior() for ratings without values). budget: a Budget, or
    NonPrivate() for no protection at all.
    top: keep only this many items, chosen by noisy counts at 5 % of the budget (for nothing where unit="rating", since
    which items were rated is public there). seed: repeatable, for experiments.
    ledger: the file with the data set's total, `Ledger.open(...)` or its path (started, where there is none, with
    this budget as the total); a fit that would pass the total is refused, and one to answers that
    users' devices randomized before is not charged. resume: a folder that lets an interrupted fit go on, called again
    in the same way: what was released is not asked, or paid for, twice, and is what the ratings were then.

    **Guarantee**: the release is (ε, δ)-differentially private at the budget's unit and relation, and the
    predictions that all users compute from it with their own rows are jointly (ε, δ)-differentially private.
    A seeded run has no guarantee: its release says `simulation`.

    >>> import hushrec as hr
    >>> train, test = hr.synthetic(users=2000, items=30, rank=1, per_user=10, seed=0)
    >>> release = hr.fit(train, hr.SVD(), hr.Budget(epsilon=1.0, delta=1e-6))
    >>> round(release.guarantee.epsilon, 6)
    1.0
    """
    require_ratings(ratings)
    budget = require_usable(budget, solver, seed, engine)
    if top is not None:
        require.whole("top", top, 1, ratings.n_items)
    solver = solver if solver is not None else default_solver(implicit=ratings.implicit)
    if ratings.randomized is not None and budget.unit == "rating" and getattr(solver, "already_randomized", False):
        ledger = None  # users' devices spent, once: whatever is made of their answers is post-processing
    if resume is not None and not isinstance(resume, (str, os.PathLike)):
        raise ConfigError(f"resume must be the path of a folder, not {type(resume).__name__}.")
    journal = Journal(
        budget,
        ledger=None if ledger is None else open_ledger(ledger, budget, seeded=seed is not None),
        folder=resume,
        solver=type(solver).__name__,
        settings=fit_settings(ratings, solver, budget, seed, top),
        seeded=seed is not None,
    )
    finished = False
    try:
        release = learn(Curator(ratings, budget, engine=engine, seed=seed, journal=journal), solver, seed, top)
        release = with_remark(release, budget, ratings.n_users)
        finished = True
    except MemoryError:
        raise EngineError("There was not enough memory for this fit.") from None
    finally:
        journal.close(finished)
    return release


def require_ratings(ratings: Any) -> None:
    """Refuse anything but `Ratings`: a path, an array or a data frame has to be read first."""
    if not isinstance(ratings, Ratings):
        raise ConfigError(f"ratings must be Ratings, such as hr.read(...) gives, not {type(ratings).__name__}.")


def require_usable(budget: Any, solver: Any, seed: Any = None, engine: Any = None) -> Budget | NonPrivate:
    """Refuse settings with which no fit can end well, before a rating is read or a budget spent; returns the budget."""
    if not isinstance(budget, (Budget, NonPrivate)):
        raise ConfigError(
            "fit needs a budget: Budget(epsilon=..., delta=...), or NonPrivate() for no protection"
            + ("." if budget is None else f", not {require.show(budget)}.")
        )
    if solver is not None and not is_solver(solver):
        raise ConfigError(f"solver must be a solver with its settings, such as SVD(), not {require.show(solver)}.")
    if budget.private and budget.unit != getattr(solver, "unit", "user"):
        rule = "single ratings" if budget.unit == "user" else "all ratings of a user"
        unit = "rating" if budget.unit == "user" else "user"
        raise ConfigError(f'This solver protects {rule}: its budget must have unit="{unit}", not unit="{budget.unit}".')
    if seed is not None:
        require.whole("seed", seed, 0)
    if engine is not None and (isinstance(engine, type) or not callable(getattr(engine, "attach", None))):
        raise ConfigError(f"engine must be an engine, such as LocalEngine(), not {require.show(engine)}.")
    usable_mu(budget)
    return budget


def is_solver(one: Any) -> bool:
    """Whether this is a solver, and not its name or its class."""
    return callable(getattr(one, "solve", None)) and not isinstance(one, type)


def default_solver(*, implicit: bool = False) -> Solver:
    """The solver of a fit that names none; implicit: the data are uses of items, without values."""
    return ImplicitPosterior() if implicit else Posterior()


def learn(curator: Curator, solver: Solver, seed: int | None = None, top: int | None = None) -> Release:
    """The release that a solver makes of a curator's answers."""
    if top is not None:
        choose_items(curator, top)
    model = solver.solve(curator)
    return Release(
        kind=model.kind,
        arrays={name: np.ascontiguousarray(array, dtype=np.float64) for name, array in model.arrays.items()},
        settings=dict(model.settings),
        items=curator.items,
        value_range=curator.shape.value_range,
        guarantee=guarantee(curator, model, seed),
        solver=jsonable(public_settings(solver)),
        notes=model.notes,
    )


def with_remark(release: Release, budget: Budget | NonPrivate, users: int) -> Release:
    """The release with a remark where δ is large for so many users, if their number is public."""
    public = budget.relation == "replace-one" and budget.unit == "user"
    large = budget.private and public and budget.delta * users >= 1.0
    return replace(release, notes=(*release.notes, LARGE_DELTA)) if large else release


def open_ledger(path: LedgerFile | str | os.PathLike[str], budget: Budget | NonPrivate, *, seeded: bool) -> LedgerFile:
    """The ledger itself, or that at this path; where there is none, one whose total is the budget of this first fit."""
    if isinstance(path, LedgerFile):
        return path
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(f"ledger must be a path, or what Ledger.open(...) gives, not {type(path).__name__}.")
    if not isinstance(budget, Budget) or Path(path).exists():
        return LedgerFile(path)
    require_startable(path, budget, seeded=seeded)
    return LedgerFile(path, budget)


def require_startable(path: str | os.PathLike[str], budget: Budget | NonPrivate, *, seeded: bool) -> None:
    """Refuse a first fit whose budget would be no total for the others."""
    if seeded:
        raise ConfigError(
            f"There is no ledger at {path}, and a seeded run starts none: leave the seed out, or start a ledger for a "
            f"simulation first."
        )
    if not budget.private:
        raise ConfigError(f"There is no ledger at {path}, and NonPrivate() starts none: it protects nothing.")
    if budget.unit == "user" and budget.delta == 0.0:
        raise ConfigError("delta is 0.0, but what protects users is Gaussian noise, which needs a delta, such as 1e-6.")


def fit_settings(
    ratings: Ratings, solver: Solver, budget: Budget | NonPrivate, seed: int | None, top: int | None
) -> dict[str, Any]:
    """By what a resume folder knows its fit: public settings and the public shape of the data, nothing else."""
    known = budget.relation == "replace-one"
    return {
        "solver": jsonable(public_settings(solver)),
        "budget": jsonable(asdict(budget)),
        "seed": seed,
        "top": top,
        "users": ratings.n_users if known else None,
        "items": ratings.n_items,
        "value_range": list(ratings.value_range),
    }


def choose_items(curator: Curator, top: int) -> None:
    """Reduce the catalogue to the items with the largest noisy counts.

    **Guarantee**: one release, "top items"; the choice is post-processing of it. Where single ratings are protected,
    counts are public: they are exact and cost nothing.
    """
    require.whole("top", top, 1, curator.shape.items)
    if curator.budget.unit == "rating":  # which items were rated is public there, and so is how often
        curator.narrow(most_rated(np.bincount(curator.pattern.indices, minlength=curator.shape.items), top))
        return
    curator.plan({"top items": TOP_SHARE})
    (counts,) = curator.release("top items", ItemCounts()).parts
    curator.narrow(most_rated(counts, top))


def most_rated(counts: NDArray[Any], top: int) -> NDArray[np.int64]:
    """The positions of the largest counts, increasing."""
    return np.sort(np.argsort(-counts, kind="stable")[:top])


def guarantee(curator: Curator, model: Model, seed: int | None) -> Guarantee:
    """What is promised for everything the curator released, and under which assumptions."""
    budget = curator.budget
    pure = budget.unit == "rating" and curator.ledger.mu == 0.0
    return Guarantee(
        epsilon=budget.epsilon if curator.proved or not budget.private else None,
        delta=0.0 if pure else budget.delta,
        unit=budget.unit,
        relation=budget.relation,
        model=curator.model,
        assumptions=(*_assumptions(curator), *model.assumptions),
        claims=model.claims,
        ledger=curator.ledger,
        void=seed is not None,
        why_void="" if seed is None else SEEDED if curator.noise_from_seed else SEEDED_IN_VAIN,
    )


CATALOGUE_ASSUMPTIONS = {
    "declared": "The item list was declared by the curator and does not depend on the ratings.",
    "observed": "The item list is taken to be public, although it was read off the ratings: that an item is in it "
    "says that somebody rated it.",
    "fixed": "The item list is taken to have been fixed beforehand, although it was chosen by exact counts.",
}


def _assumptions(curator: Curator) -> tuple[str, ...]:
    presence = (
        "The number of users is public: whether somebody took part at all is not protected."
        if curator.budget.relation == "replace-one"
        else "The number of users is private, and was only used through a noisy count."
    )
    low, high = curator.shape.value_range
    return (
        "One row of the ratings is one person.",
        presence,
        CATALOGUE_ASSUMPTIONS[curator.catalogue],
        f"The value range ({low:g}, {high:g}) and every setting were chosen without looking at the ratings.",
    )


def jsonable(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as plain JSON values, NumPy's numbers among them; infinities as text."""
    given = {key: value.item() if isinstance(value, np.generic) else value for key, value in settings.items()}
    return {key: value if _plain(value) else str(value) for key, value in given.items()}


def _plain(value: Any) -> bool:
    return value is None or (isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value)))
