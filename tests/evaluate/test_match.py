"""Matching users of two sets of ratings by id."""

from __future__ import annotations

import numpy as np
import pytest

import hushrec as hr
from hushrec.data.readers import ratings_from_arrays
from hushrec.errors import DataError
from hushrec.evaluate.match import match_users


def rows(ratings: hr.Ratings) -> dict:
    found = {}
    for row, user in enumerate(ratings.users.tolist()):
        items, values = ratings.user(row)
        found[user] = dict(zip(items.tolist(), values.tolist(), strict=True))
    return found


def test_every_row_keeps_its_ratings_and_both_have_the_same_users():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 30, (300, 2)), axis=0)
    values = rng.integers(1, 6, len(pairs)).astype(float)
    half = rng.random(len(pairs)) < 0.5
    parts = [ratings_from_arrays(*pairs[m].T, values[m], value_range=(1, 5)) for m in (half, ~half)]
    # A user who is in only one of the two, on either side.
    parts[0] = ratings_from_arrays(
        [*pairs[half][:, 0], 77], [*pairs[half][:, 1], 3], [*values[half], 5.0], value_range=(1, 5)
    )
    train, test, unknown = match_users(*parts)
    assert train.users.tolist() == test.users.tolist() == sorted(set(train.users.tolist()))
    for before, after in zip(parts, (train, test), strict=True):
        assert {user: row for user, row in rows(after).items() if row} == rows(before)
    assert unknown == len(set(parts[1].users.tolist()) - set(parts[0].users.tolist()))


def test_ids_of_two_types_and_missing_ids_are_refused():
    numbers = ratings_from_arrays([1], [1], [1.0], value_range=(1, 5))
    words = ratings_from_arrays(["a"], [1], [1.0], value_range=(1, 5))
    with pytest.raises(DataError, match="whole numbers in one"):
        match_users(numbers, words)
    nobody = hr.Ratings(np.array([0, 1]), np.array([0]), np.ones(1), np.array([1]), (1, 5))
    with pytest.raises(DataError, match="no user ids"):
        match_users(numbers, nobody)
