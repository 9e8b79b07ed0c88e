"""Coverage of prediction intervals on held-out ratings of a planted model, with users of different scatter."""

import numpy as np
import pytest

import hushrec as hr
from hushrec.data.ratings import Ratings
from hushrec.evaluate.intervals import coverage


@pytest.fixture(scope="module")
def uneven():
    """Half of the users scatter almost twice as much as the others."""
    rng = np.random.default_rng(5)
    users, items = 4000, 30
    seen = rng.random((users, items)) < 0.6
    own = np.where(np.arange(users) % 2, 0.35, 0.65)[:, None]
    values = rng.normal(size=(users, 1)) * 0.4 + rng.normal(size=(1, items)) * 0.3 + own * rng.normal(size=seen.shape)
    rows, columns = np.nonzero(seen)
    ratings = Ratings.from_codes(
        rows, columns, np.clip(values[seen], -4, 4), items=np.arange(items), value_range=(-4.0, 4.0), n_users=users
    )
    return hr.split(ratings, test=0.2, seed=0)


@pytest.fixture(scope="module")
def release(uneven):
    return hr.fit(uneven[0], hr.Posterior(), hr.Budget(5.0, 1e-6), seed=0)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_about_their_level(release, uneven, level):
    assert abs(coverage(release, *uneven, level=level)["coverage"] - level) < 0.03


def test_they_cover_calm_and_wild_users_alike(release, uneven):
    """Power: with one scale for all users, 78 % of the wild half is covered and 98 % of the calm one."""
    train, test = uneven
    counts = np.diff(test.indptr)
    for parity in (0, 1):
        chosen = test.keep(np.repeat(np.arange(len(counts)) % 2 == parity, counts))
        assert 0.85 < coverage(release, train, chosen)["coverage"] < 0.965


def test_width_is_in_native_units(release, uneven):
    width = coverage(release, *uneven)["width"]
    assert 1.4 < width < 2.2


def test_nothing_to_judge_is_said(release, uneven):
    train, test = uneven
    with pytest.raises(hr.DataError, match="test rating"):
        coverage(release, train, test.keep(np.zeros(test.n_ratings, dtype=bool)))
