"""Private Frank-Wolfe: seconds and peak memory of a whole fit, and how they grow with the number of ratings.

Usage: .venv/bin/python benchmarks/frank_wolfe_cost.py [USERS] [ROUNDS] [PNG]
       (500,000 40 results/frank_wolfe_cost.png)

Planted rank-one data, 400 items, 80 ratings a user, Algorithm 1 (readout="replay") at ε = 1, δ = 1e-6, on all cores,
for an eighth, a quarter, a half and all of USERS. Every size has a process of its own, so that its peak memory is
that of nothing else; the first fit in it, on little data, only compiles. The seconds are those of `hushrec.fit` with
the ratings in memory: item means, all rounds, exact noise, release. "CPU s" is what its threads together took, which
other work on the machine disturbs less. "In memory" is what the process held before the fit, "peak" the most that it
ever held until the fit's end, the generating of the data included.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import hushrec as hr
from hushrec.evaluate.plots import PlotSpec, draw
from hushrec.evaluate.tables import Table

ITEMS, RATED, PARTS = 400, 80, (8, 4, 2, 1)


def one_size(users: int, rounds: int) -> dict[str, float]:
    """One fit in this process: seconds, and gigabytes before it and at the peak."""
    solver, budget = hr.FrankWolfe(readout="replay", iterations=rounds), hr.Budget(1.0, 1e-6)
    hr.fit(generated(2_000), hr.FrankWolfe(readout="replay", iterations=2), budget)  # compiles
    ratings = generated(users)
    before = held()
    started, worked = time.perf_counter(), time.process_time()
    hr.fit(ratings, solver, budget)
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "users": users,
        "ratings": ratings.n_ratings,
        "seconds": seconds,
        "cpu": cpu,
        "before": before,
        "peak": peak,
    }


def generated(users: int) -> hr.Ratings:
    return hr.synthetic(users=users, items=ITEMS, rank=1, per_user=RATED, seed=0, test_per_user=1)[0]


def held() -> float:
    """What this process holds in memory now, in GB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**30


def main(users: int = 500_000, rounds: int = 40, picture: str = "results/frank_wolfe_cost.png") -> None:
    print(f"T = {rounds}, {ITEMS} items, {RATED} ratings a user, {os.cpu_count()} cores")
    print(f"load before: {os.getloadavg()[0]:.1f}")
    print(f"{'users':>10} {'ratings':>12} {'seconds':>9} {'CPU s':>8} {'CPU ns/rating/round':>20} ", end="")
    print(f"{'in memory, GB':>14} {'peak, GB':>9}")
    rows = [in_a_process_of_its_own(users // part, rounds) for part in PARTS]
    for row in rows:
        cost = 1e9 * row["cpu"] / row["ratings"] / rounds
        print(
            f"{row['users']:>10,} {row['ratings']:>12,} {row['seconds']:>9.2f} {row['cpu']:>8.2f} {cost:>20.2f} "
            f"{row['before']:>14.2f} {row['peak']:>9.2f}"
        )
    for name in ("seconds", "cpu"):
        logs = np.log([[row["ratings"], row[name]] for row in rows])
        print(f"{name} grow as ratings to the power {np.polyfit(logs[:, 0], logs[:, 1], 1)[0]:.3f} (1: linear)")
    print(f"load after: {os.getloadavg()[0]:.1f}")
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    if draw_cost(rows, rounds, Path(picture)):
        print(f"wrote {picture}")


def in_a_process_of_its_own(users: int, rounds: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(users), str(rounds)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(found.stderr)
    measured: dict[str, float] = json.loads(found.stdout)
    return measured


def draw_cost(rows: list[dict[str, float]], rounds: int, path: Path) -> bool:
    """Seconds against ratings on straight axes, with the CPU's seconds and the line through 0 that fits these best."""
    size = np.array([row["ratings"] for row in rows]) / 1e6
    lines = {"seconds, measured": np.array([row["seconds"] for row in rows])}
    lines["CPU seconds over cores"] = np.array([row["cpu"] for row in rows]) / (os.cpu_count() or 1)
    slope = float(size @ lines["CPU seconds over cores"] / (size @ size))
    lines[f"{slope:.2f} s per million ratings"] = slope * size
    points = [
        {"line": name, "ratings": x, "seconds": y}
        for name, seconds in lines.items()
        for x, y in zip(size, seconds, strict=True)
    ]
    table = Table(columns=("line", "ratings", "seconds"), rows=points)
    spec = PlotSpec(
        x="ratings", y="seconds", series="line", x_label="millions of ratings", y_label="seconds of a whole fit"
    )
    return draw(table, spec, f"Private Frank-Wolfe, {rounds} rounds, {ITEMS} items", path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one_size(int(sys.argv[2]), int(sys.argv[3]))))
    else:
        given = sys.argv[1:]
        main(*(int(argument) for argument in given[:2]), *given[2:])  # type: ignore[arg-type]
