"""The two forms that a query can have, each with its sensitivity, its noise and its cost.

A query is a frozen dataclass of public arguments; `queries.py` has the closed list. It names the user-half
function that computes a user's contribution, and has one of two forms with a proved sensitivity:

`GramQuery`  Σ a_i a_iᵀ with ‖a_i‖ ≤ L. In isometric coordinates (diagonal, √2 × lower triangle) the norm of one
             contribution is ‖a aᵀ‖_F = ‖a‖² ≤ L²: that is the sensitivity under add-remove. Under replace-one,
             ‖aaᵀ − bbᵀ‖_F² = ‖a‖⁴ + ‖b‖⁴ − 2(a·b)² ≤ 2L⁴, so it is √2 L², reached by orthogonal rows of norm L.
             Coordinates that are left out (the diagonal, items outside the head) can only shorten these vectors.
`SumQuery`   Σ c_i with ‖c_i‖ ≤ B, c_i the user's whole stacked contribution: B under add-remove, 2B under
             replace-one, reached by opposite contributions of norm B.

No other place computes these for questions about users (`signs.py`: about single ratings). `contributions.py`
certifies the bounds in integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushrec import require
from hushrec.data.ratings import Ratings
from hushrec.engines.base import Cache, Sums
from hushrec.errors import ConfigError
from hushrec.privacy.accounting import gaussian_scale
from hushrec.privacy.contributions import Block, Floats, add_blocks, add_grams, integer_rows
from hushrec.privacy.noise import LARGEST_SCALE, BitSource, rounded_gaussian

LEAST_BOUND, LARGEST_BOUND = 1e-100, 1e150
"""Between these no step from a value to its grid units leaves the range of floating point: `contributions.py`."""

ROOT_OF_TWO = math.nextafter(math.sqrt(2.0), 2.0)
"""√2, rounded up."""

TOO_SMALL = (
    "The budget is too small: the noise would be more than a million million times what one user adds. epsilon must "
    "be larger, or, where many releases share the budget, their number smaller."
)


@dataclass(frozen=True)
class Scale:
    """How a query stands on the integer grid and what it costs, from public values alone.

    units: grid units in the clipping bound (None: no grid and no noise). unit: the value of one grid unit of
    the result. sensitivity, sigma: in grid units of the result; sigma belongs to one isometric coordinate.
    """

    units: int | None = None
    unit: float = 1.0
    sensitivity: float = 0.0
    sigma: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Query(ABC):
    """A question to the curator: public arguments, and the bound to which each contribution is clipped.

    power: a contribution grows with this power of the bound. factors: the sensitivity by relation, in units of
    bound^power, rounded up. most_units: in the bound, such that MAX_USERS contributions at the bound, added up,
    stay within 2^62 whatever the data. widest: what sigma may be in grid units; finer grids would show nothing.
    """

    name: ClassVar[str]
    power: ClassVar[int]
    factors: ClassVar[Mapping[str, float]]
    most_units: ClassVar[int]
    widest: ClassVar[float]
    bound: float

    def __post_init__(self) -> None:
        require.number(f"The bound of {self.name}", self.bound, LEAST_BOUND, LARGEST_BOUND)

    def sensitivity(self, relation: str) -> float:
        """The L2 sensitivity of the release, in units of the values, in isometric coordinates."""
        return self.factors[relation] * self.bound**self.power

    def scale(self, relation: str, mu: float) -> Scale:
        """Grid and noise of a release that costs `mu` of Gaussian privacy (infinite: neither)."""
        if math.isinf(mu):
            return Scale()
        finest = self.widest * mu / self.factors[relation]
        units = max(1, int(min(self.most_units, finest if self.power == 1 else math.sqrt(finest))))
        sensitivity = self.factors[relation] * units**self.power
        sigma = gaussian_scale(sensitivity, mu)
        if sigma > LARGEST_SCALE:
            raise ConfigError(TOO_SMALL)
        return Scale(units=units, unit=(self.bound / units) ** self.power, sensitivity=sensitivity, sigma=sigma)

    @abstractmethod
    def zeros(self, n_items: int, dtype: Any) -> Sums:
        """Empty sums."""

    @abstractmethod
    def add(self, rows: Ratings, cache: Cache, scale: Scale, into: Sums) -> None:
        """Compute, clip, certify and add the contributions of a shard's users."""

    @abstractmethod
    def add_noise(self, sums: Sums, sigma: float, bits: BitSource) -> None:
        """Add rounded Gaussian noise in place, sigma on every isometric coordinate."""

    @abstractmethod
    def coordinates(self, n_items: int) -> int:
        """How many numbers are released."""

    @abstractmethod
    def finish(self, sums: Sums, unit: float) -> tuple[Floats, ...]:
        """The noisy sums as floats in the unit of the values: post-processing."""


