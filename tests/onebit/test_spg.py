"""The solver: against CVXPY, its certificates against the truth, and blind to ratings when it must be."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from hushrec.errors import ConfigError
from hushrec.onebit.links import Flipped, Link, Logistic, Probit
from hushrec.onebit.objective import Objective, make_objective
from hushrec.onebit.spg import Fit, SPGSettings, solve
from onebit.planted import planted


def fitted(objective: Objective, tau: float = 12.0, alpha: float = 0.5, **settings: Any) -> Fit:
    return solve(objective, SPGSettings(nuclear_radius=tau, entry_bound=alpha, **settings))


def cvxpy_optimum(objective: Objective, tau: float, alpha: float) -> float:
    """The least loss, by Newton's method with CVXPY minimising each quadratic model over the set.

    CVXPY's own log_normcdf is an approximation, off by 3e-5; the logistic link goes the same way, for one oracle.
    """
    cp = pytest.importorskip("cvxpy")
    X = cp.Variable(objective.shape)
    x = cp.vec(X, order="C")[objective.rows * objective.shape[1] + objective.cols]
    root, centre = cp.Parameter(objective.count, nonneg=True), cp.Parameter(objective.count)
    model = cp.Minimize(cp.sum_squares(cp.multiply(root, x) - centre) / 2)
    problem = cp.Problem(model, [cp.normNuc(X) <= tau, cp.abs(X) <= alpha])
    at, step = np.zeros(objective.count), 1e-5
    for _ in range(8):
        slope = objective.gradient(at)
        bend = (objective.gradient(at + step) - objective.gradient(at - step)) / (2 * step)
        root.value, centre.value = np.sqrt(bend), np.sqrt(bend) * (at - slope / bend)
        problem.solve(solver="SCS", eps_abs=1e-8, eps_rel=1e-8, max_iters=100_000)
        last, at = at, X.value[objective.rows, objective.cols]
        if np.abs(at - last).max() < 1e-6:
            break
    return objective.loss(at)


def check_against_cvxpy(link: Link, seed: int) -> None:
    objective, _ = planted(link, seed=seed)
    fit = fitted(objective, tolerance=1e-7, iterations=400)
    X = fit.matrix.toarray()
    # the box is at work, or the test says nothing of it
    assert np.sum(np.abs(X) > 0.5 - 1e-4) >= 3
    assert np.abs(X).max() <= 0.5 + 1e-6
    assert np.linalg.norm(X, "nuc") <= 12.0 + 1e-6
    f = objective.loss(X[objective.rows, objective.cols])
    assert f == pytest.approx(fit.certificate.objective, rel=1e-12)
    assert f == pytest.approx(cvxpy_optimum(objective, 12.0, 0.5), rel=1e-5)


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=str)
def test_the_optimum_is_that_of_cvxpy(link):
    check_against_cvxpy(link, 0)


@pytest.mark.slow
@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=str)
@pytest.mark.parametrize("seed", range(1, 5))
def test_the_optimum_is_that_of_cvxpy_for_more_seeds(link, seed):
    check_against_cvxpy(link, seed)


def test_the_logistic_optimum_is_that_of_cvxpys_own_logistic_loss():
    cp = pytest.importorskip("cvxpy")
    o, _ = planted(Logistic(), shape=(12, 12), seed=3)
    X = cp.Variable(o.shape)
    x = cp.vec(X, order="C")[o.rows * 12 + o.cols]
    loss = cp.Minimize(cp.sum(cp.logistic(x)) - o.s @ x)
    wanted = cp.Problem(loss, [cp.normNuc(X) <= 5.0, cp.abs(X) <= 0.5]).solve(solver="CLARABEL")
    assert fitted(o, 5.0, tolerance=1e-7, iterations=400).certificate.objective == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("link", [Logistic(), Probit(), Logistic(0.3)], ids=str)
@pytest.mark.parametrize("iterations", [1, 3, 10, 60])
def test_the_gap_covers_the_distance_from_the_optimum(link, iterations):
    o, _ = planted(link, seed=7)
    best = fitted(o, tolerance=1e-9, iterations=400).certificate
    fit = fitted(o, iterations=iterations, tolerance=1e-7)
    c = fit.certificate
    assert c.objective - best.objective <= c.gap + 1e-9
    assert c.gap >= 0
    assert c.iterations <= iterations
    assert c.converged == (c.gap <= 1e-7 * o.count * np.log(2))
    X = fit.matrix.toarray()
    assert np.linalg.norm(X, "nuc") <= c.nuclear_norm * (1 + 1e-9) <= 12.0 * (1 + 1e-8)
    assert np.abs(X).max() <= c.largest_entry <= 0.5


def test_the_gap_is_useful():
    """A bound that covers everything proves little: at the default it is within the tolerance in few steps."""
    o, _ = planted(Logistic(), shape=(200, 170), share=0.15, seed=2)
    c = fitted(o, 60.0, 0.8).certificate
    assert c.converged
    assert c.gap <= 1e-4 * o.count * np.log(2)
    assert c.decompositions < 150
    assert c.gradient_mapping < 0.05


@pytest.mark.parametrize("ridge", [0.05, 1.0])
def test_with_a_ridge_the_distance_to_the_minimiser_is_covered(ridge):
    o, _ = planted(Logistic(), seed=4, ridge=ridge)
    exact = fitted(o, tolerance=1e-11, iterations=400)
    assert exact.certificate.distance < 1e-3
    for iterations in (1, 3, 8, 60):
        fit = fitted(o, iterations=iterations, tolerance=1e-9)
        off = np.linalg.norm(fit.matrix.toarray() - exact.matrix.toarray())
        assert off <= fit.certificate.distance + exact.certificate.distance
    X = exact.matrix.toarray()
    f = o.loss(X[o.rows, o.cols]) + ridge / 2 * np.linalg.norm(X) ** 2
    assert f <= exact.certificate.objective * (1 + 1e-12)


def test_one_rating_moves_the_ridge_fit_by_no_more_than_its_bound():
    """‖M̂ - M̂'‖ <= L/λ: what the strongly convex output mechanism stands on."""
    o, _ = planted(Logistic(), seed=5, ridge=0.2)
    flipped = o.s.copy()
    flipped[17] = 1 - flipped[17]
    neighbour = make_objective(o.rows, o.cols, flipped, o.shape, o.link, ridge=0.2)
    a, b = (fitted(one, tolerance=1e-10, iterations=400) for one in (o, neighbour))
    moved = np.linalg.norm(a.matrix.toarray() - b.matrix.toarray())
    assert moved <= 1.0 / 0.2 + a.certificate.distance + b.certificate.distance
    assert moved > 0.05


