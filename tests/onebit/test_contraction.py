"""The pooled ridge fit: the minimiser where it has settled, and what one sign moves where it has not."""

from __future__ import annotations

import numpy as np
import pytest

import hushrec as hr
from hushrec.errors import ConfigError
from hushrec.onebit import contraction
from hushrec.onebit.contraction import Contraction, projected
from hushrec.onebit.links import Flipped, Link, Logistic, Probit
from hushrec.onebit.objective import Objective, make_objective
from hushrec.onebit.spectral import simplex_projection
from hushrec.onebit.spg import SPGSettings, solve
from onebit.answers import answers
from onebit.planted import planted

LINKS = [Logistic(), Probit(0.7)]


def rule(link: Link, **changes) -> Contraction:
    usual = {"link": link, "ridge": 0.3, "radius": 12.0, "bound": 1.0, "most": 60}
    return Contraction(**(usual | changes))


def without(objective: Objective, entry: int) -> Objective:
    """The neighbour with one sign turned."""
    s = objective.s.copy()
    s[entry] = 1.0 - s[entry]
    return make_objective(objective.rows, objective.cols, s, objective.shape, objective.link)


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_once_settled_it_is_the_minimiser_that_the_general_solver_finds(link, monkeypatch):
    monkeypatch.setattr(contraction, "SETTLED", 1e-9)
    objective, _ = planted(link, seed=4, ridge=0.3)
    wanted = solve(objective, SPGSettings(nuclear_radius=12.0, entry_bound=1.0, tolerance=1e-13, iterations=400))
    assert wanted.certificate.distance < 1e-4
    assert wanted.certificate.nuclear_norm > 11.99  # the ball binds, the box does not
    assert wanted.certificate.largest_entry <= 1.0
    X = rule(link).fit(objective)
    assert np.linalg.norm(X - wanted.matrix.toarray()) <= wanted.certificate.distance + 1e-6


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_after_so_many_steps_the_minimiser_is_as_near_as_was_meant(link, monkeypatch):
    objective, _ = planted(link, seed=5)
    early = rule(link).fit(objective)
    monkeypatch.setattr(contraction, "SETTLED", 1e-12)
    settled = rule(link).fit(objective)
    monkeypatch.undo()
    allowed = contraction.SETTLED * min(rule(link).steepest / 0.3, 12.0)
    assert 0 < np.linalg.norm(early - settled) <= allowed
    # no more steps than that takes for the worst ratings
    assert rule(link).rate ** (rule(link).steps - 1) * 12.0 > allowed


@pytest.mark.parametrize("link", LINKS, ids=str)
@pytest.mark.parametrize("ridge", [0.02, 0.5])
def test_a_step_brings_any_two_matrices_together_and_some_no_faster_than_said(link, ridge):
    objective, _ = planted(link, seed=6)
    rng, shares = np.random.default_rng(0), []
    for radius in (12.0, 1e6):
        steps = rule(link, ridge=ridge, radius=radius)
        for scale in (0.01, 1.0, 30.0):
            X, Y = scale * rng.standard_normal((2, *objective.shape))
            apart = np.linalg.norm(steps.step(X, objective) - steps.step(Y, objective))
            shares.append(apart / np.linalg.norm(X - Y))
    assert max(shares) <= steps.rate * (1 + 1e-9)
    assert max(shares) > 0.8 * steps.rate


@pytest.mark.parametrize("link", LINKS, ids=str)
@pytest.mark.parametrize("most", [1, 2, 5, 60])
@pytest.mark.parametrize("radius", [3.0, 1e4])
def test_one_sign_moves_no_run_further_than_proved_converged_or_not(link, most, radius):
    """A ridge at which 5 steps are far from enough; a ball that always binds, and one that never does."""
    objective, _ = planted(link, seed=7)
    steps = rule(link, ridge=0.02, most=most, radius=radius, bound=4.0)
    assert min(most, 30) <= steps.steps <= most
    before = steps.values(objective)
    moved = [np.linalg.norm(steps.values(without(objective, k)) - before) for k in range(0, objective.count, 20)]
    assert max(moved) <= steps.moved(objective.count)
    if most == 1 and radius > 100 and isinstance(link, Logistic):  # its L is reached at 0
        assert max(moved) > 0.999 * steps.moved(objective.count)


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_far_outside_the_bound_a_sign_weighs_no_more_than_at_it(link):
    """The probit score grows without end: only a loss that goes on straight keeps L."""
    objective, _ = planted(link, seed=10)
    steps = rule(link, radius=1e6)
    X = 30.0 * np.random.default_rng(0).standard_normal(objective.shape)
    moved = [np.linalg.norm(steps.step(X, objective) - steps.step(X, without(objective, k))) for k in range(20)]
    assert max(moved) <= steps.length * steps.steepest
    assert max(moved) > 0.99 * steps.length * steps.steepest


