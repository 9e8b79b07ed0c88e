"""The one-bit paper's synthetic experiments: data as described, figures that mean what they say, nothing left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushrec.evaluate import experiments, plots
from hushrec.evaluate.experiments import Options, find_experiment, run_experiment
from hushrec.evaluate.papers import onebit
from hushrec.onebit.completion import least_ridge
from hushrec.privacy.accounting import Budget
from hushrec.privacy.curator import Curator


def test_the_planted_data_are_the_papers():
    data = onebit.planted("probit", 0.15, 3)
    assert np.abs(data.truth).max() == 1.0
    assert np.linalg.matrix_rank(data.truth) == 1
    assert data.ratings.n_ratings == pytest.approx(1500, abs=150)
    yes = data.ratings.values == 1.0
    rows = np.repeat(np.arange(100), np.diff(data.ratings.indptr))
    liked = data.truth[rows, data.ratings.indices]
    assert liked[yes].mean() > 0.05 > -0.05 > liked[~yes].mean()


def test_every_mechanism_and_form_is_run_in_every_setting_with_both_links():
    cells = onebit.make_cells(Options(), 1, quick=())
    found = {(cell["link"], cell["settings"], cell["method"]) for cell in cells}
    for link in onebit.LINKS:
        for settings in ("paper", "public"):
            for method in ("Clear", "InP", "ObjP", "GraP", "OutP", "OutP convex", "OutP pooled"):
                assert (link, settings, method) in found
        assert {(link, "ours", method) for method in onebit.USER_LEVEL} <= found
        assert (link, "ours", "OutP") not in found
    assert ("probit", "public", "ObjP on signs") in found
    assert all((cell["epsilon"] is None) == (cell["method"] == "Clear") for cell in cells)


def test_public_knowledge_changes_the_two_bounds_and_nothing_else():
    pattern = Curator(onebit.planted("logistic", 0.15, 0).ratings, Budget(1.0, unit="rating")).pattern
    for method in ("InP", "ObjP", "GraP", "OutP", "OutP convex"):
        cell = {"link": "probit", "method": method}
        paper, public = (onebit.make_solver(cell, onebit.SETTINGS[name], pattern) for name in ("paper", "public"))
        assert paper.radius((100, 100)) == pytest.approx(100.0)
        assert public.radius((100, 100)) == pytest.approx(100.0 / 3.0)
        assert replace(public, rank=paper.rank, alpha=paper.alpha) == paper
    assert np.linalg.norm(onebit.planted("logistic", 0.15, 0).truth, "nuc") == pytest.approx(100 / 3, rel=0.2)


def test_the_pooled_line_is_a_fit_whose_constraint_binds():
    data = onebit.planted("logistic", 0.15, 0).ratings
    curator = Curator(data, Budget(4.0, 1e-6, unit="rating"), seed=0)
    for settings in ("paper", "ours"):
        solver = onebit.make_solver(
            {"link": "logistic", "method": "OutP pooled"}, onebit.SETTINGS[settings], curator.pattern
        )
        assert solver.ridge == pytest.approx(0.25 * least_ridge(curator.pattern, solver.radius((100, 100)), solver))
    solver.complete(curator)
    assert curator.ledger.entries[-1].bound == "fitted values"


def some(monkeypatch, *names):
    monkeypatch.setattr(onebit, "methods", lambda settings, link: names)


@pytest.fixture
def pictures(monkeypatch):
    """The figures that get drawn."""
    made, real = [], plots._figure
    monkeypatch.setattr(plots, "_figure", lambda *size: made.append(real(*size)) or made[-1])
    return made


def test_the_synthetic_figure(tmp_path, monkeypatch, pictures):
    some(monkeypatch, "Clear", "InP", "ObjP", "OutP", "user level: FrankWolfe")
    outcome = run_experiment(find_experiment("onebit-synthetic"), Options(quick=True, epsilons=(8.0,), out=tmp_path))
    rows = {(row["link"], row["settings"], row["method"]): row for row in outcome.table.rows}
    assert rows["logistic", "paper", "OutP"]["proved"] == "no"
    assert rows["logistic", "paper", "InP"]["proved"] == "yes"
    assert rows["logistic", "public", "ObjP"]["proved"] == "yes"
    assert rows["probit", "public", "ObjP"]["proved"] == "no"
    assert rows["probit", "ours", "Clear"]["proved"] is None
    assert all(0 < row["ARE"] < 20 for row in rows.values())
    assert rows["logistic", "paper", "Clear"]["bound"] > 0
    assert rows["logistic", "public", "Clear"]["ARE"] < rows["logistic", "paper", "Clear"]["ARE"]
    (figure,) = pictures
    assert len(figure.axes) == 6
    assert all(len(axes.lines) >= 5 for axes in figure.axes)


@pytest.mark.parametrize("epsilons", [None, (2.0, 9.0)])
def test_the_picture_of_ratios_is_drawn_whatever_was_run(tmp_path, monkeypatch, epsilons):
    some(monkeypatch, "Clear", "GraP")
    monkeypatch.setattr(onebit, "LINKS", ("logistic",))
    monkeypatch.setattr(experiments, "draw", lambda *given: False)
    experiment = find_experiment("onebit-ratios")
    outcome = run_experiment(experiment, Options(quick=True, epsilons=epsilons, out=tmp_path))
    assert {row["epsilon"] for row in outcome.table.rows} == {None, *(epsilons or (4.0,))}
    drawn = plots._drawn(outcome.table, experiment.plot)
    assert {(row["method"], row["epsilon"]) for row in drawn} == {("Clear", None), ("GraP", (epsilons or (4.0,))[0])}
    assert {row["observed"] for row in drawn} == {0.2, 0.8}


def test_figures_of_full_runs_are_not_claimed_for_short_ones(tmp_path, monkeypatch):
    some(monkeypatch, "Clear")
    monkeypatch.setattr(onebit, "LINKS", ("logistic",))
    monkeypatch.setattr(experiments, "draw", lambda *given: False)
    outcome = run_experiment(find_experiment("onebit-synthetic"), Options(quick=True, out=tmp_path))
    text = (tmp_path / "onebit-synthetic.md").read_text()
    assert "(40 in full)" in text
    assert "Quick version" in text
    assert [row["runs"] for row in outcome.table.rows] == [1, 1, 1]
