"""The experiment over all solvers: everything registered takes part, bytes are counted as described."""

import numpy as np

import hushrec as hr
from hushrec.evaluate.experiments import Options, find_experiment, run_experiment
from hushrec.evaluate.papers import solvers
from making import random_ratings


def test_all_importable_solvers_take_part(tmp_path):
    outcome = run_experiment(find_experiment("all-solvers"), Options(quick=True, out=tmp_path))
    methods = {record["method"] for record in outcome.records}
    assert {"svd", "als", "factored-gradient"} <= methods
    assert methods == set(solvers.importable())
    for record in outcome.records:
        assert record["epsilon"] is None or record["exact epsilon"] <= record["epsilon"]
        assert record["rmse"] < 2.0
        assert record["bytes down"] > 0
        assert record["bytes up"] > 0


def test_bytes_are_those_of_new_arrays_and_of_all_coordinates():
    ratings, engine = random_ratings(users=60, items=12), solvers.CountingEngine()
    hr.fit(ratings, hr.SVD(), hr.NonPrivate(), engine=engine)
    means_up, gram_up = 12 + 12 + 2, 12 * 11 // 2
    assert engine.up == 8 * (means_up + gram_up)
    assert engine.down == 8 * (12 + 12 + 12)  # means, item weights, head


def test_a_path_that_grows_is_downloaded_once():
    rng = np.random.default_rng(0)
    path = rng.normal(size=(3, 5, 2))
    one, two = list(solvers.pieces((path[:2],))), list(solvers.pieces((path,)))
    assert [piece.tobytes() for piece in one] == [piece.tobytes() for piece in two[: len(one)]]
