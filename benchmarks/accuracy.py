"""Error on held-out ratings at default settings, everything charged: solvers × ε, mean of several runs with spread.

python benchmarks/accuracy.py NAME PATH [--top N] [--test 0.1] [--delta 1e-5] [--runs 10] [--epsilons 1 5 10 20]
    [--relation add-remove] [--solvers posterior als ...] [--scale 1]
NAME is a format that `hr.load` knows, or "planted" (without PATH): generated stars of 70,000 users on 10,000 items with
the popularity and activity of rating data, 10 million ratings. Each run has its own split and its own noise. `--scale`
divides the errors (4 brings Jester's −10..10 to the 0..5 scale of the literature). ε = inf is the solver without noise.
The errors are exact, so what this prints is not private.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import hushrec as hr
from hushrec.data.synthetic import surrogate
from hushrec.solvers.registry import make_solver


def errors(ratings: hr.Ratings, name: str, budget: hr.Budget | hr.NonPrivate, wanted: argparse.Namespace) -> np.ndarray:
    """(runs, 2): error and seconds of each run."""
    found = []
    for seed in range(wanted.runs):
        train, test = hr.split(ratings, test=wanted.test, seed=seed)
        start = time.perf_counter()
        release = hr.fit(train, make_solver(name, wanted.set), budget, seed=seed)
        seconds = time.perf_counter() - start
        found.append((hr.evaluate(release, train, test)["rmse"] / wanted.scale, seconds))
    return np.array(found)


def load(name: str, path: str | None) -> hr.Ratings:
    """The ratings of that name."""
    if name == "planted":
        return surrogate(users=70_000, items=10_000, ratings_per_user=143.0, value_range=(1.0, 5.0), seed=1000, rank=5)
    return hr.load(name, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("path", nargs="?")
    parser.add_argument("--top", type=int)
    parser.add_argument("--test", type=float, default=0.1)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0, 10.0, 20.0])
    parser.add_argument("--relation", default="add-remove")
    parser.add_argument("--solvers", nargs="+", default=["posterior"])
    parser.add_argument("--set", nargs="*", default=[], help="settings of the solvers, key=value")
    parser.add_argument("--scale", type=float, default=1.0)
    wanted = parser.parse_args()
    ratings = load(wanted.name, wanted.path)
    ratings = ratings.restrict(top=wanted.top) if wanted.top else ratings
    budgets = [hr.Budget(epsilon, wanted.delta, relation=wanted.relation) for epsilon in wanted.epsilons]
    print(f"{wanted.name}, {ratings.n_users} users × {ratings.n_items} items, {wanted.relation}, {wanted.runs} runs")
    for name in wanted.solvers:
        for budget in (*budgets, hr.NonPrivate()):
            runs = errors(ratings, name, budget, wanted)
            (error, seconds), spread = runs.mean(axis=0), runs[:, 0].std(ddof=min(1, wanted.runs - 1))
            print(f"{name:18s} ε = {budget.epsilon:<5g} RMSE {error:.4f} ± {spread:.4f}  {seconds:6.2f} s", flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
