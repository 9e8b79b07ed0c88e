"""What was promised and what was spent: budgets, the ledger, and the exact Gaussian privacy curve.

One Gaussian release of L2 sensitivity D and standard deviation sigma is mu-GDP with mu = D / sigma. Releases
compose, also when later ones are chosen from earlier ones, as mu^2 = sum of mu_t^2, with equality. A mu-GDP
release is (epsilon, delta)-DP exactly when delta is at least

    delta(epsilon; mu) = Phi(a) - e^epsilon Phi(b),   a = mu/2 - epsilon/mu,   b = -mu/2 - epsilon/mu.

Since e^epsilon phi(b) = phi(a), this is phi(a) (R(-a) - R(-b)) with the Mills ratio R(x) = Phi(-x) / phi(x).
Every rounding below errs toward privacy: mu down where noise is calibrated, mu and epsilon up where they are
reported. The margins are far above the error of the floating-point curve (tested against 60-digit
arithmetic).
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from hushrec import require
from hushrec.errors import BudgetError, ConfigError, ReleaseError
from hushrec.privacy.selection import selection_epsilon

if TYPE_CHECKING:
    from hushrec.privacy.durable import LedgerFile

Relation = Literal["replace-one", "add-remove"]
Unit = Literal["user", "rating"]
Mechanism = Literal["gaussian", "laplace", "randomized-response", "selection"]

RELATIONS = ("replace-one", "add-remove")
UNITS = ("user", "rating")
MECHANISMS = ("gaussian", "laplace", "randomized-response", "selection")

# Bound on the error of _log_delta; measured against high-precision arithmetic it stays below 4e-13.
_CURVE_MARGIN = 1e-12
# What calibration leaves unspent: covers the rounding of shares, scales and sums, so that the epsilon that
# the ledger recomputes never exceeds the epsilon that was asked.
_CALIBRATION_MARGIN = 6e-13
# Less than twice the calibration margin: mu^2 may be overspent by this and the total still keeps the budget.
_SHARES_TOLERANCE = 1e-12
_SMALLEST_EPSILON = 1e-15

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_UNIT_NODES, _UNIT_WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0


# --- the exact Gaussian curve ---------------------------------------------------------------------


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta for which a ``mu``-GDP release is (``epsilon``, delta)-DP.

    **Guarantee**: exact up to a relative error of 1e-12 (not rounded); 1 at mu = inf, 0 at mu = 0.

    >>> f"{gaussian_delta(0.2367043807, 1.0):.6e}"
    '1.000000e-06'
    """
    require.number("mu", mu, 0.0, math.inf)
    require.number("epsilon", epsilon, 0.0, math.inf)
    return math.exp(_log_delta(mu, epsilon))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu that (``epsilon``, ``delta``) allows, rounded down.

    **Guarantee**: the returned mu certainly satisfies ``gaussian_delta(mu, epsilon) <= delta``; it falls
    short of the exact answer by about one part in 10^12. It is 0 at delta = 0: no Gaussian noise is enough
    there.

    >>> round(gaussian_mu(1.0, 1e-6), 10)
    0.2367043807
    """
    require.number("epsilon", epsilon, 0.0, math.inf)
    require.number("delta", delta, 0.0, 1.0, below_high=True)
    if math.isinf(epsilon):
        return math.inf
    if delta == 0.0:
        return 0.0
    # Twice the margin: gaussian_epsilon spends one of the two, so that a round trip never comes out above.
    target = math.log(delta) - 2.0 * _CURVE_MARGIN
    root = _root_of_increasing(lambda mu: _log_delta(mu, epsilon) - target)
    return root * (1.0 - _CALIBRATION_MARGIN)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which a ``mu``-GDP release is (epsilon, ``delta``)-DP, rounded up.

    **Guarantee**: the release certainly is (returned epsilon, delta)-DP. It is inf when no finite epsilon
    will do: mu = inf, or delta = 0 with mu > 0.

    >>> round(gaussian_epsilon(math.sqrt(40) / 20, 1e-6), 6)  # 40 releases of noise multiplier 20
    1.367571
    """
    require.number("mu", mu, 0.0, math.inf)
    require.number("delta", delta, 0.0, 1.0, below_high=True)
    if mu == 0.0:
        return 0.0
    if math.isinf(mu) or delta == 0.0:
        return math.inf
    target = math.log(delta) - _CURVE_MARGIN
    if _log_delta(mu, 0.0) <= target:
        return 0.0
    if _log_delta(mu, _SMALLEST_EPSILON) <= target:
        return _SMALLEST_EPSILON
    return _root_of_increasing(lambda epsilon: target - _log_delta(mu, epsilon)) * (1.0 + 1e-14)