def test_the_bound_grows_to_that_of_the_minimisers_and_stays_below():
    bounds = [rule(Logistic(), ridge=0.02, most=most).moved(1000) for most in (1, 3, 10, 30)]
    assert bounds == sorted(bounds)
    assert 0.9 / 0.02 < bounds[-1] < 1.0 / 0.02
    assert bounds[0] == pytest.approx(2.0 / (2 * 0.02 + 0.25), rel=1e-6)


@pytest.mark.parametrize("link", [Logistic(), Logistic(0.4), Probit(), Probit(2.0)], ids=str)
def test_the_curvature_that_sets_the_step_is_a_bound(link):
    x = np.linspace(-60.0, 60.0, 200_001)
    for s in (0.0, 1.0):
        bend = np.diff(link.loss_gradient(x, np.full_like(x, s))) / (x[1] - x[0])
        assert bend.min() >= -1e-9
        assert 0.9 * link.curvature < bend.max() <= link.curvature * (1 + 1e-6)


def test_as_many_steps_are_made_whatever_the_ratings_are(monkeypatch):
    """Settled ratings, contradictory ones, and a fit that is nowhere near: nothing of it decides anything."""
    made = []
    monkeypatch.setattr(contraction, "projected", lambda V, radius: made.append(1) or projected(V, radius))
    objective, _ = planted(Logistic(), seed=8)
    counts = set()
    for s in (objective.s, np.ones(objective.count), np.arange(objective.count) % 2):
        one = make_objective(objective.rows, objective.cols, s, objective.shape, objective.link)
        made.clear()
        rule(Logistic(), ridge=1e-4, most=7).fit(one)
        counts.add(len(made))
    assert counts == {7}


def test_a_fit_that_has_not_converged_is_released_at_its_full_guarantee():
    """A ridge at which 60 steps settle nothing: what was a refusal that told of the ratings is a plain release."""
    solver = hr.OneBit(mechanism="output", ridge=1e-4, iterations=2, alpha=0.5)
    promise = hr.fit(answers(), solver, hr.Budget(1.0, 1e-6, unit="rating")).guarantee
    assert (promise.epsilon, promise.delta) == (1.0, 1e-6)
    assert 0.99 < promise.spent <= 1.0


def test_values_are_cut_at_the_bound_and_the_loss_goes_on_straight_beyond():
    objective, _ = planted(Logistic(), seed=9)
    loose = rule(Logistic(), ridge=0.01, radius=1e4, bound=0.4)
    X = loose.fit(objective)[objective.rows, objective.cols]
    assert np.abs(X).max() > 1.0
    assert np.abs(loose.values(objective)).max() == 0.4
    # far outside, the slope is that at the bound: x = −ℓ'(α)/λ is where it stands against the ridge
    assert np.abs(X).max() <= Logistic().score(np.array([-0.4]))[0] / 0.01


@pytest.mark.parametrize("shape", [(12, 30), (30, 12), (7, 7), (1, 5)])
def test_the_projection_is_that_of_the_singular_values(shape, monkeypatch):
    V = np.random.default_rng(0).standard_normal(shape)
    u, s, vt = np.linalg.svd(V, full_matrices=False)
    for radius in (0.3 * s.sum(), 2.0 * s.sum()):
        wanted = (u * simplex_projection(s, radius)) @ vt
        assert np.allclose(projected(V, radius), wanted, atol=1e-12)
    assert not projected(np.zeros(shape), 1.0).any()

    def fails(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "svd", fails)  # the quick routine may give up: the other does not
    assert np.allclose(projected(V, 0.3 * s.sum()), (u * simplex_projection(s, 0.3 * s.sum())) @ vt, atol=1e-12)


def test_settings_are_checked():
    for change in ({"ridge": 0.0}, {"radius": np.inf}, {"bound": np.nan}):
        with pytest.raises(ConfigError, match=next(iter(change))):
            rule(Logistic(), **change)
    with pytest.raises(ConfigError, match="logistic and the probit link"):
        rule(Flipped(Logistic(), 0.1))
