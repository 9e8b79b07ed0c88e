"""Item and user effects: against a plain ridge regression, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from hushrec.onebit.effects import Effects, fit_effects
from hushrec.onebit.links import Logistic, Probit


def drawn(users=60, items=40, spread=0.15, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(scale=spread, size=users), rng.normal(scale=spread, size=items)
    rows, cols = np.nonzero(rng.random((users, items)) < 0.6)
    s = 0.55 + a[rows] + b[cols] + rng.normal(scale=noise, size=len(rows))
    return s, rows, cols, a, b


@pytest.mark.parametrize("link", [Logistic(), Probit(2.0)], ids=str)
def test_effects_solve_the_normal_equations_of_a_ridge_regression(link):
    s, rows, cols, _, _ = drawn()
    slope = link.derivative(np.zeros(1))[0]
    found = fit_effects(s, rows, cols, (60, 40), link)
    a, b = found.users * slope, found.items * slope
    left = s - 0.5 - found.overall * slope - a[rows] - b[cols]
    # at the minimum of Σ left² + κ_a Σ a² + κ_b Σ b², what an effect leaves over is its own penalty
    for effect, groups in ((a, rows), (b, cols)):
        over = np.bincount(groups, left)
        kappa = (over @ effect) / (effect @ effect)
        assert np.allclose(over, kappa * effect, atol=0.02 * np.abs(over).max())
        assert 0 < kappa < 10


def test_effects_are_found_and_their_spread_with_them():
    s, rows, cols, a, b = drawn(users=400, items=300)
    slope = 0.25
    found = fit_effects(s, rows, cols, (400, 300), Logistic())
    assert np.corrcoef(found.users, a)[0, 1] > 0.98
    assert np.corrcoef(found.items, b)[0, 1] > 0.98
    assert found.spread * slope == pytest.approx(0.15, rel=0.15)
    assert np.allclose(found.factors().toarray()[rows, cols], found.at(rows, cols))


def test_pure_noise_has_hardly_any_effects():
    s, rows, cols, _, _ = drawn(users=200, items=200, spread=0.0, noise=3.0)
    found = fit_effects(s, rows, cols, (200, 200), Logistic())
    assert np.abs(found.users).max() * 0.25 < 0.2
    assert np.abs(found.items).max() * 0.25 < 0.2


def test_no_answers_have_no_effects():
    empty = np.empty(0)
    found = fit_effects(empty, empty.astype(int), empty.astype(int), (3, 2), Logistic())
    assert np.array_equal(found.factors().toarray(), np.zeros((3, 2)))
    assert Effects.none((3, 2)).spread == 0.0
