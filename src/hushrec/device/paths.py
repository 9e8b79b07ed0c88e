"""The public past of methods in rounds: from it a user can compute her own state anew at any time, on any machine.

A path is what is public so far: everything that her state was computed from. What the user half kept of a shard's
users between rounds is found in the shard's cache under a digest of exactly that, so a stale entry has another key,
and a cache that was dropped costs time only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.device import factored, frank_wolfe, kernels

Floats = NDArray[np.float64]
Rows = tuple[Any, Any, Any]  # indptr, indices, values
Cache = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FrankWolfePath:
    """The public past of Frank-Wolfe: t updates that users make on their rows, vectors (t, n), steps, gains (t,)."""

    means: Floats
    vectors: Floats
    steps: Floats
    gains: Floats
    rules: frank_wolfe.Rules

    def replayed(self, rows: Rows, cache: Cache) -> tuple[Floats, Floats]:
        """Her scores Y and the loss's gradient at her entries, (nnz,) each, after all updates."""
        rounds = len(self.steps)
        scores, made = np.zeros(len(rows[1])), 0
        # Taken out while it is worked on: scores that were left half updated are never met again.
        key, kept = cache.pop("frank-wolfe", ("", scores))
        for done in (rounds, rounds - 1):
            if done >= 0 and key == self.digest(done):
                scores, made = kept, done
        updates = (self.vectors, self.steps, self.gains)
        gradient = frank_wolfe.gradients(*rows, self.means, *updates, made, scores, self.rules)
        cache["frank-wolfe"] = (self.digest(rounds), scores)
        return scores, np.asarray(gradient)

    def digest(self, rounds: int) -> str:
        """The cache's key of the scores after so many updates."""
        return _digest(self.rules, self.means, self.vectors[:rounds], self.steps[:rounds], self.gains[:rounds])


@dataclass(frozen=True, kw_only=True)
class FactorPath:
    """The public past of factored gradient rounds: start, and what each round's users moved by.

    start: (n, r), of U⁰; path: (t, n, r) V⁰..V^{t−1}; balances: (t, r, r) R⁰..R^{t−1}; steps: (t,); offset_prior:
    of her own offset, which is taken out first; density, catalogue: see `factored.own_density`; longest: α₁.
    """

    means: Floats
    unit: float
    offset_prior: float
    start: Floats
    path: Floats
    balances: Floats
    steps: Floats
    density: float
    catalogue: float
    longest: float

    @property
    def rank(self) -> int:
        """How many factors."""
        return self.start.shape[1]

    def values(self, rows: Rows) -> Floats:
        """Her row without item means and her own offset, (nnz,)."""
        return np.asarray(kernels.residuals(*rows, self.means, self.offset_prior) / self.unit)

    def users(self, rows: Rows, cache: Cache) -> Floats:
        """U^t (m, r): one step from U^{t−1} where the shard's cache has it, else the whole path again."""
        kept = cache.get(self.now)
        if kept is not None:
            return np.asarray(kept)
        row, rounds = (*rows[:2], self.values(rows)), len(self.steps)
        rules = self.density, self.catalogue, self.longest
        before = cache.get(self.before) if rounds else None
        if before is not None:
            last = self.path[-1], self.balances[-1], self.steps[-1]
            users = factored.next_factors(*row, before, *last, *rules)
        else:
            users = factored.replay(*row, self.start, self.path, self.balances, self.steps, *rules)
        for old in [key for key in cache if key.startswith("factors ")]:
            del cache[old]
        cache[self.now] = users
        return np.asarray(users)

    @cached_property
    def now(self) -> str:
        """The cache's key of U^t."""
        return self._key(len(self.steps))

    @cached_property
    def before(self) -> str:
        """The cache's key of U^{t−1}."""
        return self._key(len(self.steps) - 1)

    def _key(self, rounds: int) -> str:
        numbers = self.unit, self.offset_prior, self.density, self.catalogue, self.longest
        moved = self.path[:rounds], self.balances[:rounds], self.steps[:rounds]
        return f"factors {_digest(numbers, self.means, self.start, *moved)}"


def _digest(rules: tuple[Any, ...], *arrays: Floats) -> str:
    found = hashlib.sha256(repr(tuple(rules)).encode())
    for array in arrays:
        found.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
