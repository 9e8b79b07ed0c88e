"""fit: ratings, solver and budget in; a release out. The whole flow on one page."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.engines.base import Engine
from hushrec.errors import ConfigError, EngineError
from hushrec.privacy.accounting import Budget, Guarantee, NonPrivate
from hushrec.privacy.curator import Curator
from hushrec.privacy.durable import LedgerFile
from hushrec.privacy.journal import Journal
from hushrec.privacy.queries import ItemCounts
from hushrec.release.file import Release
from hushrec.solvers.base import Model, Solver, public_settings
from hushrec.solvers.posterior import Posterior

TOP_SHARE = 0.05


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

    solver: any solver (None: the default one). budget: a Budget, or NonPrivate() for no protection at all.
    top: keep only this many items, chosen by noisy counts at 5 % of the budget. seed: repeatable, for experiments.
    ledger: the file with the data set's total, `Ledger.open(...)` or its path (started, where there is none, with
    this budget as the total); a fit that would pass the total is refused. resume: a folder that lets an
    interrupted fit go on, called again in the same way: what was released is not asked, or paid for, twice.

    **Guarantee**: the release is (ε, δ)-differentially private at the budget's unit and relation, and the
    predictions that all users compute from it with their own rows are jointly (ε, δ)-differentially private.
    A seeded run has no guarantee: its release says `simulation`.

    >>> import hushrec as hr
    >>> train, test = hr.synthetic(users=2000, items=30, rank=1, per_user=10, seed=0)
    >>> release = hr.fit(train, hr.SVD(), hr.Budget(epsilon=1.0, delta=1e-6))
    >>> round(release.guarantee.epsilon, 6)
    1.0
    """
    if budget is None:
        raise ConfigError("fit needs a budget: Budget(epsilon=..., delta=...), or NonPrivate() for no protection.")
    solver = solver if solver is not None else default_solver()
    if isinstance(ledger, (str, os.PathLike)):
        ledger = open_ledger(ledger, budget)
    journal = Journal(
        budget,
        ledger=ledger,
        folder=resume,
        solver=type(solver).__name__,
        settings=fit_settings(ratings, solver, budget, seed, top),
        seeded=seed is not None,
    )
    finished = False
    try:
        release = learn(Curator(ratings, budget, engine=engine, seed=seed, journal=journal), solver, seed, top)
        finished = True
    except MemoryError:
        raise EngineError("There was not enough memory for this fit.") from None
    finally:
        journal.close(finished)
    return release


def default_solver() -> Solver:
    """The solver of a fit that names none."""
    return Posterior()


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


def open_ledger(path: str | os.PathLike[str], budget: Budget | NonPrivate) -> LedgerFile:
    """The ledger at this path; where there is none, one whose total is the budget of this first fit."""
    return LedgerFile(path, budget if isinstance(budget, Budget) and not Path(path).exists() else None)


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

    **Guarantee**: one release, "top items"; the choice is post-processing of it.
    """
    if not 1 <= top <= curator.shape.items:
        raise ConfigError(f"top must be between 1 and the number of items, not {top}.")
    curator.plan({"top items": TOP_SHARE})
    (counts,) = curator.release("top items", ItemCounts()).parts
    curator.narrow(np.sort(np.argsort(-counts, kind="stable")[:top]))


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
        why_void="" if seed is None else "The run was seeded: whoever knows the seed can subtract the noise.",
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
    """Settings as plain JSON values; infinities as text."""
    return {key: value if _plain(value) else str(value) for key, value in settings.items()}


def _plain(value: Any) -> bool:
    return value is None or (isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value)))