def gaussian_scale(sensitivity: float, mu: float) -> float:
    """Return the standard deviation that makes a release of this L2 ``sensitivity`` ``mu``-GDP, rounded up.

    **Guarantee**: sensitivity / scale is at most mu. The scale is 0 at mu = inf: no noise, no privacy.

    >>> gaussian_scale(2.0, 0.5) >= 4.0
    True
    """
    require.number("sensitivity", sensitivity, 0.0, math.inf, below_high=True)
    require.number("mu", mu, 0.0, math.inf, above_low=True)
    return 0.0 if math.isinf(mu) else math.nextafter(sensitivity / mu, math.inf)


def laplace_scale(sensitivity: float, epsilon: float) -> float:
    """Return the Laplace scale that makes a release of this L1 ``sensitivity`` ``epsilon``-DP, rounded up.

    **Guarantee**: sensitivity / scale is below epsilon by about one part in 10^12, which covers the rounding
    of shares. The scale is 0 at epsilon = inf: no noise, no privacy.

    >>> round(laplace_scale(2.0, 0.5), 9)
    4.0
    """
    require.number("sensitivity", sensitivity, 0.0, math.inf, below_high=True)
    require.number("epsilon", epsilon, 0.0, math.inf, above_low=True)
    return 0.0 if math.isinf(epsilon) else sensitivity / epsilon * (1.0 + 2.0 * _CALIBRATION_MARGIN)


