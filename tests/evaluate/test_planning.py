"""Plans: what they foretell against what generated ratings then give, and what they say."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import hushrec as hr
from hushrec.cli import app
from hushrec.data.synthetic import surrogate
from hushrec.errors import ConfigError
from hushrec.evaluate.planning import Forecast, ItemMeansOnly, Plan, check_plan, chosen_solver
from hushrec.privacy.accounting import gaussian_epsilon

SHAPE = {"users": 3000, "items": 60, "ratings_per_user": 20.0, "value_range": (1.0, 5.0)}
BUDGET = hr.Budget(2.0, 1e-6)


@pytest.fixture(scope="module")
def made():
    return hr.plan(**SHAPE, budget=BUDGET, epsilons=(0.5, 8.0))


def rmse(ratings, solver, budget, seed=5):
    train, test = hr.split(ratings, test=0.1, seed=seed)
    return hr.evaluate(hr.fit(train, solver, budget, seed=seed), train, test)["rmse"]


def test_the_lines_stand_in_order(made):
    assert [one.epsilon for one in made.forecasts] == [0.5, 2.0, 8.0]
    errors = [one.rmse for one in made.forecasts]
    assert errors[0] > errors[-1] > made.non_private * 0.995
    assert errors[-1] < made.exact_means  # with enough budget, a model beats even exact means
    assert all(one.rmse < 1.01 * one.means_only for one in made.forecasts)
    assert made.expected is made.forecasts[1]


def test_it_foretells_other_ratings_of_that_shape(made):
    ratings = surrogate(**SHAPE, seed=77, rank=2)
    measured = {eps: rmse(ratings, made.solver, replace(BUDGET, epsilon=eps)) for eps in (0.5, 2.0, 8.0)}
    found = check_plan(made, measured)
    assert found["worst"] < 0.05
    assert found["worst_shape"] < 0.02
    assert rmse(ratings, ItemMeansOnly(), BUDGET) == pytest.approx(made.expected.means_only, rel=0.05)


def test_fewer_simulated_users_foretell_the_same():
    whole = {**SHAPE, "users": 8000}
    plans = [hr.plan(**whole, budget=BUDGET, epsilons=(), solver=hr.SVD(), most_ratings=m) for m in (10**6, 50_000)]
    assert [one.simulated_users for one in plans] == [8000, 2500]
    assert plans[1].expected.rmse == pytest.approx(plans[0].expected.rmse, rel=0.02)
    unscaled = rmse(surrogate(**{**SHAPE, "users": 2500}, rank=2), hr.SVD(), BUDGET, seed=0)
    assert unscaled > plans[1].expected.rmse * 1.01  # what would come out without the larger μ


@pytest.mark.slow
def test_it_foretells_a_large_planted_set_from_far_fewer_users():
    """70,000 users × 10,000 items with other tastes (rank 5) than the plan supposes; ratings, 10 million."""
    shape = {"users": 70_000, "items": 10_000, "ratings_per_user": 143.0, "value_range": (1.0, 5.0)}
    budget = hr.Budget(1.0, 1e-5, relation="add-remove")
    plan = hr.plan(**shape, budget=budget, epsilons=(1.0, 10.0))
    assert plan.simulated_users < 10_000
    ratings = surrogate(**shape, seed=1000, rank=5)
    found = check_plan(plan, {eps: rmse(ratings, plan.solver, replace(budget, epsilon=eps), 0) for eps in (1.0, 10.0)})
    assert found["worst"] < 0.03


def test_the_default_stays_unless_another_is_clearly_better():
    tried = [hr.Posterior(), hr.SVD(), ItemMeansOnly()]
    assert chosen_solver(tried, [1.0, 0.999, 1.2]) is tried[0]
    assert chosen_solver(tried, [1.0, 0.98, 1.2]) is tried[1]
    assert chosen_solver(tried, [1.0, 1.1, 0.9]) is tried[2]


def made_up(made, errors, **changes):
    forecasts = [Forecast(epsilon=e, rmse=r, means_only=1.0) for e, r in zip((0.5, 2.0, 8.0), errors, strict=True)]
    return replace(made, forecasts=tuple(forecasts), non_private=0.8, exact_means=1.0, **changes)


def test_gains_and_users_needed(made):
    plan = made_up(made, (1.0, 0.95, 0.85))
    assert [round(plan.gain(one), 6) for one in plan.forecasts] == [0.0, 0.25, 0.75]
    # Half way between 25 % and 75 %: the geometric mean of the numbers of users that the two ε stand for.
    ratio = hr.Budget(8.0, 1e-6).mu / BUDGET.mu
    assert plan.users_for_half == pytest.approx(3000 * ratio**0.5)
    assert "25%" in plan.advice
    assert "users" in plan.advice
    assert made_up(made, (1.0, 1.0, 0.99)).advice.startswith("Too small")
    assert made_up(made, (1.0, 1.0, 0.99)).users_for_half is None
    assert "Half" not in made_up(made, (0.9, 0.85, 0.81)).advice


def test_a_model_that_does_best_with_noise_is_measured_against_that(made):
    """Without noise a model of few ratings may overfit; that says nothing against the one with noise."""
    plan = replace(made_up(made, (1.0, 0.95, 0.85)), non_private=1.2)
    assert [round(plan.gain(one), 6) for one in plan.forecasts] == [0.0, round(0.05 / 0.15, 6), 1.0]
    assert plan.best == 0.85
    assert "33% of the way to 0.85 (best at any ε)" in plan.advice
    assert plan.table().rows[0]["best at any ε"] == 0.85
    assert (plan.to_dict()["best"], plan.to_dict()["non_private"]) == (0.85, 1.2)
    noisy_means = replace(plan, exact_means=0.8)  # no model passes exact means, but one passes the noisy ones
    assert 0.0 < noisy_means.gain(noisy_means.expected) < 1.0


def test_check_plan_tells_level_from_shape(made):
    foretold = {one.epsilon: one.rmse for one in made.forecasts}
    found = check_plan(made, {epsilon: 1.1 * error for epsilon, error in foretold.items()})
    assert found["level"] == pytest.approx(1.1)
    assert found["worst"] == pytest.approx(1 - 1 / 1.1)
    assert found["worst_shape"] == pytest.approx(0.0, abs=1e-12)
    for wrong in ({}, {3.0: 1.0}):
        with pytest.raises(ConfigError):
            check_plan(made, wrong)


def test_table_dict_and_plot(made, tmp_path):
    assert made.table().markdown().count("\n") == 4
    plain = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert plain["budget"]["epsilon"] == 2.0
    assert len(plain["candidates"]) >= 5
    assert plain["solver"]["name"] == type(made.solver).__name__
    pytest.importorskip("matplotlib")
    assert made.plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_plans_the_same():
    one, two, other = (
        hr.plan(**{**SHAPE, "users": 400}, budget=BUDGET, epsilons=(), solver=hr.SVD(), seed=seed) for seed in (1, 1, 2)
    )
    assert one == two != other


def test_the_scaled_budget_raises_mu(made):
    mu = BUDGET.mu
    scaled = replace(BUDGET, epsilon=gaussian_epsilon(4 * mu, BUDGET.delta))
    assert scaled.mu == pytest.approx(4 * mu, rel=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"users": 0},
        {"items": 2.5},
        {"ratings_per_user": 100.0},
        {"ratings_per_user": math.nan},
        {"ratings_per_user": "8"},
        {"budget": hr.NonPrivate()},
        {"seed": -1},
        {"solver": hr.ImplicitPosterior()},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError):
        hr.plan(**{**SHAPE, "budget": BUDGET, **wrong})


def test_the_command_prints_a_table_and_draws(tmp_path):
    pytest.importorskip("matplotlib")
    shape = ["--users", "400", "--items", "20", "--ratings-per-user", "8", "--value-range", "1", "5", "--solver", "svd"]
    path = tmp_path / "plan.png"
    done = CliRunner().invoke(app, ["plan", *shape, "--at", "4", "--levels", "5", "--plot", str(path)])
    assert done.exit_code == 0, done.output
    assert "item means only" in done.output
    assert path.exists()
    done = CliRunner().invoke(app, ["plan", *shape, "--at", "4", "--json"])
    assert np.isfinite(json.loads(done.stdout)["non_private"])
    assert CliRunner().invoke(app, ["plan", *shape[:6]]).exit_code == 2


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--plot", "plan.txt"], "must end in .png"),
        (["--plot", "no/such/folder/plan.png"], "No picture can be written"),
        (["--ratings-per-user", "nan"], "ratings_per_user must be"),
        (["--solver", "implicit-posterior"], "ranks items"),
        (["--solver", "onebit"], "protects single ratings"),
    ],
)
def test_what_cannot_be_planned_or_drawn_is_one_sentence(tmp_path, monkeypatch, option, said):
    monkeypatch.chdir(tmp_path)
    words = ["plan", "--users", "60", "--items", "6", "--ratings-per-user", "3", "--value-range", "1", "5", *option]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_simulated(monkeypatch):
    from hushrec.evaluate import planning

    monkeypatch.setattr(planning, "surrogate", None)
    words = ["plan", "--users", "60", "--items", "6", "--ratings-per-user", "3", "--value-range", "1", "5"]
    done = CliRunner().invoke(app, [*words, "--plot", "plan.txt"])
    assert done.exit_code == 2
    assert "must end in" in done.output


def test_the_table_is_printed_before_it_is_drawn(tmp_path, monkeypatch):
    """What was simulated is not lost where the picture fails after all."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Plan, "plot", full)
    words = ["plan", "--users", "60", "--items", "6", "--ratings-per-user", "3", "--value-range", "1", "5"]
    done = CliRunner().invoke(app, [*words, "--solver", "svd", "--plot", str(tmp_path / "plan.png")])
    assert done.exit_code == 2
    assert "item means only" in done.output
