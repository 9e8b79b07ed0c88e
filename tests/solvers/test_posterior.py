"""The default solver: planted structure found, the noise calibrated, rounds worth their share, honest fallback."""

import math

import numpy as np
import pytest
from scipy import stats

import hushrec as hr
from constants import ALPHA
from hushrec.data.synthetic import surrogate
from hushrec.evaluate.planning import ItemMeansOnly
from hushrec.solvers.posterior import SIGNAL, _eigenvalues, calibrated, head_size, move, unpack
from hushrec.solvers.shrinkage import deconvolve, spread_of
from hushrec.solvers.svd import outlook
from making import random_ratings


@pytest.fixture(scope="module")
def planted():
    """Five factors, skewed popularity; 6,000 users, 150 items (synthetic)."""
    return hr.synthetic(users=6000, items=150, rank=5, per_user=30, noise=0.1, popularity=1.0, seed=4)


def rmse(solver, data, epsilon=8.0, seed=0):
    train, test = data
    budget = hr.Budget(epsilon, 1e-6) if epsilon else hr.NonPrivate()
    return hr.evaluate(hr.fit(train, solver, budget, seed=seed), train, test)["rmse"]


def test_it_is_the_default(planted):
    train, _ = planted
    assert hr.fit(train, budget=hr.Budget(1.0, 1e-6), seed=0).solver["name"] == "Posterior"


def test_rounds_join_the_items_outside_the_head(planted):
    without = rmse(hr.Posterior(rounds=0, head=60), planted)
    with_rounds = rmse(hr.Posterior(rounds=2, head=60), planted)
    assert with_rounds < 0.97 * without


def test_it_nears_the_non_private_twin_as_the_budget_grows(planted):
    free = rmse(hr.Posterior(), planted, epsilon=None)
    assert free < rmse(hr.Posterior(), planted, 1.0) < 3 * free
    assert rmse(hr.Posterior(), planted, 8.0) < 1.2 * free


def test_more_budget_is_less_error(planted):
    errors = [rmse(hr.Posterior(), planted, epsilon) for epsilon in (0.2, 2.0, 20.0)]
    assert errors == sorted(errors, reverse=True)


def test_hopeless_noise_falls_back_to_means_and_says_so(planted):
    train, test = planted
    release = hr.fit(train, hr.Posterior(), hr.Budget(0.005, 1e-6), seed=0)
    assert release.arrays["loadings"].shape[1] == 1
    assert release.notes
    error = hr.evaluate(release, train, test)["rmse"]
    assert error < 1.1 * float(np.sqrt(np.mean(np.square(test.values - train.values.mean()))))


def test_the_noise_of_the_model_is_calibrated(planted):
    """Standardised errors of planted ratings have variance near 1, whatever the scale that was assumed."""
    train, _ = planted
    kept, held = hr.split(train, test=0.1, seed=0)
    release = hr.fit(kept, hr.Posterior(), hr.NonPrivate())
    error = hr.evaluate(release, kept, held)["rmse"]
    assert 0.6 < error**2 / release.arrays["noise"][0] < 1.7


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_whole_budget_is_spent_and_no_more(planted, relation):
    train, _ = planted
    guarantee = hr.fit(train, hr.Posterior(), hr.Budget(2.0, 1e-6, relation=relation)).guarantee
    assert 2.0 - 1e-9 <= guarantee.spent <= 2.0
    names = [entry.name for entry in guarantee.ledger if entry.name != "users"]
    assert names == ["means", "gram", "round 1", "round 2", "choices", "corrections"]


def test_any_scale_of_values_gives_the_same_model(planted):
    train, test = planted

    def scaled(ratings):
        return hr.Ratings(
            indptr=ratings.indptr,
            indices=ratings.indices,
            values=50 + 50 * ratings.values,
            items=ratings.items,
            value_range=(0, 100),
        )

    one = hr.fit(train, hr.Posterior(), hr.Budget(3.0, 1e-6), seed=5)
    two = hr.fit(scaled(train), hr.Posterior(), hr.Budget(3.0, 1e-6), seed=5)
    ours = hr.evaluate(one, train, test)["rmse"]
    theirs = hr.evaluate(two, scaled(train), scaled(test))["rmse"] / 50
    assert ours == pytest.approx(theirs, rel=0.02)


def test_moves_are_posterior_means_with_the_right_spread():
    rng = np.random.default_rng(0)
    n = 4000
    before = rng.normal(size=(n, 2))
    truth = before + rng.normal(0, [0.5, 0.1], (n, 2))
    variance = rng.uniform(0.01, 1.0, (n, 2))
    seen = truth + rng.normal(size=(n, 2)) * np.sqrt(variance)
    after = move(before, seen, variance, rng.uniform(1, 2, n), 1.0)
    expected = before + (seen - before) * np.array([0.25, 0.01]) / (np.array([0.25, 0.01]) + variance)
    assert np.mean((after - truth) ** 2) < 1.05 * np.mean((expected - truth) ** 2)


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_the_spread_is_found_from_noisy_steps(factor, accepted):
    rng = np.random.default_rng(1)
    variance = np.full((20_000, 1), 0.3)
    steps = rng.normal(0, np.sqrt(0.2 + 0.3), (20_000, 1))
    found = spread_of(steps, variance, np.array([0.05]), 1.0)[0]
    # the estimate of 0.2 rests on a variance of 0.5, whose own deviation is 0.5 √(2/20,000)
    score = (found - factor * 0.2) / (0.5 * np.sqrt(2 / 20_000))
    assert (2 * stats.norm.sf(abs(score)) > ALPHA) == accepted


