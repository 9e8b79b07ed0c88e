"""The command line: what it prints, its exit codes, and that a failure is one sentence without a rating or an id."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import hushrec as hr
from hushrec.cli import app
from hushrec.cli.terminal import OneSentence
from hushrec.cli.wording import in_options
from hushrec.errors import HushrecError
from hushrec.evaluate import experiments
from hushrec.evaluate.experiments import Experiment
from hushrec.privacy import queries
from hushrec.solvers.registry import SOLVERS, make_solver, solver_class

MARKED_USER, MARKED_VALUE = 987654321, 4.875
COLUMNS = ["--user", "u", "--item", "i", "--value", "r"]
RANGE = ["--value-range", "1", "5"]


def call(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def table(path, ratings):
    rows = np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr))
    pl.DataFrame({"u": rows + 100, "i": ratings.items[ratings.indices], "r": ratings.values}).write_csv(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with train.csv, test.csv, mine.csv and a release, model.hush."""
    folder = tmp_path_factory.mktemp("cli")
    train, test = hr.synthetic(users=400, items=15, per_user=6, test_per_user=2, value_range=(1, 5), seed=3)
    table(folder / "train.csv", train)
    table(folder / "test.csv", test)
    (folder / "mine.csv").write_text("item,value\n3,4.5\n7,1\n")
    done = call(
        "fit", folder / "train.csv", *COLUMNS, *RANGE, "--epsilon", 2, "--delta", 1e-6, "-o", folder / "model.hush"
    )
    assert done.exit_code == 0, done.output
    return folder


def commands():
    """Every command and subcommand, as the words that call it."""
    from typer.main import get_command

    found = []
    for name, command in get_command(app).commands.items():
        found += [(name, inner) for inner in getattr(command, "commands", {})] or [(name,)]
    return found


def test_there_is_every_promised_command():
    names = {words[0] for words in commands()}
    assert {"demo", "fit", "recommend", "evaluate", "explain", "budget", "reproduce", "audit", "data"} <= names
    assert {("data", "list"), ("data", "fetch"), ("data", "check")} <= set(commands())


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(words):
    shown = call(*words, "--help")
    assert shown.exit_code == 0
    assert "Example: hushrec" in shown.output
    assert f"hushrec {' '.join(words)}" in " ".join(shown.output.split())


FIGURES = {"demo", "fit", "recommend", "evaluate", "explain", "budget", "audit", "plan", "reproduce"}


@pytest.mark.parametrize("words", [words for words in commands() if words[0] in FIGURES], ids=" ".join)
def test_every_command_with_figures_has_json(words):
    assert "--json" in call(*words, "--help").output


def test_no_command_shows_the_help():
    assert "Example: hushrec" in call().output
    assert call().exit_code == 0
    assert call("--version").output.strip() == f"hushrec {hr.__version__}"


# --- the whole path --------------------------------------------------------------------------------


def test_fit_wrote_a_release_with_the_asked_budget(place):
    release = hr.Release.load(place / "model.hush")
    assert (release.guarantee.epsilon, release.guarantee.delta, release.guarantee.void) == (2.0, 1e-6, False)
    assert release.guarantee.relation == "replace-one"
    assert not any(str(number) in release.card() for number in (400, 2400))  # neither users nor ratings are told


def test_fit_options_reach_the_fit(place, tmp_path):
    out = tmp_path / "m.hush"
    done = call(
        *["fit", place / "train.csv", *COLUMNS, "--range", 1, 5, "--solver", "svd", "--set", "rank=2"],
        *["--set", "head=9", "--epsilon", 3, "--delta", 1e-5, "--relation", "add-remove", "--seed", 5, "--top", 10],
        *["-o", out, "--json"],
    )
    card = json.loads(done.stdout)
    assert (card["epsilon"], card["delta"], card["relation"], card["items"]) == (3.0, 1e-5, "add-remove", 10)
    assert (card["solver"]["rank"], card["solver"]["head"], card["void"]) == (2, 9, True)
    assert card["ledger"][0]["name"] == "top items"
    again = hr.Release.load(out)
    assert again.n_items == 10


