"""One round of private ALS: seconds, peak memory, and the normal equations' flop rate beside a BLAS product's.

Usage: .venv/bin/python benchmarks/als_round.py [USERS] [ITEMS] [RATINGS_PER_USER] [RANK]     (1,000,000 10,000 30 16)

Ratings are generated, items uniformly (the worst case for caches). The round is the whole of it: users' solutions
with posterior covariances, clipping, certified integer sums, exact noise, and the server's solutions. The flop
count of the normal equations is nominal: one multiplication and one addition for every rating and every number
of E[u uᵀ] (one triangle) and of the right-hand side. The BLAS product is double precision, on as many threads.
Both rates are by processor time, so that other work on the machine does not disturb their ratio.
"""

import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from hushrec.data.ratings import Ratings
from hushrec.engines.local import LocalEngine
from hushrec.privacy import contributions
from hushrec.privacy.accounting import Budget
from hushrec.privacy.curator import Curator
from hushrec.solvers.als import ALS, State
from hushrec.solvers.beginnings import begin


def generated(users: int, items: int, each: int, seed: int = 0) -> Ratings:
    """`each` ratings a user, one from each of as many equal parts of the item list."""
    rng = np.random.default_rng(seed)
    part = items // each
    indices = rng.integers(0, part, size=(users, each), dtype=np.int32)
    indices += np.arange(each, dtype=np.int32) * part
    values = rng.integers(1, 6, size=users * each, dtype=np.int8).astype(np.float32)
    indptr = np.arange(users + 1, dtype=np.int64) * each
    return Ratings(indptr, indices.ravel(), values, np.arange(items), (1.0, 5.0), catalogue="declared")


def blas_rate(workers: int, size: int = 1500, repeats: int = 5) -> float:
    """Flops a second of double-precision products, one on each of `workers` threads at the same time."""
    left = np.random.default_rng(0).normal(size=(size, size))
    products = [np.empty_like(left) for _ in range(workers)]

    def multiply(worker: int) -> float:
        started = time.thread_time()
        for _ in range(repeats):
            np.matmul(left, left, out=products[worker])
        return time.thread_time() - started

    with threadpool_limits(limits=1), ThreadPoolExecutor(workers) as pool:
        list(pool.map(multiply, range(workers)))
        return 2.0 * size**3 * repeats * workers**2 / sum(pool.map(multiply, range(workers)))


class Stopwatch:
    """Processor seconds that all threads together spend in `contributions.add_blocks`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.inner = contributions.add_blocks

    def __call__(self, *arguments: object) -> None:
        started = time.thread_time()
        self.inner(*arguments)  # type: ignore[arg-type]
        self.seconds += time.thread_time() - started


def main() -> None:
    users, items, each, rank = (
        int(given) for given in (*sys.argv[1:], *("1000000", "10000", "30", "16")[len(sys.argv) - 1 :])
    )
    workers = os.cpu_count() or 1
    solver = ALS(start="random", rank=rank, rounds=1)
    one_round(solver, generated(2_000, items, each), rank)  # compiles
    ratings = generated(users, items, each)
    before = peak()
    stopwatch = Stopwatch()
    import hushrec.privacy.forms as forms

    forms.add_blocks = stopwatch  # type: ignore[assignment]
    seconds = one_round(solver, ratings, rank)
    numbers = (rank + 1) * (rank + 2) // 2 + rank + 1
    rate = 2.0 * ratings.n_ratings * numbers * workers / stopwatch.seconds
    blas = blas_rate(workers)
    print(f"{users:,} users x {items:,} items, {ratings.n_ratings:,} ratings, rank {rank}, {workers} threads")
    print(f"one round                        {seconds:8.2f} s")
    print(f"peak memory                      {peak():8.2f} GB (before the round {before:.2f} GB)")
    print(f"normal equations                 {stopwatch.seconds / workers:8.2f} s, {rate / 1e9:.1f} Gflop/s")
    print(f"BLAS product, same threads       {blas / 1e9:8.1f} Gflop/s; ratio {rate / blas:.3f}")


def one_round(solver: ALS, ratings: Ratings, rank: int) -> float:
    """Seconds of one round at ε = 1 after the means."""
    curator = Curator(ratings, Budget(1.0, 1e-6), engine=LocalEngine(), seed=0)
    begun = begin(curator, centre=True, share=None, offset_prior=4.0)
    state = State(np.random.default_rng(0).normal(size=(ratings.n_items, rank)) * 0.2, np.full(rank, 0.04), 0.5)
    started = time.perf_counter()
    solver.round(curator, begun, state, "round 1", curator.left())
    return time.perf_counter() - started


def peak() -> float:
    """The largest memory that this process ever had, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
