"""One round's Gram of sparse rows: ours, against scipy.sparse AᵀA and against dense chunks with dsyrk.

Usage: .venv/bin/python benchmarks/gram_speed.py [USERS]

All on one core and in the same run, on the same integer rows; ours is the exact integer sum of the privacy core,
with clipping and certification ("with rows") or without ("sums alone"), the others are floating-point sums.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from hushrec.data.ratings import Ratings
from hushrec.data.synthetic import synthetic
from hushrec.privacy.contributions import add_grams, integer_rows

UNITS = 2**15
CHUNK = 4096


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few repeats."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def rows_of(ratings: Ratings) -> np.ndarray:
    bound = 1e-3  # every row is scaled to the bound
    return integer_rows(ratings.indptr, ratings.indices, ratings.n_items, ratings.values.astype(float), bound, UNITS)


def ours(ratings: Ratings, rows: np.ndarray) -> np.ndarray:
    total = np.zeros((ratings.n_items, ratings.n_items), dtype=np.int64)
    add_grams(ratings.indptr, ratings.indices, rows, total)
    return total


def sparse(table: csr_array) -> csr_array:
    return table.T @ table


def dense_chunks(table: csr_array) -> np.ndarray:
    total = np.zeros(table.shape[1:] * 2, order="F")
    for start in range(0, table.shape[0], CHUNK):
        total = dsyrk(1.0, table[start : start + CHUNK].toarray().T, beta=1.0, c=total, overwrite_c=True, lower=True)
    return total


def compare(users: int, items: int, per_user: int) -> None:
    ratings, _ = synthetic(users=users, items=items, per_user=per_user, seed=0, test_per_user=1)
    rows = rows_of(ratings)
    table = csr_array((rows.astype(float), ratings.indices, ratings.indptr), shape=(users, items))
    lower = np.tril(ours(ratings, rows))
    if not np.array_equal(lower, np.tril(dense_chunks(table))):
        raise SystemExit("the sums differ")
    times = {
        "ours, with rows": seconds(lambda: ours(ratings, rows_of(ratings))),
        "ours, sums alone": seconds(lambda: ours(ratings, rows)),
        "scipy.sparse AᵀA": seconds(lambda: sparse(table), 1),
        "dense chunks, dsyrk": seconds(lambda: dense_chunks(table), 1),
    }
    pairs = users * per_user * (per_user + 1) / 2
    print(f"{users:,} users, {items:,} items, {per_user} ratings each")
    for name, time_ in times.items():
        speed = times[name] / times["ours, sums alone"]
        print(f"  {name:<22}{time_:>9.3f} s{1e9 * time_ / pairs:>8.2f} ns a pair{speed:>8.1f} x ours")


def main() -> None:
    users = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with threadpool_limits(limits=1):
        compare(users, 400, 80)
        compare(users // 4, 2000, 40)


if __name__ == "__main__":
    main()