@pytest.mark.parametrize("heavy", [False, True])
def test_amounts_come_back_from_their_noise(heavy):
    """Against the posterior mean that knows the law: two amounts, or a heavy tail of one in fifty."""
    rng = np.random.default_rng(0)
    n = 20_000
    levels, chances = (np.array([0.3, 40.0]), [0.98, 0.02]) if heavy else (np.array([0.5, 3.0]), [0.7, 0.3])
    truth = rng.choice(levels, n, p=chances)
    seen = truth + rng.normal(size=n)
    found, doubt = deconvolve(seen, 1.0, float(truth.mean()), 2.0)
    odds = np.exp(-0.5 * np.square(seen[:, None] - levels)) * chances
    best = (odds / np.maximum(odds.sum(axis=1, keepdims=True), 1e-300)) @ levels
    error = np.mean((found - truth) ** 2)
    assert error < 1.05 * np.mean((best - truth) ** 2) + (0.026 if heavy else 0.0)  # the tail is taken as it is seen
    assert error < 0.7 * min(np.mean((seen - truth) ** 2), np.var(truth))
    # a law of a few points is approached slowly, from laws with more doubt
    assert 0.9 * error < np.mean(doubt) < (5.0 if heavy else 1.1) * error


def test_exact_amounts_are_left_alone():
    amounts = np.array([0.0, 1.0, 5.0])
    found, doubt = deconvolve(amounts, 0.0, 1.0, 2.0)
    np.testing.assert_array_equal(found, amounts)
    assert not doubt.any()


@pytest.mark.parametrize(
    ("users", "items", "epsilon"),
    [(300, 2000, 5.0), (300, 2000, 20.0), (300, 2000, None), (600, 300, 1.0), (600, 300, None), (20, 40, 2.0)],
)
def test_it_is_not_clearly_worse_than_item_means_at_the_same_budget(users, items, epsilon):
    """Hard shapes: more items than users, few users, heavy tails. Generated stars, mean of three seeds."""
    data = hr.split(surrogate(users, items, 25.0, seed=3, levels=5, value_range=(1, 5)), test=0.1, seed=0)
    ours, means = (
        np.mean([rmse(solver, data, epsilon, seed) for seed in range(3)])
        for solver in (hr.Posterior(), ItemMeansOnly())
    )
    assert ours < 1.02 * means


def test_unpack_is_the_inverse_of_isometric_packing():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(4, 4))
    matrix = matrix + matrix.T
    packed = [matrix[a, b] * (1 if a == b else 2**0.5) for a in range(4) for b in range(a + 1)]
    np.testing.assert_allclose(unpack(np.array(packed), 4), matrix)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(matrix))


def test_calibration_needs_more_than_noise():
    assert calibrated(1.0, np.array([3.0, 2.0]), 0.01) == pytest.approx(1.5)
    assert calibrated(1.0, np.array([3.0, 2.0]), 1.0) == 1.0
    assert calibrated(1.0, np.array([300.0, 2.0]), 0.01) == 4.0


def test_the_head_grows_with_the_budget_and_stays_in_its_limits():
    popularity = 500 / np.arange(1, 3001) ** 0.8
    sizes = [head_size(popularity, 10_000.0, math.sqrt(0.5) / mu) for mu in (0.01, 0.3, 3.0, 30.0, np.inf)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 100
    assert sizes[-1] == 1200
    assert head_size(popularity[:40], 1e4, 0.7) == 40


@pytest.mark.parametrize(
    "settings",
    [{"rounds": -1}, {"rank": -1}, {"head": 1}, {"gram_share": 0.0}, {"means_share": 1.0}, {"offset_prior": -1.0}],
)
def test_settings_are_checked_and_named(settings):
    with pytest.raises(hr.ConfigError, match=next(iter(settings))):
        hr.Posterior(**settings)


@pytest.mark.parametrize(("users", "each", "asked"), [(600, 1.5, False), (3000, 40.0, True)])
def test_a_gram_that_the_rows_own_scatter_would_drown_is_not_asked_for(users, each, asked):
    """At a large ε the privacy noise alone would not forbid it."""
    ratings = surrogate(users, 400, each, seed=3, value_range=(1, 5))
    names = [entry.name for entry in hr.fit(ratings, hr.Posterior(), hr.Budget(20.0, 1e-6), seed=0).guarantee.ledger]
    assert ("gram" in names) == asked
    assert ("more means" in names) == (not asked)


def test_the_outlook_of_a_head_is_its_first_eigenvalue_over_the_edge_of_both_noises():
    rng = np.random.default_rng(0)
    head, users, mu = 60, 5000, 0.4
    noise = rng.normal(size=(head, head)) / mu / math.sqrt(2)
    rows = rng.normal(size=(users, head)) / math.sqrt(head)
    scatter = rows.T @ rows
    both = np.triu(noise + scatter, 1)
    edge = np.linalg.eigvalsh(both + both.T)[-1]
    alone = _eigenvalues(np.ones(head), users)[-1]
    ahead = outlook(np.ones(head), np.arange(head), users, 1 / mu / math.sqrt(2), SIGNAL)
    assert ahead == pytest.approx(alone / edge, rel=0.1)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_no_ratings_and_no_noise_leave_the_middle_of_the_range(rounds):
    ratings = random_ratings(users=20, items=6, seed=0)
    nobody = ratings.keep(np.zeros(ratings.n_ratings, dtype=bool))
    release = hr.fit(nobody, hr.Posterior(rounds=rounds), hr.NonPrivate())
    np.testing.assert_allclose(release.complete([], []), sum(ratings.value_range) / 2)
