"""The paper's bounds: exponents, optima and examples, each against an independent calculation."""

import dataclasses
import functools
import math
import re

import numpy as np
import pytest

import hushrec as hr
from hushrec.data.ratings import Ratings
from hushrec.solvers import theory
from hushrec.solvers.theory import Setting, rank_one

BASE = Setting(users=1e5, items=400, ratings=4e6, nuclear_norm=3e3, row_norm=2.0, epsilon=1.0, delta=1e-6)


def exponent(function, name, factor=16.0):
    scaled = dataclasses.replace(BASE, **{name: getattr(BASE, name) * factor})
    return math.log(function(scaled) / function(BASE)) / math.log(factor)


@pytest.mark.parametrize(
    ("name", "expected"), [("nuclear_norm", 6 / 5), ("row_norm", 4 / 5), ("ratings", -1.0), ("epsilon", -2 / 5)]
)
def test_the_rate_of_theorem_3_2_is_its_bound_at_the_best_rounds(name, expected):
    assert exponent(theory.empirical_rate, name) == pytest.approx(expected)
    assert exponent(theory.frank_wolfe_bound, name) == pytest.approx(expected)
    assert exponent(theory.empirical_rate, "items") == pytest.approx(1 / 5)


@pytest.mark.parametrize(
    ("name", "expected"), [("nuclear_norm", 4 / 5), ("epsilon", 2 / 5), ("row_norm", -4 / 5), ("ratings", 0.0)]
)
def test_best_rounds_have_the_papers_exponents_and_are_best(name, expected):
    assert exponent(theory.best_rounds, name) == pytest.approx(expected)
    best = theory.best_rounds(BASE)
    for factor in (0.8, 0.99, 1.01, 1.25):
        assert theory.frank_wolfe_bound(BASE, best) < theory.frank_wolfe_bound(BASE, factor * best)


def test_equation_3_by_hand():
    noise = math.sqrt(math.sqrt(400) * math.sqrt(math.log(1e6)) * math.log(400))
    expected = 9e6 / (4e6 * 10) + 3e3 * 10**0.25 * 2.0 * noise / 4e6
    assert theory.frank_wolfe_bound(BASE, 10) == pytest.approx(expected)


def test_theorem_a_1_as_published():
    assert theory.nonprivate_bound(BASE, 20, slack=0.5) == pytest.approx(9e6 / (2 * 4e6 * 20) + 0.5)


# --- what is proved, against runs of the solver -----------------------------------------------------


def seen_whole(matrix):
    """Ratings of every entry of a matrix inside [−1, 1]."""
    users, items = matrix.shape
    rows, columns = np.divmod(np.arange(users * items), items)
    return Ratings.from_codes(rows, columns, matrix.ravel(), items=np.arange(items), value_range=(-1, 1), n_users=users)


def risk_and_gap(ratings, norm, rounds, **settings):
    """The run's own empirical risk f(Y_T), and a lower end for min f, from its duality gap."""
    solver = hr.FrankWolfe(
        readout="replay", iterations=rounds, nuclear_norm=norm, item_means=False, user_mean="none", **settings
    )
    note = hr.fit(ratings, solver, hr.NonPrivate()).notes[-1]
    risk, gap = (float(re.search(rf"{word} ([0-9.e+-]*[0-9])", note)[1]) for word in ("risk", "gap"))
    return risk, risk - gap


def setting_of(ratings, norm):
    squares = np.add.reduceat(np.square(ratings.values.astype(float)), ratings.indptr[:-1])
    return Setting(
        users=ratings.n_users,
        items=ratings.n_items,
        ratings=ratings.n_ratings,
        nuclear_norm=norm,
        row_norm=math.sqrt(squares.max()),
    )


def rank_one_matrix(users=30, items=20):
    rng = np.random.default_rng(0)
    return np.outer(rng.uniform(-1, 1, users), rng.uniform(-1, 1, items)).astype(np.float32).astype(float)


def test_theorem_a_1_fails_as_published_with_its_own_step():
    """Rank one, seen whole, k its norm, so that min f = 0: after T steps of 1/T, (1 − 1/T)^T of Y* is missing."""
    matrix = rank_one_matrix()
    norm, ratings = np.linalg.norm(matrix), seen_whole(matrix)
    setting = setting_of(ratings, norm)
    start = norm**2 / (2 * ratings.n_ratings)
    for rounds in (10, 60):
        risk, _ = risk_and_gap(ratings, norm, rounds, step="paper")
        assert risk == pytest.approx((1 - 1 / rounds) ** (2 * rounds) * start, rel=1e-6)
        assert risk > 1.2 * theory.nonprivate_bound(setting, rounds)
        assert risk <= theory.excess_risk_bound(setting, rounds, step="paper")
    assert risk > 7 * theory.nonprivate_bound(setting, 60)


