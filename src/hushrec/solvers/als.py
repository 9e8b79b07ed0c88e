"""Private alternating least squares (DPALS): users solve their rows, the server solves noisy normal equations.

Chien, Jain, Krichene, Rendle, Song, Thakurta, Zhang (2021), the baseline of "Differentially Private Matrix
Completion through Low-rank Matrix Factorization" (2023). Every round:

    u_i = ridge solution on all of user i's ratings, given V                           by the user herself
    A_j = Σ_i w_ij u_i u_iᵀ + noise,  b_j = Σ_i w_ij y_ij u_i + noise                  one release, Σ_j w_ij² = 1
    v_j = (Π_PSD(A_j) + Λ_j)⁻¹ b_j                                                    post-processing

The whole stacked contribution {w_ij vech(u_i u_iᵀ), w_ij y_ij u_i}_j of a user is clipped once. With the
posterior covariance in u_i u_iᵀ (default) a round is a step of expectation maximisation, which does not overfit.
weights="adaptive": w_ij ∝ (noisy count_j)^-1/4. method="implicit" adds α Σ_i u_i u_iᵀ to every A_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import NormalEquations
from hushrec.solvers import checks
from hushrec.solvers.als_implicit import solve_implicit
from hushrec.solvers.base import Floats, Model
from hushrec.solvers.beginnings import NO_FACTORS, POPULARITY_POWER, Beginning, begin, fall_back, gram_loadings
from hushrec.solvers.normal_equations import Equations, posterior, regularised, solve, square

BOUND = 0.01  # below any real contribution, so that every user counts alike; in units of a mean squared deviation
MOMENT_WEIGHT = 0.2
ERROR_PART = 0.5  # of a user's squared contribution: what her errors contribute
EVERY = 2**31 - 1
LEAST_NOISE = 0.02
MOST_FACTORS = 32
RANDOM_FACTORS = 8
GRAM_ROUNDS, RANDOM_ROUNDS = 2, 5


@dataclass(frozen=True)
class State:
    """Between rounds: loadings (n, r), the spread (r,) of their columns, and the noise variance of a rating."""

    loadings: Floats
    spread: Floats
    noise: float


@dataclass(frozen=True, kw_only=True)
class ALS:
    """Private alternating least squares over users' rows and noisy normal equations an item.

    method: "explicit" (ratings) or "implicit" (every entry is one use of an item; `unobserved` is the weight of
    an item that was not used).
    weights: "adaptive" (noisy count^-1/4), "uniform", or "tail" (only her `tail` least popular items count).
    start: "gram" (a noisy Gram first, with `start_share` of what is left then) or "random".
    rank: number of factors (None: what stands out of the Gram's noise; 8 from a random start).
    rounds: (None: 2 after a Gram, 5 from a random start). head: largest number of items in the Gram.
    centre: release item means, and give every user her own offset; else values are taken about mid-range.
    covariance: count the users' posterior covariances (explicit only). ridge: the published λ in place of the
    posterior mean. bound: of a user's whole contribution. start_seed: of the random start, public.

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove), "means" or
    "counts", "scale", "gram" and "round 1", "round 2", ..., each in the ledger; where nothing stands out of the
    Gram's noise, "more means" or "more counts" in place of the rounds.

    >>> ALS(weights="tail").rounds is None
    True
    """

    method: Literal["explicit", "implicit"] = "explicit"
    weights: Literal["adaptive", "uniform", "tail"] = "adaptive"
    tail: int = 50
    start: Literal["gram", "random"] = "gram"
    rank: int | None = None
    rounds: int | None = None
    centre: bool = True
    covariance: bool = True
    unobserved: float = 0.1
    offset_prior: float = 4.0
    ridge: float | None = None
    head: int = 1000
    start_share: float = 0.5
    means_share: float | None = None
    bound: float = BOUND
    start_seed: int = 0

    def __post_init__(self) -> None:
        checks.choices(self)
        checks.whole(self, tail=1, rank=1, rounds=1, head=2, start_seed=0)
        checks.number(self, "unobserved", "offset_prior", "ridge", "bound")
        checks.share(self, "start_share", "means_share")

    def solve(self, curator: Curator) -> Model:
        """Means or counts, a start, then rounds of noisy normal equations."""
        if self.method == "implicit":
            return solve_implicit(self, curator)
        begun = begin(curator, centre=self.centre, share=self.means_share, offset_prior=self.offset_prior)
        state = self._after_gram(curator, begun) if self.start == "gram" else self._at_random(curator)
        if state.loadings.shape[1] == 0:
            return fall_back(curator, begun, NO_FACTORS)
        rounds = self.rounds or (GRAM_ROUNDS if self.start == "gram" else RANDOM_ROUNDS)
        share = curator.left() / rounds
        for number in range(1, rounds + 1):
            state = self.round(curator, begun, state, f"round {number}", share)
        return begun.model(state.loadings, state.noise)

    def _at_random(self, curator: Curator) -> State:
        rank = min(self.rank or RANDOM_FACTORS, curator.shape.items)
        loadings = np.random.default_rng(self.start_seed).normal(size=(curator.shape.items, rank)) / math.sqrt(2 * rank)
        return State(loadings, np.full(rank, 0.5 / rank), 0.5)

    def _after_gram(self, curator: Curator, begun: Beginning) -> State:
        curator.plan({"gram": curator.left() * self.start_share})
        loadings, spread, noise = gram_loadings(curator, begun, self.head, self.rank or MOST_FACTORS)
        return State(loadings, spread, noise)

    def round(self, curator: Curator, begun: Beginning, state: State, label: str, share: float) -> State:
        counts, rank = begun.items.weights, state.loadings.shape[1]
        weights, most = self.item_weights(counts)
        curator.plan({label: share})
        answer = curator.release(
            label,
            NormalEquations(
                bound=self.bound,
                means=begun.items.means,
                unit=begun.unit,
                loadings=begun.loadings(state.loadings),
                precision=begun.precision(rank),
                noise=np.full(len(counts), state.noise),
                item_weights=weights,
                priority=-counts,
                moment_weight=MOMENT_WEIGHT,
                most=most,
                covariance=self.covariance,
            ),
        )
        expected = counts * weights
        equations = Equations(
            square(answer.parts[0]) / MOMENT_WEIGHT, answer.parts[1], answer.sigma / MOMENT_WEIGHT, answer.sigma
        )
        equations = regularised(equations, expected)
        error = begun.users * self.bound**2 * ERROR_PART / float(np.trace(equations.normal, axis1=1, axis2=2).sum())
        if begun.own:
            equations = equations.without_first()
        if self.ridge is not None:
            return replace(state, loadings=solve(equations, self.ridge))
        loadings, variances = posterior(equations, state.spread, error)
        spread = (expected @ (np.square(loadings) + variances)) / expected.sum()
        if self.start == "gram":  # its spectrum told the noise better than shrunk loadings do
            return State(loadings, spread, state.noise)
        signal = float(expected @ np.square(loadings).sum(axis=1) / expected.sum())
        return State(loadings, spread, max(1.0 - signal, LEAST_NOISE))

    def item_weights(self, counts: Floats) -> tuple[Floats, int]:
        """Public weights of the items, mean 1, and how many of a user's ratings count at most."""
        if self.weights == "adaptive":
            weights = counts**-POPULARITY_POWER
            return weights / weights.mean(), EVERY
        return np.ones(len(counts)), self.tail if self.weights == "tail" else EVERY
