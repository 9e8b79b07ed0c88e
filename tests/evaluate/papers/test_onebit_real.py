"""The one-bit paper's experiments on real data, on stand-ins for them: data as published, both accuracies."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import hushrec as hr
from hushrec.errors import ConfigError, DataError
from hushrec.evaluate.experiments import Options
from hushrec.evaluate.papers import onebit_real
from hushrec.evaluate.papers.onebit import methods, planted
from hushrec.privacy.curator import Curator


def written(tmp_path, lines=400):
    """A stand-in for MovieLens 100K: the same parts, with few of its users and items."""
    rng = np.random.default_rng(0)
    taste = np.outer(rng.uniform(-2, 2, 40), rng.uniform(-1, 1, 30)) + rng.uniform(-1, 1, 30)
    with zipfile.ZipFile(tmp_path / "ml-100k.zip", "w") as archive:
        for split in range(1, 6):
            pairs = rng.permutation(40 * 30)[:lines]
            stars = np.where(rng.logistic(size=lines) < taste.ravel()[pairs], 5, 2)
            text = [f"{p // 30 + 1}\t{p % 30 + 1}\t{star}\t88" for p, star in zip(pairs, stars, strict=True)]
            archive.writestr(f"ml-100k/u{split}.base", "\n".join(text[50:]))
            archive.writestr(f"ml-100k/u{split}.test", "\n".join(text[:50]))
    return tmp_path / "ml-100k.zip"


def test_movielens_splits_are_read_as_published(tmp_path):
    path = written(tmp_path)
    train, test = (onebit_real.published_part(path, f"u2.{part}") for part in ("base", "test"))
    assert (train.n_ratings, test.n_ratings, train.n_users, train.n_items) == (350, 50, 943, 1682)
    with pytest.raises(DataError, match="no readable u9"):
        onebit_real.published_part(path, "u9.base")
    (tmp_path / "bad.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match="no readable"):
        onebit_real.published_part(tmp_path / "bad.zip", "u1.base")


def test_figures_have_both_accuracies_the_majority_and_the_user_level():
    train, test = hr.split(planted("logistic", 0.5, 0, 40).ratings, test=0.2, seed=0)
    cell = {"link": "logistic", "settings": "ours", "seed": 0, "split": 1}
    records = []
    for method, epsilon in (("Clear", None), ("InP", 4.0), ("user level: FrankWolfe", 4.0)):
        made = {**cell, "method": method, "epsilon": epsilon}
        records.append({**made, **onebit_real.accuracies(train, test, 0.5, made)})
    assert [record["proved"] for record in records] == [None, "yes", "yes"]
    share = float(np.mean(test.values))
    assert all(record["majority class"] == pytest.approx(max(share, 1 - share)) for record in records)
    assert all(0.4 < record["accuracy"] < 0.8 for record in records)
    assert records[0]["accuracy"] != records[0]["on the device"]
    table = onebit_real._summary(records)
    rows = {row["method"]: row for row in table.rows}
    assert list(rows) == ["Clear", "InP", "user level: FrankWolfe", "majority class", "own answers alone"]
    assert rows["majority class"]["accuracy"] == pytest.approx(max(share, 1 - share))
    right = [(np.mean(train.user(u)[1]) > 0.5) == yes for u in range(40) for yes in test.user(u)[1]]
    assert rows["own answers alone"]["on the device"] == pytest.approx(np.mean(right))
    assert rows["own answers alone"]["epsilon"] is None
    assert not set(table.columns) & {"majority class", "own answers alone", "split"}


def test_the_matrix_and_the_release_are_of_one_run_as_it_would_be_alone(tmp_path):
    train = onebit_real.published_part(written(tmp_path), "u1.base")
    solver, budget = hr.OneBit(mechanism="input", threshold=3.5), hr.Budget(1.0, unit="rating")
    matrix, release, curator = onebit_real.completed(train, solver, budget, 3)
    assert np.array_equal(release.arrays["means"], hr.fit(train, solver, budget, seed=3).arrays["means"])
    _, alone = solver.complete(Curator(train, budget, seed=3))
    assert np.array_equal(matrix.toarray(), alone.matrix.toarray())
    assert [entry.share for entry in curator.ledger] == [1.0]


def test_data_are_asked_for_and_the_quick_version_is_a_part_of_the_whole(tmp_path):
    with pytest.raises(ConfigError, match="MovieLens 100K"):
        onebit_real._ml100k_cells(Options())
    with pytest.raises(ConfigError, match="restaurant"):
        onebit_real._restaurant_cells(Options())
    path = written(tmp_path)
    quick, whole = (onebit_real._ml100k_cells(Options(data=(path,), quick=quick)) for quick in (True, False))
    assert {cell["split"] for cell in whole} == {1, 2, 3, 4, 5}
    assert {cell["settings"] for cell in whole} == {"paper", "public", "ours"}
    assert {(cell["settings"], cell["link"], cell["split"]) for cell in quick} == {("ours", "logistic", 1)}
    assert {cell["method"] for cell in quick} == set(methods("ours", "logistic"))
