"""Randomized signs on their way to the server: what a file says of itself is checked."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import hushrec as hr
from hushrec.cli import app
from hushrec.data.randomized import flip_chance, randomized_text, read_randomized

TEXT = "item,value,epsilon,flip\nx,1,1.0,{p}\ny,0,1.0,{p}\n".format(p=flip_chance(1.0))


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ann.csv").write_text(TEXT)
    (tmp_path / "bob.csv").write_text(TEXT.replace("y,0", "z,1"))
    return tmp_path


def test_a_folder_of_files_is_one_user_each(folder):
    ratings = read_randomized(folder)
    assert ratings.randomized == 1.0
    assert ratings.users.tolist() == ["ann", "bob"]
    assert ratings.items.tolist() == ["x", "y", "z"]
    assert ratings.values.tolist() == [1.0, 0.0, 1.0, 1.0]
    stars = read_randomized(folder, value_range=(1, 5))
    assert stars.values.tolist() == [5.0, 1.0, 5.0, 5.0]


def test_a_table_with_user_ids_is_the_same(folder, tmp_path):
    table = tmp_path / "table.csv"
    p = flip_chance(1.0)
    table.write_text(
        f"user,item,value,epsilon,flip\nann,x,1,1.0,{p}\nann,y,0,1.0,{p}\nbob,x,1,1.0,{p}\nbob,z,1,1.0,{p}\n"
    )
    one, two = read_randomized(table), read_randomized(folder) if not table.unlink() else None
    assert np.array_equal(one.values, two.values)
    assert one.randomized == two.randomized


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("1.0", "2.0"), "contradict each other"),
        (("x,1,1.0", "x,1,3.0"), "do not all have the same epsilon"),
        (("1.0", "none"), "not a number"),
        (("x,1", "x,0.5"), "must be 0 and 1"),
        (("item,", "film,"), "not a file of 'hushrec randomize'"),
        (("y,0", "x,0"), "repeat a"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(tmp_path, change, sentence):
    (tmp_path / "ann.csv").write_text(TEXT.replace(*change))
    with pytest.raises(hr.DataError, match=sentence) as problem:
        read_randomized(tmp_path)
    assert str(problem.value).count(".") <= 3


def test_an_empty_folder_and_bytes_are_refused(tmp_path):
    with pytest.raises(hr.DataError, match="holds no file"):
        read_randomized(tmp_path)
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hr.DataError, match="could not be read"):
        read_randomized(tmp_path)


def test_text_carries_full_precision(tmp_path):
    (tmp_path / "a.csv").write_text(randomized_text(["x"], np.array([1]), 1 / 3))
    assert read_randomized(tmp_path).randomized == 1 / 3


def test_from_the_device_to_the_server_and_back(tmp_path):
    """The whole way of the command line: randomize, collect, fit, recommend."""
    mine, sent = tmp_path / "mine.csv", tmp_path / "sent"
    sent.mkdir()
    mine.write_text("item,value\n1,5\n2,1\n3,4\n4,2\n")
    for user in range(25):
        done = run("randomize", mine, "--epsilon", 3, "--threshold", 3.5, "-o", sent / f"u{user}.csv")
        assert done.exit_code == 0, done.output
        assert "ε = 3" in done.output
    texts = {path.read_text() for path in sent.iterdir()}
    assert len(texts) > 1  # real noise
    fit = ("fit", sent, "--solver", "onebit", "--mechanism", "input", "--already-randomized", "--value-range", 1, 5)
    done = run(*fit, "--set", "threshold=3.5", "-o", tmp_path / "model.hush")
    assert done.exit_code == 0, done.output
    promise = hr.Release.load(tmp_path / "model.hush").guarantee
    assert (promise.epsilon, promise.delta, promise.unit, promise.model) == (3.0, 0.0, "rating", "local")
    release = hr.Release.load(tmp_path / "model.hush")
    chances = release.complete([], [])
    assert chances[0] > 0.5 > chances[1]
    done = run("recommend", tmp_path / "model.hush", mine)
    assert done.exit_code == 0, done.output
    wrong = run(*fit, "--set", "threshold=3.5", "--epsilon", 1, "-o", tmp_path / "other.hush")
    assert wrong.exit_code == 2
    assert "another epsilon" in wrong.output
    assert not (tmp_path / "other.hush").exists()


def test_options_of_onebit_need_onebit(tmp_path):
    done = run("fit", tmp_path, "--mechanism", "input", "--epsilon", 1)
    assert done.exit_code == 2
    assert "--solver onebit" in done.output
    plain = tmp_path / "plain.csv"
    plain.write_text("user,item,value\na,x,1\nb,y,0\n")
    done = run("fit", plain, "--solver", "onebit", "--already-randomized", "--epsilon", 1, "-o", tmp_path / "m.hush")
    assert done.exit_code == 2
    assert "epsilon" in done.output


def test_plain_ratings_are_not_taken_for_randomized_ones():
    plain = hr.read({"user": [1, 2], "item": [1, 1], "value": [0, 1]}, value_range=(0, 1))
    with pytest.raises(hr.ConfigError, match="not randomized before"):
        hr.fit(plain, hr.OneBit(already_randomized=True), hr.Budget(1.0, unit="rating"))
