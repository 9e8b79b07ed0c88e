"""Questions about single ratings, where *which* entries were rated is public and each rating's sign is protected.

Here the unit is `rating` and two data sets are neighbours when the value of one rating differs (`replace-one`); the
positions Ω, and so their number, are the same in both. A question has one of three forms, each with its proof:

`FlippedSigns`  each sign kept with odds e^ε : 1. One rating moves one answer: ε-DP, and each answer can be given
                by whoever has the rating, without trust in anybody.
`TwoValued`     for each rating two *public* whole numbers `no` and `yes`, the sign says which, noise is added. One
                rating moves one number by at most |yes - no| ≤ Δ, checked entry by entry before a sign is read:
                Laplace noise of scale Δ/ε is ε-DP, Gaussian noise of deviation Δ/μ is μ-GDP.
`MeanValue`     the sum of all values, each within ±1 of the middle of the public range in units of half of it: 2.

`fits.py` has the questions whose answer is a whole fit. No other place computes their sensitivity or their noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.engines.base import Sums
from hushrec.errors import ConfigError
from hushrec.privacy.accounting import Budget, LedgerEntry, NonPrivate, gaussian_scale, laplace_scale
from hushrec.privacy.coins import randomized_response
from hushrec.privacy.contributions import Floats
from hushrec.privacy.noise import BitSource, rounded_gaussian, rounded_laplace

Noise = Literal["laplace", "gaussian"]
Trust = Literal["central", "local"]

LARGEST_NOISE = 2.0**30
"""In grid units: the largest scale at which sampling stays quick."""


@dataclass(frozen=True, kw_only=True)
class RatingQuery(ABC):
    """A question about single ratings: public arguments, one ledger entry, one noisy answer.

    trust: "local" where every rating gets its own noise before anything is computed from it. proved: whether the
    ledger entry is a proved price.
    """

    name: ClassVar[str]
    trust: ClassVar[Trust] = "central"
    proved: ClassVar[bool] = True

    @abstractmethod
    def entry(self, label: str, budget: Budget | NonPrivate, share: float, pattern: Pattern) -> LedgerEntry:
        """What this release costs, from public values alone."""

    @abstractmethod
    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        """The noisy answer, the noise as the entry says."""

    def unit(self, entry: LedgerEntry) -> float:
        """The value of one grid unit, in which the entry's sensitivity and scale are."""
        return 1.0

    def check(self, ratings: Ratings, entry: LedgerEntry) -> None:
        """Refuse, before anything is spent, ratings that the question does not fit, from what is public of them.

        Here: those whose signs were flipped before. Noise on top of it would be taken for the ratings.
        """
        if ratings.randomized is not None:
            raise ConfigError('These ratings were randomized already: fit them with mechanism="input" and '
                              "already_randomized=True.")  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """Ω in row-major order: public where single ratings are protected, and only there."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """n = |Ω|."""
        return len(self.indices)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each entry, (n,)."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))


@dataclass(frozen=True, kw_only=True)
class MeanValue(RatingQuery):
    """The mean of all ratings, with Laplace noise."""

    name: ClassVar[str] = "mean rating"

    def entry(self, label: str, budget: Budget | NonPrivate, share: float, pattern: Pattern) -> LedgerEntry:
        units = _units(_price("laplace", budget, share), 2.0)
        return _noisy_entry(label, self.name, "laplace", budget, share, 2.0 * units, 1)

    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        low, high = ratings.value_range
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        within = np.clip((ratings.values - middle) / half, -1.0, 1.0)
        if entry.scale == 0.0:
            total = float(within.sum())
        else:
            units = entry.sensitivity / 2.0
            whole = np.trunc(within * units).astype(np.int64).sum() + rounded_laplace(entry.scale, 1, bits)[0]
            total = float(whole) / units
        return (np.array([middle + half * np.clip(total / max(ratings.n_ratings, 1), -1.0, 1.0)]),)

    def unit(self, entry: LedgerEntry) -> float:
        return 2.0 / entry.sensitivity if entry.sensitivity else 1.0


@dataclass(frozen=True, kw_only=True)
class SignQuery(RatingQuery):
    """A question about the signs of the ratings: yes where the value is above the public threshold."""

    threshold: float

    def signs(self, ratings: Ratings) -> NDArray[np.bool_]:
        """Yes or no, (n,): the only look at the values. As 32-bit numbers, which is how they are kept."""
        return np.asarray(ratings.values > np.float32(self.threshold))


@dataclass(frozen=True, kw_only=True)
class FlippedSigns(SignQuery):
    """Every sign, flipped with probability 1/(1 + e^ε): randomized response."""

    name: ClassVar[str] = "flipped signs"
    trust: ClassVar[Trust] = "local"

    def entry(self, label: str, budget: Budget | NonPrivate, share: float, pattern: Pattern) -> LedgerEntry:
        epsilon = budget.epsilon * share if budget.private else 0.0
        return LedgerEntry(
            label, "randomized-response", epsilon, 1.0 if epsilon else 0.0, share, pattern.count, self.name
        )

    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        signs = self.signs(ratings).astype(np.uint8)
        kept = signs if entry.scale == 0.0 else randomized_response(signs, entry.sensitivity, bits)
        return (kept.astype(np.float64),)


@dataclass(frozen=True, kw_only=True)
class RandomizedBefore(FlippedSigns):
    """Signs that were flipped on the users' own devices: nothing is added here, and the price was paid there."""

    name: ClassVar[str] = "flipped on devices"

    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        return (self.signs(ratings).astype(np.float64),)

    def check(self, ratings: Ratings, entry: LedgerEntry) -> None:
        known = ratings.randomized
        if known is None:
            raise ConfigError("These ratings carry no mark of 'hushrec randomize': they were not randomized before.")
        if known != entry.sensitivity:
            raise ConfigError(
                f"The ratings were randomized at another epsilon than the budget's: it must be {known!r}, with "
                f'unit="rating".'
            )
        if ratings.threshold is not None and ratings.threshold != self.threshold:
            raise ConfigError(
                f"threshold is {self.threshold!r}, but the ratings became yes and no at {ratings.threshold!r} on the "
                "users' devices: leave it out."
            )


