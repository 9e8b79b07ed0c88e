"""A warmed process that forks fits and lets them die: run by `test_crashes.py`, one JSON object on stdout.

Each trial is a child of a process that has everything imported and compiled, so a trial costs a tenth of a second
and a kill falls into the fit and not into the import. A child is killed by SIGKILL: nothing of its own runs after.
"""

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import hushrec as hr
from hushrec.errors import HushrecError
from hushrec.privacy.accounting import gaussian_epsilon

BUDGET = hr.Budget(1.0, 1e-6)
TOTAL = hr.Budget(1.5, 1e-6)
STEPS = ("open", "pwrite", "fsync", "replace", "ftruncate", "unlink")
SOLVER = hr.SVD(rank=3)
RATINGS, _ = hr.synthetic(users=300, items=20, rank=1, per_user=8, seed=0)


class Place:
    """The files of one trial."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp())
        self.ledger, self.run, self.model = self.root / "ledger", self.root / "run", self.root / "model.hush"

    def fit(self, engine=None):
        ledger = hr.Ledger.open(self.ledger, total=TOTAL, simulation=True)
        release = hr.fit(RATINGS, SOLVER, BUDGET, seed=7, ledger=ledger, resume=self.run, engine=engine)
        release.save(self.model)

    def answers(self):
        return {path.name: path.read_bytes() for path in self.run.glob("*.answer")} if self.run.exists() else {}

    def complaints(self, before, reference):
        """What a crash broke: nothing, it must be. `before`: the answers on disk after the kill."""
        found = []
        try:
            self.fit()
        except HushrecError as problem:
            return [f"not resumable: {problem}"]
        if self.model.read_bytes() != reference:
            found.append("another release")
        if any(self.answers().get(name) != content for name, content in before.items()):
            found.append("lost or changed answer")
        book = hr.Ledger.open(self.ledger).read()
        runs = list(book.runs.values())
        if len(runs) != 1 or not runs[0].closed:
            found.append("runs in the ledger")
        names = [entry.name for entry in runs[0].spent]
        if sorted(names) != sorted(entry.name for entry in hr.Release.load(self.model).guarantee.ledger):
            found.append("a spend is missing, or stands twice")
        if gaussian_epsilon(runs[0].spent.mu, 1e-6) > 1.0 or book.full:
            found.append("overspend")
        if list(self.root.glob(".*")) and self.model.exists() is False:
            found.append("half a file")
        return found


def forked(action):
    """Run the action in a child: (exit code or -signal)."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except HushrecError as problem:
            code = 3 if "\n" not in str(problem) and str(problem).endswith(".") else 4
        except KeyboardInterrupt:
            code = 5
        except BaseException:
            traceback.print_exc()
            code = 4
        finally:
            os._exit(code)
    return child


