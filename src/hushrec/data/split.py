"""Seeded hold-out of single ratings, for experiments: the same seed always holds out the same ratings."""

from __future__ import annotations

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.errors import ConfigError, DataError


def split(ratings: Ratings, test: float = 0.1, seed: int = 0) -> tuple[Ratings, Ratings]:
    """(train, test): each rating goes to one of the two at random; users and items stay the same in both.

    test: the share of all ratings, in (0, 1), that is held out; exactly ``round(test * nnz)`` ratings, and at
    least one on either side. A user may end up with no rating in one of the two.

    >>> import numpy as np
    >>> ratings = Ratings(np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.ones(4), np.array([7, 8]), (0, 1))
    >>> [part.n_ratings for part in split(ratings, test=0.25, seed=1)]
    [3, 1]
    """
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0.0 < test < 1.0:
        raise ConfigError(f"test must be a share of the ratings between 0 and 1, both excluded, not {test!r}.")
    if ratings.n_ratings < 2:
        raise DataError("Two ratings are needed for a split, one on either side.")
    held_out = min(max(round(test * ratings.n_ratings), 1), ratings.n_ratings - 1)
    mask = np.zeros(ratings.n_ratings, dtype=bool)
    generator = np.random.default_rng(_checked_seed(seed))
    mask[generator.choice(ratings.n_ratings, held_out, replace=False, shuffle=False)] = True
    return ratings.keep(~mask), ratings.keep(mask)


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, not {seed!r}.")
    return int(seed)
