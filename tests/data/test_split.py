"""Hold-out of single ratings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrec.data.ratings import Ratings
from hushrec.data.split import split
from hushrec.data.synthetic import synthetic
from hushrec.errors import ConfigError, DataError

RATINGS = synthetic(users=200, items=40, per_user=10)[0]


def cells(ratings: Ratings) -> set[tuple[int, int, float]]:
    rows = np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr))
    return set(zip(rows.tolist(), ratings.indices.tolist(), ratings.values.tolist(), strict=True))


@given(test=st.floats(0.001, 0.999), seed=st.integers(0, 2**40))
def test_the_two_parts_are_the_whole(test: float, seed: int) -> None:
    train, held_out = split(RATINGS, test=test, seed=seed)
    assert cells(train) | cells(held_out) == cells(RATINGS)
    assert not cells(train) & cells(held_out)
    assert held_out.n_ratings == min(max(round(test * 2000), 1), 1999)
    assert (train.n_users, train.n_items) == (held_out.n_users, held_out.n_items) == (200, 40)


def test_the_seed_decides_and_every_rating_is_held_out_alike() -> None:
    first, again, other = (split(RATINGS, seed=seed)[1] for seed in (3, 3, 4))
    assert np.array_equal(first.values, again.values)
    assert cells(first) != cells(other)
    times = np.zeros((200, 40))
    for seed in range(200):
        part = split(RATINGS, test=0.5, seed=seed)[1]
        times[np.repeat(np.arange(200), np.diff(part.indptr)), part.indices] += 1
    shares = times[times > 0] / 200
    assert len(shares) == 2000
    assert abs(shares.mean() - 0.5) < 1e-9
    assert shares.std() < 1.3 * np.sqrt(0.25 / 200)  # binomial, no rating favoured


@pytest.mark.parametrize("test", [0, 1, -0.1, 1.5, float("nan"), True, "0.1", None])
def test_the_share_must_lie_between_zero_and_one(test: Any) -> None:
    with pytest.raises(ConfigError, match="test must be a share"):
        split(RATINGS, test=test)


def test_bad_seeds_and_too_few_ratings() -> None:
    for seed in (-1, 0.5, True, None):
        with pytest.raises(ConfigError, match="seed"):
            split(RATINGS, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="Two ratings"):
        split(RATINGS.keep(np.arange(2000) == 0))
