"""How good a release is on held-out ratings. A simulation: it reads private ratings and is not private."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.errors import DataError
from hushrec.release.complete import find_items, predict_at
from hushrec.release.file import Release


def evaluate(release: Release, train: Ratings, test: Ratings) -> dict[str, float]:
    """Errors of the predictions that every user computes from her own training row, at her test ratings.

    Returns rmse and mae in native units, the number of test ratings and of users with one, and how many test
    ratings fall on items that the release does not list (they are left out).
    **Guarantee**: none; the figures are computed from private ratings without noise. Do not publish them as private.
    """
    errors, outside = _errors(release, train, test)
    if len(errors) == 0:
        raise DataError("No test rating falls on an item that the release lists.")
    return {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "mae": float(np.mean(np.abs(errors))),
        "ratings": len(errors),
        "users": int(np.count_nonzero(np.diff(test.indptr))),
        "outside": outside,
    }


def _errors(release: Release, train: Ratings, test: Ratings) -> tuple[NDArray[np.float64], int]:
    if train.n_users != test.n_users:
        raise DataError("train and test must have the same users, in the same order.")
    known, wanted = _aligned(release, train), _aligned(release, test)
    rows = (known.indptr, known.indices, known.values.astype(np.float64))
    predicted = predict_at(release, rows, (wanted.indptr, wanted.indices))
    return predicted - wanted.values, test.n_ratings - wanted.n_ratings


def _aligned(release: Release, ratings: Ratings) -> Ratings:
    """The ratings over the release's item list; ratings of other items are left out."""
    if len(ratings.items) == release.n_items and bool(np.all(ratings.items == release.items)):
        return ratings
    positions = find_items(release.items, ratings.items)
    kept = ratings.keep(positions[ratings.indices] >= 0)
    rows = np.repeat(np.arange(kept.n_users), np.diff(kept.indptr))
    return Ratings.from_codes(
        rows,
        positions[kept.indices],
        kept.values,
        items=release.items,
        value_range=kept.value_range,
        n_users=kept.n_users,
    )
