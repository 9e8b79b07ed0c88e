"""What DPLMC's releases cost: shares of the budget for exact noise, or the paper's noise and what that is worth.

The paper's noise, with T rounds, bounds α₁ of U and G of a row, ε for the rounds and ε₀ for the start:

    ν₁ = α₁² √(8 T (log 1/δ + ε)) / (√ω ε)        on R, Theorem 5.1
    ν₂ = 4 α₁ G √(T (log 1/δ + ε)) / (√(1 − ω) ε)   on Q, Theorem 5.1
    ν₀ = 4 G² √(log 1/δ) / ε₀                      on the Gram of Algorithm 2 before τ²/p², Theorem 5.3

A release costs (sensitivity/ν)²; bounds cancel, so all of it is known before any rating is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushrec.errors import ConfigError
from hushrec.privacy.accounting import Budget, gaussian_epsilon
from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import FactorGradient, FactorGram, FactorPath, ResidualGram
from hushrec.solvers.base import Floats
from hushrec.solvers.theory_factored import balance_share

if TYPE_CHECKING:
    from hushrec.solvers.factored_gradient import FactoredGradient

GRAM_ROUNDS, RANDOM_ROUNDS = 15, 40
BALANCE_NOISE = 0.2  # of `scale`: noise of R that the rounds do not feel
RELATIONS = ("replace-one", "add-remove")
NO_PAST = FactorPath(
    means=np.zeros(1),
    unit=1.0,
    offset_prior=1.0,
    start=np.zeros((1, 1)),
    path=np.zeros((0, 1, 1)),
    balances=np.zeros((0, 1, 1)),
    steps=np.zeros(0),
    density=1.0,
    catalogue=1.0,
    longest=1.0,
)


@dataclass(frozen=True)
class Shares:
    """Shares of μ²: of the two releases of every round, and of the start."""

    balance: float
    gradient: float
    start: float


def number_of_rounds(solver: FactoredGradient) -> int:
    """T."""
    return solver.rounds or (RANDOM_ROUNDS if solver.begin_with == "random" else GRAM_ROUNDS)


def questions(
    longest_user: float, longest_row: float, past: FactorPath, loadings: Floats
) -> tuple[FactorGram, FactorGradient]:
    """What a round asks for: R but for its public part, and Q."""
    bound = longest_row * longest_user
    return (
        FactorGram(bound=longest_user, past=past),
        FactorGradient(bound=bound, past=past, loadings=loadings, row_bound=longest_row),
    )


def sensitivities(longest_user: float, longest_row: float, relation: str) -> tuple[float, float, float]:
    """Of R, of Q and of Algorithm 2's Gram: those that the queries themselves are charged for."""
    gram, gradient = questions(longest_user, longest_row, NO_PAST, np.zeros((1, 1)))
    start = ResidualGram(bound=longest_row, means=np.zeros(1), item_weights=np.ones(1))
    return gram.sensitivity(relation), gradient.sensitivity(relation), start.sensitivity(relation)


def exact_shares(
    solver: FactoredGradient, curator: Curator, scale: float, longest_user: float, longest_row: float
) -> tuple[Shares, float]:
    """All that is left of the budget, and the noise σ that Q will get."""
    mu, left = curator.budget.mu, curator.left()
    first = 0.0 if solver.begin_with == "random" else left * solver.start_share
    each = (left - first) / number_of_rounds(solver)
    of_balance, of_gradient, _ = sensitivities(longest_user, longest_row, curator.budget.relation)
    omega = solver.balance_share
    if omega is None:
        omega = float(np.clip((of_balance / (mu * math.sqrt(each)) / (BALANCE_NOISE * scale)) ** 2, 1e-3, 0.5))
    gradient = (1.0 - omega) * each
    return Shares(omega * each, gradient, first), of_gradient / (mu * math.sqrt(gradient))


