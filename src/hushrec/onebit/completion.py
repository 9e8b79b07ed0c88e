"""The four mechanisms: what each asks of the curator, and the matrix M̂ that it makes of the answer.

    none, input, objective   signs, flipped signs or noisy signs of all of Ω, released once; then the fit, any way
    gradient                 K noisy gradients, each at the point that the earlier ones led to (Algorithm 3)
    output                   the fit to the exact signs inside the curator, noise on what comes out (Algorithm 4)

All but the paper's own forms fit item and user effects first (`effects.py`) and a matrix of the set C around them:
M̂ = effects + X with X in C, so that M̂ itself may leave C. `effects=False` keeps it inside.
Everything here is post-processing of the curator's answers and of Ω, which is public where single ratings are
protected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hushrec.errors import ConfigError
from hushrec.onebit.effects import Effects, fit_effects
from hushrec.onebit.links import Array, Flipped, Link, Shifted
from hushrec.onebit.lowrank import Completed, Dense, LowRank
from hushrec.onebit.objective import make_objective
from hushrec.onebit.spg import Certificate, SPGSettings, solve
from hushrec.privacy.curator import Curator
from hushrec.privacy.fits import FittedMatrix, FittedValues, SeparableFit, TiltedFit
from hushrec.privacy.signs import FlippedSigns, Noise, NoisyGradient, NoisySigns, Pattern, RandomizedBefore

if TYPE_CHECKING:
    from hushrec.onebit.solver import OneBit

NEAR, MOST_SPECTRA = 1e-7, 300
"""Of the few projections of the gradient mechanism: how near they come, as a share of a step, and in how much work."""
LARGEST_EFFECT = 4.0
"""How far effects may take an entry beyond ±α."""
ON_DEVICES = (
    "Each answer was flipped once, on its user's own device, before it was collected. That is all that it costs her: "
    "this fit drew no noise, and neither it nor any other fit of the same answers spends anything more."
)
FLIPPED_ONCE = "Every answer was flipped on its user's own device as its file says, and no second file of it was sent."
EACH_BY_ITSELF = (
    "At this ridge the output mechanism pools nothing inside the curator: no constraint binds, so each value "
    "that it releases is one of two public numbers, and the rating's sign says which. It is the objective mechanism in "
    "other units. A smaller ridge= pools ratings there, with a proved guarantee and much more noise."
)
POOLED = (
    "The fit inside the curator took {steps} steps, a public number, and one rating moves its values by at most "
    "{moved:.4g} whether or not they converged. The noise is in proportion to one over the ridge."
)


class Matrix(Protocol):
    """M̂, however it is held."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def entries(self, rows: NDArray[np.integer[Any]], cols: NDArray[np.integer[Any]]) -> Array:
        """Values at the given positions."""

    def toarray(self) -> Array:
        """All of it, (m, n)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Completion:
    """M̂ = effects + X, what is proved of the fit of X, and what is claimed of parts of M̂ on the privacy card."""

    matrix: Matrix
    effects: Effects
    factors: LowRank
    certificate: Certificate | None = None
    claims: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """What every mechanism works with: settings, Ω, the threshold, and the share of the budget for the answers."""

    solver: OneBit
    curator: Curator
    pattern: Pattern
    threshold: float
    share: float

    @property
    def link(self) -> Link:
        return self.solver.made_link()

    @property
    def settings(self) -> SPGSettings:
        return self.solver.settings(self.pattern.shape)

    @property
    def private(self) -> bool:
        return self.curator.budget.private

    @property
    def noise(self) -> Noise:
        """The law of the noise, where the mechanism has a choice."""
        return self.solver.noise or "laplace"


def complete(s: Setting) -> Completion:
    """Ask, and complete the matrix."""
    made = {"input": _input, "objective": _objective, "gradient": _gradient, "output": _output, "none": _objective}
    return made[s.solver.mechanism](s)


# --- noise before the fit -------------------------------------------------------------------------


def _input(s: Setting) -> Completion:
    s.curator.plan({"signs": s.share})
    kind = RandomizedBefore if s.solver.already_randomized else FlippedSigns
    seen = s.curator.release("signs", kind(threshold=s.threshold)).parts[0]
    flip = float(expit(-s.curator.budget.epsilon * s.share)) if s.private else 0.0
    made = _likelihood_fit(s, Flipped(s.link, flip), seen, (seen - flip) / (1.0 - 2.0 * flip))
    return replace(made, notes=(ON_DEVICES,), assumptions=(FLIPPED_ONCE,)) if s.solver.already_randomized else made


def _objective(s: Setting) -> Completion:
    if s.solver.form == "paper" and s.solver.link != "logistic" and s.private:
        return _tilted(s)
    s.curator.plan({"signs": s.share})
    seen = s.curator.release("signs", NoisySigns(threshold=s.threshold, noise=s.noise)).parts[0]
    return _likelihood_fit(s, s.link, seen, seen)


def _likelihood_fit(s: Setting, link: Link, signs: Array, unbiased: Array) -> Completion:
    """Effects from unbiased answers, then the most likely X in C around them for signs with this link."""
    rows, cols = s.pattern.rows, s.pattern.indices
    effects = _effects(s, unbiased)
    around = Shifted(link, effects.at(rows, cols)) if s.solver.with_effects else link
    fit = solve(make_objective(rows, cols, signs, s.pattern.shape, around), s.settings)
    return _around(s, effects, fit.matrix, fit.certificate)


def _effects(s: Setting, unbiased: Array) -> Effects:
    if not s.solver.with_effects:
        return Effects.none(s.pattern.shape)
    return fit_effects(unbiased, s.pattern.rows, s.pattern.indices, s.pattern.shape, s.link)


def _around(s: Setting, effects: Effects, made: Completed, certificate: Certificate | None = None) -> Completion:
    """M̂ of effects and the fitted X; without effects X itself, inside C."""
    factors = LowRank(made.factors.left * made.scale, made.factors.right)
    if not s.solver.with_effects:
        return Completion(matrix=made, effects=effects, factors=factors, certificate=certificate)
    two = effects.factors()
    both = LowRank(np.hstack((two.left, factors.left)), np.hstack((two.right, factors.right)))
    whole = Completed(both, s.solver.alpha + LARGEST_EFFECT * s.solver.sigma, 1.0)
    return Completion(matrix=whole, effects=effects, factors=factors, certificate=certificate)


def _tilted(s: Setting) -> Completion:
    """The paper's H·X with the probit link: nothing is proved of it."""
    s.curator.plan({"signs": s.share})
    epsilon, alpha = s.curator.budget.epsilon * s.share, s.solver.alpha
    zero, edge = np.zeros(1), np.full(1, -alpha)
    reach = float(2.0 * s.link.derivative(zero)[0] / s.link.probability(edge)[0])  # the paper's bound on its Δ
    query = TiltedFit(threshold=s.threshold, link=s.link, settings=s.settings, tilt=reach / epsilon)
    left, right, scale = s.curator.release("signs", query).parts
    factors = LowRank(left * float(scale[0]), right)
    return Completion(
        matrix=Completed(LowRank(left, right), alpha, float(scale[0])),
        effects=Effects.none(s.pattern.shape),
        factors=factors,
        claims=(
            f"The one-bit paper's Theorem 2 claims {epsilon:g}-DP for this form. Its proof leaves out the multipliers "
            "of the constraint and a Jacobian, so it is not repeated as a guarantee. The default form is proved.",
        ),
    )