def _log_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon; mu) with an absolute error below _CURVE_MARGIN, -inf where delta is 0."""
    if mu == 0.0 or math.isinf(epsilon):
        return -math.inf
    if math.isinf(mu):
        return 0.0
    a = mu / 2.0 - epsilon / mu
    if mu <= 1.0:
        return _log_normal_density(a) + math.log(mu) + _log_mean_mills_slope(-a, mu)
    mills_at_b = _mills_ratio(mu - a)
    if a > 0.0:  # R(-a) would overflow, Phi(a) is at least one half
        return math.log(ndtr(a) - math.exp(_log_normal_density(a)) * mills_at_b)
    difference = _mills_ratio(-a) - mills_at_b
    # The difference cancels to 0 only beyond -a = 10^15, where delta is 0 in any number format.
    return _log_normal_density(a) + math.log(difference) if difference > 0.0 else -math.inf


def _log_normal_density(x: float) -> float:
    return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def _mills_ratio(x: float) -> float:
    return math.sqrt(math.pi / 2.0) * float(erfcx(x / math.sqrt(2.0)))


def _log_mean_mills_slope(start: float, length: float) -> float:
    """Return the log of (R(start) - R(start + length)) / length for length <= 1, without cancellation.

    R' is entire and varies on a scale of at least 1 here (start >= -1/2), so 24 Gauss nodes are exact to
    rounding.
    """
    x = start + length * _UNIT_NODES
    if start < 30.0:
        slope = 1.0 - x * math.sqrt(math.pi / 2.0) * erfcx(x / math.sqrt(2.0))
    else:  # asymptotic series, error below its first omitted term 19!!/30^18 < 2e-18
        inverse_square = (1.0 / x) * (1.0 / x)
        slope = np.zeros_like(x)
        for odd in (17, 15, 13, 11, 9, 7, 5, 3):
            slope = 1.0 - odd * inverse_square * (1.0 if odd == 17 else slope)
        slope = slope * inverse_square
    mean = float(slope @ _UNIT_WEIGHTS)
    return math.log(mean) if mean > 0.0 else -math.inf


def _root_of_increasing(function: Callable[[float], float]) -> float:
    """Return a zero in (0, inf) of an increasing function, or inf when it stays negative."""
    low = high = 1.0
    while function(high) < 0.0:
        low, high = high, 2.0 * high
        if math.isinf(high):
            return math.inf
    while function(low) > 0.0 and low > 0.0:
        low, high = low / 2.0, low
    return low if low in (0.0, high) else float(brentq(function, low, high, xtol=1e-300, rtol=1e-15))


# --- budgets --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budget:
    """What may be spent: ``epsilon`` and ``delta`` for each ``unit``, under the neighbour ``relation``.

    **Guarantee**: none by itself; a release that spends it is (epsilon, delta)-DP for its unit and relation.
    With delta = 0 only Laplace noise and randomized response can be paid for.

    >>> Budget(1.0, 1e-6).private
    True
    """

    epsilon: float
    delta: float = 0.0
    relation: Relation = field(default="replace-one", kw_only=True)
    unit: Unit = field(default="user", kw_only=True)

    def __post_init__(self) -> None:
        epsilon = require.number("epsilon", self.epsilon, 0.0, math.inf, above_low=True, below_high=True)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", require.number("delta", self.delta, 0.0, 1.0, below_high=True))
        require.choice("relation", self.relation, RELATIONS)
        require.choice("unit", self.unit, UNITS)

    @property
    def mu(self) -> float:
        """The Gaussian privacy parameter that the whole budget buys, rounded toward privacy."""
        if self.delta == 0.0:
            raise ConfigError("delta is 0.0, but Gaussian noise needs a delta above 0, for example 1e-6.")
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def private(self) -> bool:
        return True


@dataclass(frozen=True)
class NonPrivate:
    """In place of a budget: no noise at all, for comparison only.

    **Guarantee**: none; epsilon is infinite, and the release says so.

    >>> NonPrivate().epsilon
    inf
    """

    epsilon: float = field(default=math.inf, init=False)
    delta: float = field(default=0.0, init=False)
    mu: float = field(default=math.inf, init=False)
    relation: Relation = field(default="replace-one", kw_only=True)
    unit: Unit = field(default="user", kw_only=True)

    def __post_init__(self) -> None:
        require.choice("relation", self.relation, RELATIONS)
        require.choice("unit", self.unit, UNITS)

    @property
    def private(self) -> bool:
        return False


def check_shares(shares: Mapping[str, float]) -> None:
    """Refuse a plan whose shares (of mu^2, or of a pure epsilon) do not fit into one whole budget.

    **Guarantee**: a plan that passes spends at most the budget; the tolerance of 1e-12 on the sum is inside
    the margin that ``gaussian_mu`` and ``laplace_scale`` leave.

    >>> check_shares({"gram": 0.75, "means": 0.25})
    """
    for name, share in shares.items():
        if not require.is_number(share) or not 0.0 <= share < math.inf:
            shown = require.show(share)
            raise BudgetError(f"The share of {name!r} is {shown}, but a share is a finite number of at least 0.")
    total = math.fsum(shares.values())
    if total > 1.0 + _SHARES_TOLERANCE:
        raise BudgetError(f"The shares sum to {total!r}, but the plan has only 1 to spend.")


# --- the ledger -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LedgerEntry:
    """One noisy release: what it was, its sensitivity, the noise it got, and how many numbers came out.

    ``sensitivity`` and ``scale`` (sigma of Gaussian, b of Laplace noise) are in the same unit. A scale of 0
    is no noise and costs everything. Randomized response at epsilon is recorded as sensitivity epsilon, scale
    1. A selection says that the other entries are those of the best of a random number of runs: sensitivity
    is the mean number of runs (at least 1.001), scale the shape of its law (at most 100); see ``selection.py``.

    **Guarantee**: ``mu`` and ``epsilon`` are exact quotients rounded up. A selection has a price only together
    with what was selected: see ``Ledger.epsilon``.

    >>> LedgerEntry("gram", "gaussian", sensitivity=1.0, scale=4.0, share=1.0, coordinates=10).mu
    0.25
    """

    name: str
    mechanism: Mechanism
    sensitivity: float
    scale: float
    share: float
    coordinates: int
    bound: str = ""

    def __post_init__(self) -> None:
        require.text("name", self.name)
        require.text("bound", self.bound)
        require.choice("mechanism", self.mechanism, MECHANISMS)
        for name, high in (
            ("sensitivity", math.inf),
            ("scale", math.inf),
            ("share", 1.0 + _SHARES_TOLERANCE),
        ):
            value = require.number(name, getattr(self, name), 0.0, high, below_high=math.isinf(high))
            object.__setattr__(self, name, value)
        if not isinstance(self.coordinates, int | np.integer):
            raise ConfigError(f"coordinates is {require.show(self.coordinates)}, but it must be a whole number.")
        require.number("coordinates", self.coordinates, 0, 2**62)
        object.__setattr__(self, "coordinates", int(self.coordinates))
        if self.selection:
            require.number("sensitivity of a selection", self.sensitivity, 1.001, 1e9)
            require.number("scale of a selection", self.scale, 0.0, 100.0)

    @property
    def selection(self) -> bool:
        """Whether this says that the ledger's other entries were selected among several runs."""
        return self.mechanism == "selection"

    @property
    def mu(self) -> float:
        """The Gaussian privacy parameter spent; 0 for the pure mechanisms."""
        return self._spent() if self.mechanism == "gaussian" else 0.0

    @property
    def epsilon(self) -> float:
        """The pure epsilon spent; 0 for Gaussian noise."""
        return self._spent() if self.mechanism not in ("gaussian", "selection") else 0.0

    def _spent(self) -> float:
        if self.scale == 0.0:
            return math.inf
        exact = Fraction(self.sensitivity) / Fraction(self.scale)
        try:
            nearest = float(exact)
        except OverflowError:
            return math.inf
        return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


