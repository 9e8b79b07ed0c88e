"""How good a release is on held-out ratings. A simulation: it reads private ratings and is not private."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.device.kinds import KINDS
from hushrec.errors import DataError
from hushrec.evaluate.ranking import CUTOFFS, check_cutoffs, evaluate_ranking
from hushrec.release.complete import find_items, predict_at
from hushrec.release.file import Release


def evaluate(release: Release, train: Ratings, test: Ratings, *, ks: Sequence[int] | None = None) -> dict[str, float]:
    """Errors of the predictions that every user computes from her own training row, at her test ratings.

    Returns rmse and mae in native units, the number of test ratings and of users with one, and how many test
    ratings fall on items that the release does not list (they are left out). For a release of implicit feedback
    the figures are those of `evaluate.ranking` instead of rmse and mae; for one of one-bit completion, how often the
    likelier answer is right (accuracy), how often that of most test ratings (majority), and the log loss.
    ks: cutoffs of Recall@k and NDCG@k, for any release; None: 10, 20 and 50 for implicit feedback, else no ranking.
    Every test item counts in them, whatever its value: leave out those that should not.
    **Guarantee**: none; the figures are computed from private ratings without noise. Do not publish them as private.

    >>> import hushrec as hr
    >>> train, test = hr.synthetic(users=500, items=20, per_user=8, test_per_user=2)
    >>> evaluate(hr.fit(train, hr.SVD(), hr.NonPrivate()), train, test)["ratings"]
    1000
    """
    cutoffs = None if ks is None else check_cutoffs(ks)
    known, wanted = aligned_pair(release, train, test)
    if KINDS[release.kind].predicts == "scores":
        return evaluate_ranking(release, known, wanted, cutoffs or CUTOFFS)
    rows = (known.indptr, known.indices, known.values.astype(np.float64))
    predicted = predict_at(release, rows, (wanted.indptr, wanted.indices))
    if len(predicted) == 0:
        raise DataError("No test rating falls on an item that the release lists.")
    chances = KINDS[release.kind].predicts == "chances"
    figures = (
        _answers(predicted, wanted.values > release.settings["threshold"])
        if chances
        else _errors(predicted - wanted.values)
    )
    if cutoffs is not None:
        figures |= evaluate_ranking(release, known, wanted, cutoffs)
    return figures | {
        "ratings": wanted.n_ratings,
        "users": int(np.count_nonzero(np.diff(test.indptr))),
        "outside": test.n_ratings - wanted.n_ratings,
    }


def _errors(errors: NDArray[np.float64]) -> dict[str, float]:
    return {"rmse": float(np.sqrt(np.mean(errors**2))), "mae": float(np.mean(np.abs(errors)))}


def _answers(chances: NDArray[np.float64], yes: NDArray[np.bool_]) -> dict[str, float]:
    right = np.clip(np.where(yes, chances, 1.0 - chances), 1e-12, 1.0)
    share = float(np.mean(yes))
    return {
        "accuracy": float(np.mean((chances > 0.5) == yes)),
        "majority": max(share, 1.0 - share),
        "log_loss": float(-np.mean(np.log(right))),
    }


def aligned_pair(release: Release, train: Ratings, test: Ratings) -> tuple[Ratings, Ratings]:
    """Train and test over the release's item list, once it is checked that their rows are the same users."""
    if train.n_users != test.n_users:
        raise DataError("train and test must have the same users, in the same order.")
    return aligned(release, train), aligned(release, test)


def aligned(release: Release, ratings: Ratings) -> Ratings:
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