# --- noise within the fit -------------------------------------------------------------------------


def _gradient(s: Setting) -> Completion:
    """Steps from noisy gradients alone. With effects the first gradient, at 0, is for these; else it is a step."""
    rounds = s.solver.gradient_rounds
    labels = [f"gradient {number + 1}" for number in range(rounds)]
    s.curator.plan(dict.fromkeys(labels, s.share / rounds * (1.0 - 1e-12)))
    rows, cols = s.pattern.rows, s.pattern.indices
    if not s.solver.with_effects:
        made = _noisy_steps(s, labels, np.zeros(s.pattern.count))
        return _around(s, Effects.none(s.pattern.shape), made)
    no, yes, seen = _noisy_gradient(s, labels[0], np.zeros(s.pattern.count))
    effects = _effects(s, (seen - no) / (yes - no))
    if rounds == 1:
        return _around(s, effects, Completed(LowRank.zeros(s.pattern.shape), s.solver.alpha, 1.0))
    return _around(s, effects, _noisy_steps(s, labels[1:], effects.at(rows, cols)))


def _noisy_steps(s: Setting, labels: list[str], shift: Array) -> Completed:
    settings = replace(
        s.solver.settings(s.pattern.shape, line_search=False, iterations=len(labels)),
        projection_share=NEAR, projection_spectra=MOST_SPECTRA,
    )  # fmt: skip
    blind = make_objective(s.pattern.rows, s.pattern.indices, np.zeros(len(shift)), s.pattern.shape, s.link)
    return solve(blind, settings, lambda x, k: _noisy_gradient(s, labels[k], x + shift)[2]).matrix


