"""Kill, interrupt, starve and race fits: nothing lost, nothing half-written, no overspend, one clear sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

VICTIM = Path(__file__).with_name("victim.py")
ONE_SENTENCE, INTERRUPTED, THROUGH = 3, 5, 0


QUICK = [
    ["every_step", 8],
    ["random_moments", 4, 0],
    ["interrupts", 11],
    ["full_disk", [0, 200, 600, 2000]],
    ["read_only"],
    ["no_memory"],
    ["races", 3],
]


def victim(folder, scenarios, timeout):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, VICTIM, str(folder), json.dumps(scenarios)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """All quick scenarios in one process: it has everything imported and compiled already."""
    folder = tmp_path_factory.mktemp("faults")
    for parent in (folder, *folder.parents[:2]):  # a test drops its rights, and must still find its way here
        parent.chmod(parent.stat().st_mode | 0o005)
    return victim(folder, QUICK, 240)


def test_killed_at_steps_that_write(quick):
    assert quick["every_step"]["complaints"] == []
    assert quick["every_step"]["trials"] >= 12


def test_killed_at_random_moments(quick):
    assert quick["random_moments"]["complaints"] == []
    assert quick["random_moments"]["kills"] >= 1


def test_interrupted(quick):
    assert quick["interrupts"]["complaints"] == []
    assert quick["interrupts"]["codes"] == [THROUGH, INTERRUPTED]


def test_a_full_disk(quick):
    assert quick["full_disk"] == {"trials": 4, "codes": [ONE_SENTENCE], "complaints": []}


def test_a_read_only_folder(quick):
    assert quick["read_only"] == {"codes": [ONE_SENTENCE], "complaints": []}


def test_no_memory_left(quick):
    assert quick["no_memory"] == {"codes": [ONE_SENTENCE], "complaints": []}


def test_two_fits_on_one_ledger(quick):
    assert quick["races"] == {"races": 3, "codes": [[THROUGH, ONE_SENTENCE]], "over": 0}


@pytest.mark.slow
def test_killed_at_every_step_that_writes(tmp_path):
    found = victim(tmp_path, [["every_step", 1]], 1200)["every_step"]
    assert found["complaints"] == []
    assert found["trials"] >= 90


@pytest.mark.slow
def test_killed_at_200_random_moments(tmp_path):
    found = victim(tmp_path, [["random_moments", 200, 1]], 3600)["random_moments"]
    assert found["complaints"] == []
    assert found["kills"] >= 200


@pytest.mark.slow
def test_50_races_on_one_ledger(tmp_path):
    found = victim(tmp_path, [["races", 50]], 600)["races"]
    assert found == {"races": 50, "codes": [[THROUGH, ONE_SENTENCE]], "over": 0}
