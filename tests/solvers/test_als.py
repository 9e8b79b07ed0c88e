"""Private ALS: textbook ALS without noise, its ledger, planted structure, weights, implicit feedback."""

import math
from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.data.synthetic import surrogate
from hushrec.privacy.curator import Curator, Noisy
from hushrec.solvers.again import together
from making import random_ratings

USERS, ITEMS = 3000, 40


@pytest.fixture(scope="module")
def planted():
    return hr.synthetic(users=USERS, items=ITEMS, rank=2, per_user=18, noise=0.1, seed=1)


def dense(ratings):
    values, seen = np.zeros((ratings.n_users, ratings.n_items)), np.zeros((ratings.n_users, ratings.n_items), bool)
    rows = np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr))
    values[rows, ratings.indices], seen[rows, ratings.indices] = ratings.values, True
    return values, seen


def textbook(ratings, unit, rank, rounds, ridge):
    """ALS by np.linalg alone: unit prior on users, noise 1/2, each user's ratings weighing 1/√(their number)."""
    values, seen = dense(ratings)
    low, high = ratings.value_range
    values = np.where(seen, (values - (low + high) / 2) / unit, 0.0)
    loadings = np.random.default_rng(0).normal(size=(ratings.n_items, rank)) / math.sqrt(2 * rank)
    for _ in range(rounds):
        users = np.zeros((len(values), rank))
        for i, own in enumerate(seen):
            normal = np.eye(rank) + 2 * loadings[own].T @ loadings[own]
            users[i] = np.linalg.solve(normal, 2 * loadings[own].T @ values[i, own])
        weights = seen / np.sqrt(np.maximum(seen.sum(axis=1, keepdims=True), 1))
        for j in range(ratings.n_items):
            normal = users.T @ (users * weights[:, j, None]) + ridge * np.eye(rank)
            loadings[j] = np.linalg.solve(normal, users.T @ (weights[:, j] * values[:, j]))
    return loadings


def test_zero_noise_is_textbook_als():
    ratings = random_ratings(users=80, items=12, seed=4)
    solver = hr.ALS(
        start="random", rank=2, rounds=4, centre=False, weights="uniform", covariance=False, ridge=0.3, bound=1e6
    )
    model = solver.solve(Curator(ratings, hr.NonPrivate()))
    energy = [
        np.mean((ratings.user(i)[1].astype(float) - 3.0) ** 2) if len(ratings.user(i)[1]) else 0.0 for i in range(80)
    ]
    unit = 2.0 * math.sqrt(np.mean(np.minimum(np.array(energy) / 4, 1.0)))
    expected = textbook(ratings, unit, rank=2, rounds=4, ridge=0.3)
    assert np.abs(model.arrays["loadings"] - expected).max() <= 1e-10 * np.abs(expected).max()


def test_without_noise_rounds_converge_linearly():
    """The span of the loadings comes nearer to its limit by the same factor in every round."""
    train, _ = hr.synthetic(users=400, items=30, rank=2, per_user=20, noise=0.0, seed=3)

    def span(rounds):
        solver = hr.ALS(
            start="random", rank=2, rounds=rounds, centre=False, weights="uniform", covariance=False, ridge=0.01
        )
        basis = np.linalg.qr(solver.solve(Curator(train, hr.NonPrivate())).arrays["loadings"])[0]
        return basis @ basis.T

    limit = span(200)
    first, second, third = (np.linalg.norm(span(rounds) - limit) for rounds in (5, 10, 15))
    assert second < 0.7 * first
    assert 0.8 < (third / second) / (second / first) < 1.25


@pytest.mark.parametrize("start", ["gram", "random"])
@pytest.mark.parametrize("weights", ["adaptive", "uniform", "tail"])
def test_structure_is_found_under_privacy(planted, start, weights):
    train, test = planted
    solver = hr.ALS(start=start, weights=weights, tail=12, rank=2)
    release = hr.fit(train, solver, hr.Budget(10.0, 1e-6), seed=0)
    assert hr.evaluate(release, train, test)["rmse"] < 0.75 * float(np.std(test.values))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_ledger_spends_the_budget_and_names_every_release(planted, relation):
    solver = hr.ALS(start="random", rank=2, rounds=3)
    release = hr.fit(planted[0], solver, hr.Budget(1.0, 1e-6, relation=relation), seed=0)
    names = [entry.name for entry in release.guarantee.ledger]
    first = ["users"] if relation == "add-remove" else []
    assert names == [*first, "means", "round 1", "round 2", "round 3"]
    assert 0.999 < release.guarantee.spent <= 1.0


def test_where_nothing_stands_out_the_release_says_so_and_the_rest_goes_into_item_means():
    train = random_ratings(users=300, items=12, seed=1)
    release = hr.fit(train, hr.ALS(), hr.Budget(0.1, 1e-6), seed=0)
    (note,) = release.notes
    assert note == "No structure stood out of the noise: predictions are item means and user offsets."
    assert [entry.name for entry in release.guarantee.ledger] == ["means", "gram", "more means"]
    assert 0.0999 < release.guarantee.spent <= 0.1
    assert np.isfinite(release.complete(*train.user(5))).all()


def test_a_fallback_about_mid_range_leaves_the_rest_unspent_and_says_so():
    train = random_ratings(users=300, items=12, seed=1)
    release = hr.fit(train, hr.ALS(centre=False), hr.Budget(0.1, 1e-6), seed=0)
    (note,) = release.notes
    assert "middle of the value range" in note
    assert "unspent" in note
    assert [entry.name for entry in release.guarantee.ledger] == ["counts", "scale", "gram"]
    np.testing.assert_array_equal(release.arrays["means"], np.full(12, sum(train.value_range) / 2))