@dataclass(frozen=True)
class PaperNoise:
    """ν₁, ν₂, ν₀ in units of α₁², α₁ G and G², and the ε that the paper's theorems claim for them.

    start_epsilon: of Algorithm 2; None where the rounds begin with something else.
    """

    budget: Budget
    rounds: int
    epsilon: float
    start_epsilon: float | None
    nu_balance: float
    nu_gradient: float
    nu_start: float

    def costs(self, relation: str) -> tuple[float, float, float]:
        """μ² of one R, of one Q and of the start."""
        nus = self.nu_balance, self.nu_gradient, self.nu_start
        balance, gradient, start = (
            (sensitivity / nu) ** 2 for sensitivity, nu in zip(sensitivities(1.0, 1.0, relation), nus, strict=True)
        )
        return balance, gradient, start

    def shares(self, begin_with: str) -> Shares:
        """The shares that this noise takes of the budget."""
        balance, gradient, start = (cost / self.budget.mu**2 for cost in self.costs(self.budget.relation))
        return Shares(balance, gradient, 0.0 if begin_with == "random" else start)

    def claims(self, *, rounds: bool) -> tuple[str, ...]:
        """What the paper claims for those of its releases that were made, and what they are worth exactly."""
        delta, parts, claimed = self.budget.delta, [], []
        if rounds:
            parts.append(f"epsilon {self.epsilon:g} for the noise of the rounds (Theorem 5.1)")
            claimed.append(self.epsilon)
        if self.start_epsilon is not None:
            parts.append(f"epsilon {self.start_epsilon:g} for the noise of its Algorithm 2 (Theorem 5.3)")
            claimed.append(self.start_epsilon)
        if not parts:
            return ()
        both = f", each at delta {delta:g}: together {sum(claimed):g} at delta {2 * delta:g}"
        exact = {relation: self._exact_epsilon(relation, rounds) for relation in RELATIONS}
        return (
            f"The paper claims {' and '.join(parts)}{both if len(parts) > 1 else f', at delta {delta:g}'}. At delta "
            f"{delta:g} that noise is worth epsilon {exact['replace-one']:.4g} under replace-one and "
            f"{exact['add-remove']:.4g} under add-remove, exactly; what else was released stands in the ledger.",
        )

    def _exact_epsilon(self, relation: str, rounds: bool) -> float:
        balance, gradient, start = self.costs(relation)
        squares = self.rounds * (balance + gradient) if rounds else 0.0
        return gaussian_epsilon(math.sqrt(squares + (0.0 if self.start_epsilon is None else start)), self.budget.delta)


def check_paper_noise(solver: FactoredGradient, curator: Curator) -> None:
    """Refuse, before any rating is read, settings under which the paper's noise cannot fit into the budget."""
    # ω, and with it the price, is largest at density 1.
    paper_noise(solver, curator, solver.density or 1.0, curator.left() - (solver.means_share or 0.0))


def paper_noise(solver: FactoredGradient, curator: Curator, density: float, left: float) -> PaperNoise | None:
    """The paper's noise where it is asked for and there is any; refused where it does not fit into what is left."""
    budget = curator.budget
    if solver.noise == "exact" or not isinstance(budget, Budget):
        return None
    first = solver.start_epsilon or (1.0 if budget.epsilon >= 5 else budget.epsilon / 10)
    epsilon = budget.epsilon - (0.0 if solver.begin_with == "random" else first)
    if epsilon <= 0:
        raise ConfigError(f"start_epsilon must be below the budget's epsilon {budget.epsilon:g}, not {first:g}.")
    rounds, log = number_of_rounds(solver), math.log(1.0 / budget.delta)
    omega = solver.balance_share or balance_share(density, curator.shape.items)
    common = math.sqrt(rounds * (log + epsilon)) / epsilon
    noise = PaperNoise(
        budget=budget,
        rounds=rounds,
        epsilon=epsilon,
        start_epsilon=first if solver.begin_with == "private" else None,
        nu_balance=math.sqrt(8.0 / omega) * common,
        nu_gradient=4.0 / math.sqrt(1.0 - omega) * common,
        nu_start=4.0 * math.sqrt(log) / first,
    )
    shares = noise.shares(solver.begin_with)
    total = rounds * (shares.balance + shares.gradient) + shares.start
    if total > left:
        raise ConfigError(
            f"noise='paper' takes {total:.3f} of this budget, and only {left:.3f} is left for it; "
            "give density or a smaller means_share, or use noise='exact'."
        )
    return noise
