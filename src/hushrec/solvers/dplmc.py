"""The public side of DPLMC's rounds: bounds, shares of the budget, the start, and what noise to expect.

Everything is in units of the root mean squared deviation, so that a matrix of the public shape has ‖X‖_F = √(mn)
and r equal singular values of `scale` = √(mn/r). Balanced factors then have rows of norm √(r·scale/m) in U and
√(r·scale/n) in V: the bounds α₁, α₂ are multiples of these, and G is a multiple of √(pn), a user's row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hushrec.errors import ConfigError
from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import ResidualGram
from hushrec.solvers.base import Floats
from hushrec.solvers.beginnings import Beginning, gram_loadings

if TYPE_CHECKING:
    from hushrec.solvers.factored_gradient import FactoredGradient

GRAM_ROUNDS, RANDOM_ROUNDS = 15, 40
BALANCE_NOISE = 0.2  # of `scale`: noise of R that the rounds do not feel
EVERY_ITEM = 1e15  # a catalogue so large that no user's own density passes the public one


@dataclass(frozen=True)
class Plan:
    """Public constants of the rounds; shares are of μ² for each round, sigmas what they will add in these units."""

    rounds: int
    scale: float
    density: float
    catalogue: float
    item_densities: Floats
    longest_user: float
    longest_item: float
    longest_row: float
    balance_share: float
    gradient_share: float
    start_share: float
    gradient_sigma: float
    step: float
    claims: tuple[str, ...]


@dataclass(frozen=True)
class Start:
    """V⁰ (n, r), and what a user multiplies her row by for U⁰ (n, r)."""

    loadings: Floats
    of_users: Floats


@dataclass(frozen=True)
class Track:
    """What is public after some rounds: V, its past, and the variance of the noise in an entry of V."""

    loadings: Floats
    path: tuple[Floats, ...]
    grams: tuple[Floats, ...]
    balances: tuple[Floats, ...]
    steps: tuple[float, ...]
    variance: float

    @staticmethod
    def begin(first: Start) -> Track:
        """Before the first round."""
        return Track(first.loadings, (), (), (), (), 0.0)

    def then(self, loadings: Floats, gram: Floats, balance: Floats, step: float, sigma: float, plan: Plan) -> Track:
        """After one more round."""
        variance = next_variance(self.variance, step, sigma, plan)
        return Track(
            loadings,
            (*self.path, self.loadings),
            (*self.grams, gram),
            (*self.balances, balance),
            (*self.steps, step),
            variance,
        )


def next_variance(variance: float, step: float, sigma: float, plan: Plan) -> float:
    """One round contracts old noise as it contracts errors (half of what the largest factor would), and adds new."""
    return (1.0 - step * plan.scale / 2.0) ** 2 * variance + (step / plan.density * sigma) ** 2


def predicted_noise(plan: Plan, first: Start) -> float:
    """Variance of the noise in V after all rounds, relative to V itself, from public values alone."""
    variance = 0.0
    for _ in range(plan.rounds):
        variance = next_variance(variance, plan.step / plan.scale, plan.gradient_sigma, plan)
    return variance * len(first.loadings) / plan.scale


def make_plan(solver: FactoredGradient, curator: Curator, begun: Beginning, density: float) -> Plan:
    """Bounds and shares from public values and noisy counts."""
    items = curator.shape.items
    rank = min(solver.rank, items)
    scale = math.sqrt(begun.users * items / rank)
    rounds = solver.rounds or (RANDOM_ROUNDS if solver.begin_with == "random" else GRAM_ROUNDS)
    popular = begun.items.weights / begun.items.weights.mean() if solver.centre else np.ones(items)
    plan = Plan(
        rounds=rounds,
        scale=scale,
        density=density,
        catalogue=float(items) if solver.own_density else EVERY_ITEM,
        item_densities=density * np.maximum(popular, 1.0),
        longest_user=solver.user_bound * math.sqrt(rank * scale / begun.users),
        longest_item=solver.item_bound * math.sqrt(rank * scale / items),
        longest_row=solver.row_bound * math.sqrt(density * items),
        balance_share=0.0,
        gradient_share=0.0,
        start_share=0.0,
        gradient_sigma=0.0,
        step=solver.step,
        claims=(),
    )
    return _paper_shares(solver, curator, plan) if solver.noise == "paper" else _exact_shares(solver, curator, plan)


def _exact_shares(solver: FactoredGradient, curator: Curator, plan: Plan) -> Plan:
    left, mu = curator.left(), curator.budget.mu
    first = 0.0 if solver.begin_with == "random" else left * solver.start_share
    each = (left - first) / plan.rounds
    replaced = curator.budget.relation == "replace-one"
    omega = solver.balance_share
    if omega is None:
        sensitivity = plan.longest_user**2 * (math.sqrt(2.0) if replaced else 1.0)
        wanted = sensitivity / (mu * math.sqrt(each)) / (BALANCE_NOISE * plan.scale)
        omega = float(np.clip(wanted**2, 1e-3, 0.5))
    sensitivity = plan.longest_row * plan.longest_user * (2.0 if replaced else 1.0)
    sigma = sensitivity / (mu * math.sqrt(each * (1.0 - omega)))
    return replace(
        plan,
        balance_share=omega * each,
        gradient_share=(1.0 - omega) * each,
        start_share=first,
        gradient_sigma=sigma,
    )


def _paper_shares(solver: FactoredGradient, curator: Curator, plan: Plan) -> Plan:
    """The shares that Theorem 5.1's ν₁, ν₂ and Theorem 5.3's ν₀ really take: (sensitivity/ν)²/μ²."""
    budget = curator.budget
    if not budget.private:
        return replace(plan, balance_share=0.1 / plan.rounds, gradient_share=0.1 / plan.rounds, start_share=0.1)
    log, replaced = math.log(1.0 / budget.delta), budget.relation == "replace-one"
    first_epsilon = solver.start_epsilon or (1.0 if budget.epsilon >= 5 else budget.epsilon / 10)
    epsilon = budget.epsilon - (0.0 if solver.begin_with == "random" else first_epsilon)
    if epsilon <= 0:
        raise ConfigError(
            f"start_epsilon must be below the budget's epsilon {budget.epsilon:g}, not {first_epsilon:g}."
        )
    omega = solver.balance_share or 0.1
    common = math.sqrt(plan.rounds * (log + epsilon)) / epsilon
    nu_balance = plan.longest_user**2 * math.sqrt(8.0 / omega) * common
    nu_gradient = 4.0 * plan.longest_user * plan.longest_row / math.sqrt(1.0 - omega) * common
    nu_start = 4.0 * plan.longest_row**2 * math.sqrt(log) / first_epsilon
    gram = math.sqrt(2.0) if replaced else 1.0
    shares = [
        (sensitivity / nu / budget.mu) ** 2
        for sensitivity, nu in (
            (gram * plan.longest_user**2, nu_balance),
            ((2.0 if replaced else 1.0) * plan.longest_row * plan.longest_user, nu_gradient),
            (gram * plan.longest_row**2, nu_start),
        )
    ]
    total = plan.rounds * (shares[0] + shares[1]) + (shares[2] if solver.begin_with != "random" else 0.0)
    if total > curator.left():
        raise ConfigError(
            f"noise='paper' takes {total:.3f} of this budget, and only {curator.left():.3f} is left for it; "
            "give density, or use noise='exact'."
        )
    claim = f"Theorem 5.1 claims epsilon {budget.epsilon:g} for this noise; the ledger shows what it costs exactly."
    return replace(
        plan,
        balance_share=shares[0],
        gradient_share=shares[1],
        start_share=shares[2],
        gradient_sigma=nu_gradient,
        claims=(claim,),
    )


def start(solver: FactoredGradient, curator: Curator, begun: Beginning, plan: Plan) -> Start:
    """V⁰ and the public map from a user's row to U⁰.

    **Guarantee**: one release, "gram", except from a random start.
    """
    if solver.begin_with == "random":
        items = curator.shape.items
        found = np.random.default_rng(solver.start_seed).normal(size=(items, min(solver.rank, items)))
        loadings = np.linalg.qr(found)[0] * math.sqrt(plan.scale)
    else:
        curator.plan({"gram": plan.start_share})
        loadings = (
            _denoised(solver, curator, begun)
            if solver.begin_with == "gram"
            else _algorithm_2(solver, curator, begun, plan)
        )
    if loadings.shape[1] == 0:
        return Start(loadings, loadings)
    return Start(loadings, loadings @ np.linalg.inv(loadings.T @ loadings))


def _denoised(solver: FactoredGradient, curator: Curator, begun: Beginning) -> Floats:
    """Balanced V⁰ of the matrix whose users have unit variance along the loadings: singular values √m ‖loading‖."""
    loadings, _, _ = gram_loadings(curator, begun, solver.head, solver.rank)
    lengths = np.sqrt(np.square(loadings).sum(axis=0))
    return np.asarray(loadings[:, lengths > 0] * math.sqrt(math.sqrt(begun.users)) / np.sqrt(lengths[lengths > 0]))


def _algorithm_2(solver: FactoredGradient, curator: Curator, begun: Beginning, plan: Plan) -> Floats:
    """V⁰ Σ^{1/2} of the noisy Gram of rows cut to G, over p²; Σ are singular values of Y/p, roots of the Gram's."""
    query = ResidualGram(
        bound=plan.longest_row * begun.unit,
        means=begun.items.means,
        item_weights=np.ones(curator.shape.items),
        offset_prior=begun.offset_prior,
    )
    (gram,) = curator.release("gram", query).parts
    values, vectors = np.linalg.eigh(gram / (plan.density * begun.unit) ** 2)
    top = slice(None, -min(solver.rank, len(values)) - 1, -1)
    values, vectors = values[top], vectors[:, top]
    return np.asarray(vectors[:, values > 0] * values[values > 0] ** 0.25)
