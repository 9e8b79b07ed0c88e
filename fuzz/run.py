"""Fuzz every reader, the release file, the ledger file and the command line: `make fuzz`, or `python fuzz/run.py`.

    python fuzz/run.py                      the full counts: 1,000,000 release and ledger files, 200,000 of all else
    python fuzz/run.py --scale 0.01         one hundredth of that
    python fuzz/run.py --only "ledger"      targets whose name holds this
    python fuzz/run.py --seed 7             other inputs

An input is bad when Hushrec answers it with anything but a value or one clear sentence, warns or writes to
standard error, or takes more time or memory than `targets.py` states. Bad inputs are written to --keep, and the exit
code is 1. Where atheris is installed, the same targets run under its coverage guidance afterwards (--atheris N each).
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from targets import MEMORY, SECONDS, Target, targets

WATCHED = (
    "hushrec.data",
    "hushrec.release",
    "hushrec.privacy.book",
    "hushrec.privacy.durable",
    "hushrec.privacy.guarantee",
)
MEASURED = 200  # every so many inputs the peak of memory is taken, which makes them slow


def main() -> int:
    """Run the targets and report."""
    arguments = _arguments()
    if arguments.guided:
        with tempfile.TemporaryDirectory() as folder:
            named = {target.name: target for target in targets(Path(folder))}
            _guided(named[arguments.only], arguments.guided, Path(arguments.keep))
    sys.stderr = os.fdopen(os.dup(2), "w")
    os.dup2(
        os.memfd_create("standard error") if hasattr(os, "memfd_create") else 2, 2
    )  # what stands there is a finding
    warnings.simplefilter("error")  # a warning quotes a line of code, and may quote data
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        bad = 0
        for target in targets(Path(folder)):
            if arguments.only in target.name:
                count = max(1, round(target.full * arguments.scale))
                bad += fuzz(target, count, arguments.seed, Path(arguments.keep))
                if arguments.atheris:
                    bad += _coverage_guided(target, arguments, folder)
    print(f"{bad} bad inputs")
    return 1 if bad else 0


def fuzz(target: Target, count: int, seed: int, keep: Path | None = None) -> int:
    """Hand `count` inputs to a target; how many were answered badly."""
    draw = random.Random(f"{target.name} {seed}")
    start, bad, watch = time.monotonic(), 0, Watch()
    previous = signal.signal(signal.SIGALRM, watch.rings) if hasattr(signal, "SIGALRM") else None
    try:
        for number in range(count):
            made = target.make(draw)
            problem = _problem(target, made, watch, measured=number % MEASURED == 0)
            if problem:
                bad += 1
                _report(target, made, problem, keep, number)
    finally:
        if previous is not None:
            signal.signal(signal.SIGALRM, previous)
    print(f"{target.name}: {count} inputs, {bad} bad, {time.monotonic() - start:.0f} s", flush=True)
    return bad


class Watch:
    """An alarm that an input took too long; a machine that slept or was busy meanwhile gets one more try."""

    def __init__(self) -> None:
        self.seconds, self.began, self.tries = 0.0, 0.0, 0

    def starts(self, seconds: float) -> None:
        """An input is handed over."""
        self.seconds, self.began, self.tries = seconds, time.process_time(), 2
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def ends(self) -> None:
        """It was answered: an alarm that is on its way counts for nothing."""
        self.tries = 0
        signal.setitimer(signal.ITIMER_REAL, 0)

    def rings(self, *_: object) -> None:
        """The time is over."""
        self.tries -= 1
        if self.tries < 0:
            return
        if self.tries == 0 or time.process_time() - self.began > self.seconds / 2:
            raise TimeoutError(f"took longer than {self.seconds} s")
        signal.setitimer(signal.ITIMER_REAL, self.seconds)


def _problem(target: Target, made: Any, watch: Watch, measured: bool) -> str:
    before = os.fstat(2).st_size
    if measured:
        tracemalloc.start()
    watch.starts(SECONDS * (4 if measured else 1))
    try:
        target.run(made)
    except BaseException as problem:  # a panic of a library is no Exception
        if isinstance(problem, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(problem))
    finally:
        watch.ends()
        peak = tracemalloc.get_traced_memory()[1] if measured else 0
        if measured:
            tracemalloc.stop()
    if os.fstat(2).st_size > before:  # past Python: a panic of a library, or a warning
        return "something was written to standard error"
    size = sum(len(part) for part in (made if isinstance(made, (tuple, list)) else (made,)))
    return f"{peak} bytes of memory for an input of {size}" if peak > MEMORY[0] * size + MEMORY[1] else ""


def _report(target: Target, made: Any, problem: str, keep: Path | None, number: int) -> None:
    print(f"--- {target.name}, input {number}: {problem}", flush=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{target.name.replace(' ', '-').replace('/', '-')}-{number}.pickle").write_bytes(pickle.dumps(made))


def _coverage_guided(target: Target, arguments: argparse.Namespace, folder: str) -> int:
    """Hand over inputs that atheris makes to reach new code; 1 where one was answered badly, which ends it."""
    if "file" not in target.name and "table" not in target.name:
        return 0
    if find_spec("atheris") is None:
        print("atheris is not installed: no coverage guidance.")
        return 0
    # In a process of its own, which atheris takes for itself; a fork would lack the threads of the libraries.
    command = [sys.executable, __file__, "--only", target.name, "--guided", str(arguments.atheris)]
    place = {**os.environ, "TMPDIR": folder}  # it ends without tidying up
    done = subprocess.run([*command, "--keep", arguments.keep], stderr=sys.stderr, env=place, check=False)
    bad = done.returncode != 0
    print(f"{target.name}, coverage-guided: {arguments.atheris} inputs{', one bad' if bad else ', 0 bad'}", flush=True)
    return int(bad)


def _guided(target: Target, count: int, keep: Path) -> None:
    """Never comes back: the exit code is 0 where every input was answered well."""
    import atheris

    keep.mkdir(parents=True, exist_ok=True)
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and str(function.__module__).startswith(WATCHED):
            atheris.instrument_func(function)
    atheris.Setup([sys.argv[0], f"-runs={count}", f"-artifact_prefix={keep}/", "-verbosity=0"], target.run)
    atheris.Fuzz()


def _memory_folder() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz everything that a stranger may hand over.")
    parser.add_argument("--scale", type=float, default=1.0, help="of the full counts")
    parser.add_argument("--only", default="", help="targets whose name holds this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", default="fuzz-findings", help="folder for bad inputs")
    parser.add_argument("--atheris", type=int, default=100_000, help="coverage-guided inputs, with atheris")
    parser.add_argument("--guided", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