def test_where_the_loss_is_not_convex_nothing_is_claimed_of_the_optimum():
    o, _ = planted(Flipped(Logistic(), 0.3), seed=1)
    wide = fitted(o, 30.0, 3.0, tolerance=1e-6, iterations=200).certificate
    assert np.isnan(wide.gap)
    assert wide.converged
    assert wide.first_order_gap <= 1e-6 * o.count * np.log(2)
    noisy = make_objective(o.rows, o.cols, o.s + np.random.default_rng(0).laplace(size=o.count), o.shape, Probit())
    assert np.isnan(fitted(noisy).certificate.gap)
    assert np.isfinite(fitted(dataclasses.replace(noisy, link=Logistic())).certificate.gap)


def test_noise_on_the_statistic_is_noise_times_x_in_the_logistic_objective():
    """Algorithm 2's H·X and a perturbed s are one and the same loss."""
    o, _ = planted(Logistic(), seed=6)
    H = np.random.default_rng(1).laplace(size=o.count)
    noisy = make_objective(o.rows, o.cols, o.s - H, o.shape, o.link)
    x = np.random.default_rng(2).standard_normal(o.count)
    assert noisy.loss(x) == pytest.approx(o.loss(x) + float(H @ x), rel=1e-12)


class Blind(Objective):
    """An objective that must not be looked at."""

    def loss(self, x):
        raise AssertionError("the loss was read")

    def gradient(self, x):
        raise AssertionError("the gradient was read")


