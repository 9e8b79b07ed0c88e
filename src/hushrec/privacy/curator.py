"""The only holder of the ratings: check the budget, compute, certify, sum, add noise, record.

`Curator.release` is the one door through which anything about the ratings leaves. Its argument is a question whose
exact type is on the closed list, with plain values as arguments (`closed_list.py`); its answer is a noisy sum. Every
answer was named and given its share of the budget before it was asked for, so a solver cannot overspend, whatever
it does.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.engines.base import Cache, Engine, Job, Sums
from hushrec.engines.local import LocalEngine
from hushrec.errors import BudgetError, ConfigError, EngineError, HushrecError
from hushrec.privacy.accounting import Budget, Ledger, LedgerEntry, NonPrivate, check_shares
from hushrec.privacy.closed_list import is_record, require_listed
from hushrec.privacy.contributions import Floats
from hushrec.privacy.forms import TOO_SMALL, Query, Scale
from hushrec.privacy.journal import Journal
from hushrec.privacy.noise import LARGEST_SCALE, SeededBits, SystemBits
from hushrec.privacy.queries import HoldOut, UserCount
from hushrec.privacy.signs import Pattern, RatingQuery

PAR = 1.0 + 1e-9
"""For rounding only: shares, scales and sums round a total by far less."""

LONGEST_LABEL = 200
"""Characters in the name of a release: it stands in a line of the ledger."""

LEAST_MU = 1e-8
"""Of a whole budget. Noise is then a hundred million times what a user adds, before the budget is even shared out."""


@dataclass(frozen=True)
class Noisy:
    """A noisy sum: its parts as floats, and the standard deviation of the noise on an isometric coordinate.

    For a Gram that is the deviation of a diagonal entry; an off-diagonal one has sigma/√2.
    """

    parts: tuple[Floats, ...]
    sigma: float


@dataclass(frozen=True)
class Shape:
    """What a solver may know before the first release; users is None where m is private (add-remove)."""

    users: int | None
    items: int
    value_range: tuple[float, float]


class Curator:
    """Holds the ratings and a budget, and answers planned queries with noisy sums.

    **Guarantee**: all answers together are μ-GDP at the unit and relation of the budget with
    μ² = Σ (sensitivity/sigma)² ≤ μ(ε, δ)², hence (ε, δ)-DP; with a `seed` there is no guarantee. Where single
    ratings are protected, the ledger's pure and Gaussian costs together stay within (ε, δ), as long as `proved`.
    """

    def __init__(
        self,
        ratings: Ratings,
        budget: Budget | NonPrivate,
        *,
        engine: Engine | None = None,
        seed: int | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._ratings = ratings
        self._engine = engine or LocalEngine()
        self._job: Job | None = None
        self._bits = SystemBits() if seed is None else SeededBits(seed)
        self._journal = journal or Journal(budget)
        self._budget = budget
        self._mu = usable_mu(budget)
        self._proved, self._model = True, "local" if budget.unit == "rating" else "joint"
        self._shares: dict[str, float] = {}
        self._spent = Ledger()
        self._hold_out: HoldOut | None = None

    @property
    def shape(self) -> Shape:
        """The public shape of the data."""
        known = self._budget.relation == "replace-one" or not self._budget.private
        return Shape(
            users=self._ratings.n_users if known else None,
            items=self._ratings.n_items,
            value_range=self._ratings.value_range,
        )

    @property
    def budget(self) -> Budget | NonPrivate:
        """The total that all answers together may cost."""
        return self._budget

    @property
    def items(self) -> NDArray[Any]:
        """The public item list, in the order of every sum over items."""
        return self._ratings.items

    @property
    def catalogue(self) -> str:
        """How the public item list came to be: "declared", "observed" or "fixed"."""
        return self._ratings.catalogue

    @property
    def threshold(self) -> float | None:
        """What parted yes from no where the ratings were randomized before they got here; None: they were not."""
        return self._ratings.threshold

    @property
    def noise_from_seed(self) -> bool:
        """Whether any noise came from a seed, so that whoever knows it can take that off again."""
        return isinstance(self._bits, SeededBits) and self._bits.drawn > 0

    @property
    def pattern(self) -> Pattern:
        """Ω, which entries were rated: refused where that is protected."""
        if self._budget.private and (self._budget.unit, self._budget.relation) != ("rating", "replace-one"):
            raise ConfigError(
                "Which items were rated is only public where single ratings are protected: the budget must have "
                'unit="rating" and relation="replace-one".'
            )
        indptr, indices = self._ratings.indptr.view(), self._ratings.indices.view()
        indptr.flags.writeable = indices.flags.writeable = False  # they are the ratings' own
        return Pattern(indptr, indices, (self._ratings.n_users, self._ratings.n_items))

    @property
    def proved(self) -> bool:
        """Whether every answer so far had a proved price."""
        return self._proved

    @property
    def model(self) -> Any:
        """From whom the answers so far protect: "joint" for users, for single ratings "central" or "local"."""
        return self._model

    @property
    def ledger(self) -> Ledger:
        """What has been spent so far."""
        return self._spent

    def plan(self, shares: Mapping[str, float]) -> None:
        """Set aside a share of μ² for each named release; refused if all shares ever planned pass 1.

        A plan is made of public values, before the releases that it names. Later plans may use what earlier
        releases gave out.
        """
        asked = dict(shares)
        for label in asked:
            _require_label(label)
            if label in self._shares:
                raise BudgetError(f"The release {label!r} is planned already.")
        check_shares(asked)  # and once more what was made plain of it, which no number can answer for itself
        planned = {**self._shares, **{label: float(share) for label, share in asked.items()}}
        check_shares(planned)
        self._shares = planned

    def left(self) -> float:
        """The share of μ² that no plan has set aside yet."""
        return 1.0 - sum(self._shares.values())

    def count_users(self, share: float) -> float:
        """The number of users: exact where it is public, else a noisy count that costs `share` of the budget."""
        known = self.shape.users
        if known is not None:
            return float(known)
        self.plan({"users": share})
        (count,) = self.release("users", UserCount()).parts
        return max(float(count[0]), 1.0)

    def release(self, label: str, query: Query | RatingQuery) -> Noisy:
        """Answer one planned query, about users or about single ratings as the budget's unit says.

        **Guarantee**: one Gaussian release of cost μ √share; a release that was not planned, or was answered
        already, is refused before any rating is read.
        """
        _require_label(label)
        if label not in self._shares:
            raise BudgetError(f"The release {label!r} was not planned; no data was read.")
        if any(entry.name == label for entry in self._spent):
            raise BudgetError(f"The release {label!r} was answered already; no data was read.")
        share = self._shares[label]
        if self._budget.private and share == 0:
            raise BudgetError(f"The release {label!r} has no share of the budget; no data was read.")
        require_listed(query, self._ratings.n_items)
        if isinstance(query, RatingQuery):
            return self._release_ratings(label, query, share)
        if self._budget.private and self._budget.unit != "user":
            raise ConfigError(
                'This solver protects all ratings of a user: its budget must have unit="user", not unit="rating".'
            )
        scale = query.scale(self._budget.relation, self._mu * share**0.5)
        entry = _entry(label, query, scale, share, self.shape.items)
        self._spent = self._spent.add(entry)
        parts = self._journal.recall(entry, self._bits)
        if parts is None:
            self._journal.spend(entry)
            parts = self._answer(query, scale)
            self._journal.record(entry, parts, self._bits)
        return Noisy(parts, scale.sigma * scale.unit)

    def _release_ratings(self, label: str, query: RatingQuery, share: float) -> Noisy:
        """The same for a question about single ratings, whose price is that of its ledger entry."""
        entry = query.entry(label, self._budget, share, self.pattern)
        if entry.scale > LARGEST_SCALE:
            raise ConfigError(TOO_SMALL)
        query.check(self._ratings, entry)
        if self._hold_out is not None:
            raise ConfigError("Questions about single ratings cannot be asked with a part of them held out.")
        spent = self._spent.add(entry)
        if query.proved and self._budget.private and spent.epsilon(self._budget.delta) > self._budget.epsilon * PAR:
            raise BudgetError(f"The release {label!r} would spend more than the budget; no data was read.")
        self._spent, self._proved = spent, self._proved and query.proved
        self._model = self._model if query.trust == "local" else "central"
        parts = self._journal.recall(entry, self._bits)
        if parts is None:
            self._journal.spend(entry)
            parts = self._answer_ratings(query, entry)
            self._journal.record(entry, parts, self._bits)
        return Noisy(parts, entry.scale * query.unit(entry))

    def _answer_ratings(self, query: RatingQuery, entry: LedgerEntry) -> tuple[Floats, ...]:
        try:
            with np.errstate(all="ignore"):
                return query.answer(self._ratings, entry, self._bits)
        except HushrecError:
            raise
        except MemoryError:
            failure = EngineError("There was not enough memory for this answer; nothing was released.")
        except Exception as problem:
            failure = EngineError(f"The answer failed ({type(problem).__name__}); nothing was released.")
        raise failure  # outside of the handler: a foreign exception may quote data, and must not hang on to ours

    def _answer(self, query: Query, scale: Scale) -> tuple[Floats, ...]:
        sums = self._attached().total(_QueryWork(query, scale, self._ratings.n_items, self._hold_out))
        if scale.units is not None:
            query.add_noise(sums, scale.sigma, self._bits)
        return query.finish(sums, scale.unit)

    def narrow(self, chosen: NDArray[np.integer[Any]]) -> None:
        """Keep only the items at these public increasing positions: of the list, the sums and every row."""
        positions = np.asarray(chosen)
        if positions.ndim != 1 or positions.dtype.kind not in "iu" or not _rises(positions, self._ratings.n_items):
            raise ConfigError("The items to keep must be increasing positions in the item list, at least one.")
        self._ratings = self._ratings.select(positions)
        self._job = None

    def hold_out(self, rule: HoldOut | None) -> None:
        """From now on, queries see each user's row without what this public rule holds out of it; None: all of it."""
        if rule is not None and not (type(rule) is HoldOut and is_record(rule)):
            raise ConfigError("What is held out is decided by a HoldOut, and by nothing else.")
        self._hold_out = rule
        self._job = None  # what the user half kept belongs to the rows as they were

    def _attached(self) -> Job:
        if self._job is None:
            self._job = self._engine.attach(self._ratings)
        return self._job


