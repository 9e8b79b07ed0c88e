"""One flipped rating moves the estimate of the paper's output mechanism by tens, and an attacker sees it."""

from __future__ import annotations

import numpy as np
import pytest

from hushrec.evaluate.audit.flips import flipped
from hushrec.evaluate.experiments import Options
from hushrec.evaluate.papers import onebit_flip
from hushrec.evaluate.papers.onebit import planted

SIZE = 40


@pytest.fixture(scope="module", params=["logistic", "probit"])
def pair(request):
    """M̂ before and after the first rating is flipped, and M̂ of a coarser fit."""
    ratings = planted(request.param, 0.15, 0, SIZE).ratings
    found = [onebit_flip.fitted(data, request.param, 1e-8) for data in (ratings, flipped(ratings, 0))]
    return *found, onebit_flip.fitted(ratings, request.param, 1e-7)


def test_one_flip_moves_the_estimate_by_tens_where_the_paper_assumes_two(pair):
    before, after, coarser = pair
    moved = np.abs(after - before)
    assert moved.sum() > 20.0 > onebit_flip.PAPERS_BOUND == 2.0
    assert moved.max() <= 2.0
    assert 0.0 < np.abs(coarser - before).sum() < 0.001 * moved.sum()


def test_an_attacker_passes_the_papers_epsilon_on_the_matrix_and_not_on_an_entry(pair):
    before, after, _ = pair
    matrix = onebit_flip.attacked(before, after, 1.0, 1000, 0)
    assert matrix.epsilon > 1.5
    assert matrix.right > np.e / (1 + np.e)
    most = np.unravel_index(np.abs(after - before).argmax(), before.shape)
    entry = onebit_flip.attacked(before[most], after[most], 1.0, 20000, 0)
    spent = abs(after[most] - before[most]) / 2.0
    assert 0.7 * spent < entry.epsilon <= spent


def test_the_attack_learns_nothing_where_there_is_nothing_to_learn():
    same = np.zeros((5, 5))
    nothing = onebit_flip.attacked(same, same, 1.0, 500, 0)
    assert (nothing.epsilon, nothing.right) == (0.0, 0.5)


def test_the_table_has_the_range_over_flips_and_the_papers_bound():
    figures = {"solver's part": 0.1, "largest": 0.5, "attack, matrix": 2.0, "right, matrix": 0.8, "attack, entry": 0.2}
    cell = {"link": "probit", "size": 60, "epsilon": 2.0}
    records = [{**cell, "flip": n, "seed": 0, "moved": moved, **figures} for n, moved in enumerate((30.0, 50.0))]
    row, last = onebit_flip._summary(records).rows
    assert (row["least"], row["moved"], row["most"], row["flips"]) == (30.0, 40.0, 50.0, 2)
    assert row["ε spent, most"] == 50.0
    assert row["ε of an entry, most"] == 0.5
    assert last == {"link": "the paper's 2α", "moved": 2.0}


def test_a_cell_flips_one_rating_and_reports_all_figures():
    figures = onebit_flip._run({"link": "logistic", "size": SIZE, "epsilon": 1.0, "flip": 1, "seed": 0}, Options())
    assert figures["moved"] > 20.0
    assert set(figures) >= {"largest", "attack, matrix", "right, matrix", "attack, entry", "solver's part"}
    flips = {cell["flip"] for cell in onebit_flip._cells(Options())}
    assert len(flips) == onebit_flip.FLIPS
