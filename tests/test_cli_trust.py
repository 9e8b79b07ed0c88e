"""The command line where trust is at stake: audits, ledgers, runs that go on, data without values."""

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hushrec as hr
from hushrec.cli import app, models
from hushrec.data.readers import ratings_from_arrays
from hushrec.privacy.book import chained

RATINGS = "user,item,value\n" + "".join(f"{u},{i},{1 + (u * i) % 5}\n" for u in range(12) for i in range(u % 3, 8, 2))
CLICKS = "user,item\n" + "".join(f"{u},{i}\n" for u in range(12) for i in range(u % 3, 8, 2))
FIT = ["--value-range", "1", "5", "--epsilon", "4", "--delta", "1e-6", "--solver", "svd"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ratings.csv").write_text(RATINGS)
    (tmp_path / "clicks.csv").write_text(CLICKS)
    return tmp_path


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


# --- audit -----------------------------------------------------------------------------------------


def test_an_audit_takes_the_shape_that_it_is_given(place):
    shape = ["--users", 9, "--items", 5, "--value-range", 0, 10, "--ratings-per-user", 3, "--top", 4]
    effort = ["--canaries", 12, "--search", 1, "--check", "one-run", "--check", "noise", "--seed", 1, "--json"]
    done = call("audit", "--solver", "svd", "--epsilon", 4, *shape, *effort)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = [finding["name"] for finding in found["findings"]]
    assert "top items (item counts)" in names
    assert any(name.startswith("12 canaries") for name in names)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--ratings-per-user", "nan"], "ratings_per_user must be"),
        (["--value-range", "5", "1"], "value_range must be"),
        (["--canaries", "1"], "canaries from 4"),
        (["--top", "0", "--check", "noise"], "top"),
        (["--plot", "roc.txt"], "must end in .png"),
        (["--solver", "onebit", "--check", "nonsense"], "known are neighbours, black-box"),
        (["--solver", "onebit", "--check", "replay"], "where single ratings are protected"),
        (["--solver", "onebit", "--top", "3"], "top is for audits of users"),
        (["--solver", "onebit", "--trainings", "3"], "trainings must be at least 20"),
    ],
)
def test_what_cannot_be_audited_is_one_sentence(place, option, said):
    done = call("audit", "--epsilon", 1, *option)
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert done.output.count("\n") == 1


# --- ledgers ---------------------------------------------------------------------------------------


def test_a_total_for_users_needs_a_delta(place):
    done = call("ledger", "start", "one.ledger", "--epsilon", 2)
    assert done.exit_code == 2
    assert "--delta must be above 0" in done.output
    assert not (place / "one.ledger").exists()
    assert call("ledger", "start", "one.ledger", "--epsilon", 2, "--unit", "rating").exit_code == 0


def test_a_first_fit_that_is_refused_starts_no_ledger(place):
    """Without a delta the fit cannot be made: a total without one would refuse all later fits too."""
    done = call("fit", "ratings.csv", "--value-range", 1, 5, "--epsilon", 4, "--ledger", "one.ledger")
    assert done.exit_code == 2
    assert "delta is 0.0" in done.output
    assert not (place / "one.ledger").exists()


def test_a_first_fit_without_ratings_starts_no_ledger(place):
    """A total is for good: it must not come from a run whose file had another name."""
    (place / "broken.csv").write_text(RATINGS + "1,2\n")
    for name in ("missing.csv", "broken.csv"):
        assert call("fit", name, *FIT, "--ledger", "one.ledger").exit_code == 2
        assert not (place / "one.ledger").exists()
    nowhere = call("fit", "missing.csv", *FIT, "--ledger", "nowhere/one.ledger")
    assert (nowhere.exit_code, nowhere.output) == (2, "No file can be written at nowhere/one.ledger.\n")
    unprotected = call("fit", "ratings.csv", *FIT[:3], "--non-private", "--ledger", "one.ledger")
    assert (unprotected.exit_code, unprotected.output.count("\n")) == (2, 1)
    assert call("fit", "ratings.csv", *FIT, "--ledger", "one.ledger").exit_code == 0
    assert (place / "one.ledger").exists()


def test_a_folder_whose_run_the_ledger_does_not_know_is_refused_before_ratings_are_read(place):
    assert call("fit", "ratings.csv", *FIT, "--ledger", "one.ledger").exit_code == 0
    (place / "run").mkdir()
    (place / "run" / "run.json").write_text('{"run": "other", "fit": {}}')
    done = call("fit", "missing.csv", *FIT, "--ledger", "one.ledger", "--resume", "run")
    assert done.exit_code == 2
    assert "no data was read" in done.output


