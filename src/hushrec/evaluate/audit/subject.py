"""What is audited: a solver, a budget and a curator, trained on small data in full view of the audit.

The audit may look at everything, also at what a curator hides; nothing that it learns is private, since the data
are generated.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings, check_range
from hushrec.data.synthetic import surrogate
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
    """One release as everyone sees it: its name, its public question, the noisy sums, and the items it was about.

    kept: positions in the first item list, of those that a noisy choice had left at the time.
    """

    label: str
    query: Query
    share: float
    noisy: Noisy
    kept: NDArray[np.integer[Any]]

    def rows(self, ratings: Ratings) -> Ratings:
        """The ratings as the question saw them: of the kept items alone, whatever else is wrong with them."""
        if len(self.kept) == ratings.n_items:
            return ratings
        place = np.full(ratings.n_items, -1, dtype=np.int32)
        place[self.kept] = np.arange(len(self.kept), dtype=np.int32)
        rows = ((place[np.asarray(items)], np.asarray(values)) for items, values in rows_of(ratings))
        kept = [(items[items >= 0], values[items >= 0]) for items, values in rows]
        return table(kept, len(self.kept), ratings.value_range)


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

    @cached_property
    def mu(self) -> float:
        """What the whole budget may cost."""
        return self.budget.mu

    def train(self, ratings: Ratings, *, seed: int | None = None, engine: Any = None) -> Training:
        """Train once, with every answer written down."""
        engine = engine if engine is not None else InlineEngine()
        curator = self.open(ratings, seed=seed, engine=engine)
        answers: list[Answer] = []
        ask = curator.release

        def watched(label: str, query: Any) -> Noisy:
            noisy = ask(label, query)
            share = curator._shares.get(label, 0.0)
            answers.append(Answer(label, query, share, noisy, np.asarray(curator.items)))
            return noisy

        curator.release = watched  # type: ignore[method-assign]
        release = learn(curator, self.solver, seed, self.top)
        return Training(tuple(answers), release, curator, getattr(engine, "reads", 0))

    def open(self, ratings: Ratings, *, seed: int | None = None, engine: Any = None) -> Curator:
        """A new curator of the audited kind."""
        return self.curator(ratings, self.budget, engine=engine or InlineEngine(), seed=seed)

    def ask(self, answer: Answer, ratings: Ratings, *, share: float, seed: int | None) -> Noisy:
        """A new answer to the question, at this share of the budget, and to nothing else."""
        curator = self.open(answer.rows(ratings), seed=seed)
        curator.plan({answer.label: share})
        return curator.release(answer.label, answer.query)


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


@dataclass(frozen=True)
class Shape:
    """The public shape of generated data. per_user: ratings of a user, on average."""

    users: int
    items: int
    value_range: tuple[float, float]
    per_user: float

    def __post_init__(self) -> None:
        require_small(self.users, self.items)
        object.__setattr__(self, "value_range", check_range(self.value_range))
        if not 0.0 < self.per_user <= self.items:
            raise ConfigError(
                f"ratings_per_user must be above 0 and at most the {self.items} items, not {self.per_user:g}."
            )

    def others(self, number: int) -> tuple[Row, ...]:
        """All users but the target, drawn anew for every number."""
        people = surrogate(self.users - 1, self.items, self.per_user, self.value_range, seed=number, rank=2)
        return tuple(rows_of(people))

    def with_items(self, items: int) -> Shape:
        """As many users with as large a part of these items each."""
        return replace(self, items=items, per_user=max(self.per_user * items / self.items, 1.0))

    def world(self, relation: str) -> World:
        """The other users with room for a target."""
        return World(others=self.others(0), n_items=self.items, value_range=self.value_range, relation=relation)


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

    def alone(self, *rows: Row) -> Ratings:
        """The data of these users and nobody else."""
        return table(rows, self.n_items, self.value_range)

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


def exact(answer: Answer, scale: Scale, ratings: Ratings, shards: Sequence[Ratings] | None = None) -> Sums:
    """The sums before noise, over one shard or over these."""
    sums = answer.query.zeros(len(answer.kept), np.float64 if scale.units is None else np.int64)
    for part in shards if shards is not None else (ratings,):
        answer.query.add(answer.rows(part), {}, scale, sums)
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
