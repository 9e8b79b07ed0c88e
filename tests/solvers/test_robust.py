"""Solvers on data of unlike shapes: none is clearly worse than item means and users' offsets."""

import numpy as np
import pytest

import hushrec as hr
from hushrec.data.ratings import Ratings
from hushrec.data.synthetic import surrogate
from hushrec.evaluate.planning import ItemMeansOnly
from hushrec.privacy.curator import Curator
from hushrec.solvers.again import more_means
from hushrec.solvers.means import ask_moments, means_from

SOLVERS = {
    "frank-wolfe": hr.FrankWolfe(),
    "svd": hr.SVD(),
    "cleansed-svd": hr.CleansedSVD(),
    "als": hr.ALS(),
    "factored-gradient": hr.FactoredGradient(),
}
ONE_GRAM = ("frank-wolfe", "svd", "cleansed-svd")
SHAPES = {
    "two values": lambda: surrogate(5000, 200, 20, (0.0, 1.0), seed=4, levels=2),
    "few ratings": lambda: surrogate(6000, 200, 3.0, (1.0, 5.0), seed=5, levels=5, activity=0.3),
    "few users": lambda: surrogate(60, 80, 20, (1.0, 10.0), seed=7, levels=10),
    "more items than users": lambda: surrogate(100, 700, 40, (0.5, 5.0), seed=6, levels=10),
}


@pytest.fixture(scope="module", params=SHAPES)
def parted(request):
    return hr.split(SHAPES[request.param](), test=0.2, seed=0)


def error(solver, parted, epsilon, seed=0):
    budget = hr.NonPrivate() if epsilon is None else hr.Budget(epsilon, 1e-6)
    release = hr.fit(parted[0], solver, budget, seed=seed)
    assert all(np.isfinite(array).all() for array in release.arrays.values())
    return hr.evaluate(release, *parted)["rmse"]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("epsilon", "most"), [(0.1, 1.03), (20.0, 1.03), (None, 1.03)])
def test_no_shape_makes_a_solver_clearly_worse_than_item_means(name, epsilon, most, parted):
    assert error(SOLVERS[name], parted, epsilon) < most * error(ItemMeansOnly(), parted, epsilon)


def test_replayed_users_with_few_ratings_believe_little_in_their_own_mean():
    parted = hr.split(SHAPES["few ratings"](), test=0.2, seed=0)
    for epsilon in (0.1, 20.0):
        assert error(hr.FrankWolfe(readout="replay"), parted, epsilon) < 1.03 * error(ItemMeansOnly(), parted, epsilon)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("value", [4.0, 5.0])
def test_one_item_and_equal_values_are_data_like_others(name, value):
    alone = Ratings.from_codes(
        np.arange(5000),
        np.zeros(5000, int),
        np.full(5000, value),
        items=np.array([7]),
        value_range=(1, 5),
        n_users=5100,
    )
    for budget in (hr.Budget(1.0, 1e-6), hr.NonPrivate()):
        release = hr.fit(alone, SOLVERS[name], budget, seed=0)
        assert release.complete([], []) == pytest.approx([value], abs=0.1)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", ONE_GRAM)
def test_where_a_gram_could_only_be_noise_the_budget_goes_into_item_means(name, relation):
    train, _ = hr.synthetic(users=500, items=60, rank=1, per_user=10, seed=1)
    budget = hr.Budget(0.1, 1e-6, relation=relation)
    release = hr.fit(train, SOLVERS[name], budget, seed=0)
    names = [entry.name for entry in release.guarantee.ledger]
    assert names == ["users"] * (relation == "add-remove") + ["means", "more means"]
    assert budget.epsilon - 1e-6 < release.guarantee.spent <= budget.epsilon
    assert "No structure stood out" in release.notes[0]


@pytest.mark.parametrize("name", ONE_GRAM)
def test_a_gram_that_could_show_something_is_asked(name):
    train, _ = hr.synthetic(users=5000, items=60, rank=1, per_user=20, seed=1)
    release = hr.fit(train, SOLVERS[name], hr.Budget(1.0, 1e-6), seed=0)
    assert "more means" not in [entry.name for entry in release.guarantee.ledger]


def test_more_means_are_as_sharp_as_all_of_the_budget_at_once():
    """Two answers of shares a and b, each weighed by its precision, have the noise of one of a + b."""
    ratings = surrogate(300, 40, 10, (1.0, 5.0), seed=0)
    wholes, parts = [], []
    for seed in range(60):
        curator = Curator(ratings, hr.Budget(1.0, 1e-6), seed=seed)
        parts.append(more_means(curator, ask_moments(curator, "means", 0.25), 300.0).means)
        curator = Curator(ratings, hr.Budget(1.0, 1e-6), seed=1000 + seed)
        wholes.append(means_from(ask_moments(curator, "means", 1.0), curator.shape, 300.0).means)
    exact = np.mean(wholes, axis=0)
    assert np.mean((parts - exact) ** 2) == pytest.approx(np.mean((wholes - exact) ** 2), rel=0.15)
