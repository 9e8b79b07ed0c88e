"""The attack on one flipped rating: below every proved ε, strong where it can be, and through an unproved one."""

from __future__ import annotations

import numpy as np
import pytest

import hushrec as hr
from hushrec.evaluate.audit import audit
from hushrec.evaluate.audit.flips import flip_attack, flipped
from hushrec.evaluate.papers.onebit import planted
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


def test_the_attack_sees_noise_that_is_too_small():
    """The same attack on twice the budget, held against the claim of once: it is caught."""
    twice = hr.Budget(2.0, 1e-6, unit="rating")
    attack = flip_attack(hr.OneBit(mechanism="input"), twice, answers(), 3000, seed=2)
    assert attack.epsilon_lower > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_the_papers_output_form_is_broken_as_a_release_of_the_matrix(link):
    data = planted(link, 0.15, 0).ratings
    attack = flip_attack(hr.OneBit(mechanism="output", form="paper", rank=1, link=link), BUDGET, data, 60, seed=3)
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
