"""Private factored gradient descent (DPLMC): noisy rounds on ‖P_Ω(UVᵀ − Y)‖²/(2p) + ‖UᵀU − VᵀV‖²/8.

Wang, Zhao, Kolar, "Differentially Private Matrix Completion through Low-rank Matrix Factorization" (2023),
Algorithm 1 with equations (4.3) to (4.5). Every round t, with rows of Ŷ − Y cut to G and of U to α₁:

    R = Σ_i U_i U_iᵀ − VᵀV + noise                                                    share ω of the round
    Q = P_Ω(Ŷ − Y)ᵀ U + noise                                                         share 1 − ω
    V ← Π_α₂(V − (η/p) Q + (η/2) V R)                                                 by the server
    U_i ← Π_α₁(U_i − (η/p) P_Ωi(Ŷ_i − Y_i) V − (η/2) U_i R)                           by each user, who keeps U_i

Start (Algorithm 2): V⁰ from a noisy Gram, or at random; U⁰_i = (1/p) Y_i V⁰ (V⁰ᵀV⁰)⁻¹, cut to α₁.
readout="factors" is the paper's: the device repeats the rounds on her row. readout="ridge" solves her row instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hushrec.errors import ConfigError
from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import FactorGradient, FactorGram, FactorPath, RatingCount
from hushrec.solvers.base import Floats, Model
from hushrec.solvers.beginnings import Beginning, begin
from hushrec.solvers.dplmc import Plan, Start, Track, make_plan, predicted_noise, start

LEAST_NOISE = 0.02
HOPELESS = "At this budget the rounds would be noise alone, so none was run: predictions are item means and offsets."


@dataclass(frozen=True, kw_only=True)
class FactoredGradient:
    """Factored gradient rounds between a server and users (Algorithm 1 of DPLMC).

    rank: number of factors, at most. rounds: T (None: 15 after a Gram, 40 from a random start). step: η in units
    of one over the largest singular value that the rounds have to expect; up to 1 it cannot diverge.
    readout: "ridge" (every user's own regression on the last half of the V's) or "factors" (the paper's U_i).
    begin_with: "gram" (denoised, rows clipped alike), "private" (Algorithm 2 to the letter) or "random";
    start_share: of the budget left for it. noise: "exact", or "paper" for Theorem 5.1's ν₁ and ν₂ (its ledger
    shows what they really cost), with `start_epsilon` for Algorithm 2.
    density: the public p (None: a noisy count). balance_share: ω. user_bound, item_bound, row_bound: α₁, α₂, G,
    in units of a typical row of U, of V, and of a user's values. centre: release item means, and give every
    user her own offset. own_density: users with more ratings than the average take 1/p from their own row.

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove), "means" or
    "counts", "scale", "ratings" (no density given), "gram", and "balance t" and "gradient t" for every round t.

    >>> FactoredGradient(readout="factors").begin_with
    'gram'
    """

    rank: int = 5
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
    head: int = 1000
    start_seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("readout", ("ridge", "factors")),
            ("begin_with", ("gram", "private", "random")),
            ("noise", ("exact", "paper")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        for name, least in (("rank", 1), ("rounds", 1), ("head", 2), ("start_seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} must be at least {least}, not {value}.")
        for name, most in (
            ("step", 1.0),
            ("density", 1.0),
            ("balance_share", 0.99),
            ("means_share", 0.9),
            ("start_share", 0.99),
            ("start_epsilon", math.inf),
            ("user_bound", 1e6),
            ("item_bound", 1e6),
            ("row_bound", 1e6),
            ("offset_prior", 1e6),
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value <= most:
                raise ConfigError(f"{name} must be above 0 and at most {most:g}, not {value}.")

    def solve(self, curator: Curator) -> Model:
        """What is public first, then a start, then the rounds, then the readout."""
        begun = begin(curator, centre=self.centre, share=self.means_share, offset_prior=self.offset_prior)
        density = self.density or learn_density(curator, begun.users)
        plan = make_plan(self, curator, begun, density)
        first = start(self, curator, begun, plan)
        if first.loadings.shape[1] == 0 or predicted_noise(plan, first) > 1.0:
            return begun.model(np.zeros((curator.shape.items, 0)), 1.0, (HOPELESS,))
        track = Track.begin(first)
        for number in range(1, plan.rounds + 1):
            track = self._round(curator, begun, plan, first, track, number)
        return self._factors(begun, plan, first, track) if self.readout == "factors" else _ridge(begun, plan, track)

    def _round(self, curator: Curator, begun: Beginning, plan: Plan, first: Start, track: Track, number: int) -> Track:
        loadings, past = track.loadings, path(begun, plan, first, track)
        curator.plan({f"balance {number}": plan.balance_share, f"gradient {number}": plan.gradient_share})
        (gram,) = curator.release(f"balance {number}", FactorGram(bound=plan.longest_user, past=past)).parts
        query = FactorGradient(
            bound=plan.longest_row * plan.longest_user, past=past, loadings=loadings, row_bound=plan.longest_row
        )
        answer = curator.release(f"gradient {number}", query)
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
        return Model(kind="factors", arrays=arrays, settings=settings, claims=plan.claims)


def learn_density(curator: Curator, users: float) -> float:
    """The part of all entries that is observed, from a noisy count of ratings.

    **Guarantee**: one release, "ratings".
    """
    items = curator.shape.items
    curator.plan({"ratings": 0.01})
    query = RatingCount(bound=min(items, 10.0 * math.sqrt(items)) / 2)
    (count,) = curator.release("ratings", query).parts
    return float(np.clip((count[0] / users + query.bound) / items, 1.0 / items, 1.0))


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
    return begun.model(loadings, left)
