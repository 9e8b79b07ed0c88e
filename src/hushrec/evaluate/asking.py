"""What a new user's first ratings are worth: those that a release asks for, against random ones. Not private.

Half of every user's ratings, at random, are the answers that she could give; the others are what is predicted.
She begins with no rating at all. "rated": only items among her answers are asked, so that every question is
answered. "all": any item may be asked, and a question about an item that she does not know teaches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.device.kinds import Rows
from hushrec.errors import ConfigError, DataError
from hushrec.evaluate.metrics import aligned
from hushrec.release.complete import predict_at
from hushrec.release.file import Release
from hushrec.release.uncertainty import chance_to_know, worth_at

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class _Pool:
    """What may be asked, as CSR entries with the answer to each (NaN: she does not know the item)."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    answers: NDArray[np.float64]

    def rows(self, asked: Flags) -> Rows:
        """The ratings that these questions brought in."""
        known = asked & np.isfinite(self.answers)
        found = np.concatenate(([0], np.cumsum(known)))
        return found[self.indptr], self.indices[known].astype(np.int32), self.answers[known]

    def first(self, scores: NDArray[np.float64], count: int) -> Flags:
        """The `count` entries with the highest scores of every user; ties go to the earlier item."""
        users = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        order = np.lexsort((-scores, users))
        chosen = np.zeros(len(scores), dtype=bool)
        chosen[order] = np.arange(len(scores)) - self.indptr[users] < count
        return chosen


def first_questions(
    release: Release,
    ratings: Ratings,
    *,
    questions: int = 5,
    among: Literal["rated", "all"] = "rated",
    users: int = 2000,
    seed: int = 0,
) -> dict[str, float]:
    """Root mean squared errors after `questions` asked by `Release.ask_next` ("asked"), and after random ones.

    Beside them: after no rating ("none") and after all answers ("everything"); "gain" is 1 − asked/random; and the
    mean number of questions that were answered. Judged are at most `users` users, chosen at random among those
    with twice as many answers as questions.
    **Guarantee**: none; the figures are computed from private ratings without noise. Do not publish them as private.

    >>> import hushrec as hr
    >>> train, _ = hr.synthetic(users=500, items=20, per_user=12)
    >>> sorted(first_questions(hr.fit(train, hr.Posterior(), hr.NonPrivate()), train, questions=2))[:3]
    ['answered', 'answered_random', 'asked']
    """
    if questions < 1:
        raise ConfigError(f"questions must be at least 1, not {questions}.")
    if among not in ("rated", "all"):
        raise ConfigError(f"among must be 'rated' or 'all', not {among!r}.")
    draw = np.random.default_rng(seed)
    answers, test = _judged(aligned(release, ratings), questions, users, draw)
    pool = _Pool(answers.indptr, answers.indices, answers.values.astype(np.float64))
    if among == "all":
        pool = _whole(answers)
    asked = np.zeros(len(pool.answers), dtype=bool)
    known = chance_to_know(release)[pool.indices] if among == "all" else 1.0
    for _ in range(questions):
        worth = worth_at(release, pool.rows(asked), (pool.indptr, pool.indices)) * known
        asked |= pool.first(np.where(asked, -np.inf, worth), 1)
    chance = pool.first(draw.random(len(asked)), questions)
    figures = {
        "none": _error(release, pool.rows(np.zeros_like(asked)), test),
        "random": _error(release, pool.rows(chance), test),
        "asked": _error(release, pool.rows(asked), test),
        "everything": _error(release, pool.rows(np.ones_like(asked)), test),
    }
    count = len(pool.indptr) - 1
    return {
        **figures,
        "gain": 1.0 - figures["asked"] / figures["random"],
        "answered": float(pool.rows(asked)[0][-1] / count),
        "answered_random": float(pool.rows(chance)[0][-1] / count),
        "users": count,
    }


def _judged(ratings: Ratings, questions: int, users: int, draw: np.random.Generator) -> tuple[Ratings, Ratings]:
    """Answers and test ratings of the users who are judged."""
    part = draw.random(ratings.n_ratings) < 0.5
    answers, test = ratings.keep(part), ratings.keep(~part)
    able = np.flatnonzero((np.diff(answers.indptr) >= 2 * questions) & (np.diff(test.indptr) > 0))
    if len(able) == 0:
        raise DataError(f"No user has ratings enough to judge {questions} questions by.")
    chosen = np.zeros(ratings.n_users, dtype=bool)
    chosen[draw.permutation(able)[:users]] = True
    return _of(answers, chosen), _of(test, chosen)


def _of(ratings: Ratings, chosen: Flags) -> Ratings:
    """The rows of the chosen users alone."""
    counts = np.diff(ratings.indptr)
    kept = np.repeat(chosen, counts)
    return Ratings(
        indptr=np.concatenate(([0], np.cumsum(counts[chosen]))),
        indices=ratings.indices[kept],
        values=ratings.values[kept],
        items=ratings.items,
        value_range=ratings.value_range,
    )


def _whole(answers: Ratings) -> _Pool:
    """Every item for every user."""
    users, items = answers.n_users, answers.n_items
    known = np.full((users, items), np.nan)
    known[np.repeat(np.arange(users), np.diff(answers.indptr)), answers.indices] = answers.values
    indices = np.tile(np.arange(items, dtype=np.int32), users)
    return _Pool(np.arange(users + 1, dtype=np.int64) * items, indices, known.ravel())


def _error(release: Release, rows: Rows, test: Ratings) -> float:
    predictions = predict_at(release, rows, (test.indptr, test.indices))
    return float(np.sqrt(np.mean(np.square(predictions - test.values))))
