"""Two files of ratings become one set of users: row i of both is the same person."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.errors import DataError


def match_users(train: Ratings, test: Ratings) -> tuple[Ratings, Ratings, int]:
    """(train, test, unknown): users matched by id, as `evaluate` needs them; unknown: how many have no training row.

    A user of only one of the two gets an empty row in the other.

    >>> from hushrec.data.readers import ratings_from_arrays as table
    >>> train = table(["ann", "bob"], ["x", "x"], [1.0, 2.0], value_range=(1, 5))
    >>> test = table(["bob", "cat"], ["y", "y"], [3.0, 4.0], value_range=(1, 5))
    >>> [part.n_users for part in match_users(train, test)[:2]], match_users(train, test)[2]
    ([3, 3], 1)
    """
    ours, theirs = _ids(train, "training"), _ids(test, "test")
    if (ours.dtype.kind in "US") != (theirs.dtype.kind in "US"):
        raise DataError("The user ids are whole numbers in one of the two sets of ratings and text in the other.")
    users = np.union1d(ours, theirs)
    return _spread(train, ours, users), _spread(test, theirs, users), int(np.setdiff1d(theirs, ours).size)


def _ids(ratings: Ratings, which: str) -> NDArray[Any]:
    if ratings.users is None:
        raise DataError(f"The {which} ratings have no user ids to match users by.")
    return np.asarray(ratings.users)


def _spread(ratings: Ratings, own: NDArray[Any], users: NDArray[Any]) -> Ratings:
    """The ratings with a row for every one of the (sorted) users."""
    rows = np.repeat(np.searchsorted(users, own), np.diff(ratings.indptr))
    return Ratings.from_codes(
        rows,
        ratings.indices,
        ratings.values,
        items=ratings.items,
        value_range=ratings.value_range,
        users=users,
        catalogue=ratings.catalogue,
    )
