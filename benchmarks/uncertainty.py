"""Coverage of 90 % intervals, and what asked ratings are worth against random ones: default settings, add-remove.

python benchmarks/uncertainty.py NAME PATH [--top N] [--test 0.1] [--delta 1e-5] [--runs 3] [--epsilons 1 5 20]
NAME is a format that `hr.load` knows. Intervals are judged on held-out ratings; questions are asked of users who
took no part in the fit (a tenth of all).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import hushrec as hr
from hushrec.evaluate.asking import first_questions
from hushrec.evaluate.intervals import coverage


def parted(ratings: hr.Ratings, seed: int) -> tuple[hr.Ratings, hr.Ratings]:
    """Nine tenths of the users, and the others; both with empty rows for those who are not theirs."""
    other = np.random.default_rng(seed).random(ratings.n_users) < 0.1
    mine = np.repeat(other, np.diff(ratings.indptr))
    return ratings.keep(~mine), ratings.keep(mine)


def figures(ratings: hr.Ratings, budget: hr.Budget, test: float, seed: int) -> dict[str, float]:
    """One run of both measurements."""
    train, held_out = hr.split(ratings, test=test, seed=seed)
    start = time.perf_counter()
    release = hr.fit(train, hr.Posterior(), budget, seed=seed)
    found = {"fit_seconds": time.perf_counter() - start, **coverage(release, train, held_out)}
    took_part, new = parted(ratings, seed)
    release = hr.fit(took_part, hr.Posterior(), budget, seed=seed)
    for among in ("rated", "all"):
        answers = first_questions(release, new, among=among, seed=seed)  # type: ignore[arg-type]
        found |= {f"{among}_{name}": answers[name] for name in ("none", "random", "asked", "everything", "gain")}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("path")
    parser.add_argument("--top", type=int)
    parser.add_argument("--test", type=float, default=0.1)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0, 20.0])
    wanted = parser.parse_args()
    ratings = hr.load(wanted.name, wanted.path)
    ratings = ratings.restrict(top=wanted.top) if wanted.top else ratings
    for epsilon in wanted.epsilons:
        budget = hr.Budget(epsilon, wanted.delta, relation="add-remove")
        runs = [figures(ratings, budget, wanted.test, seed) for seed in range(wanted.runs)]
        print(f"{wanted.name} epsilon {epsilon:g}, {wanted.runs} runs: mean (standard deviation)")
        for name in runs[0]:
            values = [run[name] for run in runs]
            print(f"  {name:18s} {np.mean(values):.4f} ({np.std(values):.4f})", flush=True)


if __name__ == "__main__":
    main()
