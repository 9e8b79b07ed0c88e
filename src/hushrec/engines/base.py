"""The seam between the curator and the machines: an engine sums a piece of work over shards of users."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from hushrec.data.ratings import Ratings

Sums = tuple[NDArray[Any], ...]
Cache = dict[str, Any]
"""What a user-half function may keep for a shard's users between rounds; an engine may drop it at any time."""


class Work(Protocol):
    """What the curator asks an engine to sum: picklable, and the same for every shard."""

    def zeros(self) -> Sums:
        """Empty sums, in the type that the result has."""

    def add(self, rows: Ratings, cache: Cache, into: Sums) -> None:
        """Add the contributions of one shard's users to the sums."""


class Job(Protocol):
    """Ratings laid out over an engine's workers."""

    def total(self, work: Work) -> Sums:
        """The sum of the work over all shards."""


class Engine(Protocol):
    """Where the user half runs."""

    def attach(self, ratings: Ratings) -> Job:
        """Lay the ratings out once; later sums read them where they are."""
