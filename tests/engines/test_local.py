"""Shards cover every user once, cost alike, and settings are checked."""

import numpy as np
import pytest

from hushrec import ConfigError, LocalEngine
from hushrec.engines.local import cut
from making import random_ratings

RATINGS = random_ratings(users=101, items=20, seed=2)


@pytest.mark.parametrize("shards", [1, 2, 7, 101, 5000])
def test_every_user_is_in_exactly_one_shard(shards):
    parts = cut(RATINGS, shards)
    assert sum(part.n_users for part in parts) == 101
    np.testing.assert_array_equal(np.concatenate([part.indices for part in parts]), RATINGS.indices)
    np.testing.assert_array_equal(np.concatenate([part.values for part in parts]), RATINGS.values)
    assert all(part.indptr[0] == 0 and part.indptr[-1] == len(part.indices) for part in parts)


def test_shards_are_views_and_about_alike():
    parts = cut(RATINGS, 4)
    assert all(np.shares_memory(part.values, RATINGS.values) for part in parts)
    sizes = [part.n_ratings for part in parts]
    assert max(sizes) < 1.3 * min(sizes)


@pytest.mark.parametrize("option", ["workers", "shards"])
@pytest.mark.parametrize("value", [0, 1.5, 2.0, True, "2"])
def test_settings_are_whole_numbers(option, value):
    with pytest.raises(ConfigError, match=f"{option} is .* whole number of at least 1"):
        LocalEngine(**{option: value})


def test_caches_stay_with_their_shard():
    class Remember:
        def zeros(self):
            return (np.zeros(1, dtype=np.int64),)

        def add(self, rows, cache, into):
            into[0][0] += cache.get("seen", 0)
            cache["seen"] = rows.n_ratings

    job = LocalEngine(workers=2, shards=5).attach(RATINGS)
    assert job.total(Remember())[0][0] == 0
    assert job.total(Remember())[0][0] == RATINGS.n_ratings
