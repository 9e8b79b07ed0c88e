"""The one-bit paper's experiments: they run, their data are as described, and their figures mean what they say."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from hushrec.errors import ConfigError, DataError
from hushrec.evaluate.experiments import Options, find_experiment, run_experiment
from hushrec.evaluate.papers import onebit


def test_the_planted_data_are_the_papers():
    data = onebit.planted("probit", 0.15, 3)
    assert np.abs(data.truth).max() == 1.0
    assert np.linalg.matrix_rank(data.truth) == 1
    assert data.ratings.n_ratings == pytest.approx(1500, abs=150)
    yes = data.ratings.values == 1.0
    rows = np.repeat(np.arange(100), np.diff(data.ratings.indptr))
    liked = data.truth[rows, data.ratings.indices]
    assert liked[yes].mean() > 0.05 > -0.05 > liked[~yes].mean()


def test_the_quick_synthetic_figure(tmp_path):
    outcome = run_experiment(find_experiment("onebit-synthetic"), Options(quick=True, epsilons=(8.0,), out=tmp_path))
    rows = {(row["link"], row["method"]): row for row in outcome.table.rows}
    assert rows["logistic", "OutP"]["proved"] == 0
    assert rows["logistic", "InP"]["proved"] == 1
    assert rows["probit", "ObjP"]["proved"] == 0
    assert all(0 < row["ARE"] < 20 for row in rows.values())
    assert rows["logistic", "Clear"]["bound"] > 0
    assert (tmp_path / "onebit-synthetic.png").exists()


def written(tmp_path, lines=400):
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(tmp_path / "ml-100k.zip", "w") as archive:
        for split in range(1, 6):
            pairs = rng.permutation(40 * 30)[:lines]
            text = [f"{p // 30 + 1}\t{p % 30 + 1}\t{1 + (p * 7) % 5}\t88" for p in pairs]
            archive.writestr(f"ml-100k/u{split}.base", "\n".join(text[50:]))
            archive.writestr(f"ml-100k/u{split}.test", "\n".join(text[:50]))
    return tmp_path / "ml-100k.zip"


def test_movielens_splits_are_read_as_published(tmp_path):
    path = written(tmp_path)
    train, test = (onebit.published_part(path, f"u2.{part}") for part in ("base", "test"))
    assert (train.n_ratings, test.n_ratings, train.n_users, train.n_items) == (350, 50, 943, 1682)
    with pytest.raises(DataError, match="no readable u9"):
        onebit.published_part(path, "u9.base")
    (tmp_path / "bad.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match="no readable"):
        onebit.published_part(tmp_path / "bad.zip", "u1.base")


def test_real_data_figures_have_both_accuracies_and_the_user_level(tmp_path):
    cell = {"link": "logistic", "epsilon": 4.0, "seed": 0}
    train, test = (onebit.published_part(written(tmp_path), f"u1.{part}") for part in ("base", "test"))
    for method in ("ours, objective", "user level, FrankWolfe"):
        figures = onebit._real_run(train, test, 3.5, {**cell, "method": method})
        assert 0 <= figures["on the device"] <= 1
        assert figures["majority"] >= 0.5
    with pytest.raises(ConfigError, match="MovieLens 100K"):
        onebit._ml100k_cells(Options())
