"""fit: ratings, solver and budget in; a release out. The whole flow on one page."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.engines.base import Engine
from hushrec.errors import ConfigError
from hushrec.privacy.accounting import Budget, Guarantee, NonPrivate
from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import ItemCounts
from hushrec.release.file import Release
from hushrec.solvers.base import Model, Solver, public_settings
from hushrec.solvers.svd import SVD

TOP_SHARE = 0.05


def fit(
    ratings: Ratings,
    solver: Solver | None = None,
    budget: Budget | NonPrivate | None = None,
    *,
    seed: int | None = None,
    engine: Engine | None = None,
    top: int | None = None,
) -> Release:
    """Learn a model from all users' ratings and return what may be published.

    solver: any solver (None: the default one). budget: a Budget, or NonPrivate() for no protection at all.
    top: keep only this many items, chosen by noisy counts at 5 % of the budget. seed: repeatable, for experiments.

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
    solver = solver if solver is not None else SVD()
    curator = Curator(ratings, budget, engine=engine, seed=seed)
    if top is not None:
        choose_items(curator, top)
    model = solver.solve(curator)
    return Release(
        kind=model.kind,
        arrays={name: np.ascontiguousarray(array, dtype=np.float64) for name, array in model.arrays.items()},
        settings=dict(model.settings),
        items=curator.items,
        value_range=ratings.value_range,
        guarantee=guarantee(curator, model, ratings, seed),
        solver=jsonable(public_settings(solver)),
        notes=model.notes,
    )


def choose_items(curator: Curator, top: int) -> None:
    """Reduce the catalogue to the items with the largest noisy counts.

    **Guarantee**: one release, "top items"; the choice is post-processing of it.
    """
    if not 1 <= top <= curator.shape.items:
        raise ConfigError(f"top must be between 1 and the number of items, not {top}.")
    curator.plan({"top items": TOP_SHARE})
    (counts,) = curator.release("top items", ItemCounts()).parts
    curator.narrow(np.sort(np.argsort(-counts, kind="stable")[:top]))


def guarantee(curator: Curator, model: Model, ratings: Ratings, seed: int | None) -> Guarantee:
    """What is promised for everything the curator released, and under which assumptions."""
    budget = curator.budget
    return Guarantee(
        epsilon=budget.epsilon,
        delta=budget.delta,
        unit=budget.unit,
        relation=budget.relation,
        model="joint",
        assumptions=(*_assumptions(ratings, budget), *model.assumptions),
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


def _assumptions(ratings: Ratings, budget: Budget | NonPrivate) -> tuple[str, ...]:
    presence = (
        "The number of users is public: whether somebody took part at all is not protected."
        if budget.relation == "replace-one"
        else "The number of users is private, and was only used through a noisy count."
    )
    low, high = ratings.value_range
    return (
        "One row of the ratings is one person.",
        presence,
        CATALOGUE_ASSUMPTIONS[ratings.catalogue],
        f"The value range ({low:g}, {high:g}) and every setting were chosen without looking at the ratings.",
    )


def jsonable(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as plain JSON values; infinities as text."""
    return {key: value if _plain(value) else str(value) for key, value in settings.items()}


def _plain(value: Any) -> bool:
    return value is None or (isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value)))