def test_without_line_search_only_the_given_gradients_are_used():
    o, _ = planted(Logistic(), seed=8)
    blind = Blind(**{field.name: getattr(o, field.name) for field in dataclasses.fields(o)})
    blind = dataclasses.replace(blind, s=np.full(o.count, np.nan))
    asked = []

    def gradient(x: np.ndarray, k: int) -> np.ndarray:
        asked.append(k)
        return o.gradient(x) + np.random.default_rng(k).laplace(size=len(x))

    settings = SPGSettings(nuclear_radius=12.0, entry_bound=0.5, line_search=False, iterations=7, step_share=0.5)
    first, second = solve(blind, settings, gradient), solve(o, settings, gradient)
    assert asked == [*range(7), *range(7)]
    assert np.array_equal(first.matrix.toarray(), second.matrix.toarray())
    assert np.isnan(first.certificate.gap)
    X = first.matrix.toarray()
    assert np.linalg.norm(X, "nuc") <= 12.0 * (1 + 1e-9)
    assert np.abs(X).max() <= 0.5


def test_without_noise_the_steps_alone_come_near_the_optimum():
    o, _ = planted(Logistic(), seed=9)
    settings = SPGSettings(nuclear_radius=12.0, entry_bound=0.5, line_search=False, iterations=40)
    X = solve(o, settings, lambda x, k: o.gradient(x)).matrix
    best = fitted(o, tolerance=1e-8, iterations=400).certificate.objective
    assert o.loss(X.entries(o.rows, o.cols)) == pytest.approx(best, rel=1e-3)


def test_the_answer_depends_on_neither_the_order_of_ratings_nor_orientation():
    o, _ = planted(Logistic(), shape=(40, 25), seed=10)
    one = fitted(o, tolerance=1e-7, iterations=200).matrix.toarray()
    order = np.random.default_rng(0).permutation(o.count)
    shuffled = make_objective(o.rows[order], o.cols[order], o.s[order], o.shape, o.link)
    assert np.array_equal(shuffled.s, o.s)
    assert np.array_equal(o.s[order][shuffled.order], shuffled.s)
    turned = make_objective(o.cols, o.rows, o.s, (25, 40), o.link)
    other = fitted(turned, tolerance=1e-7, iterations=200)
    assert np.allclose(one, other.matrix.toarray().T, atol=2e-2)


def test_an_objective_without_ratings_has_the_answer_zero():
    o = make_objective([], [], [], (5, 4), Probit())
    fit = fitted(o)
    assert not fit.matrix.toarray().any()
    assert fit.certificate.converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [0]}, "equally long"),
        ({"rows": [0, 5]}, "inside the shape"),
        ({"cols": [0, -1]}, "inside the shape"),
        ({"s": [0, np.inf]}, "finite"),
        ({"rows": [1, 1], "cols": [0, 0]}, "at most once"),
        ({"shape": (0, 3)}, "shape"),
        ({"ridge": -1.0}, "ridge"),
    ],
)
def test_broken_objectives_are_refused(change, message):
    good: dict[str, Any] = {"rows": [0, 1], "cols": [0, 1], "s": [0, 1], "shape": (2, 2), "link": Logistic()}
    with pytest.raises(ConfigError, match=message):
        make_objective(**(good | change))


@pytest.mark.parametrize(
    "change",
    [
        {"nuclear_radius": 0.0},
        {"entry_bound": np.inf},
        {"iterations": 0},
        {"history": 0},
        {"projection_spectra": 0},
        {"tolerance": 0.0},
        {"projection_share": -1.0},
        {"step_share": 1.5},
        {"decrease": 1.0},
        {"first_step": 0.0},
    ],
)
def test_settings_name_what_is_wrong(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        SPGSettings(**({"nuclear_radius": 1.0, "entry_bound": 1.0} | change))


def test_noisy_gradients_and_line_search_exclude_each_other():
    o, _ = planted(Logistic())
    with pytest.raises(ConfigError, match="line_search"):
        solve(o, SPGSettings(nuclear_radius=1.0, entry_bound=1.0), lambda x, k: x)
    with pytest.raises(ConfigError, match="gradients"):
        solve(o, SPGSettings(nuclear_radius=1.0, entry_bound=1.0, line_search=False))
