"""Seconds and peak memory of one-bit fits, each in a process of its own.

python benchmarks/onebit_fit.py [--large] [--data NAME PATH] [--links logistic probit] [--only WORDS]
Generated ratings of the shape of MovieLens 100K (943 by 1,682; 100,000 ratings), with --large of MovieLens 1M
(6,040 by 3,706; 1,000,000 ratings); --data: a format that `hr.load` knows, and its path. Every mechanism and form at
ε = 4, the library's settings and the one-bit paper's. Processor time is that of all threads together. Memory is what
the fit adds to what the process had before it, also in units of the matrix held once as 64-bit floats.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

SHAPES = {False: (943, 1682, 100), True: (6040, 3706, 166)}
LIMITS = {False: 30.0, True: 240.0}
PAPER: dict[str, Any] = {"rank": 1.0, "effects": False}
LINES: dict[str, dict[str, Any]] = {
    "none": {"mechanism": "none"},
    "input": {"mechanism": "input"},
    "objective": {"mechanism": "objective"},
    "gradient": {"mechanism": "gradient"},
    "output": {"mechanism": "output"},
    "output, pooled": {"mechanism": "output", "ridge": 0.25},  # of the ridge at which nothing is pooled
    "none, the paper's settings": {"mechanism": "none", **PAPER},
    "input, the paper's settings": {"mechanism": "input", **PAPER},
    "objective, the paper's": {"mechanism": "objective", "form": "paper", **PAPER},
    "gradient, the paper's settings": {"mechanism": "gradient", "gradient_rounds": 10, **PAPER},
    "output, the paper's": {"mechanism": "output", "form": "paper", **PAPER},
    "output, pooled, the paper's settings": {"mechanism": "output", "ridge": 0.25, **PAPER},
}


def measure(name: str, link: str, large: bool, data: list[str] | None) -> dict[str, float]:
    """One fit, in this process."""
    import hushrec as hr
    from hushrec.data.synthetic import surrogate
    from hushrec.onebit.completion import least_ridge
    from hushrec.privacy.curator import Curator

    users, items, each = SHAPES[large]
    ratings = hr.load(*data) if data else surrogate(users, items, each, levels=5, rank=8, seed=0)
    budget = hr.NonPrivate(unit="rating") if name.startswith("none") else hr.Budget(4.0, 1e-6, unit="rating")
    settings = {"link": link, "threshold": 3.5, **LINES[name]}
    share = settings.pop("ridge", None)
    solver = hr.OneBit(**settings)
    if share is not None:
        pattern = Curator(ratings, budget).pattern
        ridge = share * least_ridge(pattern, solver.radius(pattern.shape), solver)
        solver = hr.OneBit(**settings, ridge=ridge)
    hr.fit(surrogate(30, 20, 5, rank=2), hr.OneBit(), hr.Budget(1.0, unit="rating"))  # loads and compiles
    before, started, worked = peak(), time.perf_counter(), time.process_time()
    hr.fit(ratings, solver, budget)
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    return {
        "seconds": seconds,
        "work": work,
        "memory": peak() - before,
        "matrix": 8 * ratings.n_users * ratings.n_items / 2**20,
    }


def peak() -> float:
    """The largest memory that this process ever had, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--data", nargs=2, metavar=("NAME", "PATH"))
    parser.add_argument("--links", nargs="+", default=["logistic", "probit"])
    parser.add_argument("--only", default="", help="lines whose name has these words")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.one is not None:
        print(json.dumps(measure(wanted.one, wanted.links[0], wanted.large, wanted.data)))
        return
    shared = [*(["--large"] if wanted.large else []), *(["--data", *wanted.data] if wanted.data else [])]
    for link in wanted.links:
        for name in (name for name in LINES if wanted.only in name):
            command = [sys.executable, __file__, "--one", name, "--links", link, *shared]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{link:8s}  {name:38s}  failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            print(f"{link:8s}  {name:38s}  {told(json.loads(done.stdout), LIMITS[wanted.large])}", flush=True)


def told(found: dict[str, float], limit: float) -> str:
    """One line of figures."""
    late = "" if found["seconds"] <= limit else f"  over the {limit:g} s aimed at"
    matrices = found["memory"] / found["matrix"]
    times = f"{found['seconds']:7.1f} s ({found['work']:6.1f} s of processor time)"
    return f"{times}  {found['memory']:8.0f} MiB, {matrices:4.1f} matrices{late}"


if __name__ == "__main__":
    main()