@functools.cache
def half_seen(part):
    """Noisy ratings of half of a rank-one matrix, `part` of its norm as k, and a lower end for min f."""
    matrix = rank_one_matrix()
    rng = np.random.default_rng(1)
    noisy = np.clip(matrix + 0.3 * rng.normal(size=matrix.shape), -1, 1)
    rows, columns = np.nonzero(rng.random(matrix.shape) < 0.5)
    ratings = Ratings.from_codes(
        rows, columns, noisy[rows, columns], items=np.arange(20), value_range=(-1, 1), n_users=30
    )
    norm = part * np.linalg.norm(matrix)
    return ratings, norm, max(risk_and_gap(ratings, norm, 100, step_scale=2.0)[1], 0.0)


@pytest.mark.parametrize(
    "settings", [{"step_scale": 1.0}, {"step_scale": 2.0}, {"step_scale": 3.5}, {"step_scale": 0.5}, {"step": "paper"}]
)
@pytest.mark.parametrize("part", [0.2, 1.0, 3.0])
def test_the_proved_bound_holds_for_the_steps_that_are_made(settings, part):
    """With a ball that is smaller and one that is larger than the matrix."""
    ratings, norm, least = half_seen(part)
    own = {"step": settings.get("step", "harmonic"), "scale": settings.get("step_scale", 1.0)}
    for rounds in (1, 2, 4, 16):
        risk, _ = risk_and_gap(ratings, norm, rounds, **settings)
        assert risk - least <= theory.excess_risk_bound(setting_of(ratings, norm), rounds, **own)


def test_the_curvature_is_reached_and_never_passed():
    """C_f by its definition: 2/η² times what f(X + η(S − X)) lies above its tangent at X."""
    rng = np.random.default_rng(2)
    target, seen, k = rng.normal(size=(6, 5)), rng.random((6, 5)) < 0.6, 3.0
    seen[1, 2] = True
    setting = Setting(users=6, items=5, ratings=seen.sum(), nuclear_norm=k, row_norm=1.0)

    def curve(x, s, eta):
        def f(y):
            return (np.where(seen, y - target, 0.0) ** 2).sum() / (2 * seen.sum())

        step = eta * (s - x)
        return 2 / eta**2 * (f(x + step) - f(x) - (step * np.where(seen, x - target, 0.0)).sum() / seen.sum())

    corner = np.zeros((6, 5))
    corner[1, 2] = k
    assert curve(-corner, corner, 0.5) == pytest.approx(theory.curvature(setting))
    for _ in range(200):
        ends = [rng.normal(size=(6, 5)) for _ in range(2)]
        x, s = (k * end / np.linalg.svd(end, compute_uv=False).sum() for end in ends)
        assert curve(x, s, rng.uniform(0.1, 1.0)) <= theory.curvature(setting)


@pytest.mark.parametrize("rounds", [1, 2, 5, 30, 200])
def test_the_closed_forms_of_the_bound(rounds):
    curvature, slack = theory.curvature(BASE), 0.01
    start = BASE.users * BASE.row_norm**2 / (2 * BASE.ratings)

    def bound(**step):
        return theory.excess_risk_bound(BASE, rounds, slack=slack, **step)

    assert bound(scale=2.0) <= 2 * curvature / (rounds + 2) + slack
    assert bound(scale=2.0) >= 0.6 * (2 * curvature / (rounds + 2) + slack)
    harmonic = sum(1 / t for t in range(1, rounds + 1))
    assert bound(scale=1.0) == pytest.approx(curvature * harmonic / (2 * rounds) + slack)
    left = (1 - 1 / rounds) ** rounds
    assert bound(step="paper") == pytest.approx(left * start + (1 - left) * (curvature / (2 * rounds) + slack))


def test_corollary_3_1_vanishes_in_remark_3s_setting_beyond_n_to_the_5_4():
    """With |Ω| = m√n the private term depends on m/n^(5/4) alone, up to a factor that tends to 1."""
    values = []
    for n in (1e4, 1e6, 1e8):
        for ratio in (1e2, 1e4):
            values.append(theory.generalization_bound(rank_one(ratio * n**1.25, n))[0])
    assert values[0::2] == pytest.approx([values[0]] * 3, rel=0.01)
    assert values[0] > 5 * values[1]
    # The other term is 1 at |Ω| = m√n: only the remark's further logarithms of ratings make it vanish.
    example = rank_one(1e12, 1e4)
    more = dataclasses.replace(example, ratings=8 * example.ratings)
    assert theory.generalization_bound(example)[1] == pytest.approx(1.0, rel=1e-6)
    assert theory.generalization_bound(more)[1] == pytest.approx(0.25, rel=1e-6)
    assert theory.generalization_rounds(BASE) == pytest.approx(3e3 ** (4 / 3) / (4e6 * 100_400) ** (1 / 3))


