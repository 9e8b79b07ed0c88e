"""Questions whose answer is a whole fit to the exact signs, made inside the curator, with noise (one-bit, Alg. 2, 4).

`FittedValues`  The ridge fit on the nuclear-norm ball: a public number of steps that bring any two matrices together,
                so that its values on Ω move by at most (L/λ)(1 − ρ^K) for one sign, whether or not the steps have
                converged and whatever the data (proof: `onebit/contraction.py`); Gaussian noise at that sensitivity,
                and 2√n grid units for rounding toward zero. Nothing about the data decides whether it is released.
`SeparableFit`  The minimiser of the ridge fit where no constraint binds, which public numbers decide: |x| ≤ α for the
                two values below, and ‖X‖_* ≤ √min(m, n) ‖X‖_F ≤ √(min(m, n) |Ω|) max |x| ≤ τ. Then it is zero off Ω
                and one of two public numbers on it, which one being the sign: a `TwoValued` question, with its proof.
`FittedMatrix`  the paper's Algorithm 4: Laplace noise of scale 2α/ε on every entry of M̂. One entry lies within ±α,
                so alone it is ε-DP; of the m·n entries together only 2α·m·n is proved, and that is the ledger's entry.
`TiltedFit`     the paper's Algorithm 2: Laplace noise H of scale Δ/ε as a term Σ H_ij X_ij of the objective. Nothing
                is proved: the paper's argument leaves out the constraint's multipliers and a Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from hushrec.data.ratings import Ratings
from hushrec.engines.base import Sums
from hushrec.onebit.contraction import Contraction
from hushrec.onebit.links import Array, Link
from hushrec.onebit.lowrank import BLOCK
from hushrec.onebit.objective import Objective, make_objective
from hushrec.onebit.spg import SPGSettings, solve
from hushrec.privacy.accounting import Budget, LedgerEntry, NonPrivate
from hushrec.privacy.noise import BitSource, rounded_gaussian, rounded_laplace
from hushrec.privacy.signs import Pattern, SignQuery, TwoValued, noisy_entry, whole

GRID = 2.0**30


@dataclass(frozen=True, kw_only=True)
class FitQuery(SignQuery):
    """A fit to the exact signs, inside the curator: the link, and the public settings of the solver."""

    link: Link
    settings: SPGSettings

    @property
    def alpha(self) -> float:
        """The public bound of every entry of a fit."""
        return self.settings.entry_bound

    def objective(self, ratings: Ratings, link: Link) -> Objective:
        """The negative log-likelihood of the exact signs."""
        pattern = pattern_of(ratings)
        signs = self.signs(ratings).astype(np.float64)
        return make_objective(pattern.rows, pattern.indices, signs, pattern.shape, link)


@dataclass(frozen=True, kw_only=True)
class FittedValues(FitQuery):
    """The values on Ω of the strongly convex fit, with Gaussian noise at their proved sensitivity; ridge: λ."""

    name: ClassVar[str] = "fitted values"
    ridge: float

    def __post_init__(self) -> None:
        _ = self.rule  # its settings are checked

    def entry(self, label: str, budget: Budget | NonPrivate, share: float, pattern: Pattern) -> LedgerEntry:
        reach, slack = self.reach(pattern.count), self._slack(pattern.count)
        return noisy_entry(self, label, "gaussian", budget, share, reach, pattern.count, slack)

    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        values = self.rule.values(self.objective(ratings, self.link))
        if entry.scale == 0.0:
            return (values,)
        unit = self.unit(entry)
        return ((whole(values, unit) + rounded_gaussian(entry.scale, len(values), bits)) * unit,)

    def unit(self, entry: LedgerEntry) -> float:
        count = entry.coordinates
        return self.reach(count) / (entry.sensitivity - self._slack(count)) if entry.sensitivity else 1.0

    def reach(self, count: int) -> float:
        """The L2 sensitivity of `count` values, before they are rounded."""
        return self.rule.moved(count)

    @staticmethod
    def _slack(count: int) -> float:
        return float(np.ceil(2.0 * np.sqrt(count)))

    @property
    def rule(self) -> Contraction:
        """The steps of the fit, and what is proved of them."""
        return Contraction(link=self.link, ridge=self.ridge, radius=self.settings.nuclear_radius, bound=self.alpha,
                           most=self.settings.iterations)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SeparableFit(TwoValued):
    """The values on Ω of the strongly convex fit where no constraint binds: see the head of this file."""

    name: ClassVar[str] = "fitted values, each by itself"
    link: Link
    ridge: float

    def numbers(self) -> tuple[float, float]:
        """The minimisers of ℓ(x, s) + (λ/2) x² for "no" and "yes"."""
        return _minimisers(self.link, self.ridge)

    def binds(self, pattern: Pattern, alpha: float, tau: float) -> bool:
        """Whether a constraint may bind, from public numbers alone: then this is not the fit's answer."""
        largest = max(abs(x) for x in self.numbers())
        return largest > alpha or largest * float(np.sqrt(min(pattern.shape) * pattern.count)) > tau

    @property
    def reach(self) -> float:
        no, yes = self.numbers()
        return (yes - no) * (1.0 + 1e-12)

    def values(self, count: int) -> tuple[Array, Array]:
        no, yes = self.numbers()
        return np.full(count, no), np.full(count, yes)


