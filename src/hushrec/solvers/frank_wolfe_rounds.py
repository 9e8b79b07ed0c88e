"""What every form of Frank-Wolfe needs around its rounds: public quantities, item means, and the budget's plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from hushrec.device import frank_wolfe as device
from hushrec.errors import BudgetError
from hushrec.privacy.accounting import gaussian_epsilon
from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.forms import GramQuery
from hushrec.solvers import theory
from hushrec.solvers.again import more_means
from hushrec.solvers.base import Floats, Positions
from hushrec.solvers.means import ItemMeans, ask_moments, expected_weight, means_from, means_share, plain_means
from hushrec.solvers.svd import USERS_SHARE, forlorn

if TYPE_CHECKING:
    from hushrec.solvers.frank_wolfe import FrankWolfe

LOSSES = {"squared": device.SQUARED, "logistic": device.LOGISTIC, "probit": device.PROBIT}
INFORMATION = {"squared": 1.0, "logistic": 0.25, "probit": 2 / math.pi}  # of one value about a score near 0
TYPICAL = 0.4  # a usual residual, in units of half the value range
TYPICAL_RATED = 80  # ratings of a user, where nothing public says
# Of Theorem 3.2's best T, whose hidden constant is not 1; a ridge round finds several directions at once.
ROUNDS_SCALE = {"replay": 0.1, "ridge": 0.05}
FEWEST, MOST = {"replay": 10, "ridge": 2}, {"replay": 60, "ridge": 6}
NONPRIVATE = {"replay": 400, "ridge": 2}
PHASES = 4  # of schedule="paper"; each has half the noise variance of the one before


class Rounds:
    """The public quantities of a run, its item means, and the shares of its rounds.

    count: T; nuclear: k; row_bound: the paper's L; slope_unit, score_unit: the sizes of a usual gradient and of a
    usual score are TYPICAL times these; means: (n,) of the items, as scores.
    """

    def __init__(self, solver: FrankWolfe, curator: Curator) -> None:
        self.solver, self.curator = solver, curator
        self.low, self.high = curator.shape.value_range
        information = INFORMATION[solver.loss]
        half = (self.high - self.low) / 2
        squared = solver.loss == "squared"
        self.slope_unit = half if squared else math.sqrt(information) / TYPICAL
        self.score_unit = half if squared else 0.5 / math.sqrt(information) / TYPICAL
        # Loadings come in the unit where a user's usual gradient is 1; the squared loss's regression has that unit.
        self.score_per_slope = 1.0 if squared else 1 / math.sqrt(information)
        self.users = curator.count_users(USERS_SHARE)
        n = curator.shape.items
        self.rated = min(n, solver.ratings_per_user or TYPICAL_RATED)
        self.nuclear = solver.nuclear_norm or TYPICAL * self.score_unit * math.sqrt(self.users * n)
        self.row_bound = solver.row_bound or TYPICAL * self.slope_unit * math.sqrt(self.rated)
        self.count = solver.iterations or self._best_count()
        self.moments: Noisy | None = None
        self.items = self._item_means()
        self.means = self._as_scores(self.items.means)
        self.claims: tuple[str, ...] = ()

    def clipping_bound(self) -> float:
        """The bound of the summed row: L, or 2L with the paper's noise, where Y and Y* are each cut to L."""
        if self.solver.noise == "paper":
            return 2 * self.row_bound
        if self.curator.budget.private:
            return self.row_bound
        n = len(self.means)  # without noise nothing is clipped: no row of any data is longer than this
        return self.nuclear + 2 * (self.high - self.low + n) * math.sqrt(n)

    def forlorn(self, head: Positions) -> bool:
        """Whether every round is foretold to be noise alone, and the budget of all of them could sharpen item means."""
        if self.moments is None or self.solver.iterations is not None or self.solver.noise == "paper":
            return False
        return forlorn(self.curator, self.items.weights, head, self.users, self.curator.left() / self.count)

    def sharpen_means(self) -> None:
        """All that is left of the budget for item means, in place of rounds."""
        if self.moments is not None:
            self.items = more_means(self.curator, self.moments, self.users)
            self.means = self._as_scores(self.items.means)

    def plan(self, query: GramQuery) -> None:
        """Set the rounds' shares aside: all that is left of the budget, or what the paper's noise costs."""
        phases = PHASES if self.solver.schedule == "paper" else 1
        weights = np.exp2(np.arange(self.count) * phases // self.count)
        private = self.curator.budget.private
        total = self.curator.left() * (1 - 1e-12 if private else 0.5)  # without noise: room for the certificate
        if self.solver.noise == "paper" and private:
            total = self._papers_share(query, total)
        shares = total * weights / weights.sum()
        self.curator.plan({f"round {t + 1}": float(share) for t, share in enumerate(shares)})

    def release(self, t: int, query: GramQuery) -> Noisy:
        """The noisy Gram of round t, counted from 0."""
        return self.curator.release(f"round {t + 1}", query)

    def _papers_share(self, query: GramQuery, left: float) -> float:
        """The share of µ² that T releases with σ = L² √(64 T log(1/δ))/ε cost; claims say what that is exactly.

        The paper's noise is i.i.d. on all n² entries. Its antisymmetric part says nothing about a symmetric
        matrix; without it, it is noise of this σ on every isometric coordinate, as every Gram here has it.
        """
        budget = self.curator.budget
        claim = self.solver.claim or budget.epsilon
        sigma = self.row_bound**2 * math.sqrt(64 * self.count * math.log(1 / budget.delta)) / claim
        mu = {
            relation: math.sqrt(self.count) * query.sensitivity(relation) / sigma
            for relation in ("replace-one", "add-remove")
        }
        exact = {relation: gaussian_epsilon(value, budget.delta) for relation, value in mu.items()}
        share = (mu[budget.relation] / budget.mu) ** 2
        if share > left:
            raise BudgetError(
                f"The noise of the paper's epsilon {claim:g} really costs {exact[budget.relation]:.4g} under "
                f"{budget.relation}, more than is left of this budget: ask for a larger one, with claim={claim:g}."
            )
        self.claims = (
            f"{papers_claim(claim, budget.delta)} At delta {budget.delta:g} that noise is worth epsilon "
            f"{exact['replace-one']:.4g} under replace-one and {exact['add-remove']:.4g} under add-remove, exactly.",
        )
        return share

    def _best_count(self) -> int:
        budget, readout = self.curator.budget, self.solver.form
        if not budget.private:
            return NONPRIVATE[readout]
        setting = theory.Setting(
            users=self.users,
            items=max(self.curator.shape.items, 2),
            ratings=self.users * self.rated,
            nuclear_norm=TYPICAL * math.sqrt(self.users * self.curator.shape.items),
            row_norm=TYPICAL * math.sqrt(self.rated),
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
        best = ROUNDS_SCALE[readout] * theory.best_rounds(setting)
        return int(np.clip(round(best), FEWEST[readout], MOST[readout]))

    def _item_means(self) -> ItemMeans:
        shape, wanted = self.curator.shape, self.solver.item_means
        if self.solver.noise == "exact" if wanted is None else wanted:
            share = means_share(shape, self.users, self.curator.budget.mu)
            if self.solver.averages == "plain":
                return plain_means(self.curator, self.users, share, self.rated)
            self.moments = ask_moments(self.curator, "means", share)
            return means_from(self.moments, shape, self.users)
        middle, weight = (self.low + self.high) / 2, expected_weight(self.users, shape.items)
        size = (TYPICAL * (self.high - self.low) / 2) ** 2
        return ItemMeans(np.full(shape.items, middle), np.full(shape.items, weight), size)

    def _as_scores(self, values: Floats) -> Floats:
        if self.solver.loss == "squared":
            return values
        shares = np.clip((values - self.low) / (self.high - self.low), 0.02, 0.98)
        return np.asarray(np.log(shares / (1 - shares)) if self.solver.loss == "logistic" else ndtri(shares))


def papers_claim(claim: float, delta: float) -> str:
    """What Theorem 3.1 says of the noise that its formula gives for this ε, as a sentence.

    >>> papers_claim(1.0, 1e-6)
    'The paper claims epsilon 1 for the noise of the rounds (Theorem 3.1).'
    """
    most = 2 * math.log(1 / delta)
    if claim <= most:
        return f"The paper claims epsilon {claim:g} for the noise of the rounds (Theorem 3.1)."
    return (
        f"The noise of the rounds is that of the paper's formula at epsilon {claim:g}, for which the paper claims "
        f"nothing: Theorem 3.1 ends at 2 log(1/delta) = {most:.4g}."
    )
