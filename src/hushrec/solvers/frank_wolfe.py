"""Private Frank-Wolfe completion: a few noisy Grams of residuals, each giving directions for all users.

Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018), Algorithms 1 and 2:

    for t = 1..T:   W = Σ_i A_iᵀA_i + N,  A_i = P_Ω(Y_i − Y*_i) clipped to L     released, N Gaussian noise
                    (λ², v) = top eigenpair of W                                 post-processing
                    Y_i ← (1 − η_t) Y_i − η_t (k/λ) (A_i·v) v                    by every user herself

readout="replay": each user makes these updates on her own row, in training and on her device. noise="paper" adds
λ ← λ + √(σ log(n/β)) n^¼ and Y_i ← Π_{L,Ω}(Y_i), and takes σ from Theorem 3.1. readout="ridge": between
rounds and on the device Y_i is the user's own ridge regression on the span of all directions so far (the fully
corrective step), which costs no privacy, and a round gives up to `directions` eigenpairs that stand out of N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh
from threadpoolctl import threadpool_limits

from hushrec.device import frank_wolfe as device
from hushrec.errors import ConfigError
from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.queries import FrankWolfeGap, FrankWolfeGram, FrankWolfePath, UnexplainedGram
from hushrec.solvers import checks, theory
from hushrec.solvers.base import Floats, Model, Positions
from hushrec.solvers.frank_wolfe_rounds import INFORMATION, LOSSES, Rounds
from hushrec.solvers.spectrum import ALONE
from hushrec.solvers.svd import (
    LEAST_NOISE,
    ROW_BOUND,
    gaussian_model,
    head_weights,
    most_popular,
    ridge_model,
    spread_out,
    with_offset,
)

LARGE = 1000  # items from which on one eigenvector is found by products with the matrix: n² each, where all take n³
OFFSET_PRIOR = 4.0  # ratings' worth of belief in an average user's offset
OFFSETS = {"none": device.NO_OFFSET, "once": device.ONCE, "profiled": device.PROFILED}
# Settings that do something only with one readout, or one noise.
BELONGS_TO = {
    **dict.fromkeys(("directions", "offset_prior", "head"), ("readout", "ridge")),
    **dict.fromkeys(("nuclear_norm", "step", "step_scale", "failure", "user_mean", "averages"), ("readout", "replay")),
    "claim": ("noise", "paper"),
}


@dataclass(frozen=True, kw_only=True)
class FrankWolfe:
    """Private Frank-Wolfe completion (Algorithm 1); with `NonPrivate()` the algorithm without noise (Algorithm 2).

    readout: "ridge" (own regression on the released directions) or "replay" (the paper's updates). None: the better
    one, "ridge"; but "replay", the algorithm of the paper, for noise="paper". Settings of the other one are refused.
    iterations: rounds T (None: from Theorem 3.2 and public quantities). directions: most eigenpairs a round ("ridge").
    nuclear_norm: k of "replay" (None: that of a rank-one matrix of usual residuals, 0.4 √(mn) half ranges).
    noise: "exact" or "paper". claim: for "paper", the ε that goes into the paper's σ (None: the budget's); the card
    has what that noise is worth exactly, and says where the paper claims nothing, beyond ε = 2 log(1/δ).
    step: "harmonic", η_t = c/(t − 1 + c) with c = step_scale, or "paper", η = 1/T. failure: β of λ_biased.
    schedule: "constant" noise, or "paper": less noise in later rounds at the same total.
    ratings_per_user: most ratings of a user that the Grams use, sampled by a public seed (None: all).
    row_bound: L (None: from public quantities). item_means: take noisy item means out (None: yes, but not with
    noise="paper"). user_mean ("replay"): "profiled" (refitted after every update), "once" (the paper's) or "none".
    averages: "shrunk" means of items and users, or "plain" ones ("replay"; item means before user means), which the
    paper takes out for Algorithm 2; user_mean is then "once", where it is not given.
    loss: "squared", or "logistic" and "probit" for values that say no (lowest) to yes (highest): Remark 4.
    offset_prior, head: as in `SVD`, for "ridge".

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove only), "means"
    and "round 1", "round 2", ..., each recorded in the ledger; where the rounds of "ridge" could only be noise,
    "more means" in place of them.

    >>> FrankWolfe(readout="replay", iterations=20).iterations
    20
    """

    readout: Literal["ridge", "replay"] | None = None
    iterations: int | None = None
    directions: int = 8
    nuclear_norm: float | None = None
    noise: Literal["exact", "paper"] = "exact"
    claim: float | None = None
    step: Literal["harmonic", "paper"] = "harmonic"
    step_scale: float = 1.0
    failure: float = 1 / 3
    schedule: Literal["constant", "paper"] = "constant"
    ratings_per_user: int | None = None
    sampling_seed: int = 0
    row_bound: float | None = None
    item_means: bool | None = None
    user_mean: Literal["profiled", "once", "none"] | None = None
    averages: Literal["shrunk", "plain"] = "shrunk"
    loss: Literal["squared", "logistic", "probit"] = "squared"
    offset_prior: float = OFFSET_PRIOR
    head: int = 1000

    def __post_init__(self) -> None:
        checks.choices(self)
        checks.whole(self, iterations=1, directions=1, ratings_per_user=1, head=2, sampling_seed=0)
        checks.number(self, "nuclear_norm", "claim", "step_scale", "row_bound", "offset_prior")
        checks.share(self, "failure")
        if self.sampling_seed >= 2**31:
            raise ConfigError(f"sampling_seed must be from 0 to 2^31 − 1, not {self.sampling_seed}.")
        if self.loss != "squared" and (self.user_mean == "profiled" or self.noise == "paper"):
            raise ConfigError(f"user_mean 'profiled' and noise 'paper' need the squared loss, not {self.loss!r}.")
        self._refuse_what_would_be_ignored()

    def _refuse_what_would_be_ignored(self) -> None:
        own = {"readout": self.form, "noise": self.noise}
        for name, (setting, needed) in BELONGS_TO.items():
            value, chosen = getattr(self, name), own[setting]
            if chosen != needed and value != getattr(type(self), name):
                raise ConfigError(
                    f"{name} belongs to the {setting} {needed!r}: with {chosen!r} it must be left out, not {value!r}."
                )

    @property
    def form(self) -> Literal["ridge", "replay"]:
        """The readout, also where none was named."""
        return self.readout or ("replay" if self.noise == "paper" else "ridge")

    def solve(self, curator: Curator) -> Model:
        """Means, then the rounds, then the readout's public arrays."""
        rounds = Rounds(self, curator)
        return _replay(self, rounds) if self.form == "replay" else _ridge(self, rounds)

    def rules(self, rounds: Rounds) -> device.Rules:
        """The public rules of a user's row."""
        exact, shrunk = self.noise == "exact", self.averages == "shrunk"
        default = "profiled" if exact and shrunk and self.loss == "squared" else "once"
        return device.Rules(
            loss=LOSSES[self.loss],
            offset=OFFSETS[self.user_mean or default],
            prior=OFFSET_PRIOR if exact and shrunk else 0.0,
            limit=0.0 if exact else rounds.row_bound,
            most=self.ratings_per_user or 0,
            seed=self.sampling_seed,
            low=rounds.low,
            high=rounds.high,
        )