def test_seeded_runs_have_a_ledger_of_their_own(place):
    assert call("ledger", "start", "real.ledger", "--epsilon", 9, "--delta", 1e-6).exit_code == 0
    done = call("ledger", "start", "try.ledger", "--epsilon", 9, "--delta", 1e-6, "--simulation")
    assert "simulation" in done.output
    for ledger, seed, code in (("real", ["--seed", 1], 2), ("try", ["--seed", 1], 0), ("real", [], 0), ("try", [], 2)):
        done = call("fit", "ratings.csv", *FIT, "--ledger", f"{ledger}.ledger", *seed)
        assert done.exit_code == code, done.output
    shown = call("ledger", "show", "try.ledger").output
    assert shown.startswith("SIMULATION")
    assert json.loads(call("ledger", "show", "try.ledger", "--json").stdout)["simulation"] is True
    assert "SIMULATION" not in call("ledger", "show", "real.ledger").output
    missing = call("fit", "ratings.csv", *FIT, "--ledger", "new.ledger", "--seed", 1)
    assert missing.exit_code == 2
    assert not (place / "new.ledger").exists()


def test_a_total_that_is_there_already_is_not_said_to_be_started(place):
    words = ["ledger", "start", "one.ledger", "--epsilon", 9, "--delta", 1e-6]
    assert [call(*words).output.split()[0] for _ in range(2)] == ["Started", "Found"]


# --- places that are taken --------------------------------------------------------------------------


@pytest.mark.parametrize("taken", ["ratings.csv", "one.ledger", "pipe"])
def test_a_release_overwrites_nothing_but_a_release(place, taken):
    os.mkfifo(place / "pipe")
    assert call("ledger", "start", "one.ledger", "--epsilon", 9, "--delta", 1e-6).exit_code == 0
    ledger = (place / "one.ledger").read_bytes()
    done = call("fit", "ratings.csv", *FIT, "--ledger", "one.ledger", "-o", taken)
    assert (done.exit_code, done.output) == (2, f"{taken} exists and is no release file: it is not overwritten.\n")
    assert (place / "ratings.csv").read_text() == RATINGS
    assert (place / "one.ledger").read_bytes() == ledger
    (place / "empty.hush").touch()
    for _ in range(2):
        assert call("fit", "ratings.csv", *FIT, "-o", "empty.hush").exit_code == 0


def test_a_list_of_items_is_a_file(place):
    os.mkfifo(place / "pipe")
    for items in ("pipe", "/dev/zero", "."):
        done = call("fit", "ratings.csv", *FIT, "--items", items)
        assert (done.exit_code, done.output) == (2, f"There is no readable file of item ids at {items}.\n")


# --- a disk that is full when all is done -----------------------------------------------------------


@pytest.fixture
def full(place, monkeypatch):
    """A place where no release can be put any more."""
    really = os.replace

    def replace_elsewhere(source, target):
        if Path(target).name == "model.hush" and Path(target).parent == Path():
            raise OSError(28, "No space left on device")
        really(source, target)

    monkeypatch.setattr(os, "replace", replace_elsewhere)
    (place / "spare").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place / "spare"))
    return place


def test_a_release_that_was_paid_for_is_not_lost_with_its_place(full):
    done = call("fit", "ratings.csv", *FIT, "--ledger", "one.ledger", "-o", "model.hush")
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    (spare,) = (full / "spare").rglob("model.hush")
    assert f"No space left on device; the release is at {spare} instead." in done.output
    assert hr.Release.load(spare).guarantee.epsilon == 4.0


def test_a_run_that_can_go_on_says_so_when_its_release_has_no_place(full, monkeypatch):
    words = ["fit", "ratings.csv", *FIT, "--ledger", "one.ledger", "--resume", "run", "-o", "model.hush"]
    done = call(*words)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "nothing is lost: the same command goes on from run." in done.output
    monkeypatch.undo()
    monkeypatch.chdir(full)
    assert call(*words).exit_code == 0
    assert len(hr.Ledger.open("one.ledger").read().runs) == 1


def test_no_place_at_all_is_one_sentence(full, monkeypatch):
    monkeypatch.setattr(models, "mkdtemp", lambda **_: str(full / "nowhere"))
    done = call("fit", "ratings.csv", *FIT, "-o", "model.hush")
    assert (done.exit_code, done.output) == (2, "model.hush could not be written: No space left on device.\n")


