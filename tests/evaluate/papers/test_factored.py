"""The DPLMC experiments: their data are as described, their quick versions run, methods map to solvers."""

import numpy as np
import pytest

import hushrec as hr
from hushrec.evaluate.experiments import Options, find_experiment, run_experiment
from hushrec.evaluate.papers import factored
from hushrec.solvers.als import ALS


def test_planted_rows_are_cut_one_by_one_and_entries_fall_uniformly():
    data = factored.planted(users=2000, items=50, rank=5, noise=1.0, seed=0)
    for factor in (data.users, data.items):
        norms = np.linalg.norm(factor, axis=1)
        assert norms.max() <= 2.0 + 1e-12
        assert 0.3 < np.mean(norms > 2.0 - 1e-9) < 0.8  # many are cut, and not all of them
    assert data.ratings.n_ratings / data.ratings.n_users == pytest.approx(5 * np.log(2000), rel=0.02)
    rows = np.repeat(np.arange(2000), np.diff(data.ratings.indptr))
    noise = data.ratings.values - np.einsum("ik,ik->i", data.users[rows], data.items[data.ratings.indices])
    assert np.std(noise) == pytest.approx(1.0, abs=0.02)
    assert np.bincount(data.ratings.indices).min() > 0.8 * data.ratings.n_ratings / 50


def test_the_error_is_the_mean_square_over_all_entries():
    data = factored.planted(users=60, items=20, rank=2, noise=0.0, seed=0)
    from hushrec import NonPrivate, fit

    release = fit(data.ratings, ALS(centre=False, start="random", rank=2), NonPrivate())
    truth = data.users @ data.items.T
    found = np.array([release.complete(*data.ratings.user(i)) for i in range(60)])
    assert factored.squared_error(release, data) == pytest.approx(np.mean((found - truth) ** 2), rel=1e-9)


def test_the_error_of_item_means_is_that_of_the_columns():
    data = factored.planted(users=60, items=20, rank=2, noise=0.0, seed=0)
    truth = data.users @ data.items.T
    assert factored.means_error(data) == pytest.approx(np.mean((truth - truth.mean(axis=0)) ** 2), rel=1e-9)


def test_a_run_that_fell_back_is_marked():
    cell = {"method": "DPLMC, random", "users": 300, "rank": 2, "noise": 1.0, "epsilon": 0.5, "seed": 0}
    assert factored._run(cell, Options())["fallback"] == 1.0
    assert factored._run({**cell, "method": "DPALS, random"}, Options())["fallback"] == 0.0


@pytest.mark.parametrize("name", ["dplmc-noisy", "dplmc-noiseless", "dplmc-rank"])
def test_every_setting_of_a_figure_has_a_panel(name):
    """Figures 1 and 2 have three numbers of users, Figure 3 two pairs of m and ε: all of them are drawn."""
    experiment = find_experiment(name)
    cells = experiment.cells(Options(runs=1))
    table = experiment.summary([{**cell, "error": 1.0} for cell in cells])
    assert experiment.plot.only == ()
    assert experiment.plot.nearest is None
    panels = {row[experiment.plot.across] for row in table.rows}
    expected = {5_000, 10_000, 15_000}
    assert panels == (expected if name != "dplmc-rank" else {"m = 15,000, ε = 5", "m = 10,000, ε = 10"})


@pytest.mark.parametrize("method", factored.METHODS)
def test_every_method_has_its_solver(method):
    solver = factored.solver(method, 3, 0.4)
    if method == "Posterior":  # takes its rank from the data's noisy moments
        assert solver == hr.Posterior()
        return
    assert solver.rank == 3
    assert ("random" in method) == ("random" in (getattr(solver, "start", ""), getattr(solver, "begin_with", "")))
    assert ("ridge" in method) == (getattr(solver, "readout", "") == "ridge")
    if "DPLMC" in method:
        assert (solver.noise == "paper") == ("paper's noise" in method) == (not solver.own_density)


@pytest.mark.parametrize("name", ["dplmc-noisy", "dplmc-noiseless", "dplmc-rank"])
def test_quick_versions_learn_at_every_cell(name, tmp_path, monkeypatch):
    monkeypatch.setattr(factored, "QUICK_RANKS", (3,))
    experiment = find_experiment(name)
    outcome = run_experiment(experiment, Options(quick=True, out=tmp_path))
    assert outcome.ran == len(outcome.records)
    for record in outcome.records:
        assert record["fallback"] == 0.0
        assert record["error"] < 0.5 * record["item means"]
    assert len({record["error"] for record in outcome.records}) == len(outcome.records)
    assert (tmp_path / f"{name}.md").read_text().count("\n|") >= 6


def test_the_rate_experiment_shows_a_linear_rate(tmp_path):
    outcome = run_experiment(find_experiment("dplmc-rate"), Options(quick=True, out=tmp_path))
    error = {(record["method"], record["rounds"]): record["error"] for record in outcome.records}
    assert outcome.ran == len(error) == 6
    assert error["DPLMC, private", 30] < 0.1 * error["DPLMC, private", 10] < error["DPLMC, private", 2]
