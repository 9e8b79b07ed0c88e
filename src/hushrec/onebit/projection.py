"""Projection on C = {‖X‖_* <= τ, |X_ij| <= α}, the set of the one-bit paper's eq. (2), with a proved error.

The box is put into the dual: with Y its multiplier (sparse: it lives where the box binds) and P the projection
on the nuclear-norm ball,

    min over C of ½‖X - V‖²  =  max over Y of  d(Y) = ½‖Z - V‖² + <Y, Z> - α‖Y‖₁,   Z = P(V - Y)
    Y ← S(Y + t Z),  S(w) = w - clip(w, ±t α)                                (t = 1 for ever is Dykstra's method)

-d has gradient -Z, so the same spectral steps as in the solver (Barzilai-Borwein t, non-monotone acceptance)
replace t = 1; where few entries bind this is tens of times faster. Every Y gives a lower bound d(Y), every Z lies
in the ball; clipped to the box and scaled back into the ball it is feasible, and ½‖X̂ - X*‖² <= ½‖X̂ - V‖² - d(Y).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushrec.errors import ConfigError
from hushrec.onebit.lowrank import Array, Completed, Entries, Index, LowRank, merged
from hushrec.onebit.spectral import Spectrum, Structured, project_nuclear

HISTORY = 5
LONGEST = 1e5
EXACT = 300


@dataclass(frozen=True, eq=False)
class Warm:
    """What one projection leaves to the next: box multiplier, subspace, dual step."""

    multiplier: Entries
    basis: Array | None = None
    step: float = 1.0

    @staticmethod
    def cold() -> Warm:
        return Warm(Entries.empty())

    def scaled(self, factor: float) -> Warm:
        """The same for a target whose step from the old point is `factor` times as long."""
        return Warm(self.multiplier.scaled(factor), self.basis, self.step)


@dataclass(frozen=True, eq=False)
class Projection:
    """Z in the ball and nearly in the box, its multiplier Y, and how nearly.

    residual: ‖S(Y + Z) - Y‖ at t = 1: zero exactly at the projection. error: of the singular values' part.
    """

    matrix: LowRank
    multiplier: Entries
    residual: float
    error: float
    decompositions: int
    warm: Warm


@dataclass(frozen=True, eq=False)
class ProjectionCertificate:
    """Proved: the exact projection is within `distance` (Frobenius), the answer is in the ball and in the box."""

    distance: float
    gap: float
    nuclear_norm: float
    largest_entry: float
    decompositions: int


@dataclass(frozen=True, eq=False)
class _Point:
    """The dual function at one multiplier, and the entries where the next one can live."""

    y: Entries
    spectrum: Spectrum
    matrix: LowRank
    phi: float
    flat: Index
    y_flat: Array
    z_flat: Array

    def step(self, t: float, bound: float) -> Array:
        """S(Y + t Z) on `flat`."""
        w = self.y_flat + t * self.z_flat
        return w - np.clip(w, -t * bound, t * bound)

    def residual(self, bound: float) -> float:
        return float(np.linalg.norm(self.step(1.0, bound) - self.y_flat))


def project_intersection(
    target: Structured,
    radius: float,
    bound: float,
    *,
    tolerance: float,
    warm: Warm | None = None,
    evaluations: int = 30,
    seed: int = 0,
) -> Projection:
    """The projection of `target` on C until its residual is at most `tolerance`, or `evaluations` spectra are spent."""
    warm = warm or Warm.cold()
    t, basis, spent = warm.step, warm.basis, 1
    accuracy = 0.2 * tolerance
    point = best = _evaluate(target, warm.multiplier, radius, bound, basis, accuracy, seed)
    history = [point.phi]
    while point.residual(bound) > tolerance and spent < evaluations:
        accuracy = 0.2 * max(tolerance, 0.1 * point.residual(bound))
        while True:
            q = point.step(t, bound)
            y = Entries(point.flat, q).nonzero()
            trial = _evaluate(target, y, radius, bound, point.spectrum.basis, accuracy, seed)
            spent += 1
            dy = q - point.y_flat
            wanted = max(history[-HISTORY:]) - 0.5e-4 / t * float(dy @ dy)
            # at t <= 1 the step is Dykstra's and cannot fail but for the error of an early stop
            if t <= 1.0 or spent >= evaluations or trial.phi <= wanted + 1e-13 * abs(wanted):
                break
            t = max(1.0, 0.2 * t)
        t = _spectral_step(dy, point.z_flat - trial.matrix.entries(*np.divmod(point.flat, target.shape[1])), spent)
        point = trial
        history.append(point.phi)
        # the first term decides far from the answer, the second near it, where phi is all rounding
        nearer = point.phi <= best.phi + 1e-12 * abs(best.phi) and point.residual(bound) <= best.residual(bound)
        best = point if point.phi < best.phi - 1e-12 * abs(best.phi) or nearer else best
    warm = Warm(best.y, best.spectrum.basis, t)
    return Projection(best.matrix, best.y, best.residual(bound), best.spectrum.error, spent, warm)


def _spectral_step(dy: Array, dz: Array, turn: int) -> float:
    """The two Barzilai-Borwein quotients by turns."""
    moved, curved, bent = float(dy @ dy), float(dy @ dz), float(dz @ dz)
    if curved <= 0.0:
        return 1.0 if moved == 0.0 else 10.0
    t = moved / curved if turn % 2 else curved / bent
    return min(max(t, 1.0), LONGEST)


def _evaluate(
    target: Structured, y: Entries, radius: float, bound: float, basis: Array | None, accuracy: float, seed: int
) -> _Point:
    shifted = target if len(y.flat) == 0 else target.plus(y.scaled(-1.0).tocsr(target.shape))
    spectrum = project_nuclear(shifted, radius, basis=basis, tolerance=accuracy, seed=seed)
    matrix = spectrum.projected
    flat = merged(matrix.exceeding(bound).flat, y.flat)
    z = matrix.entries(*np.divmod(flat, target.shape[1]))
    phi = spectrum.energy + bound * float(np.abs(y.values).sum())
    return _Point(y, spectrum, matrix, phi, flat, y.at(flat), z)


def retract(matrix: LowRank, radius: float, bound: float) -> tuple[Completed, float]:
    """A point of C next to `matrix`, with a proved bound of its nuclear norm: clipped, then scaled into the ball."""
    over = matrix.exceeding(bound)
    cut = Entries(over.flat, np.abs(over.values) - bound)
    total = matrix.nuclear_bound + _nuclear_bound(cut, over.values < 0, matrix.shape[1])
    scale = float(min(1.0, radius / total)) if total > 0.0 else 1.0
    return Completed(matrix, bound, scale), scale * total


def _nuclear_bound(cut: Entries, negative: NDArray[np.bool_], n: int) -> float:
    """The nuclear norm of what clipping cuts off: exact for a small block, else at most the sum of row norms."""
    if len(cut.flat) == 0:
        return 0.0
    rows, i = np.unique(cut.flat // n, return_inverse=True)
    cols, j = np.unique(cut.flat % n, return_inverse=True)
    if min(len(rows), len(cols)) <= EXACT and max(len(rows), len(cols)) <= 10 * EXACT:
        block = np.zeros((len(rows), len(cols)))
        block[i, j] = np.where(negative, -cut.values, cut.values)
        return float(np.linalg.svd(block, compute_uv=False).sum()) * (1.0 + 1e-12)
    square = cut.values**2
    return float(min(np.sqrt(np.bincount(i, square)).sum(), np.sqrt(np.bincount(j, square)).sum()))


def project(
    matrix: ArrayLike,
    *,
    nuclear_radius: float,
    entry_bound: float,
    tolerance: float = 1e-6,
    evaluations: int = 2000,
) -> tuple[Array, ProjectionCertificate]:
    """The projection of a dense (m, n) matrix on ‖X‖_* <= nuclear_radius, |X_ij| <= entry_bound, with a proof.

    tolerance: the proved distance to the exact projection at which to stop, as a share of 1 + ‖matrix‖_F.
    evaluations: the most decompositions; the certificate says how near it came.

    >>> X, proof = project([[3.0, 0.0], [0.0, 1.0]], nuclear_radius=2.0, entry_bound=1.0)
    >>> X.round(5).tolist(), proof.distance < 1e-5
    ([[1.0, 0.0], [0.0, 1.0]], True)
    """
    V = np.asarray(matrix, dtype=np.float64)
    if V.ndim != 2 or not np.isfinite(V).all():
        raise ConfigError("matrix must be two-dimensional and hold finite numbers only.")
    check_set(nuclear_radius, entry_bound)
    target, size = Structured(LowRank.zeros((V.shape[0], V.shape[1])), dense=V), 1.0 + float(np.linalg.norm(V))
    residual, spent, warm = 1e-3 * tolerance * size, 0, Warm.cold()
    while True:
        found = project_intersection(
            target,
            nuclear_radius,
            entry_bound,
            tolerance=residual,
            warm=warm,
            evaluations=max(1, min(200, evaluations - spent)),
        )
        spent, warm = spent + found.decompositions, found.warm
        X, proof = _prove(V, found, nuclear_radius, entry_bound, spent)
        # the proof's distance is the root of a gap that falls with the residual
        if proof.distance <= tolerance * size or spent >= evaluations or residual < 1e-13 * size:
            return X, proof
        residual *= 0.01


def _prove(V: Array, found: Projection, radius: float, bound: float, spent: int) -> tuple[Array, ProjectionCertificate]:
    """The feasible answer next to Z and the duality gap there."""
    answer, norm = retract(found.matrix, radius, bound)
    X, Z = answer.toarray(), found.matrix.toarray()
    y, at = found.multiplier.values, Z.ravel()[found.multiplier.flat]
    # ½‖X-V‖² - d(Y), written so that nothing cancels
    gap = float(np.vdot(X - Z, 0.5 * (X + Z) - V) + (bound * np.abs(y) - y * at).sum())
    gap = max(gap, 0.0) + 1e-15 * float(np.vdot(X - V, X - V))
    return X, ProjectionCertificate(float(np.sqrt(2.0 * gap)), gap, norm, float(np.abs(X).max()), spent)


def check_set(radius: float, bound: float) -> None:
    """Both radii of C must be positive and finite."""
    if not (np.isfinite(radius) and radius > 0):
        raise ConfigError(f"nuclear_radius must be a positive number, got {radius!r}.")
    if not (np.isfinite(bound) and bound > 0):
        raise ConfigError(f"entry_bound must be a positive number, got {bound!r}.")