# --- files of somebody else ------------------------------------------------------------------------

HOSTILE = "a\x1b]0;b\x07c\x9b2Jd\u202ee\nf"
SHOWN = "a ]0;b c 2Jd e f"


def steers(output):
    """Whether anything was printed that could steer a terminal."""
    return any(not letter.isprintable() for letter in output.replace("\n", ""))


def hostile_ledger(path):
    total = {"epsilon": 3.0, "delta": 1e-6, "relation": "replace-one", "unit": "user"}
    run = {"run": HOSTILE, "at": HOSTILE, "opens": {"epsilon": 1.0, "delta": 1e-6}, "solver": HOSTILE, "seeded": False}
    first = chained("", json.dumps({"hushrec-ledger": 1, "total": total}).encode())
    path.write_bytes(first + chained(first[-17:-1].decode(), json.dumps(run).encode()))


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_ledger_steers_no_terminal(form, place):
    hostile_ledger(place / "one.ledger")
    done = call("ledger", "show", "one.ledger", *form)
    assert done.exit_code == 0
    assert not steers(done.output)
    if form:
        assert json.loads(done.stdout)["runs"][0]["solver"] == HOSTILE
    else:
        assert done.output.count(SHOWN) == 3


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_release_steers_no_terminal(form, place):
    ratings = ratings_from_arrays([0, 0, 1, 1], [HOSTILE, "g", "g", "h"], [1, 2, 3, 4], value_range=(1, 5))
    release = hr.fit(ratings, hr.SVD(), hr.Budget(4.0, 1e-6))
    replace(release, solver={"name": HOSTILE}, notes=(HOSTILE,)).save(place / "model.hush")
    (place / "mine.csv").write_text("item,value\ng,3\n")
    for words in (["explain", "model.hush"], ["recommend", "model.hush", "mine.csv"]):
        done = call(*words, *form)
        assert done.exit_code == 0, done.output
        assert not steers(done.output)
        assert form or SHOWN in done.output


def test_a_sentence_steers_no_terminal(place):
    done = call("explain", HOSTILE)
    assert (done.exit_code, done.output.count("\n"), steers(done.output)) == (2, 1, False)


# --- runs that go on -------------------------------------------------------------------------------


def test_a_finished_run_says_that_it_used_no_rating_again(place):
    words = ["fit", "ratings.csv", *FIT, "--resume", "run", "-o"]
    assert "answers come from" not in call(*words, "first.hush").output
    (place / "ratings.csv").write_text(RATINGS.replace(",5\n", ",1\n"))
    again = call(*words, "second.hush")
    assert again.exit_code == 0
    assert "All answers come from run, as they left before: the ratings were not used for them." in again.output
    assert (place / "first.hush").read_bytes() == (place / "second.hush").read_bytes()
    sorted((place / "run").glob("*.answer"))[0].unlink()
    assert "1 of the answers come from run" in call(*words, "third.hush").output


# --- clicks ----------------------------------------------------------------------------------------


def test_data_without_values_are_learnt_and_asked_for_without_values(place):
    done = call("fit", "clicks.csv", "--value", "none", "--epsilon", 20, "--delta", 1e-6)
    assert done.exit_code == 0, done.output
    assert "ImplicitPosterior" in done.output
    answers = []
    for name, content in (
        ("mine.csv", "item\n2\n4\n"),
        ("mine.txt", "2\n4\n"),
        ("pairs.csv", "item,value\n2,9\n4,-3\n"),
        ("mine.json", "[2, 4]"),
        ("pairs.json", '{"2": 1, "4": 1}'),
    ):
        (place / name).write_text(content)
        done = call("recommend", "model.hush", name, "--top", 3, "--json")
        assert done.exit_code == 0, done.output
        answers.append(json.loads(done.stdout))
    assert all(answer == answers[0] for answer in answers)
    assert not {2, 4} & {row["item"] for row in answers[0]}
    for name, content in (("none.csv", "item\n"), ("odd.json", '[[1], "x"]'), ("odd.csv", "item\n2,3\n")):
        (place / name).write_text(content)
        assert call("recommend", "model.hush", name).exit_code == 2


def test_ratings_still_need_their_values(place):
    assert call("fit", "ratings.csv", *FIT).exit_code == 0
    (place / "mine.csv").write_text("item\n2\n")
    done = call("recommend", "model.hush", "mine.csv")
    assert done.exit_code == 2
    assert "item and value" in done.output
