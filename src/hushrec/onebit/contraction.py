"""The ridge fit in a public number of steps, each of which brings any two matrices closer together.

    minimise  Σ over Ω of ℓ(X_ij, s_ij) + (λ/2) ‖X‖_F²  over  ‖X‖_* ≤ τ
    X_0 = 0,  X_{k+1} = P(X_k − γ (λ X_k + ∇f(X_k))),  γ = 2/(2λ + β),  K steps      P: projection on the ball

The loss goes on as a straight line beyond ±α: its slope is taken at X_ij cut to ±α, and 0 ≤ ℓ'' ≤ β between. So the
box is no constraint here and needs no projection; the values on Ω are cut to ±α at the end.

What one sign moves, for *every* K, converged or not. Entry by entry x ↦ x − γ(λx + ℓ'(x)) has a slope between
1 − γ(λ + β) = −ρ and 1 − γλ = ρ, with ρ = β/(2λ + β) < 1, and P moves no two points apart: a step brings any two
matrices together by ρ. A sign changes ℓ' at one entry by at most L = sup g' over |x| ≤ α. Two runs from 0 that differ
in one sign are therefore never further apart than γL (1 + ρ + … + ρ^{K−1}) = (L/λ)(1 − ρ^K). Cutting adds nothing.
P is computed from the whole spectrum: no subspace that might have missed a part. An error of floating point of at
most e a step, on either side, adds at most 2e/(1 − ρ).
The minimiser is within ρ^K τ: that says how good the fit is, and the bound above does not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from hushrec.errors import ConfigError
from hushrec.onebit.links import Link, Logistic, Probit
from hushrec.onebit.lowrank import Array
from hushrec.onebit.objective import Objective
from hushrec.onebit.spectral import simplex_projection

SETTLED = 0.01
"""Of L/λ, and of τ: how near to the minimiser the steps are meant to come."""
ROUNDING = 1e-10
"""Of the largest matrix that a step can meet: orders above the backward error of a factorisation."""


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """Public constants: ridge λ, the radius τ of the ball, the bound α of values, and the most steps.

    >>> from hushrec.onebit.links import Logistic
    >>> rule = Contraction(link=Logistic(), ridge=0.5, radius=9.0, bound=1.0, most=60)
    >>> rule.rate, rule.steps, round(rule.moved(100), 3)
    (0.2, 4, 1.997)
    """

    link: Link
    ridge: float
    radius: float
    bound: float
    most: int

    def __post_init__(self) -> None:
        for name in ("ridge", "radius", "bound"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ConfigError(f"{name} must be a positive number, not {getattr(self, name)!r}.")
        if not isinstance(self.link, (Logistic, Probit)):  # their `curvature` is a bound, not a guess
            raise ConfigError("The pooled output mechanism is proved for the logistic and the probit link.")

    @property
    def length(self) -> float:
        """γ."""
        return 2.0 / (2.0 * self.ridge + self.link.curvature)

    @property
    def rate(self) -> float:
        """ρ, by which a step brings any two matrices together."""
        return self.link.curvature / (2.0 * self.ridge + self.link.curvature)

    @property
    def steepest(self) -> float:
        """L, the most by which one sign changes the gradient."""
        return self.link.steepness(self.bound) * (1.0 + 1e-9)

    @property
    def steps(self) -> int:
        """K: until the minimiser is as near as it is meant to come, or `most`."""
        wanted = SETTLED * min(1.0, self.steepest / (self.ridge * self.radius))
        return max(1, min(self.most, math.ceil(math.log(wanted) / math.log(self.rate))))

    def moved(self, count: int) -> float:
        """The most that one sign of `count` moves the result by, in the Frobenius norm: proved above."""
        largest = self.radius + self.length * self.steepest * math.sqrt(count)
        rounding = 2.0 * ROUNDING * largest / (1.0 - self.rate)
        return self.steepest / self.ridge * (1.0 - self.rate**self.steps) + rounding

    def step(self, X: Array, objective: Objective) -> Array:
        """T(X) (m, n)."""
        at = objective.rows, objective.cols
        V = X * (1.0 - self.length * self.ridge)
        V[at] -= self.length * objective.gradient(np.clip(X[at], -self.bound, self.bound))
        return projected(V, self.radius)

    def fit(self, objective: Objective) -> Array:
        """X_K, laid out (m, n): so many steps whatever the signs are."""
        X = np.zeros(objective.shape)
        for _ in range(self.steps):
            X = self.step(X, objective)
        return X

    def values(self, objective: Objective) -> Array:
        """X_K on Ω, cut to ±α."""
        return np.clip(self.fit(objective)[objective.rows, objective.cols], -self.bound, self.bound)


def projected(matrix: Array, radius: float) -> Array:
    """The projection on ‖X‖_* ≤ radius from all singular values, to rounding error.

    >>> projected(np.diag([3.0, 1.0]), 2.0).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    if matrix.shape[0] < matrix.shape[1]:
        return projected(matrix.T, radius).T
    tall, square = np.linalg.qr(matrix)
    left, singular, right = _decomposed(square)
    kept = simplex_projection(singular, radius)
    rank = int(np.count_nonzero(kept))
    return np.asarray((tall @ (left[:, :rank] * kept[:rank])) @ right[:rank])


def _decomposed(square: Array) -> tuple[Array, Array, Array]:
    """A singular value decomposition by the quick way, or by the one that is said never to fail."""
    try:
        return np.linalg.svd(square)
    except np.linalg.LinAlgError:
        left, singular, right = sla.svd(square, lapack_driver="gesvd")
        return left, singular, right