# --- replay: Algorithms 1 and 2 -------------------------------------------------------------------


def _replay(solver: FrankWolfe, rounds: Rounds) -> Model:
    """One direction a round; the same updates in training and on the device."""
    n = len(rounds.means)
    bound = rounds.clipping_bound()
    path = FrankWolfePath(
        means=rounds.means, vectors=np.zeros((0, n)), steps=np.zeros(0), gains=np.zeros(0), rules=solver.rules(rounds)
    )
    rounds.plan(FrankWolfeGram(bound=bound, **vars(path)))
    for t in range(rounds.count):
        answer = rounds.release(t, FrankWolfeGram(bound=bound, **vars(path)))
        path = _one_more(path, *_update(solver, rounds, t, answer))
    return Model(
        kind="frank-wolfe",
        arrays={
            "means": path.means,
            "loadings": with_offset(path.vectors.T),
            "steps": np.concatenate(([0.0], path.steps)),
            "gains": np.concatenate(([0.0], path.gains)),
        },
        settings={name: float(value) for name, value in path.rules._asdict().items()},
        notes=() if rounds.curator.budget.private else (_certificate(rounds, path, bound),),
        claims=rounds.claims,
    )


def _update(solver: FrankWolfe, rounds: Rounds, t: int, answer: Noisy) -> tuple[Floats, float, float]:
    """The direction v, the step η and the gain ηk/λ that a round's noisy Gram gives."""
    n = len(rounds.means)
    square, vector = _top(answer.parts[0])
    length = math.sqrt(max(square, 0.0))
    if solver.noise == "paper":
        length += math.sqrt(answer.sigma * math.log(n / solver.failure)) * n**0.25
    step = theory.step_size(t, rounds.count, solver.step, solver.step_scale)
    return vector, step, step * rounds.nuclear / length if length > 0 else 0.0


