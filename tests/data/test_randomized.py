"""Randomized signs on their way to the server: what a file says of itself is checked, and nothing is paid twice."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import hushrec as hr
from hushrec.cli import app
from hushrec.data import randomized
from hushrec.data.randomized import find_files, flip_chance, randomized_text, read_randomized

P = flip_chance(1.0)
TEXT = f"item,value,epsilon,flip,threshold\nx,1,1.0,{P},0.5\ny,0,1.0,{P},0.5\n"
TABLE = (
    "user,item,value,epsilon,flip,threshold\n"
    f"ann,x,1,1.0,{P},0.5\nann,y,0,1,{P},0.50\nbob,x,1,1.0,{P},0.5\nbob,z,1, 1.0,{P},0.5\n"
)
MINE = "item,value\n1,5\n2,1\n3,4\n4,2\n"
SERVER = ("--solver", "onebit", "--mechanism", "input", "--already-randomized")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ann.csv").write_text(TEXT)
    (tmp_path / "bob.csv").write_text(TEXT.replace("y,0", "z,1"))
    return tmp_path


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """What 25 devices sent: the same ratings, randomized 25 times."""
    sent = tmp_path_factory.mktemp("sent")
    mine = tmp_path_factory.mktemp("mine") / "mine.csv"
    mine.write_text(MINE)
    for user in range(25):
        done = run("randomize", mine, "--epsilon", 3, "--threshold", 3.5, "-o", sent / f"u{user}.csv")
        assert done.exit_code == 0, done.output
        assert "ε = 3" in done.output
    return sent


# --- reading --------------------------------------------------------------------------------------


def test_a_folder_of_files_is_one_user_each(folder):
    ratings = read_randomized(folder)
    assert (ratings.randomized, ratings.threshold) == (1.0, 0.5)
    assert ratings.users.tolist() == ["ann", "bob"]
    assert ratings.items.tolist() == ["x", "y", "z"]
    assert ratings.values.tolist() == [1.0, 0.0, 1.0, 1.0]
    for name in ("ann", "bob"):
        (folder / f"{name}.csv").write_text((folder / f"{name}.csv").read_text().replace(",0.5\n", ",3.5\n"))
    stars = read_randomized(folder, value_range=(1, 5))
    assert stars.values.tolist() == [5.0, 1.0, 5.0, 5.0]
    assert stars.threshold == 3.5
    with pytest.raises(hr.ConfigError, match=r"threshold=3.5, which must lie inside it"):
        read_randomized(folder)


def test_a_table_with_user_ids_is_the_same(folder, tmp_path):
    table = tmp_path / "table.tsv"
    table.write_text(TABLE.replace(",", "\t").replace("user", "who").replace("item", "film"))
    one, two = read_randomized(table, user="who", item="film"), read_randomized(folder)
    assert np.array_equal(one.values, two.values)
    assert (one.randomized, one.threshold) == (two.randomized, two.threshold)
    with pytest.raises(hr.ConfigError, match="columns of one table"):
        read_randomized(folder, user="who")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("bob,z,1, 1.0", "bob,z,1,2.0"), "same epsilon: 1 of them"),
        (("0.50", "0.6"), "same threshold: 1 of them"),
        ((f"bob,x,1,1.0,{P}", "bob,x,1,1.0,x"), "column flip of the randomized ratings is not a number everywhere"),
        ((f"{P}", "0.3"), "contradict each other"),
        (("bob,x,1", "bob,x,2"), "value range"),
        (("bob,x,1", "bob,x,0.5"), "must be 0 and 1"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_one_sentence(tmp_path, change, sentence):
    assert change[0] in TABLE
    (tmp_path / "table.csv").write_text(TABLE.replace(*change))
    with pytest.raises(hr.DataError, match=sentence):
        read_randomized(tmp_path / "table.csv")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("1.0", "2.0"), "flip of bob.csv contradict each other"),
        (("x,1,1.0", "x,1,3.0"), "bob.csv do not all have the same epsilon"),
        ((",0.5\ny", ",0.4\ny"), "bob.csv do not all have the same epsilon, flip and threshold"),
        ((",0.5\n", ",nan\n"), "bob.csv do not all have"),
        ((",0.5\n", ",inf\n"), "threshold of bob.csv is not a finite number"),
        (("1.0", "none"), "bob.csv holds something that is not a number"),
        (("x,1", "x,0.5"), "values in bob.csv must be 0 and 1"),
        (("item,", "film,"), "bob.csv is not a file of 'hushrec randomize'"),
        (("y,0", "x,0"), "bob.csv has 1 items more than once"),
    ],
)
def test_a_file_that_does_not_fit_is_named_in_one_sentence(tmp_path, change, sentence):
    (tmp_path / "ann.csv").write_text(TEXT)
    (tmp_path / "bob.csv").write_text(TEXT.replace(*change))
    with pytest.raises(hr.DataError, match=sentence) as problem:
        read_randomized(tmp_path)
    assert str(problem.value).count(".") <= 3


def test_files_with_other_terms_than_the_most_are_counted_and_the_first_is_named(tmp_path):
    for user in range(5):
        (tmp_path / f"u{user}.csv").write_text(randomized_text(["x"], np.array([1]), 1.0, 0.5))
    for user in (1, 3):
        (tmp_path / f"u{user}.csv").write_text(randomized_text(["x"], np.array([1]), 2.0, 0.5))
    with pytest.raises(hr.DataError, match=r"same epsilon: 2 of 5 files .* first of them u1\.csv"):
        read_randomized(tmp_path)
    for user in (1, 3):
        (tmp_path / f"u{user}.csv").write_text(randomized_text(["x"], np.array([1]), 1.0, 0.25 * user))
    with pytest.raises(hr.DataError, match=r"same threshold: 2 of 5 files .* u1\.csv"):
        read_randomized(tmp_path)


def test_numbers_are_compared_as_numbers(tmp_path):
    (tmp_path / "ann.csv").write_text(TEXT)
    (tmp_path / "bob.csv").write_text(TEXT.replace(",1.0,", ",1,").replace(",0.5", ", 5e-1"))
    assert read_randomized(tmp_path).randomized == 1.0


def test_no_stranger_can_send_more_than_is_accepted(folder, monkeypatch):
    monkeypatch.setattr(randomized, "MOST_ANSWERS", 3)
    rows = "".join(f"junk{k},1,1.0,{P},0.5\n" for k in range(4))
    (folder / "mallory.csv").write_text(TEXT.partition("x,1")[0] + rows)
    with pytest.raises(hr.DataError, match=r"mallory.csv holds 4 answers, more than the 3 .*: declare the item list"):
        read_randomized(folder)
    with pytest.raises(hr.DataError, match=r"mallory.csv has 4 answers about items that are not in the declared"):
        read_randomized(folder, items=["x", "y", "z", "w"])
    with pytest.raises(hr.DataError, match=r"mallory.csv holds 4 answers, more than the 3 that one user may send\."):
        read_randomized(folder, items=["x", "y", "z"])
    (folder / "mallory.csv").unlink()
    assert read_randomized(folder, items=["z", "x", "y"]).items.tolist() == ["z", "x", "y"]
    (folder / "table.tsv").write_text(
        (TABLE + "".join(f"bob,{row}" for row in rows.splitlines(True))).replace(",", "\t")
    )
    with pytest.raises(hr.DataError, match="A user has 6 answers, more than the 3"):
        read_randomized(folder / "table.tsv")
    monkeypatch.setattr(randomized, "LARGEST_FILE", 50)
    with pytest.raises(hr.DataError, match=r"ann.csv is larger"):
        read_randomized(folder)


def test_the_bound_admits_the_keenest_raters_and_no_catalogue_of_junk():
    assert 9_254 <= randomized.MOST_ANSWERS <= 20_000  # the most ratings of one user in MovieLens 20M


def test_every_csv_file_is_read_whatever_its_case_and_the_others_are_counted(folder):
    (folder / "bob.csv").rename(folder / "bob.CSV")
    (folder / "notes.txt").write_text("x")
    (folder / ".ann.csv").write_text("x")
    (folder / "sub.csv").mkdir()
    found = find_files(folder)
    assert [path.name for path in found.files] == ["ann.csv", "bob.CSV"]
    assert found.skipped == 2
    assert read_randomized(folder).n_users == 2
    (folder / "ann.Csv").write_text(TEXT)
    with pytest.raises(hr.DataError, match=r"ann.Csv and ann.csv would be one user"):
        read_randomized(folder)


def test_the_first_or_last_answer_is_taken_where_that_was_asked(tmp_path):
    (tmp_path / "ann.csv").write_text(TEXT.replace("y,0", "x,0"))
    for rule, value in (("first", 1.0), ("last", 0.0)):
        assert read_randomized(tmp_path, duplicates=rule).values.tolist() == [value]
    with pytest.raises(hr.ConfigError, match="duplicates"):
        read_randomized(tmp_path, duplicates="mean")


def test_an_empty_folder_and_bytes_are_refused(tmp_path):
    with pytest.raises(hr.DataError, match="holds no file"):
        read_randomized(tmp_path)
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hr.DataError, match="could not be read"):
        read_randomized(tmp_path)


def test_text_carries_full_precision(tmp_path):
    (tmp_path / "a.csv").write_text(randomized_text(["x"], np.array([1]), 1 / 3, 2 / 3))
    ratings = read_randomized(tmp_path)
    assert (ratings.randomized, ratings.threshold) == (1 / 3, 2 / 3)


# --- from the device to the server ----------------------------------------------------------------


def test_from_the_device_to_the_server_and_back(sent, tmp_path):
    """The whole way of the command line: randomize, collect, fit, recommend. The threshold is that of the files."""
    assert len({path.read_text() for path in sent.iterdir()}) > 1  # real noise
    done = run("fit", sent, *SERVER, "--value-range", 1, 5, "-o", tmp_path / "model.hush")
    assert done.exit_code == 0, done.output
    assert "Read 25 files" in done.stderr
    assert "--items FILE" in done.stderr
    release = hr.Release.load(tmp_path / "model.hush")
    promise = release.guarantee
    assert (promise.epsilon, promise.delta, promise.unit, promise.model) == (3.0, 0.0, "rating", "local")
    assert release.settings["threshold"] == 3.5
    chances = release.complete([], [])
    assert chances[0] > 0.5 > chances[1]
    # 3.5 parts her stars: 4 is a yes like 5, and no like 3
    assert np.array_equal(release.complete([1], [4.0]), release.complete([1], [5.0]))
    assert not np.array_equal(release.complete([1], [4.0]), release.complete([1], [3.0]))
    (tmp_path / "mine.csv").write_text(MINE)
    done = run("recommend", tmp_path / "model.hush", tmp_path / "mine.csv")
    assert done.exit_code == 0, done.output
    card = " ".join(release.card().split())
    assert "flipped on devices" in card
    assert "this fit drew no noise, and neither it nor any other fit of the same answers spends anything more" in card
    assert not promise.void


def test_the_same_number_parts_yes_from_no_on_the_device_and_in_the_release(tmp_path):
    """A threshold that 32-bit numbers do not hold: a rating at it is a no, in training and on the device alike."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 4)) < 0.9)
    values = np.where(rng.random(len(users)) < 0.5, 3.7, 5.0)
    stars = hr.read({"user": users, "item": items, "value": values}, value_range=(1, 5))
    release = hr.fit(stars, hr.OneBit(mechanism="none", threshold=3.7), hr.NonPrivate(unit="rating"))
    binary = hr.read({"user": users, "item": items, "value": (values > 4) * 1.0}, value_range=(0, 1))
    wanted = hr.fit(binary, hr.OneBit(mechanism="none"), hr.NonPrivate(unit="rating"))
    assert np.array_equal(release.arrays["means"], wanted.arrays["means"])
    for given in ([3.7, 5.0], np.array([3.7, 5.0], np.float32)):
        assert np.array_equal(release.complete([0, 1], given), wanted.complete([0, 1], [0.0, 1.0]))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--epsilon", 1), "another epsilon"),
        (("--set", "threshold=3"), "threshold is 3.0, but the ratings became yes and no at 3.5"),
        (("--non-private",), "exclude each other"),
        (("--separator", ";"), "--separator does not go with --already-randomized"),
        (("--no-header",), "--no-header does not go"),
        (("--value", "stars"), "--value does not go"),
        (("--format", "ml-1m"), "--format does not go"),
        (("--user", "who"), "columns of one table"),
        (("--duplicates", "mean"), "have no mean"),
    ],
)
def test_what_does_not_fit_the_files_is_refused_and_spends_nothing(sent, tmp_path, words, sentence):
    ledger = tmp_path / "L.json"
    hr.Ledger.open(ledger, hr.Budget(5.0, unit="rating"))
    for kept in ((), ("--resume", tmp_path / "run")):
        done = run("fit", sent, *SERVER, "--value-range", 1, 5, *words, "--ledger", ledger, *kept, "-o", tmp_path / "m")
        assert done.exit_code == 2, done.output
        assert sentence in " ".join(done.output.split())
        assert not (tmp_path / "m").exists()
    book = hr.Ledger.open(ledger).read()
    assert book.epsilon == 0.0
    assert not book.runs