def test_fixed_top_is_declared_and_non_private_is_said(place, tmp_path):
    done = call(
        *["fit", place / "train.csv", *COLUMNS, *RANGE, "--non-private", "--fixed-top", 5, "-o", tmp_path / "m.hush"]
    )
    assert "NOT PRIVATE" in done.output
    release = hr.Release.load(tmp_path / "m.hush")
    assert release.n_items == 5
    assert any("fixed beforehand" in sentence for sentence in release.guarantee.assumptions)


def test_recommend_is_the_release_s_own(place):
    release = hr.Release.load(place / "model.hush")
    wanted = release.recommend([3, 7], [4.5, 1.0], top=3)
    got = json.loads(call("recommend", place / "model.hush", place / "mine.csv", "--top", 3, "--json").stdout)
    assert [(one["item"], one["score"]) for one in got] == wanted
    words = call("recommend", place / "model.hush", place / "mine.csv", "--top", 3).output
    assert [line.split()[0] for line in words.splitlines() if line.strip()[:1].isdigit()] == [str(i) for i, _ in wanted]


def test_unknown_items_of_hers_are_an_error_or_left_out(place, tmp_path):
    (tmp_path / "mine.csv").write_text("item,value\n3,4.5\n9999,1\n")
    refused = call("recommend", place / "model.hush", tmp_path / "mine.csv")
    assert refused.exit_code == 2
    assert "9999" not in refused.output
    assert call("recommend", place / "model.hush", tmp_path / "mine.csv", "--ignore-unknown").exit_code == 0


def test_evaluate_matches_users_by_id(place, tmp_path):
    """Shuffled rows, users in one file only: the figures are those of `hr.evaluate` on matched users."""
    train = pl.read_csv(place / "train.csv").sample(fraction=1.0, shuffle=True, seed=1)
    train = train.filter(pl.col("u") != 107)
    test = pl.read_csv(place / "test.csv").filter(pl.col("u") != 103)
    test = pl.concat([test, pl.DataFrame({"u": [5, 5], "i": [0, 1], "r": [3.0, 4.0]})]).sample(
        fraction=1.0, shuffle=True, seed=2
    )
    train.write_csv(tmp_path / "a.csv")
    test.write_csv(tmp_path / "b.csv")
    got = call(
        "evaluate",
        place / "model.hush",
        "--train",
        tmp_path / "a.csv",
        "--test",
        tmp_path / "b.csv",
        *COLUMNS,
        "--json",
    )
    figures = json.loads(got.stdout)
    release = hr.Release.load(place / "model.hush")
    errors = []
    for user, rows in test.group_by("u"):
        own = train.filter(pl.col("u") == user[0])
        predicted = release.complete(own["i"].to_numpy(), own["r"].to_numpy())
        errors.append(predicted[rows["i"].to_numpy()] - rows["r"].to_numpy().astype(np.float32))
    errors = np.concatenate(errors)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert figures["ratings"] == len(errors)
    assert "2 users of the test ratings have no training ratings" in got.stderr
    assert (
        json.loads(got.stdout).keys()
        == hr.evaluate(release, *hr.synthetic(users=20, items=15, per_user=5, value_range=(1, 5))).keys()
    )


def test_evaluate_ranks_at_the_cutoffs_that_are_asked_for(place):
    parts = ["--train", place / "train.csv", "--test", place / "test.csv"]
    plain, ranked = (
        json.loads(call("evaluate", place / "model.hush", *parts, *COLUMNS, *more, "--json").stdout)
        for more in ([], ["--at", "3", "--at", "5"])
    )
    assert ranked.keys() - plain.keys() == {"recall@3", "ndcg@3", "recall@5", "ndcg@5"}
    assert {name: ranked[name] for name in plain} == plain
    refused = call("evaluate", place / "model.hush", *parts, *COLUMNS, "--at", "0")
    assert refused.exit_code == 2
    assert "at least 1" in refused.output