def test_two_answers_to_one_question_count_by_their_precision():
    rng = np.random.default_rng(0)
    first, second = Noisy((rng.normal(0, 3.0, 20_000),), 3.0), Noisy((rng.normal(0, 1.5, 20_000),), 1.5)
    both = together(first, second)
    assert both.sigma == pytest.approx(3.0 * 1.5 / math.hypot(3.0, 1.5))
    assert np.std(both.parts[0]) == pytest.approx(both.sigma, rel=0.02)


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_no_epsilon_makes_it_worse_than_the_value_range_allows(planted, epsilon):
    train, test = planted
    for start in ("gram", "random"):
        release = hr.fit(train, hr.ALS(start=start), hr.Budget(epsilon, 1e-6), seed=0)
        assert hr.evaluate(release, train, test)["rmse"] < 1.5 * float(np.std(test.values))


def clicks(seed=0):
    """Users of three tastes, each for a third of the items; a fifth of their clicks is held out."""
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, 3, size=2000)
    liked = (np.arange(30) % 3) == taste[:, None]
    used = rng.random((2000, 30)) < np.where(liked, 0.7, 0.05)
    held = rng.random(used.shape) < 0.2
    parts = []
    for chosen in (used & ~held, used & held):
        rows, columns = np.nonzero(chosen)
        ones = np.ones(len(rows))
        parts.append(hr.Ratings.from_codes(rows, columns, ones, items=np.arange(30), value_range=(0, 1), n_users=2000))
    return parts


@pytest.mark.parametrize("start", ["gram", "random"])
def test_implicit_feedback_ranks_what_users_like_first(start):
    train, test = clicks()
    release = hr.fit(train, hr.ALS(method="implicit", start=start, rank=3), hr.Budget(5.0, 1e-6), seed=0)
    figures = hr.evaluate(release, train, test)
    popular = hr.fit(train, hr.ALS(method="implicit"), hr.Budget(0.01, 1e-6), seed=0)
    assert figures["recall@10"] > 0.85
    assert figures["ndcg@10"] > hr.evaluate(popular, train, test)["ndcg@10"] + 0.2


def test_implicit_twin_is_textbook_weighted_als():
    train, _ = clicks(1)
    solver = hr.ALS(method="implicit", start="random", rank=2, rounds=2, weights="uniform", ridge=0.5, bound=1e6)
    found = solver.solve(Curator(train, hr.NonPrivate())).arrays["loadings"]
    _, used = dense(train)
    loadings = np.random.default_rng(0).normal(size=(30, 2)) / math.sqrt(2)
    scales = 1 / np.sqrt(np.maximum(used.sum(axis=1), 1)) * (used.sum(axis=1) > 0)
    for _ in range(2):
        prior = 0.1 * loadings.T @ loadings + np.eye(2)
        users = np.array([np.linalg.solve(prior + loadings[o].T @ loadings[o], loadings[o].sum(axis=0)) for o in used])
        unused = 0.1 * users.T @ (users * scales[:, None]) + 0.5 * np.eye(2)
        loadings = np.array(
            [
                np.linalg.solve(users[o].T @ (users[o] * scales[o, None]) + unused, users[o].T @ scales[o])
                for o in used.T
            ]
        )
    assert np.abs(found - loadings).max() <= 1e-10 * np.abs(loadings).max()


def test_implicit_feedback_without_structure_spends_the_rest_on_popularity():
    train, _ = clicks()
    release = hr.fit(train, hr.ALS(method="implicit"), hr.Budget(0.01, 1e-6), seed=0)
    assert any("popularity alone" in note for note in release.notes)
    assert [entry.name for entry in release.guarantee.ledger] == ["counts", "gram", "more counts"]
    assert 0.00999 < release.guarantee.spent <= 0.01


@pytest.mark.parametrize("per_user", [3.5, 30.0])
@pytest.mark.parametrize("epsilon", [1.0, 20.0, None])
def test_where_there_is_no_taste_to_see_implicit_feedback_is_ranked_by_popularity(per_user, epsilon):
    """Nothing but popularity says who uses what here; what looks like taste in few clicks is chance."""
    train, test = hr.split(surrogate(4000, 300, per_user, seed=5, activity=0.3), test=0.1, seed=0)
    budget = hr.NonPrivate() if epsilon is None else hr.Budget(epsilon, 1e-6)
    found = hr.evaluate(hr.fit(train, hr.ALS(method="implicit"), budget, seed=0), train, test)
    popular = np.bincount(train.indices, minlength=300).astype(float)
    arrays = {"means": popular / popular.max(), "loadings": np.zeros((300, 1)), "prior": np.eye(1)}
    release = hr.fit(train, hr.ALS(method="implicit"), hr.NonPrivate())
    level = hr.evaluate(replace(release, arrays=arrays), train, test)
    assert found["recall@10"] > 0.9 * level["recall@10"]


def test_an_implicit_release_survives_its_file(tmp_path):
    train, _ = clicks()
    release = hr.fit(train, hr.ALS(method="implicit"), hr.Budget(5.0, 1e-6), seed=0)
    release.save(tmp_path / "model.hush")
    loaded = hr.Release.load(tmp_path / "model.hush")
    assert loaded.recommend([0, 3, 6], [1, 1, 1], top=5) == release.recommend([0, 3, 6], [1, 1, 1], top=5)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "both"},
        {"weights": "heavy"},
        {"start": "warm"},
        {"rank": 0},
        {"rounds": 0},
        {"tail": 0},
        {"ridge": -1.0},
        {"bound": math.inf},
        {"start_share": 1.0},
    ],
)
def test_settings_are_checked(settings):
    (name,) = settings
    with pytest.raises(hr.ConfigError, match=name):
        hr.ALS(**settings)