@dataclass(frozen=True, kw_only=True)
class TwoValued(SignQuery):
    """For each rating one of two public numbers, which one being its sign, with noise."""

    noise: Noise = "laplace"

    @abstractmethod
    def values(self, count: int) -> tuple[Floats, Floats]:
        """The numbers for "no" and for "yes", (n,) each."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """The most by which two such numbers may differ."""

    def entry(self, label: str, budget: Budget | NonPrivate, share: float, pattern: Pattern) -> LedgerEntry:
        units = _units(_price(self.noise, budget, share), 1.0)  # grid units in `reach`: also the sensitivity
        return _noisy_entry(label, self.name, self.noise, budget, share, float(units), pattern.count)

    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        no, yes = self.values(ratings.n_ratings)
        signs = self.signs(ratings)
        if entry.scale == 0.0:
            return (np.where(signs, yes, no),)
        unit = self.unit(entry)
        low, high = whole(no, unit), whole(yes, unit)
        # decided from public numbers alone: what does not keep the bound says nothing about its rating
        apart = np.abs(high - low) > entry.sensitivity
        low[apart] = high[apart]
        draw = rounded_laplace if self.noise == "laplace" else rounded_gaussian
        return ((np.where(signs, high, low) + draw(entry.scale, len(low), bits)) * unit,)

    def unit(self, entry: LedgerEntry) -> float:
        return self.reach / entry.sensitivity if entry.sensitivity else 1.0


@dataclass(frozen=True, kw_only=True)
class NoisySigns(TwoValued):
    """s + noise for every sign s in {0, 1}: all of the likelihood's data, for any link."""

    name: ClassVar[str] = "noisy signs"
    trust: ClassVar[Trust] = "local"

    @property
    def reach(self) -> float:
        return 1.0

    def values(self, count: int) -> tuple[Floats, Floats]:
        return np.zeros(count), np.ones(count)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyGradient(TwoValued):
    """The gradient of each rating's loss at public values: `no` and `yes` (n,), computed without the ratings.

    bound: the most by which the two may differ; entries where they do not keep it are made equal.
    """

    name: ClassVar[str] = "noisy gradient"
    no: Floats
    yes: Floats
    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ConfigError(f"The bound of {self.name} must be a positive number, not {self.bound}.")

    @property
    def reach(self) -> float:
        return self.bound

    def values(self, count: int) -> tuple[Floats, Floats]:
        if not self.no.shape == self.yes.shape == (count,):
            raise ConfigError("The gradient must have one number per rating.")
        return self.no, self.yes


def whole(values: Floats, unit: float) -> NDArray[np.int64]:
    """Values as whole numbers of grid units, toward zero; what is not finite, or too large, becomes zero."""
    scaled = values / unit
    return np.trunc(np.where(np.abs(scaled) < 2.0**61, scaled, 0.0)).astype(np.int64)


def _price(noise: Noise, budget: Budget | NonPrivate, share: float) -> float:
    """ε or μ of a release with this share of the budget."""
    if not budget.private:
        return math.inf
    return budget.epsilon * share if noise == "laplace" else budget.mu * math.sqrt(share)


def _units(price: float, sensitivity: float) -> int:
    """Grid units in the value 1: as fine as the sampler and whole numbers allow."""
    return max(int(LARGEST_NOISE * min(price, 1.0) / sensitivity), 1)


def _noisy_entry(
    label: str, bound: str, noise: Noise, budget: Budget | NonPrivate, share: float, sensitivity: float, numbers: int
) -> LedgerEntry:
    """One release of additive noise; without privacy a scale of 0, which costs everything."""
    price = _price(noise, budget, share)
    scale = laplace_scale if noise == "laplace" else gaussian_scale
    return LedgerEntry(label, noise, sensitivity, scale(sensitivity, price), share, numbers, bound)


def noisy_entry(
    query: RatingQuery, label: str, noise: Noise, budget: Budget | NonPrivate, share: float, reach: float, numbers: int,
    slack: float = 0.0,
) -> LedgerEntry:  # fmt: skip
    """The entry of additive noise at a sensitivity of `reach` in values and `slack` in grid units on top."""
    units = _units(_price(noise, budget, share), reach)
    return _noisy_entry(label, query.name, noise, budget, share, reach * units + slack, numbers)
