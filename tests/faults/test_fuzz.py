"""A small part of `make fuzz` in every test run, and the same targets under Hypothesis, which shrinks what it finds."""

import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FUZZ = Path(__file__).parents[2] / "fuzz"
sys.path.insert(0, str(FUZZ))

import run  # noqa: E402
from targets import targets  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
TARGETS = targets(Path(FOLDER.name))
BY_BYTES = [target for target in TARGETS if target.name.partition(" ")[0] in ("release", "ledger", "table", "own")]
QUICK = {"release file": 400, "ledger file": 400, "command line": 25}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_hostile_input_is_answered_with_one_sentence(target):
    assert run.fuzz(target, QUICK.get(target.name, 80), seed=2) == 0


@pytest.mark.parametrize("target", BY_BYTES, ids=lambda target: target.name)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(draw=st.randoms(use_true_random=False))
def test_hostile_input_by_hypothesis(target, draw):
    target.run(target.make(draw))


@pytest.mark.parametrize("target", BY_BYTES, ids=lambda target: target.name)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(content=st.binary(max_size=300))
def test_any_bytes_by_hypothesis(target, content):
    target.run(content)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_much_hostile_input(target):
    assert run.fuzz(target, target.full // 20, seed=3) == 0