def test_explain_in_words_and_as_json(place):
    release = hr.Release.load(place / "model.hush")
    assert call("explain", place / "model.hush").output.strip() == release.card().strip()
    card = json.loads(call("explain", place / "model.hush", "--json").stdout)
    assert card["epsilon"] == 2.0
    assert 1.9999 < card["spent"] <= 2.0


def test_budget_has_the_promised_figures():
    figures = json.loads(call("budget", "--epsilon", 1, "--delta", 1e-6, "--json").stdout)
    assert {"epsilon", "delta", "mu", "advantage", "tpr_at_1pct_fpr"} <= figures.keys()
    assert figures["mu"] == pytest.approx(0.2367043807, abs=1e-9)
    assert figures["tpr_at_1pct_fpr"] == pytest.approx(0.0183, abs=1e-4)
    assert figures["advantage"] == pytest.approx(0.0942, abs=1e-4)
    asked = ["budget", "--epsilon", 1, "--delta", 1e-6, "--users", 6040, "--items", 400]
    words = call(*asked)
    assert words.exit_code == 0
    assert "0.2367" in words.output
    assert "as published" in words.output
    assert "Theorem A.1, on which Theorem 3.2 and Corollary 3.1 rest, fails as stated" in words.output
    assert "fails as stated" in json.loads(call(*asked, "--json").stdout)["remark"]


def test_a_data_set_is_recognised_by_its_files(tmp_path):
    folder = tmp_path / "restaurant"
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = [f"U{user},{100 + item},{rng.integers(0, 3)},1,1" for user in range(60) for item in range(user % 7 + 1)]
    (folder / "rating_final.csv").write_text("userID,placeID,rating,food_rating,service_rating\n" + "\n".join(lines))
    done = call("fit", folder, "--epsilon", 1, "--delta", 1e-6, "-o", tmp_path / "m.hush")
    assert done.exit_code == 0, done.output
    assert hr.Release.load(tmp_path / "m.hush").value_range == (0.0, 2.0)
    checked = call("data", "check", folder, "--json")
    assert checked.exit_code == 1  # it is not the complete set
    assert json.loads(checked.stdout)["users"] == 60


def test_data_list_names_every_known_set():
    rows = json.loads(call("data", "list", "--json").stdout)
    assert {"ml-1m", "jester-1", "netflix", "restaurant"} <= {row["name"] for row in rows}
    assert "ml-1m" in call("data", "list").output


def test_a_ledger_over_its_total_refuses_before_reading(place, tmp_path):
    ledger = tmp_path / "l.ledger"
    assert call("ledger", "start", ledger, "--epsilon", 3, "--delta", 1e-6).exit_code == 0
    fit = ["--epsilon", 2.5, "--delta", 1e-6, "--ledger", ledger, "-o", tmp_path / "m.hush"]
    assert call("fit", place / "train.csv", *COLUMNS, *RANGE, *fit).exit_code == 0
    refused = call("fit", tmp_path / "there-is-no-such-file.csv", *COLUMNS, *RANGE, *fit)
    assert refused.exit_code == 2
    assert "total" in refused.stderr
    assert "no-such-file" not in refused.stderr
    shown = json.loads(call("ledger", "show", ledger, "--json").stdout)
    assert shown["total"]["epsilon"] == 3.0
    assert shown["spent"] == pytest.approx(2.5)
    assert "2.5 of 3" in call("ledger", "show", ledger).output


