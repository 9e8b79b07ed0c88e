"""Small ratings for tests: random ones, and hostile ones that `Ratings` itself would refuse."""

from __future__ import annotations

import numpy as np

from hushrec.data.ratings import Ratings


def random_ratings(users=50, items=12, seed=0, low=1.0, high=5.0, density=0.5) -> Ratings:
    """Random sparsity with empty and full users among them, random values in the range."""
    rng = np.random.default_rng(seed)
    chosen = rng.random((users, items)) < density
    chosen[0] = True
    chosen[1 % users] = False
    rows, columns = np.nonzero(chosen)
    values = rng.uniform(low, high, len(rows))
    return Ratings.from_codes(rows, columns, values, items=np.arange(items), value_range=(low, high), n_users=users)


def unchecked(rows: list[tuple[list[int], list[float]]], items: int, value_range=(1.0, 5.0)) -> Ratings:
    """Ratings from (item positions, values) per user, with no check at all: what a broken reader might let through."""
    ratings = object.__new__(Ratings)
    sizes = [len(indices) for indices, _ in rows]
    for name, value in (
        ("indptr", np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)),
        ("indices", np.array([j for indices, _ in rows for j in indices], dtype=np.int32)),
        ("values", np.array([v for _, values in rows for v in values], dtype=np.float32)),
        ("items", np.arange(items)),
        ("value_range", value_range),
        ("users", None),
        ("catalogue", "observed"),
    ):
        object.__setattr__(ratings, name, value)
    return ratings


def csr(ratings: Ratings):
    """The three arrays of the user half."""
    return ratings.indptr, ratings.indices, ratings.values
