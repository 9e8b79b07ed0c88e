"""Implicit feedback: planted tastes are found, also with noise; without signal popularity remains, and it says so."""

import numpy as np
import pytest

import hushrec as hr
from hushrec.data.ratings import Ratings
from hushrec.solvers.implicit import LARGEST_HEAD, SMALLEST_HEAD, ImplicitPosterior, head_size

USERS, ITEMS = 5000, 80


def planted(strength, seed=0):
    """Uses at rates activity · popularity · (1 + tastes · leanings): (train, test), popularity, leanings."""
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, ITEMS + 1) ** -0.6
    popularity /= popularity.sum()
    leanings = strength * rng.choice([-1.0, 1.0], size=(ITEMS, 2))
    leanings -= popularity @ leanings
    activity = rng.uniform(8, 25, size=(USERS, 1))
    tastes = rng.uniform(-1, 1, size=(USERS, 2)) * np.sqrt(3)
    rates = activity * popularity * np.maximum(1 + tastes @ leanings.T, 0)
    rows, columns = np.nonzero(rng.random(rates.shape) < 1 - np.exp(-rates))
    ratings = Ratings.from_codes(
        rows, columns, np.ones(len(rows)), items=np.arange(ITEMS), value_range=(0.0, 1.0), n_users=USERS
    )
    return hr.split(ratings, test=0.2, seed=seed), popularity, leanings


@pytest.fixture(scope="module")
def data():
    return planted(0.4)


def test_without_noise_the_planted_leanings_are_found(data):
    (train, _), _, leanings = data
    arrays = hr.fit(train, ImplicitPosterior(), hr.NonPrivate()).arrays
    found = arrays["loadings"] / arrays["means"][:, None]
    assert found.shape[1] == 2
    # Turning the tastes changes nothing: what items have in common is b_j · b_k.
    alike = np.corrcoef(
        (found @ found.T)[np.triu_indices(ITEMS, 1)], (leanings @ leanings.T)[np.triu_indices(ITEMS, 1)]
    )
    assert alike[0, 1] > 0.9
    assert arrays["means"].sum() == pytest.approx(1.0)


def test_private_ranking_beats_popularity_and_costs_little(data):
    (train, test), _, _ = data
    budget = hr.Budget(5.0, 1e-6)
    popular = hr.evaluate(hr.fit(train, ImplicitPosterior(rank=0), budget, seed=0), train, test)["ndcg@10"]
    private = hr.evaluate(hr.fit(train, ImplicitPosterior(), budget, seed=0), train, test)["ndcg@10"]
    free = hr.evaluate(hr.fit(train, ImplicitPosterior(), hr.NonPrivate()), train, test)["ndcg@10"]
    assert private > 1.1 * popular
    assert private > 0.9 * free


def test_values_are_ignored(data):
    (train, _), _, _ = data
    other = Ratings(
        indptr=train.indptr,
        indices=train.indices,
        values=np.linspace(0, 1, train.n_ratings),
        items=train.items,
        value_range=(0.0, 1.0),
    )
    first, second = (hr.fit(one, ImplicitPosterior(), hr.Budget(5.0, 1e-6), seed=0).arrays for one in (train, other))
    np.testing.assert_array_equal(first["loadings"], second["loadings"])


def test_no_signal_leaves_popularity_and_says_so():
    (train, _), _, _ = planted(0.0)
    release = hr.fit(train, ImplicitPosterior(), hr.Budget(1.0, 1e-6), seed=0)
    assert "popularity" in release.notes[0]
    items, values = train.user(0)
    rest = np.setdiff1d(np.arange(ITEMS), items)
    best = rest[np.argsort(-release.arrays["means"][rest], kind="stable")[:5]]
    assert [item for item, _ in release.recommend(items, values, top=5)] == best.tolist()


def test_hopeless_noise_does_no_harm(data):
    (train, test), _, _ = data
    release = hr.fit(train, ImplicitPosterior(), hr.Budget(0.01, 1e-6), seed=0)
    assert np.isfinite(hr.evaluate(release, train, test)["ndcg@10"])
    assert not release.arrays["loadings"].any()


def test_scores_are_not_clipped_to_the_value_range_and_survive_a_file(data, tmp_path):
    (train, _), _, _ = data
    release = hr.fit(train, ImplicitPosterior(), hr.Budget(5.0, 1e-6), seed=0)
    release.save(tmp_path / "m.hush")
    loaded = hr.Release.load(tmp_path / "m.hush")
    np.testing.assert_array_equal(release.complete(*train.user(3)), loaded.complete(*train.user(3)))
    assert release.complete(*train.user(3)).sum() == pytest.approx(1.0, abs=0.2)


def test_the_head_grows_with_the_budget_and_the_users():
    counts = 1000 * np.arange(1, 3001) ** -0.7
    sizes = [head_size(counts, 5000.0, mu) for mu in (0.001, 0.2, 1.0, 4.0, np.inf)]
    assert sizes[0] == SMALLEST_HEAD
    assert sizes == sorted(sizes)
    assert sizes[1] < sizes[2] < sizes[3]
    assert sizes[-1] == LARGEST_HEAD
    assert head_size(10 * counts, 50_000.0, 1.0) > sizes[2]
    assert head_size(counts[:20], 5000.0, 1.0) == 20


@pytest.mark.parametrize("settings", [{"counts_share": 0.0}, {"head": 1}, {"rank": -1}])
def test_settings_are_checked_and_named(settings):
    with pytest.raises(hr.ConfigError, match=next(iter(settings))):
        hr.ImplicitPosterior(**settings)
