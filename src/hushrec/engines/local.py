"""The engine for one machine: shards of users on all cores, sums per worker, added at the end."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hushrec import require
from hushrec.data.ratings import Ratings
from hushrec.engines.base import Cache, Sums, Work
from hushrec.errors import EngineError, HushrecError


@dataclass(frozen=True, kw_only=True)
class LocalEngine:
    """Runs the user half on `workers` threads (default: one a core) over `shards` shards of users.

    Memory beside the ratings: one set of sums a worker, and what the user half keeps in the shards' caches.
    """

    workers: int | None = None
    shards: int | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "shards"):
            if getattr(self, name) is not None:
                require.whole(name, getattr(self, name), 1)

    def attach(self, ratings: Ratings) -> LocalJob:
        """Cut the ratings into shards (views, no copy) and stand ready to sum over them."""
        workers = self.workers or os.cpu_count() or 1
        # Small shards keep the float rows of the user half small beside the ratings themselves.
        shards = self.shards or max(workers, -(-ratings.n_ratings // 250_000))
        return LocalJob(workers=workers, shards=cut(ratings, shards))


@dataclass
class LocalJob:
    """The shards of one data set with their droppable per-user caches."""

    workers: int
    shards: list[Ratings]
    caches: list[Cache] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.caches = [{} for _ in self.shards]

    def total(self, work: Work) -> Sums:
        """The sum of `work` over all shards; integers come out the same for any shards, workers and order."""
        workers = min(self.workers, len(self.shards))
        parts, failure = self._parts(work, workers)
        if failure is not None:
            # Raised here, outside of any handler: a foreign exception may quote data, and must not hang on to ours.
            raise failure
        for part in parts[1:]:
            for total, more in zip(parts[0], part, strict=True):
                total += more
        return parts[0]

    def _parts(self, work: Work, workers: int) -> tuple[list[Sums], HushrecError | None]:
        try:
            with threadpool_limits(limits=1), ThreadPoolExecutor(workers) as pool:
                return list(pool.map(lambda w: self._part(work, w, workers), range(workers))), None
        except HushrecError as refusal:
            return [], refusal
        except MemoryError:
            return [], EngineError("There was not enough memory for the sums over users; nothing was released.")
        except Exception as failure:
            return [], EngineError(f"The user half failed ({type(failure).__name__}); nothing was released.")

    def _part(self, work: Work, worker: int, workers: int) -> Sums:
        sums = work.zeros()
        for number in range(worker, len(self.shards), workers):
            work.add(self.shards[number], self.caches[number], sums)
        return sums


def cut(ratings: Ratings, shards: int) -> list[Ratings]:
    """Shards of whole users with about equally many ratings each, as views."""
    goals = np.linspace(0, ratings.n_ratings + ratings.n_users, min(shards, ratings.n_users) + 1)
    load: NDArray[Any] = ratings.indptr + np.arange(ratings.n_users + 1)  # empty users cost something too
    edges = np.unique(np.searchsorted(load, goals))
    edges[0], edges[-1] = 0, ratings.n_users
    return [ratings.rows(int(a), int(b)) for a, b in itertools.pairwise(edges)]
