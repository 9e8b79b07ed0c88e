"""What an epsilon means: figures of the notes, closed forms, and a simulated attacker's limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrec.errors import ConfigError
from hushrec.privacy.accounting import Budget, NonPrivate, gaussian_delta
from hushrec.privacy.meaning import (
    attack_success,
    epsilon_delta_tradeoff,
    explain_budget,
    gaussian_tradeoff,
    posterior_odds,
    pure_attack_success,
    roc,
)

RATES = np.concatenate([[0.0], np.logspace(-12, 0, 200)])


def test_the_figures_of_the_notes():
    meaning = explain_budget(Budget(1.0, 1e-6))
    assert meaning["mu"] == pytest.approx(0.2367, abs=5e-5)
    assert meaning["advantage"] == pytest.approx(0.094, abs=5e-4)
    assert meaning["tpr_at_1pct_fpr"] == pytest.approx(0.018, abs=5e-4)
    assert {"epsilon", "delta", "relation", "unit", "tpr_at_01pct_fpr"} <= meaning.keys()


def test_pure_budget_and_no_privacy():
    pure = explain_budget(Budget(1.0))
    assert pure["mu"] is None
    assert pure["advantage"] == pytest.approx((math.e - 1) / (math.e + 1), rel=1e-12)
    assert pure["tpr_at_1pct_fpr"] == pytest.approx(0.01 * math.e, rel=1e-12)
    assert explain_budget(NonPrivate())["advantage"] == 1.0
    assert explain_budget(NonPrivate())["tpr_at_1pct_fpr"] == 1.0


@given(st.floats(0.0, 8.0))
def test_advantage_is_the_largest_gap_of_the_curve(mu):
    alpha = np.linspace(0.0, 1.0, 20_001)
    gap = np.max(1.0 - alpha - gaussian_tradeoff(alpha, mu))
    assert gap == pytest.approx(attack_success(mu).advantage, abs=1e-3)
    assert gap <= attack_success(mu).advantage + 1e-12
    assert attack_success(mu).advantage == pytest.approx(gaussian_delta(mu, 0.0), rel=1e-9)


@given(st.floats(0.01, 5.0), st.floats(0.0, 20.0))
def test_gaussian_curve_lies_above_every_epsilon_delta_line_and_touches_it(mu, epsilon):
    delta = gaussian_delta(mu, epsilon)
    assert np.all(gaussian_tradeoff(RATES, mu) >= epsilon_delta_tradeoff(RATES, epsilon, delta) - 1e-9)
    from scipy.special import ndtr

    touching = ndtr(-epsilon / mu - mu / 2)  # where the likelihood ratio is e^epsilon
    line = epsilon_delta_tradeoff(touching, epsilon, delta)
    assert float(gaussian_tradeoff(touching, mu)) == pytest.approx(float(line), abs=1e-9)


def test_edges_of_the_curves():
    assert gaussian_tradeoff([0.0, 0.3, 1.0], 0.0) == pytest.approx([1.0, 0.7, 0.0])
    assert list(gaussian_tradeoff([0.0, 0.3, 1.0], math.inf)) == [0.0, 0.0, 0.0]
    assert epsilon_delta_tradeoff([0.0, 0.3, 1.0], 0.0) == pytest.approx([1.0, 0.7, 0.0])
    assert list(epsilon_delta_tradeoff([0.0, 0.3, 1.0], 1e6)) == [1.0, 0.0, 0.0]
    assert pure_attack_success(math.inf).advantage == 1.0


def test_randomized_response_reaches_the_pure_curve():
    epsilon = 1.3
    flip = 1.0 / (1.0 + math.exp(epsilon))
    assert float(epsilon_delta_tradeoff(flip, epsilon)) == pytest.approx(flip, rel=1e-12)


def test_roc_is_the_curve_from_corner_to_corner():
    false_positive, true_positive = roc(0.7, points=51)
    assert (false_positive[0], true_positive[0], false_positive[-1], true_positive[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(false_positive) > 0)
    assert np.all(true_positive >= false_positive)
    assert np.all(np.diff(true_positive) >= 0)


def test_posterior_odds():
    belief = posterior_odds(0.01, math.log(3.0))
    odds_before, odds_after = 0.01 / 0.99, belief.after_at_most / (1 - belief.after_at_most)
    assert odds_after / odds_before == pytest.approx(3.0, rel=1e-12)
    assert belief.except_with_probability == 0.0
    exception = posterior_odds(0.5, 1.0, mu=0.5).except_with_probability
    assert exception == pytest.approx(0.040059, abs=1e-6)
    assert exception >= gaussian_delta(0.5, 1.0)
    assert posterior_odds(0.5, math.inf).after_at_most == 1.0
    assert posterior_odds(0.5, 1.0, mu=0.0).except_with_probability == 0.0
    assert posterior_odds(0.5, 1.0, mu=math.inf).except_with_probability == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: gaussian_tradeoff(1.5, 1.0),
        lambda: gaussian_tradeoff(math.nan, 1.0),
        lambda: gaussian_tradeoff(0.5, -1.0),
        lambda: gaussian_tradeoff(0.5, math.nan),
        lambda: epsilon_delta_tradeoff(0.5, -1.0),
        lambda: epsilon_delta_tradeoff(0.5, 1.0, 1.5),
        lambda: attack_success(-1.0),
        lambda: pure_attack_success(math.nan),
        lambda: posterior_odds(0.0, 1.0),
        lambda: posterior_odds(0.5, 1.0, mu=-1.0),
        lambda: roc(1.0, points=1),
    ],
)
def test_refused(call):
    with pytest.raises(ConfigError):
        call()
