"""The attack on one flipped rating: below every proved ε, strong where it can be, and through an unproved one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.evaluate.audit import audit, flips
from hushrec.evaluate.audit.flips import apart, flip_attack, flipped, influence, worst_neighbour
from hushrec.evaluate.papers.onebit import planted
from hushrec.privacy.signs import MeanValue, NoisySigns
from onebit.answers import answers

BUDGET = hr.Budget(1.0, 1e-6, unit="rating")


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize(
    "settings", [{"mechanism": "input"}, {"mechanism": "objective"}, {"mechanism": "output"}], ids=str
)
def test_the_best_attack_comes_near_a_proved_epsilon_and_never_passes_it(settings, link):
    data = planted(link, 0.15, 0).ratings
    attack = flip_attack(hr.OneBit(link=link, **settings), BUDGET, data, 3000, seed=1)
    assert attack.claim == hr.Budget(1.0, unit="rating")
    assert 0.7 < attack.epsilon_lower <= 1.0
    for _, moved, declared in attack.moved:
        assert 0.5 * declared <= moved <= declared * (1 + 1e-9)


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_the_best_attack_on_the_default_gradient_mechanism_stays_below_its_epsilon(link):
    """Both of its gradients together, the second where the first led to; three times the budget is seen to be more."""
    solver, data = hr.OneBit(mechanism="gradient", link=link), answers(users=12, items=9)
    attack = flip_attack(solver, BUDGET, data, 800, seed=6)
    assert attack.claim == hr.Budget(1.0, unit="rating")
    assert len(attack.moved) == solver.gradient_rounds == 2
    assert 0.3 < attack.epsilon_lower <= 1.0
    for _, moved, declared in attack.moved:
        assert 0.5 * declared <= moved <= declared * (1 + 1e-9)
    assert flip_attack(solver, hr.Budget(3.0, 1e-6, unit="rating"), data, 300, seed=7).epsilon_lower > 1.0


SEARCHED = [
    {"mechanism": "gradient", "gradient_rounds": 3, "clamp": None, "link": "probit"},
    {"mechanism": "output", "ridge": 0.05, "tau": 3.0},
    {"mechanism": "output", "ridge": 0.2, "rank": 1, "effects": False},
    {"mechanism": "output", "form": "paper", "tau": 4.0, "alpha": 0.5},
    {"mechanism": "objective", "threshold": "mean"},
]


@pytest.mark.parametrize("settings", SEARCHED, ids=str)
def test_the_worst_flip_that_is_found_is_nearly_the_worst_of_all(settings):
    solver, data = hr.OneBit(**settings), answers(users=12, items=9, seed=1)
    run = flips._run(solver, BUDGET, data, 0)
    every = np.array([apart(data, flipped(data, at), run) for at in range(data.n_ratings)])
    found = apart(data, worst_neighbour(solver, BUDGET, data), run)
    assert found >= 0.95 * every.max()
    if every.max() > 1.3 * np.median(every):  # where it matters which, a few evenly spaced ones are not enough
        assert found > 1.04 * every[np.linspace(0, len(every) - 1, 5).astype(int)].max()


def test_a_rating_whose_sign_the_other_end_of_the_range_does_not_turn_has_no_influence():
    stars = answers(value_range=(1.0, 5.0))
    values = stars.values.copy()
    values[:7] = 2.5  # below the middle, above the threshold: flipped to 5 it stays a yes
    reach = influence(NoisySigns(threshold=2.0), replace(stars, values=values))
    assert not reach[:7].any()
    assert reach[7:].all()
    assert influence(MeanValue(), replace(stars, values=values))[0] == pytest.approx(2.5)


def test_the_attack_sees_noise_that_is_too_small():
    """The same attack on twice the budget, held against the claim of once: it is caught."""
    twice = hr.Budget(2.0, 1e-6, unit="rating")
    attack = flip_attack(hr.OneBit(mechanism="input"), twice, answers(), 3000, seed=2)
    assert attack.epsilon_lower > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_the_papers_output_form_is_broken_as_a_release_of_the_matrix(link):
    data = planted(link, 0.15, 0).ratings
    attack = flip_attack(hr.OneBit(mechanism="output", form="paper", rank=1, link=link), BUDGET, data, 400, seed=3)
    assert attack.claim is None
    assert attack.epsilon_lower > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize(
    "settings", [{"mechanism": "gradient", "gradient_rounds": 3}, {"mechanism": "output", "ridge": 0.5}], ids=str
)
def test_no_attack_on_mechanisms_with_fits_passes_their_claim(settings, link):
    data = planted(link, 0.15, 0).ratings
    attack = flip_attack(hr.OneBit(link=link, **settings), BUDGET, data, 150, seed=4)
    assert attack.claim is not None
    assert attack.epsilon_lower <= 1.0
    assert all(moved <= declared * (1 + 1e-9) for _, moved, declared in attack.moved)


def test_the_audit_of_single_ratings_reports_both_checks():
    report = audit(hr.OneBit(mechanism="objective"), BUDGET, users=20, items=15, trainings=200, seed=0)
    assert report.passed
    assert {finding.check for finding in report.findings} == {"neighbours", "black box"}
    assert "one flipped rating" in report.to_text()
    with pytest.raises(hr.ConfigError, match="OneBit"):
        audit(hr.SVD(), BUDGET)


def test_a_flipped_rating_is_the_only_difference():
    data = answers()
    other = flipped(data, 5)
    assert np.flatnonzero(data.values != other.values).tolist() == [5]
