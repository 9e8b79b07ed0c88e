"""How well `hr.plan` foretells the errors of real and planted data, from their public shape alone.

python benchmarks/plan_check.py ml-1m FILE          10 % held out, δ = 1e-5, add-remove
python benchmarks/plan_check.py jester-1 FILE       1 % held out, δ = 1e-6, add-remove
python benchmarks/plan_check.py planted             70,000 × 10,000, 10 M ratings, generated; slow

The measured errors are exact, so what this prints is not private. "level" is by how much the residuals' spread that
the surrogate guesses is off; "shape" is how far a forecast is off beyond that.
"""

from __future__ import annotations

import sys
import time

import hushrec as hr
from hushrec.data.synthetic import surrogate
from hushrec.evaluate.planning import ItemMeansOnly, check_plan

EPSILONS = (1.0, 5.0, 10.0, 20.0)
SHAPES = {"ml-1m": (0.1, 1e-5, 5), "jester-1": (0.01, 1e-6, None), "planted": (0.1, 1e-5, None)}
PLANTED = {"users": 70_000, "items": 10_000, "ratings_per_user": 143.0, "value_range": (1.0, 5.0)}


def load(name: str, path: str | None) -> hr.Ratings:
    """The ratings of that name; the planted ones have another seed than the plan's."""
    return surrogate(**PLANTED, seed=1000, rank=5) if name == "planted" else hr.load(name, path)


def main() -> None:
    name, path = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    share, delta, levels = SHAPES[name]
    train, test = hr.split(load(name, path), test=share, seed=0)
    budget = hr.Budget(1.0, delta, relation="add-remove")
    start = time.perf_counter()
    plan = hr.plan(
        users=train.n_users,
        items=train.n_items,
        ratings_per_user=(train.n_ratings + test.n_ratings) / train.n_users,
        value_range=train.value_range,
        levels=levels,
        budget=budget,
        epsilons=EPSILONS,
    )
    print(f"{plan.table().markdown()}\n{plan.solver}\n{plan.advice}")
    print(f"planned in {time.perf_counter() - start:.1f} s with {plan.simulated_users} users")
    for title, solver, foretold in (
        ("chosen", plan.solver, plan.non_private),
        ("item means only", ItemMeansOnly(), plan.exact_means),
    ):
        for epsilon in EPSILONS:
            release = hr.fit(train, solver, hr.Budget(epsilon, delta, relation="add-remove"), seed=0)
            measured[title, epsilon] = hr.evaluate(release, train, test)["rmse"]
            print(f"{title}, ε = {epsilon:g}: measured RMSE {measured[title, epsilon]:.4f}", flush=True)
        exact = hr.evaluate(hr.fit(train, solver, hr.NonPrivate()), train, test)["rmse"]
        print(f"{title}, no noise: measured {exact:.4f}, expected {foretold:.4f}", flush=True)
    found = check_plan(plan, {epsilon: measured["chosen", epsilon] for epsilon in EPSILONS})
    for row in found["rows"]:
        print({key: round(value, 4) for key, value in row.items()})
    print({key: round(found[key], 4) for key in ("level", "worst", "worst_shape")})


measured: dict[tuple[str, float], float] = {}

if __name__ == "__main__":
    main()
