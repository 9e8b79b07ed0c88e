"""The whole path: what a release says about itself is what happened."""

import numpy as np
import pytest

import hushrec as hr
from hushrec.solvers.registry import USER_SOLVERS, make_solver
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


@pytest.mark.parametrize(
    ("delta", "relation", "warned"),
    [(1 / 1500, "replace-one", True), (1 / 1501, "replace-one", False), (0.5, "add-remove", False)],
)
def test_a_delta_that_could_give_a_row_away_is_remarked_where_m_is_public(delta, relation, warned):
    release = hr.fit(TRAIN, hr.SVD(), hr.Budget(1.0, delta, relation=relation), seed=0)
    assert ("not below 1/m" in " ".join(release.card().split())) == warned


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
    ("ratings", "candidates", "rule"),
    [
        ("ratings.csv", [hr.SVD()], "ratings must be Ratings"),
        (TRAIN, hr.SVD(), "candidates"),
        (TRAIN, ["svd"], "solver"),
    ],
)
def test_a_mistake_in_a_tuning_costs_nothing(ratings, candidates, rule, tmp_path):
    ledger = hr.Ledger.open(tmp_path / "total.ledger", hr.Budget(9.0, 1e-5))
    with pytest.raises(hr.ConfigError, match=rule):
        hr.tune(ratings, candidates, BUDGET, ledger=ledger)
    assert not ledger.read().runs


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


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", USER_SOLVERS)
def test_every_solver_lives_on_what_the_choice_of_items_leaves(name, relation):
    ratings = random_ratings(users=40, items=10, seed=0)
    release = hr.fit(ratings, make_solver(name), hr.Budget(8.0, 1e-6, relation=relation), top=6)
    assert release.n_items == 6
    assert release.guarantee.spent <= 8.0


@pytest.mark.parametrize("top", [0, 41, 2.5, 20.0, True, "20"])
def test_top_must_fit_the_catalogue(top):
    with pytest.raises(hr.ConfigError, match=r"top is .* whole number from 1 to 40"):
        hr.fit(TRAIN, hr.SVD(), hr.Budget(1.0, 1e-6), top=top)


BUDGET = hr.Budget(1.0, 1e-6)
MISTAKES = {
    "a path for ratings": (("ratings.csv", hr.SVD(), BUDGET), {}, "ratings must be Ratings, .* not str"),
    "an array for ratings": ((np.ones((3, 3)), hr.SVD(), BUDGET), {}, "ratings must be Ratings, .* not ndarray"),
    "a name for a solver": ((TRAIN, "svd", BUDGET), {}, "solver must be .* not 'svd'"),
    "a class for a solver": ((TRAIN, hr.SVD, BUDGET), {}, "solver must be a solver with its settings"),
    "a number for a budget": ((TRAIN, hr.SVD(), 1.0), {}, "fit needs a budget.* not 1.0"),
    "budget and solver turned round": ((TRAIN, BUDGET, hr.SVD()), {}, "fit needs a budget.* not SVD"),
    "half a seed": ((TRAIN, hr.SVD(), BUDGET), {"seed": 0.5}, "seed is 0.5"),
    "a seed below zero": ((TRAIN, hr.SVD(), BUDGET), {"seed": -1}, "seed is -1"),
    "half an item": ((TRAIN, hr.SVD(), BUDGET), {"top": 2.5}, "top is 2.5"),
    "a class for an engine": ((TRAIN, hr.SVD(), BUDGET), {"engine": hr.LocalEngine}, "engine must be an engine"),
    "a unit that it does not protect": (
        (TRAIN, hr.SVD(), hr.Budget(1.0, 1e-6, unit="rating")),
        {},
        'must have unit="user"',
    ),
    "a budget that buys nothing": ((TRAIN, hr.SVD(), hr.Budget(1e-14, 1e-300)), {}, "epsilon = 1e-14 .* too small"),
    "a number for a folder": ((TRAIN, hr.SVD(), BUDGET), {"resume": 5}, "resume must be the path .* not int"),
    "no delta": ((TRAIN, hr.SVD(), hr.Budget(1.0)), {}, "delta"),
}


@pytest.mark.parametrize(("arguments", "options", "rule"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_costs_nothing(arguments, options, rule, tmp_path):
    ledger = hr.Ledger.open(tmp_path / "total.ledger", hr.Budget(9.0, 1e-5))
    with pytest.raises(hr.ConfigError, match=rule):
        hr.fit(*arguments, **options, ledger=ledger)
    assert not ledger.read().runs


@pytest.mark.parametrize("ledger", [hr.Ledger(), 5, BUDGET])
def test_a_ledger_is_a_file(ledger):
    rule = f"ledger must be a path, .* not {type(ledger).__name__}"
    with pytest.raises(hr.ConfigError, match=rule):
        hr.fit(TRAIN, hr.SVD(), BUDGET, ledger=ledger)
    with pytest.raises(hr.ConfigError, match=rule):
        hr.tune(TRAIN, [hr.SVD()], BUDGET, ledger=ledger)


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