def test_reproduce_runs_an_experiment_and_lists_them(tmp_path, monkeypatch):
    tiny = Experiment(
        name="tiny",
        title="A tiny one",
        about="No data.",
        cells=lambda options: [{"method": "none", "epsilon": 1.0, "seed": s} for s in range(options.runs or 1)],
        run=lambda cell, options: {"rmse": 1.0 + cell["seed"]},
    )
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"tiny": tiny}, raising=False)
    monkeypatch.setattr(experiments, "find_experiment", {"tiny": tiny}.__getitem__)
    assert "A tiny one" in call("reproduce").output
    assert json.loads(call("reproduce", "--json").stdout)[0]["name"] == "tiny"
    done = call("reproduce", "tiny", "--runs", 3, "--out", tmp_path, "--json")
    assert json.loads(done.stdout)["rows"][0]["rmse"] == 2.0
    assert (tmp_path / "tiny.jsonl").is_file()
    assert "rmse" in call("reproduce", "tiny", "--runs", 3, "--out", tmp_path).output
    refused = call("reproduce", "tiny", "--tuned", "--out", tmp_path)
    assert refused.exit_code == 2
    assert refused.stderr.strip() == "tiny has no grid of hyper-parameters to try, so tuned must be left out."


@pytest.mark.parametrize(("tuned", "words"), [(True, "not charged to the budget"), (False, "nothing was tuned")])
def test_reproduce_says_whether_the_settings_were_tuned_free_of_charge(tuned, words, tmp_path, monkeypatch):
    grid = Experiment(
        name="grid",
        title="One with a grid",
        about="No data.",
        cells=lambda options: [{"method": "none", "epsilon": 1.0, "seed": 0}],
        run=lambda cell, options: {"rmse": 1.0},
        tunable=True,
    )
    monkeypatch.setattr(experiments, "find_experiment", {"grid": grid}.__getitem__)
    command = ["reproduce", "grid", "--out", tmp_path, *(["--tuned"] if tuned else [])]
    shown, answer = call(*command).stdout, json.loads(call(*command, "--json").stdout)
    assert words in " ".join(shown.split())
    assert ("Settings are the defaults" in shown) != tuned
    assert answer["tuned"] is tuned
    assert any(words in remark for remark in answer["remarks"])
    assert words in (tmp_path / "grid.md").read_text()


def test_audit_says_what_it_tried_and_fails_where_the_guarantee_is_broken(monkeypatch):
    arguments = ["audit", "--epsilon", 1, "--solver", "svd", "--check", "noise", "--seed", 1]
    done = call(*arguments, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["passed"], report["epsilon"], report["relation"]) == (True, 1.0, "replace-one")
    assert "nothing broke the guarantee" in call(*arguments).output
    monkeypatch.setattr(queries.ResidualGram, "add_noise", lambda query, sums, sigma, bits: None)
    assert call(*arguments).exit_code == 1


# --- what goes wrong -------------------------------------------------------------------------------

