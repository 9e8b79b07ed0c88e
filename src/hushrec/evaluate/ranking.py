"""How well a release ranks the items that users went on to use: Recall@k and NDCG@k. A simulation, not private."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.errors import ConfigError, DataError
from hushrec.release.complete import coordinates
from hushrec.release.file import Release

CUTOFFS = (10, 20, 50)
CELLS = 2**22  # scores held at once: 32 MB


def evaluate_ranking(release: Release, train: Ratings, test: Ratings, ks: Sequence[int] = CUTOFFS) -> dict[str, float]:
    """Recall@k and NDCG@k for every k of `ks`, averaged over the users with a test item.

    train, test: over the release's items, with the same users. Every test item counts alike, whatever its value;
    train items are never recommended. Recall@k: her test items among the k items with the
    highest scores, divided by min(k, number of her test items). NDCG@k: each hit counts 1/log2(rank + 1),
    divided by the largest possible sum. Ties go to the earlier item.
    **Guarantee**: none; the figures are computed from private ratings without noise. Do not publish them as private.
    """
    cutoffs = check_cutoffs(ks)
    judged = np.flatnonzero(np.diff(test.indptr))
    if len(judged) == 0:
        raise DataError("No user has a test item that the release lists.")
    deepest, step = min(cutoffs[-1], release.n_items), max(CELLS // release.n_items, 1)
    hits = np.empty((len(judged), deepest), dtype=bool)
    for at in range(0, len(judged), step):
        users = judged[at : at + step]
        hits[at : at + step] = _hits(_top(_scores(release, train, users), deepest), test, users)
    wanted = np.diff(test.indptr)[judged]
    figures = {}
    for cutoff in cutoffs:
        figures[f"recall@{cutoff}"] = float(recall(hits, wanted, cutoff).mean())
        figures[f"ndcg@{cutoff}"] = float(ndcg(hits, wanted, cutoff).mean())
    return {**figures, "ratings": test.n_ratings, "users": len(judged)}


def check_cutoffs(ks: Sequence[int]) -> list[int]:
    """The cutoffs in rising order, each once; refused where one is no whole number of at least 1.

    >>> check_cutoffs((20, 5, 20))
    [5, 20]
    """
    wanted = list(ks) if isinstance(ks, Iterable) else []
    if not wanted or not all(isinstance(k, int | np.integer) and not isinstance(k, bool) and k >= 1 for k in wanted):
        raise ConfigError(f"ks must be whole numbers of at least 1, one or more, not {ks!r}.")
    return sorted({int(k) for k in wanted})


def recall(hits: NDArray[np.bool_], wanted: NDArray[np.int64], cutoff: int) -> NDArray[np.float64]:
    """Each user's hits (m, k) among the first `cutoff` ranks, as a part of what was possible.

    >>> recall(np.array([[True, False, True]]), np.array([4]), 3).round(3)
    array([0.667])
    """
    return np.asarray(hits[:, :cutoff].sum(axis=1) / np.minimum(wanted, cutoff))


def ndcg(hits: NDArray[np.bool_], wanted: NDArray[np.int64], cutoff: int) -> NDArray[np.float64]:
    """Each user's discounted hits (m, k) among the first `cutoff` ranks, as a part of the largest possible sum.

    >>> ndcg(np.array([[False, True]]), np.array([1]), 2).round(3)
    array([0.631])
    """
    gains = 1.0 / np.log2(np.arange(2, max(cutoff, hits.shape[1]) + 2))
    best = np.concatenate(([0.0], np.cumsum(gains)))
    shown = min(cutoff, hits.shape[1])
    return np.asarray(hits[:, :shown] @ gains[:shown] / best[np.minimum(wanted, cutoff)])


def _scores(release: Release, train: Ratings, users: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores (users, n) of every item, −∞ at the train items."""
    own = train.keep(np.repeat(_flags(users, train.n_users), np.diff(train.indptr)))
    indptr = np.concatenate(([0], np.cumsum(np.diff(own.indptr)[users])))
    found = coordinates(release, (indptr, own.indices, own.values.astype(np.float64)))
    scores = release.arrays["means"] + found @ release.arrays["loadings"].T
    scores[np.repeat(np.arange(len(users)), np.diff(indptr)), own.indices] = -np.inf
    return np.asarray(scores)


def _flags(users: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    out = np.zeros(count, dtype=bool)
    out[users] = True
    return out


def _top(scores: NDArray[np.float64], deepest: int) -> NDArray[np.int64]:
    """The items (users, deepest) with the highest scores, best first; −1 where nothing is left to recommend."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :deepest]
    return np.where(np.isfinite(np.take_along_axis(scores, order, axis=1)), order, -1)


def _hits(top: NDArray[np.int64], test: Ratings, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray(_found(top, test.indptr, test.indices, users))


@njit(nogil=True, cache=True)
def _found(top, indptr, indices, users):  # type: ignore[no-untyped-def]
    out = np.zeros(top.shape, dtype=np.bool_)
    for k in range(len(users)):
        own = indices[indptr[users[k]] : indptr[users[k] + 1]]
        for rank in range(top.shape[1]):
            at = np.searchsorted(own, top[k, rank])
            out[k, rank] = at < len(own) and own[at] == top[k, rank]
    return out