def test_theorem_b_3_in_remark_5s_setting():
    """Rank one, Θ(1) entries, |Ω| = m√n, L = n^¼: n²/m² for privacy (times 64 log(1/δ)), 1/√n for completion."""
    m, n = 1e6, 400.0
    setting = rank_one(m, n)
    private, completion = theory.svd_bound(setting, spectral_norm=math.sqrt(m * n))
    assert private == pytest.approx(64 * math.log(1e6) * n**2 / m**2)
    assert completion == pytest.approx(math.log(m) / math.sqrt(n))
    other, _ = theory.svd_bound(setting, spectral_norm=math.sqrt(m * n), incoherence=1.0)
    assert other == pytest.approx(min(math.sqrt(n), n / m) * m**3 * n**4 * 64 * math.log(1e6) / (m * math.sqrt(n)) ** 4)


def test_the_tables():
    table = theory.sample_complexity(256)
    assert table["private Frank-Wolfe"] == (pytest.approx(1024.0), 16.0)
    assert table["nuclear norm, not private"] == (256, 16.0)
    errors = theory.approximation_errors(1e10, 1e5)
    trivial = math.sqrt(1e10)
    assert errors["private Frank-Wolfe"][0] < trivial
    assert errors["private SVD"][0] < trivial
    assert errors["randomized response"][0] >= trivial
    assert errors["private Frank-Wolfe"][1] == pytest.approx(1e4 / 10)


def test_users_needed_is_where_the_structure_shows():
    """Planted data with known structure: below half of the number nothing is found, above twice it is."""
    budget = hr.Budget(2.0, 1e-6)
    needed = theory.users_needed(50, budget, ratings_per_user=15, structure=1.0)
    ranks = []
    for users in (needed // 3, 3 * needed):
        train, _ = hr.synthetic(users=users, items=50, rank=1, per_user=15, seed=1)
        release = hr.fit(train, hr.SVD(means_share=0.1), budget, seed=0)
        ranks.append(release.arrays["loadings"].shape[1] - 1)
    assert ranks[0] == 0
    assert ranks[1] >= 1


def test_users_needed_grows_with_items_and_falls_with_epsilon():
    one = theory.users_needed(400, hr.Budget(1.0, 1e-6))
    assert theory.users_needed(1600, hr.Budget(1.0, 1e-6)) == pytest.approx(4 * one, rel=1e-3)
    assert theory.users_needed(400, hr.Budget(5.0, 1e-6)) < one / 4
    assert theory.users_needed(400, hr.Budget(1.0, 1e-6, relation="add-remove")) == pytest.approx(
        one / 2**0.5, rel=1e-3
    )
    assert theory.users_needed(400, hr.NonPrivate()) == 1
    report = theory.budget_report(10 * one, 400, hr.Budget(1.0, 1e-6))
    assert report["worth_training"]
    assert report["users_needed"] == one
    assert "Theorem A.1" in report["remark"]


@pytest.mark.parametrize(
    ("budget", "name"), [(hr.Budget(1.0, 1e-6, unit="rating"), "unit"), (hr.Budget(1.0, 0.0), "delta")]
)
def test_theory_for_users_is_not_told_of_other_budgets(budget, name):
    with pytest.raises(hr.ConfigError, match=name):
        theory.budget_report(1000, 100, budget)


@pytest.mark.parametrize(
    "wrong", [{"items": 1}, {"ratings_per_user": 0}, {"ratings_per_user": 401}, {"structure": 0.0}, {"structure": 1.5}]
)
def test_arguments_are_checked(wrong):
    arguments = {"items": 400, **wrong}
    with pytest.raises(hr.ConfigError, match=next(iter(wrong))):
        theory.users_needed(arguments.pop("items"), hr.Budget(1.0, 1e-6), **arguments)


@pytest.mark.parametrize("wrong", [{"users": 0.0}, {"epsilon": math.nan}, {"delta": 1.0}])
def test_settings_are_checked(wrong):
    with pytest.raises(hr.ConfigError, match=next(iter(wrong))):
        dataclasses.replace(BASE, **wrong)
