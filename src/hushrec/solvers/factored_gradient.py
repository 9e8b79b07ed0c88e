"""Private factored gradient descent (DPLMC): noisy rounds on ‖P_Ω(UVᵀ − Y)‖²/(2p) + ‖UᵀU − VᵀV‖²/8.

Wang, Zhao, Kolar, "Differentially Private Matrix Completion through Low-rank Matrix Factorization" (2023),
Algorithm 1 with equations (4.3) to (4.5). Every round t, with rows of Ŷ − Y cut to G and of U to α₁:

    R = Σ_i U_i U_iᵀ − VᵀV + noise                                                    share ω of the round
    Q = P_Ω(Ŷ − Y)ᵀ U + noise                                                         share 1 − ω
    V ← Π_α₂(V − (η/p) Q + (η/2) V R)                                                 by the server
    U_i ← Π_α₁(U_i − (η/p) P_Ωi(Ŷ_i − Y_i) V − (η/2) U_i R)                           by each user, who keeps U_i

Start: V⁰ from a noisy Gram (Algorithm 2), or at random; U⁰_i = (τ/p) Y_i V⁰ (V⁰ᵀV⁰)⁻¹, cut to α₁.
readout="factors" is the paper's: the device repeats the rounds on her row. readout="ridge" solves her row instead.
Not the paper's letter: noise is added in isometric coordinates (its off-diagonal variance on R and on the Gram is
half of the published one, at the same price), and p is public or noisy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hushrec.privacy.curator import Curator
from hushrec.solvers import checks
from hushrec.solvers.base import Floats, Model
from hushrec.solvers.beginnings import NO_FACTORS, Beginning, begin, fall_back
from hushrec.solvers.density import learn_density
from hushrec.solvers.dplmc import Plan, Start, Track, make_plan, number_of_factors, path, predicted_noise, start
from hushrec.solvers.dplmc_noise import check_paper_noise, questions

LEAST_NOISE = 0.02
TOO_FEW = "Users have too few ratings for a factor of their own"
HOPELESS = "At this budget the rounds would be noise alone, so none was run"


@dataclass(frozen=True, kw_only=True)
class FactoredGradient:
    """Factored gradient rounds between a server and users (Algorithm 1 of DPLMC).

    rank: number of factors, at most (None: 5, or as many as users have log(users) ratings). rounds: T (None:
    15 after a Gram, 40 from a random start). step: η in units of one over the largest singular value that the rounds
    have to expect; up to 1 it cannot diverge.
    readout: "ridge" (every user's own regression on the last half of the V's) or "factors" (the paper's U_i).
    begin_with: "gram" (denoised, rows clipped alike), "private" (Algorithm 2; start_scale: its τ) or "random";
    start_share: of the budget left for it. noise: "exact", or "paper" for Theorem 5.1's ν₁ and ν₂ (the claims say
    what they are worth exactly), with `start_epsilon` and Theorem 5.3's ν₀ for Algorithm 2.
    density: the public p (None: a noisy count). balance_share: ω (None: what R's noise needs; with the paper's
    noise Theorem 5.2's 1/(1 + n/p)). user_bound, item_bound, row_bound: α₁, α₂, G,
    in units of a typical row of U, of V, and of a user's values. centre: release item means, and give every
    user her own offset. own_density: users with more ratings than the average take 1/p from their own row.

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove), "means" or
    "counts", "scale", "ratings" (no density given), "gram", and "balance t" and "gradient t" for every round t;
    where rounds would be noise alone, or users have too few ratings, "more means" takes the place of "gram" and the
    rounds, with all that is left.

    >>> FactoredGradient(readout="factors").begin_with
    'gram'
    """

    rank: int | None = None
    rounds: int | None = None
    step: float = 0.5
    readout: Literal["ridge", "factors"] = "ridge"
    begin_with: Literal["gram", "private", "random"] = "gram"
    noise: Literal["exact", "paper"] = "exact"
    density: float | None = None
    balance_share: float | None = None
    user_bound: float = 1.5
    item_bound: float = 3.0
    row_bound: float = 1.0
    centre: bool = True
    own_density: bool = True
    offset_prior: float = 4.0
    means_share: float | None = None
    start_share: float = 0.5
    start_epsilon: float | None = None
    start_scale: float = 1.0
    head: int = 1000
    start_seed: int = 0

    def __post_init__(self) -> None:
        checks.choices(self)
        checks.whole(self, rank=1, rounds=1, head=2, start_seed=0)
        checks.number(self, "step", "density", most=1.0)
        checks.number(self, "balance_share", "start_share", most=0.99)
        checks.number(self, "means_share", most=0.9)
        checks.number(self, "start_epsilon")
        checks.number(self, "user_bound", "item_bound", "row_bound", "offset_prior", "start_scale", most=1e6)

    def solve(self, curator: Curator) -> Model:
        """What is public first, then a start, then the rounds, then the readout."""
        check_paper_noise(self, curator)
        begun = begin(curator, centre=self.centre, share=self.means_share, offset_prior=self.offset_prior)
        density = self.density or learn_density(curator, begun.users)
        if number_of_factors(self, begun.users, density, curator.shape.items) == 0:
            return fall_back(curator, begun, TOO_FEW)
        plan = make_plan(self, curator, begun, density)
        if predicted_noise(plan) > 1.0:
            return fall_back(curator, begun, HOPELESS)
        first = start(self, curator, begun, plan)
        if first.loadings.shape[1] == 0:
            return fall_back(curator, begun, NO_FACTORS, plan.claims(rounds=False))
        track = Track.begin(first)
        for number in range(1, plan.rounds + 1):
            track = self._round(curator, begun, plan, first, track, number)
        return self._factors(begun, plan, first, track) if self.readout == "factors" else _ridge(begun, plan, track)

    def _round(self, curator: Curator, begun: Beginning, plan: Plan, first: Start, track: Track, number: int) -> Track:
        loadings = track.loadings
        gram_query, gradient_query = questions(
            plan.longest_user, plan.longest_row, path(begun, plan, first, track), loadings
        )
        curator.plan({f"balance {number}": plan.shares.balance, f"gradient {number}": plan.shares.gradient})
        (gram,) = curator.release(f"balance {number}", gram_query).parts
        answer = curator.release(f"gradient {number}", gradient_query)
        balance = gram - loadings.T @ loadings
        step = self.step / max(plan.scale, float(np.linalg.eigvalsh(loadings.T @ loadings)[-1]))
        moved = loadings - step / plan.item_densities[:, None] * answer.parts[0] + step / 2 * loadings @ balance
        return track.then(cut_rows(moved, plan.longest_item), gram, balance, step, answer.sigma, plan)

    def _factors(self, begun: Beginning, plan: Plan, first: Start, track: Track) -> Model:
        past = path(begun, plan, first, track)
        arrays = {
            "means": begun.items.means,
            "loadings": np.column_stack((np.ones(len(track.loadings)), track.loadings)),
            "start": past.start,
            "path": past.path,
            "balances": past.balances,
            "steps": past.steps,
        }
        settings = {
            "unit": past.unit,
            "offset_prior": past.offset_prior,
            "density": past.density,
            "catalogue": past.catalogue,
            "longest": past.longest,
        }
        return Model(kind="factors", arrays=arrays, settings=settings, claims=plan.claims(rounds=True))


def cut_rows(matrix: Floats, longest: float) -> Floats:
    """Rows longer than `longest` scaled down to it: the projections of Algorithm 1."""
    norms = np.sqrt(np.square(matrix).sum(axis=1, keepdims=True))
    return np.asarray(matrix * (longest / np.maximum(norms, longest)))


def _ridge(begun: Beginning, plan: Plan, track: Track) -> Model:
    """The Gaussian model whose loadings are the average V of the last half of the rounds."""
    half = len(track.path) // 2
    loadings = np.mean([*track.path[half + 1 :], track.loadings], axis=0)
    values, vectors = np.linalg.eigh(np.mean(track.grams[half:], axis=0) / begun.users)
    loadings = loadings @ vectors * np.sqrt(np.maximum(values, 0.0))
    noise = track.variance * np.maximum(values, 0.0)
    size = np.square(loadings)
    spread = np.maximum(size.mean(axis=0) - noise, 0.0)
    loadings = loadings * (spread / np.maximum(spread + noise, np.finfo(float).tiny))
    left = max(1.0 - float(np.square(loadings).sum(axis=1).mean()), LEAST_NOISE)
    return begun.model(loadings, left, plan.claims(rounds=True))