def _noisy_gradient(s: Setting, label: str, x: Array) -> tuple[Array, Array, Array]:
    """The gradient for "no" and for "yes" at x, which are public, and the noisy one of the exact signs."""
    link, clamp = s.link, s.solver.clamp
    no, yes = link.loss_gradient(x, np.zeros(len(x))), link.loss_gradient(x, np.ones(len(x)))
    bound = link.steepness(float(np.abs(x).max(initial=0.0))) * (1.0 + 1e-9)
    if clamp is not None:
        no, yes, bound = np.clip(no, -clamp, clamp), np.clip(yes, -clamp, clamp), min(bound, 2.0 * clamp)
    query = NoisyGradient(threshold=s.threshold, noise=s.noise, no=no, yes=yes, bound=bound)
    return no, yes, s.curator.release(label, query).parts[0]


# --- noise after the fit --------------------------------------------------------------------------


def _output(s: Setting) -> Completion:
    return _noisy_matrix(s) if s.solver.form == "paper" else _noisy_values(s)


def _noisy_values(s: Setting) -> Completion:
    """A strongly convex fit, its values on Ω with noise; its optimality condition turns them into signs again."""
    ridge = s.solver.ridge or least_ridge(s.pattern, s.settings.nuclear_radius, s.solver)
    s.curator.plan({"values": s.share})
    alone = SeparableFit(threshold=s.threshold, link=s.link, ridge=ridge, noise=s.noise)
    if alone.binds(s.pattern, s.solver.alpha, s.settings.nuclear_radius):
        return _pooled_values(s, ridge)
    no, yes = alone.numbers()
    signs = (s.curator.release("values", alone).parts[0] - no) / (yes - no)
    return replace(_likelihood_fit(s, s.link, signs, signs), notes=(EACH_BY_ITSELF,))


def _pooled_values(s: Setting, ridge: float) -> Completion:
    """The same where the ball may bind: every value depends on many ratings."""
    if s.solver.noise == "laplace":
        raise ConfigError('noise must be "gaussian" or None at this ridge: of the pooled fit an L2 bound is proved.')
    query = FittedValues(threshold=s.threshold, link=s.link, settings=s.settings, ridge=ridge)
    seen = s.curator.release("values", query).parts[0]
    # λx + g'(x)(h(x) − s) = 0 wherever the ball does not bind, to first order about 0
    zero = np.zeros(1)
    turn = ridge / float(s.link.logit_slope(zero)[0]) + float(s.link.derivative(zero)[0])
    note = POOLED.format(steps=query.rule.steps, moved=query.rule.moved(s.pattern.count))
    return replace(_likelihood_fit(s, s.link, 0.5 + turn * seen, 0.5 + turn * seen), notes=(note,))


def least_ridge(pattern: Pattern, radius: float, solver: OneBit) -> float:
    """A public λ at which no constraint binds: |x| ≤ g'(0)/(2λ) on Ω, so ‖X‖_* ≤ √(min(m, n) |Ω|) g'(0)/(2λ).

    Then the values of the fit are the signs in other units. A smaller λ pools what ratings say, but the noise, in
    proportion to 1/λ, grows faster than that helps: measured in docs/onebit.md.
    """
    reach = 0.5 * float(solver.made_link().logit_slope(np.zeros(1))[0])
    return reach * max(float(np.sqrt(pattern.count * min(pattern.shape))) / radius, 1.0 / solver.alpha)


def _noisy_matrix(s: Setting) -> Completion:
    """The paper's Algorithm 4: noise for one entry, on every entry."""
    s.curator.plan({"matrix": s.share})
    query = FittedMatrix(threshold=s.threshold, link=s.link, settings=s.settings)
    answer = s.curator.release("matrix", query)
    values = answer.parts[0]
    price = s.curator.budget.epsilon * s.share
    claims = (
        f"Each single entry of the matrix, on its own: ε = {price:g}. The matrix: none. One rating moves many entries "
        "at a time, and the noise is for one of them.",
    )
    return Completion(
        matrix=Dense(values),
        effects=Effects.none(s.pattern.shape),
        factors=denoised(values, answer.sigma * np.sqrt(2.0)),
        claims=claims if s.private else (),
    )


def denoised(values: Array, deviation: float, most: int = 32) -> LowRank:
    """The singular triplets of a matrix that stand out of noise of this deviation on every entry, shrunk."""
    from scipy.sparse.linalg import svds

    count = min(most, min(values.shape) - 1)
    if count < 1:
        return LowRank(values[:, :1], np.ones((values.shape[1], 1)))
    left, singular, right = svds(values, k=count, random_state=0)
    edge = deviation * (np.sqrt(values.shape[0]) + np.sqrt(values.shape[1]))
    root = np.sqrt(np.maximum(singular - edge, 0.0))
    kept = root > 0.0
    return LowRank(left[:, kept] * root[kept], right[kept].T * root[kept])