@dataclass(frozen=True)
class Ledger:
    """Everything that was released, in order; the total cost is recomputed from it by anyone.

    **Guarantee**: the releases together are (``epsilon(delta)``, delta)-DP for every delta, also when each
    was chosen after seeing the earlier ones: Gaussian entries compose exactly, pure ones add to that. With a
    selection among them, they are the run with the best score among a random number of runs at this cost.

    >>> entry = LedgerEntry("sum", "gaussian", sensitivity=1.0, scale=20.0, share=0.025, coordinates=1)
    >>> round(Ledger((entry,) * 40).epsilon(1e-6), 6)
    1.367571
    """

    entries: tuple[LedgerEntry, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(self.entries))
        if not all(isinstance(entry, LedgerEntry) for entry in self.entries):
            raise ConfigError("entries holds something else, but a ledger holds only LedgerEntry objects.")

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    @property
    def mu(self) -> float:
        """Root of the summed squares of the Gaussian entries, rounded up; inf with a selection, which has no mu."""
        return math.inf if self.selections else self.run_mu

    @property
    def selections(self) -> tuple[LedgerEntry, ...]:
        """The entries that tell of a selection: none, or one."""
        return tuple(entry for entry in self.entries if entry.selection)

    @property
    def run_mu(self) -> float:
        """The mu of the Gaussian entries alone, those of one run where there is a selection (hypot errs by < 2^-52)."""
        return math.hypot(*(entry.mu for entry in self.entries)) * (1.0 + 2.0**-51)

    @property
    def pure_epsilon(self) -> float:
        """Sum of the pure epsilons (fsum: the correctly rounded sum)."""
        return math.fsum(entry.epsilon for entry in self.entries)

    def epsilon(self, delta: float) -> float:
        """Return the total epsilon at this ``delta``, rounded up."""
        if self.selections:
            return self._selected_epsilon(delta)
        gaussian, pure = gaussian_epsilon(self.mu, delta), self.pure_epsilon
        return math.nextafter(gaussian + pure, math.inf) if gaussian and pure else gaussian + pure

    def _selected_epsilon(self, delta: float) -> float:
        """One selection among Gaussian runs has a proved price; anything else none."""
        if len(self.selections) > 1 or self.pure_epsilon:
            return math.inf
        require.number("delta", delta, 0.0, 1.0, below_high=True)
        (entry,) = self.selections
        return selection_epsilon(self.run_mu, delta, mean=entry.sensitivity, shape=entry.scale)

    def add(self, entry: LedgerEntry) -> "Ledger":
        """Return a ledger with one more entry; this one stays as it is."""
        return Ledger((*self.entries, entry))

    @staticmethod
    def open(path: "str | os.PathLike[str]", total: Budget | None = None, *, simulation: bool = False) -> "LedgerFile":
        """Open the ledger file of a data set, or start one with this ``total`` for all fits on it together.

        simulation: start it for seeded runs; it takes no others, and a ledger without it takes no seeded one.

        **Guarantee**: fits that take it (``fit(..., ledger=...)``) never spend more than the total, whatever
        crashes or runs at the same time.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Ledger.open(folder + "/ratings.ledger", total=Budget(3.0, 1e-6)).read().epsilon
        0.0
        """
        from hushrec.privacy.durable import LedgerFile

        return LedgerFile(path, total, simulation=simulation)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the entries as plain dicts, safe for JSON."""
        return [asdict(entry) for entry in self.entries]

    @staticmethod
    def from_list(items: Any) -> "Ledger":
        """Rebuild a ledger from untrusted plain dicts; raises ReleaseError on anything unexpected."""
        if not isinstance(items, list):
            raise ReleaseError("The ledger is not a list.")
        return Ledger(tuple(require.record(LedgerEntry, item, "ledger entry", ReleaseError) for item in items))
