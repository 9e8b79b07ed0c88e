"""A small part of `make fuzz` in every test run, and the same targets under Hypothesis, which shrinks what it finds."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import run
import targets as made

FILES = ["release file", "ledger file", "table .csv", "table .tsv", "table .txt", "table .parquet", "table .csv.gz"]
FILES += ["own .csv", "own .json", "randomized table", "randomized folder"]
OTHERS = ["data set ml-100k", "data set ml-1m", "data set ml-25m", "data set jester-1", "data set restaurant"]
OTHERS += ["data set netflix", "data set yahoo-music", "data set yahoo-music-r2", "data set yahoo-music-r3"]
OTHERS += ["resume folder", "command line"]
QUICK = {"release file": 300, "ledger file": 300, "command line": 25}
EXAMPLES = 15 if os.environ.get("HYPOTHESIS_PROFILE", "default") == "default" else 20_000
HYPOTHESIS = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return {target.name: target for target in made.targets(tmp_path_factory.mktemp("fuzz"))}


def test_every_target_is_tried_here(targets):
    assert sorted(targets) == sorted(FILES + OTHERS)


@pytest.mark.parametrize("name", FILES + OTHERS)
def test_hostile_input_is_answered_with_one_sentence(targets, name):
    assert run.fuzz(targets[name], QUICK.get(name, 60), seed=2) == 0


@pytest.mark.parametrize("name", FILES)
@HYPOTHESIS
@given(draw=st.randoms(use_true_random=False))
def test_hostile_input_by_hypothesis(targets, name, draw):
    targets[name].run(targets[name].make(draw))


@pytest.mark.parametrize("name", FILES)
@HYPOTHESIS
@given(content=st.binary(max_size=300))
def test_any_bytes_by_hypothesis(targets, name, content):
    targets[name].run(content)


def test_a_fuzzer_that_finds_something_says_so(targets, capsys):
    """Power: a target that fails now and then is reported, with its input and its seed's number."""

    def fails(content):
        if content:
            raise IndexError("the fault")

    broken = made.Target("broken", lambda draw: b"x" * draw.randint(0, 1), fails)
    assert 0 < run.fuzz(broken, 50, seed=1) < 50
    assert "IndexError: the fault" in capsys.readouterr().out

    def noisy(content):
        os.write(2, b"panicked")

    assert run.fuzz(made.Target("noisy", lambda draw: b"x", noisy), 1, seed=1) == 1

    def greedy(content):
        return bytearray(10**8)

    assert run.fuzz(made.Target("greedy", lambda draw: b"x", greedy), 1, seed=1) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES + OTHERS)
def test_much_hostile_input(targets, name):
    assert run.fuzz(targets[name], targets[name].full // 20, seed=3) == 0


def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("action", "bad"),
    [
        (lambda content: time.sleep(5.0), 1),
        (lambda content: busy(5.0), 1),
        (lambda content: os.kill(os.getpid(), signal.SIGALRM), 0),
    ],
    ids=["hangs", "computes", "a machine that slept"],
)
def test_what_takes_too_long_is_found_and_a_machine_that_slept_is_not(action, bad, monkeypatch):
    monkeypatch.setattr(run, "SECONDS", 0.05)
    assert run.fuzz(made.Target("slow", lambda draw: b"", action), 1, seed=0) == bad
