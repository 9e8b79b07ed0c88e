"""Which τ and α serve one-bit completion, learnt from ratings that are public: those of MovieLens 1M.

python benchmarks/onebit_public.py PATH [--users 943] [--runs 2] [--epsilons 1 4]
PATH: MovieLens 1M as published. That many of its users, a fifth of their ratings held out; every mechanism that is
proved, in the paper's settings but for τ and α. Prints the accuracy of M̂, mean over the runs.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

import hushrec as hr
from hushrec.privacy.curator import Curator

SHARES, ALPHAS = (0.1, 0.2, 0.3, 0.5, 1.0), (1.0, 2.0)
THRESHOLD = 3.5


def some_users(ratings: hr.Ratings, count: int, seed: int) -> hr.Ratings:
    """The rows of this many users, drawn at random."""
    chosen = np.sort(np.random.default_rng(seed).choice(ratings.n_users, count, replace=False))
    rows = np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr))
    kept = np.isin(rows, chosen)
    return hr.Ratings.from_codes(
        np.searchsorted(chosen, rows[kept]), ratings.indices[kept], ratings.values[kept], items=ratings.items,
        value_range=ratings.value_range, n_users=count, catalogue="declared",
    )  # fmt: skip


def accuracy(train: hr.Ratings, test: hr.Ratings, solver: hr.OneBit, epsilon: float | None, seed: int) -> float:
    """How often the sign of M̂ is that of a held-out rating."""
    budget = hr.NonPrivate(unit="rating") if epsilon is None else hr.Budget(epsilon, unit="rating")
    matrix = solver.complete(Curator(train, budget, seed=seed))[1].matrix
    rows = np.repeat(np.arange(test.n_users), np.diff(test.indptr))
    return float(np.mean((matrix.entries(rows, test.indices) > 0) == (test.values > THRESHOLD)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--users", type=int, default=943)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    wanted = parser.parse_args()
    ratings = hr.load("ml-1m", wanted.path)
    lines = [("none", None), *itertools.product(("input", "objective"), wanted.epsilons)]
    print(
        "alpha  tau/(alpha sqrt(mn))  " + "  ".join(f"{name} {eps or ''}".strip() for name, eps in lines) + "  private"
    )
    for alpha, share in itertools.product(ALPHAS, SHARES):
        found = []
        for name, epsilon in lines:
            solver = hr.OneBit(
                mechanism=name,
                alpha=alpha,
                rank=share**2,
                effects=False,
                threshold=THRESHOLD,  # type: ignore[arg-type]
            )
            parts = [hr.split(some_users(ratings, wanted.users, run), test=0.2, seed=run) for run in range(wanted.runs)]
            found.append(np.mean([accuracy(*pair, solver, epsilon, run) for run, pair in enumerate(parts)]))
        words = "  ".join(f"{value:.4f}" for value in found)
        print(f"{alpha:5g}  {share:20g}  {words}  {np.mean(found[1:]):.4f}", flush=True)


if __name__ == "__main__":
    main()
