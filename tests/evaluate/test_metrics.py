"""Held-out errors against a plain computation, and test ratings that the release cannot predict."""

import numpy as np
import pytest

import hushrec as hr
from making import random_ratings

TRAIN, TEST = hr.split(random_ratings(users=200, items=25, seed=8), test=0.2, seed=1)
RELEASE = hr.fit(TRAIN, hr.SVD(), hr.Budget(5.0, 1e-6), seed=0)


def errors(release, train, test):
    found = []
    for user in range(train.n_users):
        items, values = test.user(user)
        predictions = dict(zip(release.items.tolist(), release.complete(*train.user(user)), strict=True))
        found += [predictions[item] - value for item, value in zip(items.tolist(), values, strict=True)]
    return np.array(found)


def test_figures_are_the_plain_ones():
    plain = errors(RELEASE, TRAIN, TEST)
    found = hr.evaluate(RELEASE, TRAIN, TEST)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(plain**2)), rel=1e-9)
    assert found["mae"] == pytest.approx(np.mean(np.abs(plain)), rel=1e-9)
    assert found["ratings"] == TEST.n_ratings
    assert found["outside"] == 0


def test_ratings_of_items_that_are_not_listed_are_left_out_and_counted():
    narrow = hr.fit(TRAIN, hr.SVD(), hr.Budget(5.0, 1e-6), seed=0, top=10)
    found = hr.evaluate(narrow, TRAIN, TEST)
    listed = np.isin(TEST.items[TEST.indices], narrow.items)
    assert found["ratings"] == listed.sum()
    assert found["outside"] == (~listed).sum()


def test_the_users_must_match():
    with pytest.raises(hr.DataError, match="same users"):
        hr.evaluate(RELEASE, TRAIN, TEST.rows(0, 10))
