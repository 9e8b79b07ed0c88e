"""The DPLMC experiments: their data are as described, their quick versions run, methods map to solvers."""

import numpy as np
import pytest

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


@pytest.mark.parametrize("method", factored.METHODS)
def test_every_method_has_its_solver(method):
    solver = factored.solver(method, 3, 0.4)
    assert solver.rank == 3
    assert ("random" in method) == ("random" in (getattr(solver, "start", ""), getattr(solver, "begin_with", "")))
    assert ("ridge" in method) == (getattr(solver, "readout", "") == "ridge")


@pytest.mark.parametrize("name", ["dplmc-noisy", "dplmc-noiseless", "dplmc-rank", "dplmc-rate"])
def test_quick_versions_run(name, tmp_path):
    experiment = find_experiment(name)
    outcome = run_experiment(experiment, Options(quick=True, out=tmp_path))
    assert outcome.ran == len(outcome.records)
    assert all(0 <= record["error"] < 3 for record in outcome.records)
    assert (tmp_path / f"{name}.md").read_text().count("\n|") >= 6


def test_the_rate_experiment_shows_a_linear_rate(tmp_path):
    outcome = run_experiment(find_experiment("dplmc-rate"), Options(quick=True, out=tmp_path))
    error = {(record["method"], record["rounds"]): record["error"] for record in outcome.records}
    assert error["DPLMC, private", 30] < 0.1 * error["DPLMC, private", 10] < error["DPLMC, private", 2]
