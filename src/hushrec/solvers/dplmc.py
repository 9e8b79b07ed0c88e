"""The public side of DPLMC's rounds: bounds, the start, what users replay, and what noise to expect.

Everything is in units of the root mean squared deviation, so that a matrix of the public shape has ‖X‖_F = √(mn)
and r equal singular values of `scale` = √(mn/r). Balanced factors then have rows of norm √(r·scale/m) in U and
√(r·scale/n) in V: the bounds α₁, α₂ are multiples of these, and G is a multiple of √(pn), a user's row.
What the releases cost is in `dplmc_noise.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import FactorPath, ResidualGram
from hushrec.solvers.base import Floats
from hushrec.solvers.beginnings import Beginning, gram_loadings
from hushrec.solvers.dplmc_noise import PaperNoise, Shares, exact_shares, number_of_rounds, paper_noise

if TYPE_CHECKING:
    from hushrec.solvers.factored_gradient import FactoredGradient

USUAL_RANK = 5
EVERY_ITEM = 1e15  # a catalogue so large that no user's own density passes the public one


@dataclass(frozen=True)
class Plan:
    """Public constants of the rounds; gradient_sigma: the noise of Q in these units; paper: None for exact noise."""

    rank: int
    rounds: int
    scale: float
    density: float
    catalogue: float
    item_densities: Floats
    longest_user: float
    longest_item: float
    longest_row: float
    shares: Shares
    gradient_sigma: float
    step: float
    paper: PaperNoise | None

    def claims(self, *, rounds: bool) -> tuple[str, ...]:
        """What the paper claims for its noise, and the price of it; rounds: whether any were run."""
        return () if self.paper is None else self.paper.claims(rounds=rounds)


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


def predicted_noise(plan: Plan) -> float:
    """Variance of the noise in V after all rounds, relative to V itself, from public values alone."""
    variance = 0.0
    for _ in range(plan.rounds):
        variance = next_variance(variance, plan.step / plan.scale, plan.gradient_sigma, plan)
    return variance * len(plan.item_densities) / plan.scale


def number_of_factors(solver: FactoredGradient, users: float, density: float, items: int) -> int:
    """The rank r; where none was asked for, no larger than the ratings can tell: r log(m) of every user.

    That is |Ω| = r m log m of the paper's experiments. With fewer, a user's factors fit her own ratings and foretell no
    others; below m log m, where no method tells even one factor, there is none.
    """
    if solver.rank is not None:
        return min(solver.rank, items)
    told = density * items / max(math.log(users), 1.0)
    return min(USUAL_RANK, math.ceil(told), items) if told >= 1.0 else 0


def make_plan(solver: FactoredGradient, curator: Curator, begun: Beginning, density: float) -> Plan:
    """Bounds, shares and noise from public values and noisy counts."""
    items = curator.shape.items
    rank = number_of_factors(solver, begun.users, density, items)
    scale = math.sqrt(begun.users * items / rank)
    longest_user = solver.user_bound * math.sqrt(rank * scale / begun.users)
    longest_row = solver.row_bound * math.sqrt(density * items)
    paper = paper_noise(solver, curator, density, curator.left())
    if paper is None:
        shares, sigma = exact_shares(solver, curator, scale, longest_user, longest_row)
    else:
        shares, sigma = paper.shares(solver.begin_with), paper.nu_gradient * longest_user * longest_row
    popular = begun.items.weights / begun.items.weights.mean() if solver.centre else np.ones(items)
    return Plan(
        rank=rank,
        rounds=number_of_rounds(solver),
        scale=scale,
        density=density,
        catalogue=float(items) if solver.own_density else EVERY_ITEM,
        item_densities=density * np.maximum(popular, 1.0),
        longest_user=longest_user,
        longest_item=solver.item_bound * math.sqrt(rank * scale / items),
        longest_row=longest_row,
        shares=shares,
        gradient_sigma=sigma,
        step=solver.step,
        paper=paper,
    )


def path(begun: Beginning, plan: Plan, first: Start, track: Track) -> FactorPath:
    """Everything public from which a user computes her factors."""
    return FactorPath(
        means=begun.items.means,
        unit=begun.unit,
        offset_prior=begun.offset_prior,
        start=first.of_users,
        path=np.array(track.path).reshape(-1, *first.loadings.shape),
        balances=np.array(track.balances).reshape(-1, *(2 * first.loadings.shape[1:])),
        steps=np.array(track.steps),
        density=plan.density,
        catalogue=plan.catalogue,
        longest=plan.longest_user,
    )


def start(solver: FactoredGradient, curator: Curator, begun: Beginning, plan: Plan) -> Start:
    """V⁰, and the public map from a user's row to U⁰: in all starts U⁰ V⁰ᵀ = (τ/p) Y Π, Π the projection on V⁰.

    **Guarantee**: one release, "gram", except from a random start.
    """
    if solver.begin_with == "random":
        items = curator.shape.items
        found = np.random.default_rng(solver.start_seed).normal(size=(items, plan.rank))
        return _start(np.linalg.qr(found)[0] * math.sqrt(plan.scale))
    curator.plan({"gram": plan.shares.start})
    if solver.begin_with == "private":
        return _start(_algorithm_2(solver, curator, begun, plan), solver.start_scale)
    return _start(_denoised(solver, curator, begun, plan))


def _start(loadings: Floats, scale: float = 1.0) -> Start:
    if loadings.shape[1] == 0:
        return Start(loadings, loadings)
    return Start(loadings, scale * loadings @ np.linalg.inv(loadings.T @ loadings))


def _denoised(solver: FactoredGradient, curator: Curator, begun: Beginning, plan: Plan) -> Floats:
    """Balanced V⁰ of the matrix whose users have unit variance along the loadings: singular values √m ‖loading‖."""
    loadings, _, _ = gram_loadings(curator, begun, solver.head, plan.rank)
    lengths = np.sqrt(np.square(loadings).sum(axis=0))
    return np.asarray(loadings[:, lengths > 0] * math.sqrt(math.sqrt(begun.users)) / np.sqrt(lengths[lengths > 0]))


def _algorithm_2(solver: FactoredGradient, curator: Curator, begun: Beginning, plan: Plan) -> Floats:
    """Ṽ⁰ = V⁰ Σ^{1/2} of the noisy A = (τ/p)² Σ Y_i Y_iᵀ, rows cut to G; eigenvalues that noise made negative go."""
    query = ResidualGram(
        bound=plan.longest_row * begun.unit,
        means=begun.items.means,
        item_weights=np.ones(curator.shape.items),
        offset_prior=begun.offset_prior,
    )
    (gram,) = curator.release("gram", query).parts
    values, vectors = np.linalg.eigh(gram * (solver.start_scale / (plan.density * begun.unit)) ** 2)
    top = slice(None, -min(plan.rank, len(values)) - 1, -1)
    values, vectors = values[top], vectors[:, top]
    return np.asarray(vectors[:, values > 0] * np.sqrt(values[values > 0]))