def test_a_mismatch_is_refused_before_anything_is_spent_by_whoever_holds_the_curator(sent, tmp_path):
    """The check stands before the spend in the curator itself, whatever leads there."""
    from hushrec.privacy.curator import Curator
    from hushrec.privacy.journal import Journal

    ratings = read_randomized(sent, value_range=(1, 5))
    ledger, budget = hr.Ledger.open(tmp_path / "L.json", hr.Budget(5.0, unit="rating")), hr.Budget(1.0, unit="rating")
    curator = Curator(ratings, budget, journal=Journal(budget, ledger=ledger))
    with pytest.raises(hr.ConfigError, match="another epsilon"):
        hr.OneBit(already_randomized=True).complete(curator)
    assert all(not run.spent.entries for run in ledger.read().runs.values())
    assert len(curator.ledger) == 0


def test_any_number_of_fits_of_the_same_answers_costs_the_curator_nothing(sent, tmp_path):
    ledger = tmp_path / "L.json"
    hr.Ledger.open(ledger, hr.Budget(2.0, unit="rating"))  # less than one of the fits would cost
    made = []
    for name in ("a", "b"):
        words = ("fit", sent, *SERVER, "--value-range", 1, 5, "--ledger", ledger, "-o", tmp_path / name)
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert "Nothing is charged to" in done.stderr
        made.append(hr.Release.load(tmp_path / name))
    assert hr.Ledger.open(ledger).read().epsilon == 0.0
    assert np.array_equal(made[0].arrays["means"], made[1].arrays["means"])
    ratings = read_randomized(sent, value_range=(1, 5))
    hr.fit(ratings, hr.OneBit(already_randomized=True), hr.Budget(3.0, unit="rating"), ledger=tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


def test_a_seed_of_the_server_says_nothing_of_the_noise_of_the_devices(sent):
    ratings = read_randomized(sent, value_range=(1, 5))
    budget = hr.Budget(3.0, unit="rating")
    promise = hr.fit(ratings, hr.OneBit(already_randomized=True), budget, seed=1).guarantee
    assert promise.void
    assert "no noise was drawn from the seed" in promise.why_void
    assert "subtract" not in promise.why_void
    plain = hr.read({"user": [1, 2], "item": [1, 1], "value": [0, 1]}, value_range=(0, 1))
    assert "subtract the noise" in hr.fit(plain, hr.OneBit(), budget, seed=1).guarantee.why_void


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


def test_a_solver_that_only_says_so_is_charged(tmp_path):
    class Claims(hr.SVD):
        already_randomized = True

    ledger = hr.Ledger.open(tmp_path / "L.json", hr.Budget(5.0, 1e-6))
    ratings, _ = hr.synthetic(users=50, items=8, rank=1, per_user=4, seed=0)
    hr.fit(ratings, Claims(), hr.Budget(1.0, 1e-6), ledger=ledger)
    assert ledger.read().epsilon > 0.999


# --- the device -----------------------------------------------------------------------------------


def test_own_ratings_are_never_overwritten_and_a_file_that_was_made_only_on_request(tmp_path):
    mine, out = tmp_path / "mine.csv", tmp_path / "out.csv"
    mine.write_text(MINE)
    linked = tmp_path / "linked.csv"
    linked.symlink_to(mine)
    words = ("randomize", mine, "--epsilon", 2, "--threshold", 3.5)
    for target in (mine, linked):
        for force in ((), ("--force",)):
            done = run(*words, "-o", target, *force)
            assert done.exit_code == 2
            assert "holds the ratings themselves" in done.output
            assert mine.read_text() == MINE
    assert run(*words, "-o", out).exit_code == 0
    first = out.read_text()
    assert first.splitlines()[1].endswith(",3.5")
    done = run(*words, "-o", out)
    assert done.exit_code == 2
    assert "a second file spends ε = 2 again on each of them" in " ".join(done.output.split())
    assert out.read_text() == first
    done = run(*words, "-o", out, "--force")
    assert done.exit_code == 0
    assert "spends ε = 2 more on each" in done.output


@pytest.mark.parametrize("words", [("--threshold", "nan"), ("--threshold", "inf"), ("--epsilon", "0")], ids=str)
def test_numbers_that_are_none_are_refused_on_the_device(tmp_path, words):
    (tmp_path / "mine.csv").write_text(MINE)
    usual = {"--threshold": "3.5", "--epsilon": "2"} | {words[0]: words[1]}
    flat = [word for pair in usual.items() for word in pair]
    done = run("randomize", tmp_path / "mine.csv", *flat, "-o", tmp_path / "out.csv")
    assert done.exit_code == 2
    assert words[0].strip("-") in done.output
    assert not (tmp_path / "out.csv").exists()
