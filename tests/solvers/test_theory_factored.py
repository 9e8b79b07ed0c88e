"""Table 1 and Theorem 5.2 of the DPLMC paper, against its formulas worked out another way."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import hushrec as hr
from hushrec.solvers import theory_factored as theory

BASE = {"users": 3e5, "items": 2e3, "rank": 4.0, "observed": 5e7, "epsilon": 2.0}


def exponent(function, method, name):
    """How the order grows with one of its arguments."""
    names = ("users", "items", "rank") if function is theory.sample_complexity else tuple(BASE)
    base = {key: BASE[key] for key in names}
    return math.log(function(method, **{**base, name: 8 * base[name]}) / function(method, **base)) / math.log(8)


@pytest.mark.parametrize(
    ("method", "users", "items", "rank"), [("frank-wolfe", 0.5, 1, 0), ("als", 1, 0, 6), ("dplmc", 1, 0, 2)]
)
def test_sample_complexity_has_the_exponents_of_table_1(method, users, items, rank):
    for name, expected in (("users", users), ("items", items), ("rank", rank)):
        assert exponent(theory.sample_complexity, method, name) == pytest.approx(expected, abs=1e-9)
    assert theory.sample_complexity(method, 1, 1, 1) == 1


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("frank-wolfe", {"users": -0.4, "items": 0.5, "rank": 1, "observed": 0, "epsilon": -0.4}),
        ("als", {"users": -1, "items": 2, "rank": 5, "observed": -1, "epsilon": -2}),
        ("dplmc", {"users": -1, "items": 2, "rank": 4, "observed": -1, "epsilon": -2}),
    ],
)
def test_utility_has_the_exponents_of_table_1(method, expected):
    for name, power in expected.items():
        assert exponent(theory.utility, method, name) == pytest.approx(power, abs=1e-9)
    assert theory.utility(method, 1, 1, 1, 1, 1) == 1


def test_rates_are_linear_but_for_frank_wolfe():
    assert {name: row.rate for name, row in theory.TABLE.items()} == {
        "frank-wolfe": "sublinear",
        "als": "linear",
        "dplmc": "linear",
    }


def error_of_the_proof(omega, density, items, rank=5, users=1e4, incoherence=0.5, rounds=30, epsilon=3.0):
    """4κ r² ν₁² + n r ν₂²/(σ_r p²), ε₂ in the proof of Theorem 5.2, with its ν₁, ν₂, α₁, α₂ and σ₁ = σ_r = 1."""
    most = density * items
    alpha_1, alpha_2 = math.sqrt(incoherence * rank / users), math.sqrt(incoherence * rank / items)
    common = rounds * (math.log(1e5) + epsilon) / epsilon**2
    nu_1 = alpha_1**2 * math.sqrt(8 * common / omega)
    nu_2 = alpha_1**2 * alpha_2 * math.sqrt(64 * most * common / (1 - omega))
    return 4 * rank**2 * nu_1**2 + items * rank * nu_2**2 / density**2


@pytest.mark.parametrize(("density", "items"), [(0.48, 100.0), (0.02, 3000.0), (1.0, 10.0)])
def test_the_share_of_theorem_5_2_costs_at_most_twice_the_least_error(density, items):
    """Where the incoherence is ½ the proof's error is a multiple of `noise_error`; elsewhere the order is the same."""
    ratios = [
        error_of_the_proof(omega, density, items) / theory.noise_error(omega, density, items)
        for omega in (0.001, 0.1, 0.7)
    ]
    assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-9)
    omega = theory.balance_share(density, items)
    assert omega == pytest.approx(1 / (1 + density * items / density**2))
    least = minimize_scalar(
        lambda at: theory.noise_error(1 / (1 + math.exp(-at)), density, items), bracket=(-5, 0), tol=1e-12
    )
    assert 1.0 < theory.noise_error(omega, density, items) / least.fun <= 2.0
    best = 1 / (1 + math.exp(-least.x))
    assert best == pytest.approx(1 / (1 + math.sqrt(items / density)), rel=1e-5)


def test_the_contraction_bounds_what_gradient_rounds_do_near_the_solution():
    """Dense gradient descent on the fully observed loss, all singular values 1, from a near start: as fast at least."""
    rng = np.random.default_rng(0)
    left, right = np.linalg.qr(rng.normal(size=(60, 3)))[0], np.linalg.qr(rng.normal(size=(20, 3)))[0]
    truth, step = left @ right.T, 0.2
    users, items = left + 0.01 * rng.normal(size=left.shape), right + 0.01 * rng.normal(size=right.shape)

    def distance():
        turn, _, back = np.linalg.svd(np.vstack((left, right)).T @ np.vstack((users, items)))
        return np.linalg.norm(np.vstack((users, items)) - np.vstack((left, right)) @ (turn @ back)) ** 2

    before = distance()
    for _ in range(10):
        error, balance = users @ items.T - truth, users.T @ users - items.T @ items
        users, items = (
            users - step * error @ items - step / 2 * users @ balance,
            items - step * error.T @ users + step / 2 * items @ balance,
        )
    assert distance() < theory.contraction(step, 1.0) ** 10 * before
    assert theory.contraction(step, 1.0) == pytest.approx(1 - 0.2 * (42 / 43) / 20)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: theory.sample_complexity("svd", 1, 1, 1),
        lambda: theory.utility("als", 1, 1, 1, 0, 1),
        lambda: theory.balance_share(0.0, 10),
        lambda: theory.noise_error(1.0, 0.5, 10),
    ],
)
def test_arguments_are_checked(wrong):
    with pytest.raises(hr.ConfigError, match=r"method|observed|density|share"):
        wrong()