def _top(matrix: Floats) -> tuple[float, Floats]:
    """The largest eigenvalue of a symmetric matrix, and its eigenvector."""
    last = len(matrix) - 1
    if last > LARGE and matrix.any():
        start = np.random.default_rng(0).normal(size=len(matrix))
        values, vectors = eigsh(matrix, k=1, which="LA", v0=start, tol=0.0)  # to machine precision too
        return float(values[0]), np.asarray(vectors[:, 0])
    with threadpool_limits(limits=1 if len(matrix) <= ALONE else None):
        values, vectors = eigh(matrix, subset_by_index=[last, last])
    return float(values[0]), np.asarray(vectors[:, 0])


def _one_more(path: FrankWolfePath, vector: Floats, step: float, gain: float) -> FrankWolfePath:
    return FrankWolfePath(
        means=path.means,
        vectors=np.vstack((path.vectors, vector)),
        steps=np.append(path.steps, step),
        gains=np.append(path.gains, gain),
        rules=path.rules,
    )


def _certificate(rounds: Rounds, path: FrankWolfePath, bound: float) -> str:
    """Without noise: the risk f and the duality gap ⟨Y − Z, ∇f⟩, at most which f lies above its minimum."""
    rounds.curator.plan({"last Gram": 0.1, "duality gap": 0.1})
    gram = rounds.curator.release("last Gram", FrankWolfeGram(bound=bound, **vars(path)))
    sums = rounds.curator.release("duality gap", FrankWolfeGap(bound=1e150, **vars(path)))
    along, loss, ratings = (float(total) for total in sums.parts[0])
    gap = along + rounds.nuclear * math.sqrt(max(_top(gram.parts[0])[0], 0.0))
    ratings = max(ratings, 1.0)
    return (
        f"After {rounds.count} rounds: empirical risk {loss / ratings:.9g}, duality gap {gap / ratings:.9g}, "
        f"nuclear norm {rounds.nuclear:.9g}."
    )


# --- ridge: the fully corrective form -------------------------------------------------------------


def _ridge(solver: FrankWolfe, rounds: Rounds) -> Model:
    """Residuals of the users' own regressions; up to `directions` new directions a round."""
    n = len(rounds.means)
    head = most_popular(rounds.items.weights, solver.head)
    weights, exposure = head_weights(rounds.items.weights, head, rounds.users)
    alike = solver.row_bound is None and solver.noise == "exact"  # rows of one length: how they scatter is known
    bound = ROW_BOUND * rounds.slope_unit if alike else rounds.clipping_bound()
    loadings, noise = np.zeros((n, 0)), 1.0
    if rounds.forlorn(head):
        rounds.sharpen_means()
        return _ridge_model(solver, rounds, loadings, noise)
    rounds.plan(_gram(solver, rounds, loadings, noise, bound, weights, head))
    for t in range(rounds.count):
        answer = rounds.release(t, _gram(solver, rounds, loadings, noise, bound, weights, head))
        found, left = gaussian_model(answer, exposure, bound**2, solver.directions, rounds.users if alike else None)
        new = found * (math.sqrt(noise) * rounds.score_per_slope)
        loadings = np.column_stack((loadings, spread_out(new, head, n)))
        noise = max(noise * left, LEAST_NOISE)
    return _ridge_model(solver, rounds, loadings, noise)


def _ridge_model(solver: FrankWolfe, rounds: Rounds, loadings: Floats, noise: float) -> Model:
    model = ridge_model(rounds.items, loadings, noise, solver.offset_prior)
    if solver.loss == "squared":
        return Model(kind=model.kind, arrays=model.arrays, notes=model.notes, claims=rounds.claims)
    precision = model.arrays["precision"].copy()
    precision[0] *= INFORMATION[solver.loss]
    return Model(
        kind="linked",
        arrays={"means": rounds.means, "loadings": model.arrays["loadings"], "precision": precision},
        settings={name: float(value) for name, value in solver.rules(rounds)._asdict().items()},
        notes=model.notes,
        claims=rounds.claims,
    )


def _gram(
    solver: FrankWolfe, rounds: Rounds, loadings: Floats, noise: float, bound: float, weights: Floats, head: Positions
) -> UnexplainedGram:
    model = _ridge_model(solver, rounds, loadings, noise).arrays
    return UnexplainedGram(
        bound=bound,
        means=model["means"],
        loadings=model["loadings"],
        precision=model["precision"],
        noise=model.get("noise", np.ones(len(weights))),
        item_weights=weights,
        rules=solver.rules(rounds),
        head=head,
        diagonal=False,
    )
