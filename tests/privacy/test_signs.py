"""Questions about single ratings: worst-case neighbours, exact noise, and answers without noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.evaluate.audit.flips import flipped
from hushrec.onebit.links import Logistic, Probit
from hushrec.onebit.objective import make_objective
from hushrec.onebit.spg import SPGSettings, solve
from hushrec.privacy.curator import Curator
from hushrec.privacy.fits import FittedMatrix, FittedValues, SeparableFit, pattern_of
from hushrec.privacy.noise import SeededBits
from hushrec.privacy.signs import FlippedSigns, MeanValue, NoisyGradient, NoisySigns
from onebit.answers import answers

RATINGS = answers(users=12, items=9)
SETTINGS = SPGSettings(nuclear_radius=4.0, entry_bound=1.0)
WIDE = SPGSettings(nuclear_radius=1e3, entry_bound=1e2)
COUNT = RATINGS.n_ratings
X = np.linspace(-3.0, 3.0, COUNT)
FREE = hr.NonPrivate(unit="rating")
BUDGET = hr.Budget(0.7, 1e-6, unit="rating")


def gradient(link, clamp=None, **kind):
    no, yes = link.loss_gradient(X, np.zeros(COUNT)), link.loss_gradient(X, np.ones(COUNT))
    bound = link.steepness(3.0) * (1 + 1e-9)
    if clamp:
        no, yes, bound = np.clip(no, -clamp, clamp), np.clip(yes, -clamp, clamp), min(bound, 2 * clamp)
    return NoisyGradient(threshold=0.5, no=no, yes=yes, bound=bound, **kind)


QUERIES = [
    MeanValue(),
    NoisySigns(threshold=0.5),
    NoisySigns(threshold=0.5, noise="gaussian"),
    gradient(Logistic()),
    gradient(Probit(), noise="gaussian"),
    gradient(Probit(), clamp=0.5),
    SeparableFit(threshold=0.5, link=Logistic(), ridge=3.0),
    SeparableFit(threshold=0.5, link=Probit(0.5), ridge=20.0, noise="gaussian"),
    FittedValues(threshold=0.5, link=Logistic(), settings=replace(WIDE, iterations=1), ridge=0.05),
    FittedValues(threshold=0.5, link=Probit(0.8), settings=replace(WIDE, iterations=2, entry_bound=0.6), ridge=2.0),
    FittedValues(threshold=0.5, link=Logistic(), settings=SETTINGS, ridge=0.5),
    FittedValues(threshold=0.5, link=Probit(), settings=SETTINGS, ridge=0.1),
]
# What a fit that settled can move by is bounded for the worst data; these data need not reach half of it.
LOOSE = QUERIES[-2:]


def exact(query, ratings):
    entry = query.entry("exact", FREE, 1.0, pattern_of(ratings))
    return query.answer(ratings, entry, SeededBits(0))[0]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_no_flipped_rating_moves_an_answer_past_its_sensitivity_and_some_reach_half_of_it(query):
    entry = query.entry("one", BUDGET, 1.0, pattern_of(RATINGS))
    norm = 2 if entry.mechanism == "gaussian" else 1
    before, unit = exact(query, RATINGS), query.unit(entry)
    if isinstance(query, MeanValue):
        unit *= 0.5 / COUNT  # the answer is the mean, in values, of sums in half widths
    moved = [np.linalg.norm(exact(query, flipped(RATINGS, at)) - before, norm) / unit for at in range(COUNT)]
    assert max(moved) <= entry.sensitivity * (1 + 1e-9)
    assert max(moved) >= (0.05 if query in LOOSE else 0.5) * entry.sensitivity


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_the_price_of_an_answer_is_its_share_of_the_budget(query):
    for share in (1.0, 0.3):
        entry = query.entry("one", BUDGET, share, pattern_of(RATINGS))
        price = BUDGET.mu * share**0.5 if entry.mechanism == "gaussian" else BUDGET.epsilon * share
        assert (entry.mu if entry.mechanism == "gaussian" else entry.epsilon) == pytest.approx(price, rel=1e-9)
        assert entry.mu <= BUDGET.mu
        assert entry.epsilon <= BUDGET.epsilon


@pytest.mark.parametrize("query", [NoisySigns(threshold=0.5), NoisySigns(threshold=0.5, noise="gaussian")], ids=str)
def test_the_noise_has_the_declared_scale(query):
    big = answers(users=300, items=300, share=0.9)
    entry = query.entry("one", BUDGET, 1.0, pattern_of(big))
    noise = query.answer(big, entry, SeededBits(3))[0] - exact(query, big)
    declared = entry.scale * query.unit(entry) * (np.sqrt(2) if entry.mechanism == "laplace" else 1.0)
    # 81,000 samples: two thirds or three halves of the scale are a hundred standard errors away
    assert np.std(noise) == pytest.approx(declared, rel=0.02)
    assert np.mean(noise) == pytest.approx(0.0, abs=4 * declared / np.sqrt(len(noise)))


def test_signs_are_flipped_as_often_as_declared():
    big = answers(users=300, items=300, share=0.9)
    query = FlippedSigns(threshold=0.5)
    entry = query.entry("one", BUDGET, 1.0, pattern_of(big))
    turned = np.mean(query.answer(big, entry, SeededBits(4))[0] != exact(query, big))
    assert turned == pytest.approx(1 / (1 + np.exp(0.7)), abs=0.01)
    assert entry.mechanism == "randomized-response"


def test_a_gradient_whose_numbers_pass_their_bound_says_nothing_there():
    query = NoisyGradient(threshold=0.5, no=np.full(COUNT, -50.0), yes=np.full(COUNT, 50.0), bound=1.0)
    entry = query.entry("one", BUDGET, 1.0, pattern_of(RATINGS))
    a, b = (query.answer(one, entry, SeededBits(5))[0] for one in (RATINGS, flipped(RATINGS, 0)))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("link", [Logistic(), Logistic(0.5), Probit()], ids=str)
@pytest.mark.parametrize("ridge", [2.0, 15.0])
def test_where_nothing_binds_the_fit_is_two_numbers(link, ridge):
    """The closed form against the general solver."""
    query = SeparableFit(threshold=0.5, link=link, ridge=ridge)
    pattern = pattern_of(RATINGS)
    assert not query.binds(pattern, 10.0, 1e4)
    signs = RATINGS.values.astype(float)
    o = make_objective(pattern.rows, pattern.indices, signs, pattern.shape, link, ridge=ridge)
    fit = solve(o, SPGSettings(nuclear_radius=1e4, entry_bound=10.0, tolerance=1e-13, iterations=400)).matrix
    assert np.allclose(exact(query, RATINGS), fit.entries(pattern.rows, pattern.indices), atol=1e-6)
    whole = fit.toarray()
    whole[pattern.rows, pattern.indices] = 0.0
    assert np.abs(whole).max() < 1e-6


def test_whether_a_constraint_binds_is_decided_by_public_numbers():
    query = SeparableFit(threshold=0.5, link=Logistic(), ridge=2.0)
    no, yes = query.numbers()
    pattern = pattern_of(RATINGS)
    assert query.binds(pattern, 0.9 * yes, 1e9)
    assert query.binds(pattern, 1.0, yes * 0.99 * np.sqrt(9 * COUNT))
    assert not query.binds(pattern, 1.0, yes * 1.01 * np.sqrt(9 * COUNT))
    assert no == pytest.approx(-yes, rel=1e-9)


def test_the_papers_matrix_is_priced_for_one_entry_and_proved_for_none():
    query = FittedMatrix(threshold=0.5, link=Logistic(), settings=SETTINGS)
    entry = query.entry("one", BUDGET, 1.0, pattern_of(RATINGS))
    cells = 12 * 9
    assert entry.epsilon == pytest.approx(0.7 * cells, rel=1e-9)
    assert not query.proved
    noise = query.answer(RATINGS, entry, SeededBits(0))[0] - exact(query, RATINGS)
    assert np.mean(np.abs(noise)) == pytest.approx(2.0 / 0.7, rel=0.4)  # Laplace(2α/ε), 108 of them


def test_questions_need_their_unit_and_their_plan():
    asked = Curator(RATINGS, BUDGET)
    with pytest.raises(hr.BudgetError, match="not planned"):
        asked.release("signs", NoisySigns(threshold=0.5))
    for budget in (hr.Budget(1.0, 1e-6), hr.Budget(1.0, 1e-6, unit="rating", relation="add-remove")):
        curator = Curator(RATINGS, budget)
        curator.plan({"signs": 1.0})
        with pytest.raises(hr.ConfigError, match='unit="rating" and relation="replace-one"'):
            curator.release("signs", NoisySigns(threshold=0.5))


def test_two_coins_together_keep_the_budget():
    """Laplace and Gaussian shares of one budget could add up to more than it: the second is refused."""
    curator = Curator(RATINGS, BUDGET)
    curator.plan({"a": 0.5, "b": 0.5})
    curator.release("a", NoisySigns(threshold=0.5))
    with pytest.raises(hr.BudgetError, match="more than the budget"):
        curator.release("b", NoisySigns(threshold=0.5, noise="gaussian"))


def test_noise_is_not_put_on_noise():
    marked = replace(RATINGS, randomized=0.7)
    curator = Curator(marked, BUDGET)
    curator.plan({"signs": 1.0})
    with pytest.raises(hr.ConfigError, match="randomized already"):
        curator.release("signs", NoisySigns(threshold=0.5))