BAD = {
    "no argument": ["fit"],
    "no epsilon": ["fit", "train.csv", *RANGE],
    "no file": ["fit", "nothing.csv", *RANGE, "--epsilon", 1],
    "no range": ["fit", "train.csv", "--epsilon", 1, "--delta", 1e-6],
    "range the wrong way": ["fit", "train.csv", "--range", 5, 1, "--epsilon", 1, "--delta", 1e-6],
    "negative epsilon": ["fit", "train.csv", *RANGE, "--epsilon", -1],
    "epsilon no number": ["budget", "--epsilon", "one"],
    "delta missing": ["fit", "train.csv", *COLUMNS, *RANGE, "--epsilon", 1],
    "relation": ["budget", "--epsilon", 1, "--delta", 1e-6, "--relation", "neighbours"],
    "unknown solver": ["fit", "train.csv", *RANGE, "--epsilon", 1, "--solver", "magic"],
    "unknown setting": ["fit", "train.csv", *RANGE, "--epsilon", 1, "--solver", "svd", "--set", "colour=red"],
    "setting of the wrong type": ["fit", "train.csv", *RANGE, "--epsilon", 1, "--solver", "svd", "--set", "rank=two"],
    "setting without a solver": ["fit", "train.csv", *RANGE, "--epsilon", 1, "--set", "rank=2"],
    "wrong columns": ["fit", "train.csv", *RANGE, "--epsilon", 1, "--delta", 1e-6],
    "both private and not": ["fit", "train.csv", *RANGE, "--epsilon", 1, "--non-private"],
    "output nowhere": ["fit", "train.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6, "-o", "no/such/m.hush"],
    "top too large": ["fit", "train.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6, "--top", 16],
    "duplicates rule": ["fit", "twice.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6, "--duplicates", "all"],
    "duplicates": ["fit", "twice.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6],
    "outside the range": ["fit", "train.csv", *COLUMNS, "--range", 1, 2, "--epsilon", 1, "--delta", 1e-6],
    "item list missing": ["fit", "train.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--items", "nothing.txt"],
    "release missing": ["explain", "nothing.hush"],
    "release is something else": ["explain", "train.csv"],
    "own ratings missing": ["recommend", "model.hush", "nothing.csv"],
    "top zero": ["recommend", "model.hush", "mine.csv", "--top", 0],
    "own ratings without numbers": ["recommend", "model.hush", "words.csv"],
    "test missing": ["evaluate", "model.hush", "--train", "train.csv", "--test", "nothing.csv", *COLUMNS],
    "unknown format": ["fit", "train.csv", "--format", "ml-0", "--epsilon", 1, "--delta", 1e-6],
    "unknown data set": ["data", "fetch", "ml-0"],
    "data set by hand": ["data", "fetch", "netflix"],
    "nothing to check": ["data", "check", "nothing.zip"],
    "unknown experiment": ["reproduce", "nothing"],
    "ledger missing": ["ledger", "show", "nothing.ledger"],
    "unknown command": ["bake"],
    "unknown option": ["explain", "model.hush", "--loud"],
    "unknown check": ["audit", "--epsilon", 1, "--check", "luck"],
    "users without items": ["budget", "--epsilon", 1, "--delta", 1e-6, "--users", 10],
    "users of a rating's budget": [
        *("budget", "--epsilon", 1, "--delta", 1e-6, "--unit", "rating", "--users", 10, "--items", 10)
    ],
    "users without delta": ["budget", "--epsilon", 1, "--users", 10, "--items", 10],
    "epsilon of its own": ["reproduce", "dplmc-rate", "--quick", "--epsilon", 3],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "words.csv").write_text("item,value\n3,good\n")
    (place / "twice.csv").write_text(f"u,i,r\n{MARKED_USER},1,{MARKED_VALUE}\n{MARKED_USER},1,{MARKED_VALUE}\n")
    done = call(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip().endswith(".")
    assert "Traceback" not in done.stderr
    assert str(MARKED_USER) not in done.stderr
    assert str(MARKED_VALUE) not in done.stderr


UNREAD = {
    "no delta for users": (["--epsilon", 1], "delta"),
    "a unit that the solver does not protect": (["--epsilon", 1, "--delta", 1e-6, "--unit", "rating"], "--unit user"),
    "a budget too small for any noise": (["--epsilon", 1e-14, "--delta", 1e-300], "epsilon"),
    "a duplicates rule that is none": (["--epsilon", 1, "--delta", 1e-6, "--duplicates", "all"], "--duplicates"),
    "no item to keep": (["--epsilon", 1, "--delta", 1e-6, "--fixed-top", 0], "--fixed-top"),
    "a seed below zero": (["--epsilon", 1, "--delta", 1e-6, "--seed", -1], "seed"),
}


@pytest.mark.parametrize(("arguments", "named"), UNREAD.values(), ids=UNREAD)
def test_settings_are_refused_before_a_file_is_looked_for(arguments, named, tmp_path):
    done = call("fit", tmp_path / "there-is-none.csv", *RANGE, "-o", tmp_path / "m.hush", *arguments)
    assert done.exit_code == 2
    assert named in done.stderr
    assert "there-is-none" not in done.stderr


def test_more_fixed_items_than_there_are_is_refused_by_the_option_s_name(place, tmp_path):
    done = call(
        *["fit", place / "train.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6, "--fixed-top", 99],
        *["-o", tmp_path / "m.hush"],
    )
    assert (done.exit_code, done.stderr) == (2, "--fixed-top is 99, but it must be a whole number from 1 to 15.\n")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["fit", "twice.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6], "--duplicates first, last or mean"),
        (["fit", "bare.csv", *RANGE, "--epsilon", 1, "--delta", 1e-6], "--no-header"),
        (["fit", ".", *RANGE, "--epsilon", 1, "--delta", 1e-6], "--format"),
        (["recommend", "model.hush", "strange.csv"], "--ignore-unknown"),
    ],
)
def test_errors_name_the_options_that_help(arguments, option, place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "twice.csv").write_text("u,i,r\n1,1,3\n1,1,3\n")
    (place / "bare.csv").write_text("1,1,3\n2,1,3\n")
    (place / "strange.csv").write_text("item,value\n999,3\n")
    done = call(*arguments)
    assert done.exit_code == 2
    assert option in done.stderr


def sentences():
    """Every sentence that the library's own errors are raised with, a placeholder for what is put in."""
    for path in sorted(Path(hr.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
                joined = [part for part in ast.walk(node) if isinstance(part, ast.JoinedStr)]
                pieces = [piece for part in joined for piece in ast.walk(part)]
                for part in joined:
                    yield "".join(v.value if isinstance(v, ast.Constant) else "x" for v in part.values)
                for part in ast.walk(node):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and part not in pieces:
                        yield part.value


def test_no_error_of_the_library_speaks_python_on_the_command_line():
    """What only a Python program can meet may stay as it is."""
    python_only = ("per_user=None", "fit needs", "tune needs", "tune compares", "plan needs", "A budget with")
    python = r"(?<!set )\b[a-z]+_?[a-z]*=['\"(TFN]|NonPrivate\(|hushrec\.load|has_header"
    for sentence in sentences():
        said = in_options(sentence)
        if not sentence.startswith(python_only) and "line_search" not in sentence:
            assert not re.search(python, said), said


WORDS = st.one_of(
    st.sampled_from(
        ["budget", "explain", "ledger", "show", "data", "list", "--json", "--epsilon", "--delta", "-1", "1"]
    ),
    st.sampled_from(
        ["1e-6", "nan", "inf", "1e999", "--relation", "add-remove", "--users", "--items", "--unit", "0", "--"]
    ),
    st.text(max_size=8).filter(lambda word: "\x00" not in word and "help" not in word),
)


@given(st.lists(WORDS, max_size=9))
def test_hostile_arguments_are_answered_or_refused_in_one_sentence(arguments):
    done = call(*arguments)
    assert done.exit_code in (0, 2)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    if done.exit_code == 2:
        assert done.stderr.count("\n") == 1


def test_what_nobody_foresaw_quotes_nothing(place, monkeypatch):
    from hushrec.release import file

    def broken(path):
        raise KeyError(MARKED_USER)

    monkeypatch.setattr(file.Release, "load", broken)
    monkeypatch.delenv("HUSHREC_DEBUG", raising=False)
    done = call("explain", place / "model.hush")
    assert done.exit_code == 1
    assert "KeyError" in done.stderr
    assert str(MARKED_USER) not in done.output
    monkeypatch.setenv("HUSHREC_DEBUG", "1")
    assert isinstance(call("explain", place / "model.hush").exception, KeyError)


@pytest.mark.parametrize(
    ("problem", "words"), [(OSError(28, "No space left", "x"), "No space"), (MemoryError(), "memory")]
)
def test_a_machine_at_its_limits_is_one_sentence(problem, words, place, monkeypatch):
    from hushrec.release import file

    def broken(path):
        raise problem

    monkeypatch.setattr(file.Release, "load", broken)
    done = call("explain", place / "model.hush")
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interrupt_is_one_line_and_130(place, monkeypatch):
    from hushrec.release import file

    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(file.Release, "load", interrupted)
    done = call("explain", place / "model.hush")
    assert (done.exit_code, done.stderr, done.stdout) == (130, "Interrupted.\n", "")


# --- the real program ------------------------------------------------------------------------------


def program(*arguments, **more):
    command = [sys.executable, "-m", "hushrec", *(str(one) for one in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)


def test_the_program_itself(place):
    done = program("explain", place / "model.hush")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Privacy card" in done.stdout
    bad = program("fit", "nothing.csv", *RANGE, "--epsilon", 1, "--delta", 1e-6)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "There is no file nothing.csv.\n"


def test_piped_there_is_no_progress_and_no_colour(place, tmp_path):
    done = program(
        *["fit", place / "train.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6, "-o", tmp_path / "m.hush"]
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "\x1b" not in done.stdout


def test_on_a_terminal_there_is_progress(place, tmp_path):
    screen, terminal = os.openpty()
    command = [sys.executable, "-m", "hushrec", "fit", place / "train.csv", *COLUMNS, *RANGE, "--epsilon", "1"]
    command += ["--delta", "1e-6", "-o", tmp_path / "m.hush"]
    environment = os.environ | {"TERM": "xterm"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, timeout=120, check=False)
    os.close(terminal)
    assert done.returncode == 0
    assert b"Fitting" in os.read(screen, 100_000)
    os.close(screen)


def test_a_terminal_without_greek_letters_still_gets_the_figures(place):
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = program("explain", place / "model.hush", env=environment)
    assert done.returncode == 0
    assert "= 2" in done.stdout


def test_a_reader_that_goes_away_is_no_traceback(place):
    command = f"'{sys.executable}' -m hushrec explain '{place / 'model.hush'}' | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("Privacy card")


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), ("> /dev/full", 2)])
def test_output_that_nobody_takes_is_no_traceback(place, tmp_path, closed, code):
    model = tmp_path / "m.hush"
    words = ["fit", place / "train.csv", *COLUMNS, *RANGE, "--epsilon", 1, "--delta", 1e-6, "-o", model]
    command = f"'{sys.executable}' -m hushrec {' '.join(map(str, words))} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code
    assert done.stderr == ("No space left on device.\n" if code else "")
    assert hr.Release.load(model).n_items > 0


def test_ctrl_c_in_the_real_program(place, tmp_path):
    fifo = tmp_path / "waits.csv"
    code = (
        "import sys, time, hushrec.release.file as file\n"
        "def wait(path):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "file.Release.load = wait\n"
        "sys.argv = ['hushrec', 'explain', 'x']\n"
        "from hushrec.cli import main\nmain()\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=fifo.parent
    )
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert (running.returncode, said) == (130, "Interrupted.\n")


def test_ctrl_c_while_the_program_is_loaded_or_reads_its_options(monkeypatch):
    code = (
        "import sys, runpy\n"
        "class Interrupts:\n    def find_spec(self, name, *_):\n"
        "        if name == 'hushrec.cli.models':\n            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "runpy.run_module('hushrec', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (130, "Interrupted.\n", "")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(OneSentence, "make_context", interrupted)
    early = call("data", "list")
    assert (early.exit_code, early.stderr, early.stdout) == (130, "Interrupted.\n", "")


def test_the_help_loads_nothing_heavy():
    code = (
        "import sys, contextlib, io\nfrom hushrec.cli import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    app(['--help'])\n"
        "print([name for name in ('numpy', 'numba', 'polars', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[]"


# --- the solvers' registry -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_every_registered_solver_has_defaults_and_a_public_name(name):
    solver = make_solver(name)
    assert hasattr(solver, "solve")
    assert solver_class(name) is getattr(hr, type(solver).__name__)


@pytest.mark.parametrize(
    ("text", "message"),
    [("rank", "key=value"), ("rank=x", "a whole number or none"), ("x=1", "no setting"), ("readout=z", "'ridge'")],
)
def test_bad_settings_name_the_rule(text, message):
    with pytest.raises(HushrecError, match=message):
        make_solver("svd", [text])
    with pytest.raises(HushrecError, match="twice"):
        make_solver("svd", ["rank=1", "rank=2"])
    assert make_solver("svd", ["rank=none", "offset-prior=2"]) == hr.SVD(offset_prior=2.0)
