"""What is audited: a solver, a budget and a curator, trained on small data in full view of the audit.

The audit may look at everything, also at what a curator hides; nothing that it learns is private, since the data
are generated.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.engines.base import Sums, Work
from hushrec.errors import ConfigError
from hushrec.fit import learn
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.forms import GramQuery, Query, Scale
from hushrec.release.file import Release

Row = tuple[Sequence[int] | NDArray[Any], Sequence[float] | NDArray[Any]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """One release as everyone sees it: its name, its public question, and the noisy sums."""

    label: str
    query: Query
    share: float
    noisy: Noisy


@dataclass(frozen=True)
class Training:
    """One training: all that left, and how often the ratings were read."""

    answers: tuple[Answer, ...]
    release: Release
    curator: Curator
    reads: int


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The system under audit. `curator` is a class, so that a broken one can be put in its place."""

    solver: Any
    budget: Budget | NonPrivate
    curator: type[Curator] = Curator
    top: int | None = None

    def train(self, ratings: Ratings, *, seed: int | None = None, engine: Any = None) -> Training:
        """Train once, with every answer written down."""
        engine = engine if engine is not None else InlineEngine()
        curator = self.open(ratings, seed=seed, engine=engine)
        answers: list[Answer] = []
        ask = curator.release

        def watched(label: str, query: Any) -> Noisy:
            noisy = ask(label, query)
            share = curator._shares.get(label, 0.0)
            answers.append(Answer(label, query, share, noisy))
            return noisy

        curator.release = watched  # type: ignore[method-assign]
        release = learn(curator, self.solver, seed, self.top)
        return Training(tuple(answers), release, curator, getattr(engine, "reads", 0))

    def open(self, ratings: Ratings, *, seed: int | None = None, engine: Any = None) -> Curator:
        """A new curator of the audited kind."""
        return self.curator(ratings, self.budget, engine=engine or InlineEngine(), seed=seed)


class InlineEngine:
    """Sums in the calling thread, without a pool: an audit trains thousands of times on a handful of users."""

    def __init__(self, shards: int = 1) -> None:
        self.shards, self.reads = shards, 0

    def attach(self, ratings: Ratings) -> InlineEngine:
        """Cut the ratings into shards."""
        edges = np.linspace(0, ratings.n_users, min(self.shards, ratings.n_users) + 1).astype(int)
        self._parts = [ratings.rows(int(a), int(b)) for a, b in itertools.pairwise(edges)]
        self._caches: list[dict[str, Any]] = [{} for _ in self._parts]
        return self

    def total(self, work: Work) -> Sums:
        """The sum over all shards, one after the other."""
        self.reads += 1
        sums = work.zeros()
        for part, cache in zip(self._parts, self._caches, strict=True):
            work.add(part, cache, sums)
        return sums


# --- small data ------------------------------------------------------------------------------------


def table(rows: Sequence[Row], n_items: int, value_range: tuple[float, float]) -> Ratings:
    """Ratings from one (items, values) pair a user, without any check: what a broken reader might let through."""
    sizes = [len(items) for items, _ in rows]
    ratings = object.__new__(Ratings)
    for name, value in (
        ("indptr", np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)),
        ("indices", np.concatenate([np.asarray(items, dtype=np.int32) for items, _ in rows])),
        ("values", np.concatenate([np.asarray(values, dtype=np.float32) for _, values in rows])),
        ("items", np.arange(n_items)),
        ("value_range", value_range),
        ("users", None),
        ("catalogue", "declared"),
    ):
        object.__setattr__(ratings, name, value)
    return ratings


def rows_of(ratings: Ratings) -> list[Row]:
    """The users' rows as (positions, values) pairs."""
    return [
        (ratings.indices[a:b], ratings.values[a:b])
        for a, b in zip(ratings.indptr[:-1], ratings.indptr[1:], strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class World:
    """The other users, the public shape, and the relation: what a target's row is put into."""

    others: tuple[Row, ...]
    n_items: int
    value_range: tuple[float, float]
    relation: str

    def with_target(self, *rows: Row) -> Ratings:
        """The data with these users beside the others."""
        return table((*self.others, *rows), self.n_items, self.value_range)

    @property
    def nobody(self) -> tuple[Row, ...]:
        """What stands in the target's place when she is not there: no user, or a user without ratings."""
        return () if self.relation == "add-remove" else (((), ()),)


# --- sums as the theory sees them ------------------------------------------------------------------


def isometric(query: Query, parts: Sequence[NDArray[Any]]) -> Floats:
    """The coordinates in which noise is alike in all directions: diagonal and √2 × lower triangle, or all numbers."""
    if not isinstance(query, GramQuery):
        return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts])
    (gram,) = parts
    below = np.asarray(gram, dtype=np.float64)[np.tril_indices(len(gram), -1)] * np.sqrt(2.0)
    return np.concatenate((np.diag(gram).astype(np.float64), below)) if query.diagonal else below


def scale_of(answer: Answer, budget: Budget | NonPrivate) -> Scale:
    """Grid and noise as the query itself declares them for its share of the budget."""
    return answer.query.scale(budget.relation, _mu(budget) * answer.share**0.5)


@lru_cache(maxsize=64)
def _mu(budget: Budget | NonPrivate) -> float:
    return budget.mu


def exact(query: Query, scale: Scale, ratings: Ratings, shards: Sequence[Ratings] | None = None) -> Sums:
    """The sums before noise, over one shard or over these."""
    sums = query.zeros(ratings.n_items, np.float64 if scale.units is None else np.int64)
    for part in shards if shards is not None else (ratings,):
        query.add(part, {}, scale, sums)
    return sums


def change(query: Query, more: Sums, less: Sums) -> Floats:
    """The difference of two sums, taken in integers, in isometric coordinates and grid units."""
    return isometric(query, [a - b for a, b in zip(more, less, strict=True)])


def require_small(users: int, items: int) -> None:
    """Audits train thousands of times: the shape must be small."""
    if not 2 <= users <= 100_000:
        raise ConfigError(f"users must be between 2 and 100000 for an audit, not {users}.")
    if not 2 <= items <= 2_000:
        raise ConfigError(f"items must be between 2 and 2000 for an audit, not {items}.")
