"""Planted matrices and surrogates: known answer, public shape, distinct items, same seed same data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hushrec.data import synthetic as module
from hushrec.data.ratings import Ratings
from hushrec.data.synthetic import surrogate, synthetic
from hushrec.errors import ConfigError


def dense(ratings: Ratings) -> np.ndarray:
    """The table with NaN where there is no rating."""
    full = np.full((ratings.n_users, ratings.n_items), np.nan)
    full[np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr)), ratings.indices] = ratings.values
    return full


def test_sizes_range_and_disjoint_parts() -> None:
    train, test = synthetic(users=500, items=40, per_user=12, test_per_user=5, seed=3)
    assert set(np.diff(train.indptr)) == {12}
    assert set(np.diff(test.indptr)) == {5}
    assert (train.value_range, train.catalogue, train.n_items) == ((-1.0, 1.0), "declared", 40)
    assert not np.any(~np.isnan(dense(train)) & ~np.isnan(dense(test)))
    assert float(np.abs(train.values).max()) <= 1.0


@pytest.mark.parametrize("rank", [1, 3])
def test_the_matrix_has_the_rank_and_the_largest_entry_one(rank: int) -> None:
    train, test = synthetic(users=60, items=25, rank=rank, per_user=20, test_per_user=5, seed=1)
    full = np.where(np.isnan(dense(train)), dense(test), dense(train))
    assert not np.isnan(full).any()
    singular = np.linalg.svd(full, compute_uv=False)
    assert singular[rank - 1] > 0.1
    assert singular[rank] < 1e-5 * singular[0]
    assert np.isclose(np.abs(full).max(), 1.0, atol=1e-6)


def test_noise_changes_train_only_and_is_clipped_to_the_public_range() -> None:
    clean, truth = synthetic(users=2000, items=30, per_user=10, seed=5)
    noisy, same_truth = synthetic(users=2000, items=30, per_user=10, seed=5, noise=0.1)
    assert np.array_equal(truth.values, same_truth.values)
    assert np.array_equal(clean.indices, noisy.indices)
    inside = np.abs(clean.values) < 0.5  # not touched by the clipping
    assert abs(float((noisy.values - clean.values)[inside].std()) - 0.1) < 0.003
    wild = synthetic(users=200, items=30, per_user=10, noise=5.0)[0]
    assert float(np.abs(wild.values).max()) == 1.0


def test_range_and_levels() -> None:
    train, test = synthetic(users=300, items=30, per_user=10, value_range=(1, 5), levels=5, noise=0.3)
    assert set(train.values.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert test.value_range == (1.0, 5.0)
    assert len(set(test.values.tolist())) > 100  # the truth is not rounded
    exact = synthetic(users=300, items=30, per_user=10)[1]
    assert np.allclose(test.values, 3 + 2 * exact.values, atol=1e-5)


def test_the_setting_of_the_projected_gradient_paper() -> None:
    users, items, rank = 3000, 100, 5
    train, test = synthetic(users, items, rank, per_user=None, row_norm=2.0, noise=1.0, test_per_user=100)
    expected = rank * users * np.log(users)
    assert abs(train.n_ratings - expected) < 5 * np.sqrt(expected)
    assert train.n_ratings + test.n_ratings == users * items
    assert train.value_range == (-4.0, 4.0)
    assert float(np.abs(test.values).max()) <= 4.0
    clean = synthetic(users, items, rank, per_user=None, row_norm=2.0)[0]
    assert abs(float((train.values - clean.values).std()) - 1.0) < 0.01


def test_popularity_and_activity_are_skewed_as_asked() -> None:
    flat = synthetic(users=3000, items=50, per_user=5)[0]
    counts = np.bincount(flat.indices, minlength=50)
    assert counts.max() < 1.5 * counts.min()
    skewed = synthetic(users=3000, items=50, per_user=1, test_per_user=0, popularity=1.0)[0]
    shares = np.sort(np.bincount(skewed.indices, minlength=50))[::-1] / 3000
    zipf = 1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    assert np.abs(shares - zipf).max() < 0.03
    busy = np.diff(synthetic(users=20_000, items=2000, per_user=20, activity=0.5)[0].indptr)
    assert abs(busy.mean() - 20) < 0.5
    assert abs(np.log(busy).std() - 0.5) < 0.05


@pytest.mark.parametrize("popularity", [0.0, 1.2])
def test_drawing_items_one_by_one_has_the_law_of_the_keys(popularity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways of choosing the same thing: with few items by keys, with many by draws."""
    options: dict[str, Any] = {
        "users": 4000,
        "items": 30,
        "per_user": 8,
        "popularity": popularity,
        "activity": 0.4,
    }
    by_keys = np.bincount(synthetic(**options)[0].indices, minlength=30)
    monkeypatch.setattr(module, "FEW_ITEMS", 0)
    train, test = synthetic(**options)
    by_draws = np.bincount(train.indices, minlength=30)
    assert not np.any(~np.isnan(dense(train)) & ~np.isnan(dense(test)))
    assert np.array_equal(np.diff(train.indptr), np.diff(synthetic(**options)[0].indptr))
    assert np.all(np.abs(by_keys - by_draws) < 6 * np.sqrt(by_keys + by_draws))