@lru_cache(maxsize=16)
def _minimisers(link: Link, ridge: float) -> tuple[float, float]:
    reach = link.steepness(0.0) / ridge  # |ℓ'| is at most this at 0, and falls toward the minimiser

    def slope(x: float, s: float) -> float:
        return float(link.loss_gradient(np.array([x]), np.array([s]))[0]) + ridge * x

    no, yes = (float(brentq(slope, -reach, reach, args=(s,), xtol=1e-15)) for s in (0.0, 1.0))
    return no, yes


@dataclass(frozen=True, kw_only=True)
class FittedMatrix(FitQuery):
    """All entries of the fit, with Laplace noise of scale 2α/ε each: the paper's output perturbation."""

    name: ClassVar[str] = "fitted matrix"
    proved: ClassVar[bool] = False

    def entry(self, label: str, budget: Budget | NonPrivate, share: float, pattern: Pattern) -> LedgerEntry:
        alone = noisy_entry(
            self, label, "laplace", budget, share, 2.0 * self.alpha, pattern.shape[0] * pattern.shape[1]
        )
        whole_matrix = alone.sensitivity * alone.coordinates
        return LedgerEntry(label, "laplace", whole_matrix, alone.scale, share, alone.coordinates, self.name)

    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        matrix = solve(self.objective(ratings, self.link), self.settings).matrix
        if entry.scale == 0.0:
            return (matrix.toarray(),)
        unit, out = self.unit(entry), np.empty(matrix.shape)
        for start in range(0, len(out), step := max(1, BLOCK // out.shape[1])):  # never two whole matrices
            block = matrix.rows(start, min(len(out), start + step))
            noise = rounded_laplace(entry.scale, block.size, bits).reshape(block.shape)
            out[start : start + len(block)] = (whole(block, unit) + noise) * unit
        return (out,)

    def unit(self, entry: LedgerEntry) -> float:
        return 2.0 * self.alpha * entry.coordinates / entry.sensitivity if entry.sensitivity else 1.0


@dataclass(frozen=True, kw_only=True)
class TiltedFit(FitQuery):
    """The fit to the objective with Σ H_ij X_ij in it, H of this Laplace scale: the paper's form, for any link.

    The answer: factors (m, r), (n, r), and what their product is scaled by after it is cut at ±α.
    """

    name: ClassVar[str] = "tilted fit"
    proved: ClassVar[bool] = False
    tilt: float

    def entry(self, label: str, budget: Budget | NonPrivate, share: float, pattern: Pattern) -> LedgerEntry:
        words = f"{self.name}, Laplace noise of scale {self.tilt:.4g} inside the objective"
        return LedgerEntry(label, "laplace", 1.0, 0.0, share, pattern.count, words)  # a scale of 0: nothing is proved

    def answer(self, ratings: Ratings, entry: LedgerEntry, bits: BitSource) -> Sums:
        noise = rounded_laplace(GRID, ratings.n_ratings, bits) * (self.tilt / GRID)
        found = solve(self.objective(ratings, Tilted(self.link, np.asarray(noise, np.float64))), self.settings).matrix
        return found.factors.left, found.factors.right, np.array([found.scale])


@dataclass(frozen=True, eq=False)
class Tilted(Link):
    """A link whose loss has H_ij x added at the entries of Ω: usable in an objective on all of Ω alone."""

    base: Link
    tilt: Array

    def log_probability(self, x: Array) -> Array:
        return self.base.log_probability(x)

    def score(self, x: Array) -> Array:
        return self.base.score(x)

    def loss(self, x: Array, s: Array) -> Array:
        return self.base.loss(x, s) + self.tilt * x

    def loss_gradient(self, x: Array, s: Array) -> Array:
        return self.base.loss_gradient(x, s) + self.tilt

    @property
    def curvature(self) -> float:
        return self.base.curvature

    def convex(self, alpha: float, lowest: float = 0.0, highest: float = 1.0) -> bool:
        return self.base.convex(alpha, lowest, highest)


def pattern_of(ratings: Ratings) -> Pattern:
    """Ω of ratings, in row-major order."""
    return Pattern(ratings.indptr, ratings.indices, (ratings.n_users, ratings.n_items))
