"""The default solver against means and offsets with the whole budget, on hard shapes cut from real data.

python benchmarks/shapes.py FOLDER [--runs 3] [--epsilons 1 5 20]
FOLDER holds ml-100k.zip, ml-1m.zip, jester-data-1.zip and restaurant/rating_final.csv as they were published. Few
users, few ratings each, more items than users, few items: where private learning cannot help, nothing should be lost by
trying. 10 % held out, δ = 1e-6, add-remove; in brackets the ratio to means and offsets. The errors are exact, so what
this prints is not private.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import hushrec as hr
from hushrec.evaluate.planning import ItemMeansOnly


def some_users(ratings: hr.Ratings, count: int) -> hr.Ratings:
    """`count` users at random."""
    chosen = np.zeros(ratings.n_users, dtype=bool)
    chosen[np.random.default_rng(0).permutation(ratings.n_users)[:count]] = True
    users, kept = owners(ratings), np.repeat(chosen, np.diff(ratings.indptr))
    return table(np.cumsum(chosen)[users[kept]] - 1, ratings.indices[kept], ratings, kept, count, ratings.n_items)


def few_each(ratings: hr.Ratings, most: int) -> hr.Ratings:
    """At most so many ratings of every user, at random."""
    users = owners(ratings)
    order = np.lexsort((np.random.default_rng(0).random(ratings.n_ratings), users))
    rank = np.empty(ratings.n_ratings, dtype=np.int64)
    rank[order] = np.arange(ratings.n_ratings) - ratings.indptr[users[order]]
    return ratings.keep(rank < most)


def turned(ratings: hr.Ratings) -> hr.Ratings:
    """Items as users and users as items."""
    every = np.ones(ratings.n_ratings, dtype=bool)
    return table(ratings.indices, owners(ratings), ratings, every, ratings.n_items, ratings.n_users)


def table(
    users: np.ndarray, items: np.ndarray, of: hr.Ratings, kept: np.ndarray, n_users: int, n_items: int
) -> hr.Ratings:
    """The kept ratings of a table for other users and items."""
    return hr.Ratings.from_codes(
        users.astype(np.int64),
        items.astype(np.int64),
        of.values[kept],
        items=np.arange(n_items),
        value_range=of.value_range,
        n_users=n_users,
        catalogue="declared",
    )


def owners(ratings: hr.Ratings) -> np.ndarray:
    """Whose each rating is."""
    return np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr))


def shapes(folder: Path) -> Iterator[tuple[str, hr.Ratings]]:
    """The tables by name."""
    small, stars = hr.load("ml-100k", folder / "ml-100k.zip"), hr.load("ml-1m", folder / "ml-1m.zip")
    jokes = hr.load("jester-1", folder / "jester-data-1.zip")
    yield "MovieLens 100K", small
    yield "restaurants", hr.load("restaurant", folder / "restaurant" / "rating_final.csv")
    for count in (300, 1500):
        yield f"MovieLens 1M, {count} users", some_users(stars, count)
    for most in (5, 15):
        yield f"MovieLens 1M, {most} each", few_each(stars, most)
    yield "MovieLens 1M, top 20", stars.restrict(top=20)
    yield "MovieLens 1M, turned", turned(stars)
    yield "MovieLens 100K, turned", turned(small)
    yield "Jester, 500 users", some_users(jokes, 500)
    for most in (2, 5):
        yield f"Jester, {most} each", few_each(jokes, most)


def error(ratings: hr.Ratings, solver: object, budget: hr.Budget | hr.NonPrivate, runs: int) -> float:
    """Mean RMSE of runs with their own splits and noise."""
    found = []
    for seed in range(runs):
        train, test = hr.split(ratings, test=0.1, seed=seed)
        found.append(hr.evaluate(hr.fit(train, solver, budget, seed=seed), train, test)["rmse"])
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0, 20.0])
    wanted = parser.parse_args()
    for name, ratings in shapes(wanted.folder):
        cells = []
        for epsilon in (*wanted.epsilons, None):
            budget = hr.NonPrivate() if epsilon is None else hr.Budget(epsilon, 1e-6, relation="add-remove")
            ours, means = (error(ratings, solver, budget, wanted.runs) for solver in (hr.Posterior(), ItemMeansOnly()))
            cells.append(f"{ours:.4f} ({ours / means:.3f})")
        print(f"{name} | {ratings.n_users} × {ratings.n_items} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