def _require_label(label: Any) -> None:
    """Refuse what only passes for text: it could decide for itself whether it was answered already."""
    if type(label) is not str or len(label) > LONGEST_LABEL:
        raise ConfigError(f"The name of a release must be plain text of at most {LONGEST_LABEL} characters.")


def _rises(positions: NDArray[np.integer[Any]], count: int) -> bool:
    """Whether positions rise strictly within 0..count−1."""
    edges = [-1, *positions.tolist(), count]
    return len(positions) > 0 and all(before < after for before, after in itertools.pairwise(edges))


def usable_mu(budget: Budget | NonPrivate) -> float:
    """The μ of a whole budget for users (0 for ratings, which have their own price), refused where it is hopeless."""
    mu = budget.mu if budget.unit == "user" else 0.0
    if budget.private and budget.unit == "user" and mu < LEAST_MU:
        raise ConfigError(
            f"epsilon = {budget.epsilon:g} with delta = {budget.delta:g} is too small to be of any use: the noise "
            "would be more than a hundred million times what one user adds."
        )
    return mu


@dataclass(frozen=True)
class _QueryWork:
    """A query as an engine runs it: the same for every shard."""

    query: Query
    scale: Scale
    n_items: int
    hold_out: HoldOut | None = None

    def zeros(self) -> Sums:
        return self.query.zeros(self.n_items, np.float64 if self.scale.units is None else np.int64)

    def add(self, rows: Ratings, cache: Cache, into: Sums) -> None:
        if self.hold_out is not None:
            if "rest" not in cache:
                cache["rest"] = rows.keep(~self.hold_out.mask(rows))
            rows = cache["rest"]
        with np.errstate(all="ignore"):  # a warning would say, without noise, that somebody's row overflows
            self.query.add(rows, cache, self.scale, into)


def _entry(label: str, query: Query, scale: Scale, share: float, n_items: int) -> LedgerEntry:
    return LedgerEntry(
        name=label,
        mechanism="gaussian",
        sensitivity=scale.sensitivity,
        scale=scale.sigma,
        share=share,
        coordinates=query.coordinates(n_items),
        bound=f"{query.name}, each contribution clipped at {query.bound:g}",
    )
