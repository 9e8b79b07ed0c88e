"""Spectral projected gradient for one-bit completion (Birgin, Martínez, Raydan 2000), eq. (2) and Algorithms 1 to 4.

    Z_k     = P_C(X_k - γ_k G_k)                                    C: `projection.py`; G: the gradient, sparse on Ω
    X_{k+1} = X_k + λ_k (Z_k - X_k)                                 λ halved until f <= max of the last values
    γ_{k+1} = <S, S> / <S, ΔG>,  S = X_{k+1} - X_k                  clamped to public limits

Without line search (Algorithm 3: the gradients given are noisy and all that may be used) λ is fixed, the number of
iterations is public, and the objective is never looked at. X is kept as factors: m·n numbers are never held.

Certificate. The projection's box multiplier Y splits G into B = -Y/γ and A = G - B; as f is convex, for all X in C
    f(X) >= f(X_k) - <G, X_k> - τ‖A‖ - α‖B‖₁                        (‖A‖: spectral norm, proved by Cholesky)
so the distance of the answer from the optimum is known, whatever the steps did. With a ridge λ the term of the ball
is the exact minimum of <A, S> + (λ/2)‖S‖² instead, and the distance to the minimiser is sqrt(2 gap / λ).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hushrec.errors import ConfigError
from hushrec.onebit.lowrank import Array, Completed, LowRank
from hushrec.onebit.objective import Objective
from hushrec.onebit.projection import Projection, Warm, check_set, project_intersection, retract
from hushrec.onebit.spectral import (
    Sparse,
    Structured,
    norm_bound,
    norm_estimate,
    simplex_projection,
    singular_estimates,
    singular_values,
)

Gradient = Callable[[Array, int], Array]
"""(values of X on Ω, iteration) -> gradient on Ω."""


@dataclass(frozen=True, kw_only=True)
class SPGSettings:
    """Public constants of a fit.

    nuclear_radius, entry_bound: τ and α of the set C. iterations: the most steps. tolerance: the gap at which to
    stop, as a share of f(0) = n log 2, a public number (with line search only). step_share: the part of each step
    taken without line search. history, decrease: how many values back the search compares, and the decrease it asks
    for. first_step: γ at the start (default: one over the link's curvature); shortest, longest: its limits.
    projection_share: residual of each projection relative to the last step; projection_spectra: the most
    decompositions in one. seed: of the subspaces to start from, which no result depends on.
    """

    nuclear_radius: float
    entry_bound: float
    iterations: int = 60
    tolerance: float = 1e-4
    line_search: bool = True
    step_share: float = 1.0
    history: int = 10
    decrease: float = 1e-4
    first_step: float | None = None
    shortest: float = 1e-3
    longest: float = 1e3
    projection_share: float = 0.2
    projection_spectra: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_set(self.nuclear_radius, self.entry_bound)
        for name, low in (("iterations", 1), ("history", 1), ("projection_spectra", 1)):
            if getattr(self, name) < low:
                raise ConfigError(f"{name} must be at least {low}, got {getattr(self, name)!r}.")
        for name in ("tolerance", "shortest", "longest", "projection_share"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)!r}.")
        if not 0 < self.step_share <= 1:
            raise ConfigError(f"step_share must be above 0 and at most 1, got {self.step_share!r}.")
        if not 0 < self.decrease < 1:
            raise ConfigError(f"decrease must be between 0 and 1, got {self.decrease!r}.")
        if self.first_step is not None and not self.first_step > 0:
            raise ConfigError(f"first_step must be positive, got {self.first_step!r}.")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is proved of the answer (NaN where nothing is: a loss that is not convex, or gradients that are noisy).

    objective: f at the answer. gap: f(answer) - min f over C is at most this. first_order_gap: the same number,
    meaningful without convexity too: it is zero at stationary points only. distance: with a ridge, the Frobenius
    distance to the minimiser is at most this. gradient_mapping: ‖X - P_C(X - γ G)‖/γ at the last iterate, to within
    about `mapping_error`. nuclear_norm, largest_entry: bounds, never above τ and α. converged: the first-order gap
    met the tolerance. decompositions: spectra computed in all.
    """

    objective: float
    gap: float
    first_order_gap: float
    distance: float
    gradient_mapping: float
    mapping_error: float
    nuclear_norm: float
    largest_entry: float
    iterations: int
    decompositions: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Fit:
    """The completed matrix and its certificate."""

    matrix: Completed
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class _State:
    """An iterate: its values and gradient on Ω, its objective and ‖X‖_F²."""

    X: LowRank
    x: Array
    G: Array
    f: float
    square: float


@dataclass(frozen=True, eq=False)
class _Move:
    """From X to its projected gradient point Z: Z on Ω, <X, D> and ‖D‖² with D = Z - X."""

    Z: LowRank
    z: Array
    along: float
    square: float


@dataclass(frozen=True, eq=False)
class _Answer:
    """An iterate made feasible: its values on Ω, its loss there, its objective, a bound of its nuclear norm."""

    matrix: Completed
    x: Array
    loss: float
    f: float
    norm: float


def solve(objective: Objective, settings: SPGSettings, gradient: Gradient | None = None) -> Fit:
    """Minimise the objective over C; with `gradient` given and no line search, from those gradients alone.

    **Guarantee** Without line search the objective's ratings are never read: the result is a function of the
    values that `gradient` returned and of public constants (post-processing).

    >>> from hushrec.onebit.links import Logistic
    >>> from hushrec.onebit.objective import make_objective
    >>> signs = make_objective(rows=[0, 0, 1], cols=[0, 1, 1], s=[1, 0, 1], shape=(2, 2), link=Logistic())
    >>> fit = solve(signs, SPGSettings(nuclear_radius=2.0, entry_bound=1.0))
    >>> fit.matrix.toarray().round(2).tolist(), fit.certificate.gap < 1e-3
    ([[1.0, -1.0], [-1.0, 1.0]], True)
    """
    if settings.line_search:
        if gradient is not None:
            raise ConfigError("A given gradient needs line_search=False: the search would read the objective.")
        return _with_search(objective, settings)
    if gradient is None:
        raise ConfigError("line_search=False needs the gradients to be given.")
    return _without_search(objective, settings, gradient)


def _with_search(o: Objective, c: SPGSettings) -> Fit:
    """Until the gap is proved to meet the tolerance, or the iterations are spent."""
    state, warm, gamma = _look(o, LowRank.zeros(o.shape), 0.0), Warm.cold(), _first_step(o, c)
    convex, spent, trust, gap, floor = o.convex(c.entry_bound), 0, 0.9, np.inf, -np.inf
    tolerance, recent = _first_tolerance(state.G, gamma, c), [state.f]
    best, slack = _feasible(o, state, c), c.tolerance * max(1.0, abs(state.f))
    for k in range(c.iterations + 1):
        to = _project(o, state.X, state.G, gamma, warm, tolerance, c)
        spent += to.decompositions
        move = _measure(o, state, to)
        answer = _feasible(o, state, c)
        best = answer if answer.f <= best.f or not convex else best
        hopeful = best.f - _lower_bound(o, answer, to, gamma, c, proved=False) <= trust * slack
        if hopeful or k == c.iterations:
            bound = _lower_bound(o, answer, to, gamma, c, proved=True)
            floor, trust = max(floor, bound) if convex else bound, 0.7 * trust
            gap = best.f - floor
        if gap <= slack or k == c.iterations:
            break
        new = _search(o, state, move, to, gamma, max(recent[-c.history :]), c)
        step = _spectral_step(o, state, new, c)
        tolerance = max(c.projection_share * float(np.sqrt(move.square)), 1e-13 * c.nuclear_radius)
        recent.append(new.f)
        state, warm, gamma = new, to.warm.scaled(step / gamma), step
    return Fit(best.matrix, _certificate(o, best, gap, slack, convex, move, to, gamma, k, spent))


def _without_search(o: Objective, c: SPGSettings, gradient: Gradient) -> Fit:
    """A public number of steps from the gradients given: of `o` only the pattern, shape, link and ridge are used."""
    X, warm, gamma, spent = LowRank.zeros(o.shape), Warm.cold(), _first_step(o, c), 0
    x = np.zeros(o.count)
    G = gradient(x, 0)
    tolerance = _first_tolerance(G, gamma, c)
    for k in range(c.iterations):
        to = _project(o, X, G, gamma, warm, tolerance, c)
        spent += to.decompositions
        new = X.towards(to.matrix, c.step_share)
        square, at = _distance_square(X, new), new.entries(o.rows, o.cols)
        if k + 1 < c.iterations:
            g = gradient(at, k + 1)
            step = _quotient(square, float((at - x) @ (g - G)) + o.ridge * square, c)
            warm, gamma, G = to.warm.scaled(step / gamma), step, g
            tolerance = c.projection_share * float(np.sqrt(square)) / c.step_share
        X, x = new, at
    matrix, norm = retract(X, c.nuclear_radius, c.entry_bound)
    return Fit(matrix, _unproved(matrix, norm, c.iterations, spent))


def _unproved(matrix: Completed, norm: float, iterations: int, spent: int) -> Certificate:
    """Only feasibility is known: what the noisy gradients belong to was never looked at."""
    nan = float("nan")
    return Certificate(
        objective=nan,
        gap=nan,
        first_order_gap=nan,
        distance=nan,
        gradient_mapping=nan,
        mapping_error=nan,
        nuclear_norm=norm,
        largest_entry=matrix.scale * matrix.limit,
        iterations=iterations,
        decompositions=spent,
        converged=False,
    )


def _look(o: Objective, X: LowRank, square: float) -> _State:
    x = X.entries(o.rows, o.cols)
    return _State(X, x, o.gradient(x), o.loss(x) + 0.5 * o.ridge * square, square)


def _first_step(o: Objective, c: SPGSettings) -> float:
    return c.first_step if c.first_step is not None else 1.0 / (o.link.curvature + o.ridge)


def _first_tolerance(G: Array, gamma: float, c: SPGSettings) -> float:
    """Before any step is known: a share of the longest that the ball allows."""
    return 0.1 * c.projection_share * min(c.nuclear_radius, gamma * float(np.linalg.norm(G))) + 1e-300


def _project(
    o: Objective, X: LowRank, G: Array, gamma: float, warm: Warm, tolerance: float, c: SPGSettings
) -> Projection:
    """P_C(X - γ(G + λX))."""
    shrunk = LowRank(X.left * (1.0 - gamma * o.ridge), X.right)
    target = Structured(shrunk, (Sparse.of(o.sparse(-gamma * G)),))
    return project_intersection(
        target, c.nuclear_radius, c.entry_bound, tolerance=tolerance, warm=warm,
        evaluations=c.projection_spectra, seed=c.seed,
    )  # fmt: skip


def _measure(o: Objective, state: _State, to: Projection) -> _Move:
    cross = state.X.inner(to.matrix)
    return _Move(
        to.matrix, to.matrix.entries(o.rows, o.cols), cross - state.square, _distance_square(state.X, to.matrix)
    )


def _distance_square(a: LowRank, b: LowRank) -> float:
    """‖A - B‖_F² without cancelling: from the triangular factors of the stacked matrices."""
    left: Array = np.linalg.qr(np.hstack([a.left, -b.left]))[1]
    right: Array = np.linalg.qr(np.hstack([a.right, b.right]))[1]
    return float(np.linalg.norm(left @ right.T) ** 2)


def _search(
    o: Objective, state: _State, move: _Move, to: Projection, gamma: float, ceiling: float, c: SPGSettings
) -> _State:
    """The non-monotone line search from X towards Z.

    X may be outside the box by the last projection's error; where Z comes back in, f may have to rise, by what
    the multiplier says: that much (`price`) is allowed.
    """
    rows, cols = np.divmod(to.multiplier.flat, o.shape[1])
    inwards = move.Z.entries(rows, cols) - state.X.entries(rows, cols)
    price = min(0.0, float(to.multiplier.values @ inwards) / gamma)
    dx = move.z - state.x
    slope = float(state.G @ dx) + o.ridge * move.along + price
    share = 1.0
    while True:
        square = state.square + 2.0 * share * move.along + share**2 * move.square
        f = o.loss(state.x + share * dx) + 0.5 * o.ridge * square
        allowed = ceiling - share * price + c.decrease * share * min(slope, 0.0)
        if f <= allowed + 1e-13 * abs(ceiling) or share < 1e-6:
            break
        share *= 0.5
    X = state.X.towards(move.Z, share)
    return _look(o, X, X.inner(X))


def _spectral_step(o: Objective, old: _State, new: _State, c: SPGSettings) -> float:
    square = _distance_square(old.X, new.X)
    return _quotient(square, float((new.x - old.x) @ (new.G - old.G)) + o.ridge * square, c)


def _quotient(square: float, curved: float, c: SPGSettings) -> float:
    """<S, S>/<S, ΔG> within its public limits; the longest step where the curvature seen is not positive."""
    return c.longest if curved <= square / c.longest else max(c.shortest, square / curved)


def _feasible(o: Objective, state: _State, c: SPGSettings) -> _Answer:
    matrix, norm = retract(state.X, c.nuclear_radius, c.entry_bound)
    x = matrix.scale * np.clip(state.x, -matrix.limit, matrix.limit)
    loss = o.loss(x)
    # clipping and scaling only shrink entries, so the iterate's own square is a bound for the ridge
    return _Answer(matrix, x, loss, loss + 0.5 * o.ridge * state.square, norm)


def _lower_bound(o: Objective, answer: _Answer, to: Projection, gamma: float, c: SPGSettings, *, proved: bool) -> float:
    """The least value over C of f linearised at the answer: see the head of this file."""
    y, G = to.multiplier.scaled(1.0 / gamma), o.gradient(answer.x)
    A = Structured(LowRank.zeros(o.shape), (Sparse.of(o.sparse(G)), Sparse.of(y.tocsr(o.shape))))
    start = answer.loss - float(G @ answer.x) - c.entry_bound * float(np.abs(y.values).sum())
    basis = to.warm.basis if to.warm.basis is not None else np.zeros((o.shape[1], 0))
    if o.ridge == 0.0:
        norm = norm_bound(A, basis) if proved else norm_estimate(A, basis)
        return start - c.nuclear_radius * norm
    values = singular_values(A) if proved else singular_estimates(A, basis)
    # rounding in a Gram matrix moves a singular value by at most this
    raised = np.sqrt(values**2 + 1e-13 * values.max(initial=0.0) ** 2) / o.ridge
    kept = simplex_projection(raised, c.nuclear_radius)
    return start - o.ridge * float(kept @ raised - 0.5 * kept @ kept)


def _certificate(
    o: Objective, best: _Answer, gap: float, slack: float, convex: bool, move: _Move, to: Projection,
    gamma: float, iterations: int, spent: int,
) -> Certificate:  # fmt: skip
    gap = max(gap, 0.0)
    known = gap if convex else float("nan")
    return Certificate(
        objective=best.f,
        gap=known,
        first_order_gap=gap,
        distance=float(np.sqrt(2.0 * known / o.ridge)) if o.ridge > 0 else float("nan"),
        gradient_mapping=float(np.sqrt(move.square)) / gamma,
        mapping_error=to.residual / gamma,
        nuclear_norm=best.norm,
        largest_entry=best.matrix.scale * best.matrix.limit,
        iterations=iterations,
        decompositions=spent,
        converged=gap <= slack,
    )
