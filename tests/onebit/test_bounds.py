"""The theorems' right-hand sides: how they scale, and which of the printed forms cannot be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hushrec.errors import ConfigError
from hushrec.onebit.bounds import Problem, clear_bound, input_bound, objective_bound, output_bound
from hushrec.onebit.links import Logistic, Probit

TASK = Problem(shape=(100, 100), rank=1, entry_bound=1.0, observed=1500)
PRIVATE = (input_bound, objective_bound, output_bound)


def task(**changes) -> Problem:
    return Problem(**(vars(TASK) | changes))


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=str)
def test_the_statistical_term_has_its_printed_shape(link):
    size = link.steepness(1.0) * link.flatness(1.0)
    crowding = np.sqrt(1 + 200 * np.log(200) / 1500)
    wanted = size * np.sqrt(200 / 1500) * crowding
    assert clear_bound(TASK, link).total == pytest.approx(wanted)
    assert clear_bound(TASK, link, constant=3.0).total == pytest.approx(3 * wanted)
    assert clear_bound(task(rank=4), link).total == pytest.approx(2 * wanted)
    printed = size * np.sqrt(200 / 1500) * (1500 + 10_000 * np.log(200)) ** 0.25 / np.sqrt(1500)
    assert clear_bound(TASK, link, form="paper").total == pytest.approx(printed)


def test_the_printed_crowding_term_beats_the_minimax_rate():
    """Davenport's lower bound falls as n^(-1/2); the printed form, between n = 10^5 and 10^6, faster: it is a slip."""
    few, many = (Problem(shape=(2000, 2000), rank=1, entry_bound=1.0, observed=n) for n in (10**5, 10**6))
    fall = {}
    for form in ("source", "paper"):
        low, high = (clear_bound(one, Logistic(), form=form).total for one in (few, many))
        fall[form] = np.log10(low / high)
    assert fall["source"] == pytest.approx(0.5, abs=0.1)
    assert fall["paper"] > 0.9


@pytest.mark.parametrize("bound", PRIVATE)
@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=str)
def test_privacy_costs_less_as_epsilon_grows_and_nothing_at_the_end(bound, link):
    prices = [bound(TASK, link, epsilon).privacy for epsilon in (0.5, 1, 4, 10, 1e9)]
    assert all(a > b >= 0 for a, b in pairwise(prices))
    assert bound(TASK, link, 1e9).total == pytest.approx(clear_bound(TASK, link).total, rel=1e-6)


def test_private_terms_have_their_printed_shape():
    b = Logistic().flatness(1.0)
    assert objective_bound(TASK, Logistic(), 2.0).privacy == pytest.approx(8 * np.sqrt(2) * b / (2 * 1500 ** (1 / 3)))
    assert output_bound(TASK, Logistic(), 2.0, form="paper").privacy == pytest.approx(np.log(200) ** 2 / 4)


def test_the_output_mechanisms_share_is_its_noise():
    noise = np.random.default_rng(0).laplace(scale=2 * 1.0 / 2.0, size=10**6)
    assert output_bound(TASK, Logistic(), 2.0).privacy == pytest.approx(float(np.mean(noise**2)), rel=0.01)


def test_settings_are_checked():
    for change in ({"observed": 0}, {"observed": 10_001}, {"rank": 0}, {"entry_bound": -1.0}):
        with pytest.raises(ConfigError):
            task(**change)
    for bound in PRIVATE:
        with pytest.raises(ConfigError, match="epsilon"):
            bound(TASK, Logistic(), 0.0)
    with pytest.raises(ConfigError, match="form"):
        clear_bound(TASK, Logistic(), form="other")