@dataclass(frozen=True, kw_only=True)
class GramQuery(Query):
    """Σ a_i a_iᵀ over the items of `head` (public increasing positions; None: all), with or without its diagonal."""

    power: ClassVar[int] = 2
    factors: ClassVar[Mapping[str, float]] = MappingProxyType({"add-remove": 1.0, "replace-one": ROOT_OF_TWO})
    most_units: ClassVar[int] = 2**15
    widest: ClassVar[float] = 2.0**30  # the most at which nearly every sample is decided at once
    head: NDArray[np.integer[Any]] | None = None
    diagonal: bool = True

    @abstractmethod
    def row(self, rows: Ratings, cache: Cache) -> Floats:
        """User half: one float a rating, the users' rows a_i."""

    def size(self, n_items: int) -> int:
        """How many rows and columns the sum has."""
        return n_items if self.head is None else len(self.head)

    def table(self, rows: Ratings, cache: Cache) -> tuple[NDArray[Any], NDArray[np.int32], int, Floats]:
        """The users' rows a_i as indptr, increasing positions, how many there are, and values: one row a user."""
        return rows.indptr, rows.indices, rows.n_items, self.row(rows, cache)

    def zeros(self, n_items: int, dtype: Any) -> Sums:
        size = self.size(n_items)
        return (np.zeros((size, size), dtype=dtype),)

    def add(self, rows: Ratings, cache: Cache, scale: Scale, into: Sums) -> None:
        indptr, positions, count, values = self.table(rows, cache)
        if len(indptr) != rows.n_users + 1:
            raise ValueError("a Gram needs one row for each user")
        summed = positions
        if self.head is not None:
            where = np.full(count, -1, dtype=np.int32)
            where[self.head] = np.arange(len(self.head), dtype=np.int32)
            summed = where[positions]
            values = np.where(summed >= 0, values, 0.0)  # what is not summed needs no share of the bound
        units = integer_rows(indptr, positions, count, values, self.bound, scale.units)
        add_grams(indptr, summed, units, into[0])

    def add_noise(self, sums: Sums, sigma: float, bits: BitSource) -> None:
        # Row by row, so that the noise never needs a second matrix. √2 q + N(0, σ²), divided by √2, is q plus
        # noise of σ/√2: the isometric coordinate, back on the matrix; rounding it is post-processing.
        (gram,) = sums
        for row in range(1, len(gram)):
            gram[row, :row] += rounded_gaussian(sigma / math.sqrt(2.0), row, bits)
        if self.diagonal:
            gram[np.diag_indices(len(gram))] += rounded_gaussian(sigma, len(gram), bits)

    def coordinates(self, n_items: int) -> int:
        size = self.size(n_items)
        return size * (size - 1) // 2 + (size if self.diagonal else 0)

    def finish(self, sums: Sums, unit: float) -> tuple[Floats, ...]:
        (gram,) = sums
        lower = np.tril(gram, 0 if self.diagonal else -1) * unit
        return (lower + np.tril(lower, -1).T,)


@dataclass(frozen=True, kw_only=True)
class SumQuery(Query):
    """Σ c_i for stacked blocks c_i (a row over items, a short vector, or their outer product)."""

    power: ClassVar[int] = 1
    factors: ClassVar[Mapping[str, float]] = MappingProxyType({"add-remove": 1.0, "replace-one": 2.0})
    most_units: ClassVar[int] = 2**29
    widest: ClassVar[float] = 2.0**26  # keeps the sampler at full speed

    @abstractmethod
    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        """User half: the blocks of the users' contributions."""

    @abstractmethod
    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        """The shape of each block's sum."""

    def zeros(self, n_items: int, dtype: Any) -> Sums:
        return tuple(np.zeros(shape, dtype=dtype) for shape in self.shapes(n_items))

    def add(self, rows: Ratings, cache: Cache, scale: Scale, into: Sums) -> None:
        add_blocks(rows.indptr, rows.indices, rows.n_items, self.blocks(rows, cache), self.bound, scale.units, into)

    def add_noise(self, sums: Sums, sigma: float, bits: BitSource) -> None:
        for total in sums:
            total += rounded_gaussian(sigma, total.size, bits).reshape(total.shape)

    def coordinates(self, n_items: int) -> int:
        return sum(math.prod(shape) for shape in self.shapes(n_items))

    def finish(self, sums: Sums, unit: float) -> tuple[Floats, ...]:
        return tuple(total * unit for total in sums)
