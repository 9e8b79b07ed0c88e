"""From noisy normal equations to item loadings: positive semidefinite, and shrunk against their known noise.

An item's true equations are b = A v + e with e of covariance q A (its raters' errors) and what was released is
A + N, b + n with known noise. Three steps, all of them post-processing of one release:
    A ← c Ā + ρ (A + N − c Ā)   Ā: all items together, c: the item's weight; ρ: share of the spread that is no noise
    A ← its nearest positive semidefinite matrix
    v = (A + Λ)⁻¹ b             Λ = (q I + σ² A⁻¹) P⁻¹, the posterior mean for v ~ N(0, P); or Λ = λ I as published
Without noise ρ is 1, σ is 0, and this is textbook alternating least squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrec.solvers.base import Floats

FLOOR = 1e-9  # least eigenvalue of a normal matrix, as a part of the average one


@dataclass(frozen=True)
class Equations:
    """normal: (n, r, r) with noise of deviation `normal_sigma` on the diagonal; right: (n, r) with `right_sigma`."""

    normal: Floats
    right: Floats
    normal_sigma: float
    right_sigma: float

    def plus(self, known: Floats) -> Equations:
        """The same equations with (n, r, r) or (r, r) added to their normal matrices, made PSD again."""
        return Equations(positive(self.normal + known), self.right, self.normal_sigma, self.right_sigma)

    def without_first(self) -> Equations:
        """The equations of the other loadings where the first one is known to be 1: the user's offset."""
        return Equations(
            self.normal[:, 1:, 1:], self.right[:, 1:] - self.normal[:, 1:, 0], self.normal_sigma, self.right_sigma
        )


def square(rows: Floats) -> Floats:
    """Symmetric matrices (..., r, r) from isometric coordinates (..., r(r+1)/2)."""
    rank = math.isqrt(2 * rows.shape[-1])
    down, across = np.tril_indices(rank)
    entries = np.where(down == across, rows, rows / math.sqrt(2))
    out = np.zeros((*rows.shape[:-1], rank, rank))
    out[..., down, across] = entries
    out[..., across, down] = entries
    return out


def regularised(equations: Equations, weights: Floats) -> Equations:
    """The normal matrices shrunk toward weight × the average one as far as they are noise, then made PSD."""
    average = positive(equations.normal.sum(axis=0) / weights.sum())
    expected = weights[:, None, None] * average
    found = equations.normal - expected
    noise = equations.normal_sigma**2 * (0.5 + 0.5 * np.eye(len(average)))
    spread = np.maximum(np.square(found).sum(axis=0) - len(found) * noise, 0.0) / np.square(weights).sum()
    if equations.normal_sigma > 0:
        signal = spread * np.square(weights)[:, None, None]
        found = found * (signal / (signal + noise))
    normal = positive(expected + found)
    return Equations(normal, equations.right, equations.normal_sigma, equations.right_sigma)


def positive(matrices: Floats) -> Floats:
    """The nearest positive semidefinite matrices, with eigenvalues of at least FLOOR times their average."""
    values, vectors = np.linalg.eigh(matrices)
    least = FLOOR * max(float(np.maximum(values, 0.0).mean()), np.finfo(float).tiny)
    return np.asarray((vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def solve(equations: Equations, ridge: float) -> Floats:
    """v = (A + λI)⁻¹ b for every item, (n, r)."""
    rank = equations.right.shape[1]
    return np.asarray(np.linalg.solve(equations.normal + ridge * np.eye(rank), equations.right[..., None])[..., 0])


def posterior(equations: Equations, spread: Floats, error: float) -> tuple[Floats, Floats]:
    """Posterior means (n, r) and variances (n, r) of v ~ N(0, diag spread) given b = A v + N(0, error·A + σ²)."""
    rank = equations.right.shape[1]
    sigma_squared = equations.right_sigma**2
    doubt = error * np.eye(rank) + (sigma_squared * np.linalg.inv(equations.normal) if sigma_squared else 0.0)
    system = equations.normal + doubt / spread
    means = np.asarray(np.linalg.solve(system, equations.right[..., None])[..., 0], dtype=np.float64)
    # Cov = P − P A (A P A + error A + σ²)⁻¹ A P = (I − (A + Λ)⁻¹ A) P
    explained = np.linalg.solve(system, equations.normal)
    variances = np.clip(1.0 - np.diagonal(explained, axis1=1, axis2=2), 0.0, 1.0) * spread
    return means, variances
