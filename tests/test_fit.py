"""The whole path: what a release says about itself is what happened."""

import numpy as np
import pytest

import hushrec as hr
from making import random_ratings

TRAIN, TEST = hr.synthetic(users=1500, items=40, rank=1, per_user=15, noise=0.1, seed=2)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_guarantee_is_what_the_ledger_spent(relation):
    release = hr.fit(TRAIN, hr.SVD(), hr.Budget(1.5, 1e-6, relation=relation), top=20)
    guarantee = release.guarantee
    assert 1.5 - 1e-9 <= guarantee.spent <= 1.5
    assert (guarantee.epsilon, guarantee.delta, guarantee.relation, guarantee.unit) == (1.5, 1e-6, relation, "user")
    assert guarantee.model == "joint"
    names = [entry.name for entry in guarantee.ledger]
    assert names == ["top items", *(["users"] if relation == "add-remove" else []), "means", "gram"]
    assert not guarantee.void
    assert release.n_items == 20


def test_a_seeded_run_is_a_simulation_and_repeatable():
    one, two = (hr.fit(TRAIN, hr.SVD(), hr.Budget(1.0, 1e-6), seed=4) for _ in range(2))
    assert one.simulation
    assert one.guarantee.void
    assert "seed" in one.guarantee.why_void
    for name in one.arrays:
        np.testing.assert_array_equal(one.arrays[name], two.arrays[name])


def test_unseeded_runs_differ():
    one, two = (hr.fit(TRAIN, hr.SVD(), hr.Budget(1.0, 1e-6)) for _ in range(2))
    assert (one.arrays["means"] != two.arrays["means"]).any()


def test_not_private_says_so():
    release = hr.fit(TRAIN, hr.SVD(), hr.NonPrivate())
    assert release.guarantee.epsilon == np.inf


def test_the_default_solver_needs_no_name_and_a_budget_is_required():
    assert hr.fit(TRAIN, budget=hr.Budget(1.0, 1e-6), seed=0).solver["name"]
    with pytest.raises(hr.ConfigError, match="budget"):
        hr.fit(TRAIN)


@pytest.mark.parametrize(
    ("ratings", "says"),
    [
        (TRAIN, "declared by the curator"),
        (TRAIN.restrict(top=10), "fixed beforehand"),
        (random_ratings(), "read off the ratings"),
    ],
)
def test_the_assumptions_say_how_the_catalogue_came_to_be(ratings, says):
    assumptions = " ".join(hr.fit(ratings, hr.SVD(), hr.Budget(1.0, 1e-6), seed=0).guarantee.assumptions)
    assert says in assumptions
    assert "public: whether somebody took part" in assumptions


@pytest.mark.parametrize("top", [0, 41])
def test_top_must_fit_the_catalogue(top):
    with pytest.raises(hr.ConfigError, match="top"):
        hr.fit(TRAIN, hr.SVD(), hr.Budget(1.0, 1e-6), top=top)


@pytest.mark.parametrize(
    "values",
    [np.full(30, 3.0), np.full(30, 1.0), np.full(30, 5.0)],
    ids=["middle", "bottom", "top"],
)
def test_odd_data_is_no_trouble(values):
    """One value throughout, one user, one item rated: no warning, finite predictions."""
    ratings = hr.Ratings.from_codes(
        np.arange(30) // 3, np.arange(30) % 3, values, items=np.arange(3), value_range=(1, 5), n_users=12
    )
    for budget in (hr.Budget(1.0, 1e-6, relation="add-remove"), hr.Budget(50.0, 1e-6), hr.NonPrivate()):
        release = hr.fit(ratings, budget=budget, seed=0)
        assert np.isfinite(release.complete([0], [values[0]])).all()