def wait(child):
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def breaking_at(step, how):
    """Replace the system calls that write, so that call number `step` dies, before or half done or after."""
    count = 0
    for name in STEPS:

        def call(*args, original=getattr(os, name), name=name, **options):
            nonlocal count
            count += 1
            if count == step:
                if how == "half" and name == "pwrite":
                    handle, content, offset = args
                    original(handle, content[: len(content) // 2], offset)
                if how == "after":
                    original(*args, **options)
                if how == "interrupt":
                    raise KeyboardInterrupt
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **options)

        setattr(os, name, call)


@cache
def reference():
    place = Place()
    place.fit()
    content = place.model.read_bytes()
    shutil.rmtree(place.root)
    return content


def trial(kill, expected):
    place = Place()
    kill(place)
    found = place.complaints(place.answers(), expected)
    shutil.rmtree(place.root)
    return found


def every_step(stride):
    """Kill at every system call that writes, three ways."""
    expected, complaints, trials, step = reference(), [], 0, 1
    while True:
        outcomes = []
        for how in ("before", "half", "after"):

            def kill(place, step=step, how=how, outcomes=outcomes):
                outcomes.append(wait(forked(lambda: (breaking_at(step, how), place.fit()))))

            complaints += [f"step {step} {how}: {text}" for text in trial(kill, expected)]
            trials += 1
        if 0 in outcomes:
            return {"trials": trials, "steps": step - 1, "complaints": complaints}
        step += stride


def random_moments(count, seed):
    """SIGKILL after random times, up to three times before the run is let through."""
    generator = random.Random(seed)
    expected, complaints, killed = reference(), [], 0
    start = time.monotonic()
    place = Place()
    wait(forked(place.fit))
    span = 1.2 * (time.monotonic() - start)
    number = 0
    while killed < count:
        number += 1

        def kill(place):
            nonlocal killed
            for _ in range(generator.randint(1, 3)):
                child = forked(place.fit)
                time.sleep(generator.uniform(0.0, span))
                os.kill(child, signal.SIGKILL)
                killed += wait(child) == -signal.SIGKILL

        complaints += [f"trial {number}: {text}" for text in trial(kill, expected)]
    return {"trials": number, "kills": killed, "complaints": complaints}


def interrupts(stride):
    """Ctrl-C at every system call that writes."""
    expected, complaints, codes, step = reference(), [], [], 1
    while 0 not in codes:

        def kill(place, step=step):
            codes.append(wait(forked(lambda: (breaking_at(step, "interrupt"), place.fit()))))

        complaints += [f"step {step}: {text}" for text in trial(kill, expected)]
        step += stride
    return {"trials": len(codes), "codes": sorted(set(codes)), "complaints": complaints}


def full_disk(sizes):
    """No file may grow past so many bytes: every place that writes meets a disk that is full."""
    expected, complaints, codes = reference(), [], []

    def cramped(place, size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        place.fit()

    for size in sizes:

        def kill(place, size=size):
            codes.append(wait(forked(lambda: cramped(place, size))))

        complaints += [f"{size} bytes: {text}" for text in trial(kill, expected)]
    return {"trials": len(sizes), "codes": sorted(set(codes)), "complaints": complaints}


def read_only():
    """A folder and a ledger that this user may not write to."""
    expected, codes = reference(), []

    def as_nobody(action):
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        action()

    def kill(place):
        hr.Ledger.open(place.ledger, total=TOTAL, simulation=True)
        place.ledger.chmod(0o444)
        place.root.chmod(0o555)
        codes.append(wait(forked(lambda: as_nobody(place.fit))))
        place.root.chmod(0o755)
        place.ledger.chmod(0o644)

    return {"codes": codes, "complaints": trial(kill, expected)}


@dataclass
class Greedy:
    """Work that asks for far more memory than there is, in the thread that computes."""

    work: object
    add = None

    def zeros(self):
        return (np.zeros(2**36),)


class Hungry(hr.LocalEngine):
    """An engine whose sums find no memory."""

    def attach(self, ratings):
        job = super().attach(ratings)
        size = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, resource.RLIM_INFINITY))
        total = job.total
        job.total = lambda work: total(Greedy(work))
        return job


def no_memory():
    """No address space left when the sums are laid out."""
    expected, codes = reference(), []

    def kill(place):
        codes.append(wait(forked(lambda: place.fit(Hungry()))))

    return {"codes": codes, "complaints": trial(kill, expected)}


def races(count):
    """Two processes begin at the same instant; the total has room for one of them."""
    over, winners = 0, []
    for _ in range(count):
        place = Place()
        hr.Ledger.open(place.ledger, total=TOTAL)
        gate, opened = os.pipe()

        def enter(place=place, gate=gate):
            os.read(gate, 1)
            release = hr.fit(RATINGS, SOLVER, hr.Budget(1.2, 1e-6), ledger=place.ledger)
            assert release.guarantee.spent <= 1.2

        children = [forked(enter) for _ in range(2)]
        os.write(opened, b"go")
        codes = sorted(wait(child) for child in children)
        book = hr.Ledger.open(place.ledger).read()
        winners.append(codes)
        over += book.full or sum(bool(len(run.spent)) for run in book.runs.values()) > 1
        os.close(gate)
        os.close(opened)
        shutil.rmtree(place.root)
    return {"races": count, "codes": sorted(set(map(tuple, winners))), "over": over}


if __name__ == "__main__":
    np.seterr(all="ignore")
    tempfile.tempdir = sys.argv[1]
    print(json.dumps({name: globals()[name](*arguments) for name, *arguments in json.loads(sys.argv[2])}))
