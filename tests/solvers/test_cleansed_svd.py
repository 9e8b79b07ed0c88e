"""SVD after cleansing: the covariance it asks for, structure found, and a strawman that is one."""

import math

import numpy as np
import pytest

import hushrec as hr
from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import CleansedGram
from making import random_ratings


@pytest.fixture(scope="module")
def planted():
    return hr.synthetic(users=10_000, items=60, rank=2, per_user=25, noise=0.05, seed=1)


def rmse(release, data):
    return hr.evaluate(release, *data)["rmse"]


def test_the_sums_are_the_weighted_covariance_and_the_weights():
    ratings = random_ratings(users=40, items=10, seed=2)
    curator = Curator(ratings, hr.NonPrivate())
    curator.plan({"covariance": 0.5, "weights": 0.5})
    means = np.linspace(2, 4, 10)
    asked = {"means": means, "offset_prior": 2.0}
    covariance = curator.release("covariance", CleansedGram(bound=0.7, clamp=0.7, **asked)).parts[0]
    weights = curator.release("weights", CleansedGram(bound=1.0, **asked)).parts[0]
    expected, counts = np.zeros((10, 10)), np.zeros((10, 10))
    for i in range(40):
        items, values = ratings.user(i)
        if len(items) == 0:
            continue
        left = values.astype(float) - means[items]
        left = np.clip(left - left.sum() / (len(items) + 2.0), -0.7, 0.7)
        row, seen = np.zeros(10), np.zeros(10)
        row[items], seen[items] = left, 1.0
        expected += np.outer(row, row) / len(items)
        counts += np.outer(seen, seen) / len(items)
    np.testing.assert_allclose(covariance, expected, atol=1e-12)
    np.testing.assert_allclose(weights, counts, atol=1e-12)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_every_release_is_in_the_ledger_and_the_budget_is_spent(planted, relation):
    release = hr.fit(planted[0], hr.CleansedSVD(), hr.Budget(2.0, 1e-6, relation=relation))
    names = [entry.name for entry in release.guarantee.ledger]
    assert names[-3:] == ["means", "covariance", "weights"]
    assert release.guarantee.spent <= 2.0
    assert release.guarantee.spent == pytest.approx(2.0, rel=1e-9)


def test_only_the_most_popular_items_are_in_the_covariance(planted):
    release = hr.fit(planted[0], hr.CleansedSVD(head=30), hr.Budget(10.0, 1e-6), seed=0)
    outside = ~release.arrays["loadings"][:, 1:].any(axis=1)
    assert outside.sum() == 30


def test_structure_is_found(planted):
    alone = rmse(hr.fit(planted[0], hr.CleansedSVD(), hr.Budget(0.01, 1e-6), seed=0), planted)
    found = rmse(hr.fit(planted[0], hr.CleansedSVD(), hr.Budget(10.0, 1e-6), seed=0), planted)
    whole = rmse(hr.fit(planted[0], hr.CleansedSVD(), hr.NonPrivate()), planted)
    assert whole < 0.35 * alone
    assert found < 0.6 * alone


def test_the_strawman_spends_little_and_says_what_it_is(planted):
    release = hr.fit(planted[0], hr.CleansedSVD(noise="paper", ratings_per_user=25), hr.Budget(10.0, 1e-6), seed=0)
    assert release.guarantee.spent < 2.0
    assert any("strawman" in note for note in release.notes)
    entries = {entry.name: entry for entry in release.guarantee.ledger}
    exact = {e.name: e for e in hr.fit(planted[0], hr.CleansedSVD(), hr.Budget(10.0, 1e-6), seed=0).guarantee.ledger}
    ratio = exact["covariance"].mu / entries["covariance"].mu
    assert ratio == pytest.approx(25 * (1 + 2 * math.sqrt(2)), rel=1e-6)
    assert rmse(release, planted) > 1.2 * rmse(hr.fit(planted[0], hr.CleansedSVD(), hr.Budget(10.0, 1e-6)), planted)


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": "x"},
        {"rank": 0},
        {"ratings_per_user": 0},
        {"clamp": 0.0},
        {"shrinkage": -1.0},
        {"offset_prior": 0.0},
        {"head": 1},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(hr.ConfigError, match=next(iter(wrong))):
        hr.CleansedSVD(**wrong)