def test_every_cell_can_be_observed_and_none_left_to_test() -> None:
    train, test = synthetic(users=7, items=5, per_user=5)
    assert (train.n_ratings, test.n_ratings) == (35, 0)
    train, test = synthetic(users=7, items=1, per_user=1)
    assert (train.n_ratings, test.n_ratings) == (7, 0)


def test_the_seed_decides() -> None:
    first, again, other = (synthetic(users=50, items=20, per_user=5, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first.values, again.values)
    assert np.array_equal(first.indices, again.indices)
    assert not np.array_equal(first.values, other.values)


def test_blocks_of_users_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 100)
    train, test = synthetic(users=101, items=20, per_user=5, rank=2, test_per_user=15)
    full = np.where(np.isnan(dense(train)), dense(test), dense(train))
    assert np.linalg.matrix_rank(full, tol=1e-4) == 2
    assert np.isclose(np.abs(full).max(), 1.0, atol=1e-6)


def test_surrogate_looks_like_ratings() -> None:
    ratings = surrogate(users=3000, items=2500, ratings_per_user=40, levels=5, seed=2)
    per_user = np.diff(ratings.indptr)
    per_item = np.bincount(ratings.indices, minlength=2500)
    assert abs(per_user.mean() - 40) < 4
    assert np.median(per_user) < per_user.mean()
    assert np.sort(per_item)[::-1][:250].sum() > 0.4 * ratings.n_ratings  # a tenth of the items, much of the ratings
    assert set(ratings.values.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert 3.0 < ratings.values.mean() < 4.2
    assert 0.8 < ratings.values.std() < 1.3
    again = surrogate(users=3000, items=2500, ratings_per_user=40, levels=5, seed=2)
    assert np.array_equal(ratings.values, again.values)
    jokes = surrogate(users=300, items=100, ratings_per_user=72.5, value_range=(-10, 10))
    assert (jokes.value_range, jokes.n_items) == ((-10.0, 10.0), 100)


@pytest.mark.parametrize(
    "settings",
    [
        {"users": 0}, {"items": 2.5}, {"rank": 0}, {"per_user": 41}, {"per_user": 0}, {"noise": -1},
        {"noise": float("nan")}, {"noise": "x"}, {"popularity": -1}, {"activity": float("inf")},
        {"levels": 1},
        {"test_per_user": -1}, {"row_norm": 0.0}, {"seed": -1}, {"seed": 1.5}, {"value_range": (1, 1)},
        {"per_user": None, "rank": 30}, {"per_user": None, "users": 1},
    ],
    ids=str,
)  # fmt: skip
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    name = next(iter(settings))
    with pytest.raises(ConfigError, match=name):
        synthetic(**({"users": 20, "items": 40, "per_user": 5} | settings))


@pytest.mark.parametrize("mean", [0, 41, -3])
def test_surrogate_settings_are_checked(mean: float) -> None:
    with pytest.raises(ConfigError, match="ratings_per_user"):
        surrogate(users=20, items=40, ratings_per_user=mean)
