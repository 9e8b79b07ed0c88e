"""Worst-case neighbours: for every query of a plan, the change that one user can make against the declared one.

Rows that try hard are built in (all items at the extremes, one item, none, huge and tiny values, NaN, an item
twice), and a search goes on from the best of them. All sums are compared in integers, over whole data sets: what a
user changes in somebody else's contribution counts too. Under replace-one every pair of rows is a neighbour, under
add-remove every row against nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushrec.evaluate.audit.report import Finding
from hushrec.evaluate.audit.subject import (
    Answer,
    Floats,
    Row,
    Subject,
    Training,
    World,
    change,
    exact,
    rows_of,
    scale_of,
    table,
)
from hushrec.privacy.forms import Scale

ROUNDING = 1e-9
"""How far a measured change may lie above the declared one: float rounding of the norm, nothing else."""


@dataclass(frozen=True)
class Worst:
    """The pair of rows with the largest change, and that change over the declared sensitivity."""

    names: tuple[str, str]
    rows: tuple[Row, Row]
    ratio: float
    declared: float


def adversaries(n_items: int, value_range: tuple[float, float]) -> dict[str, Row]:
    """The built-in rows, by name."""
    low, high = value_range
    every = np.arange(n_items)
    half = n_items // 2
    swing = np.where(every % 2 == 0, low, high)
    return {
        "no ratings": ((), ()),
        "all items highest": (every, np.full(n_items, high)),
        "all items lowest": (every, np.full(n_items, low)),
        "all items, extremes in turn": (every, swing),
        "all items, extremes in the other turn": (every, low + high - swing),
        "first half highest, rest lowest": (every, np.where(every < half, high, low)),
        "first half lowest, rest highest": (every, np.where(every < half, low, high)),
        "first half only, extremes in turn": (every[:half], swing[:half]),
        "second half only, extremes in turn": (every[half:], swing[half:]),
        "one item highest": ((0,), (high,)),
        "one item lowest": ((0,), (low,)),
        "another item highest": ((n_items - 1,), (high,)),
        "two items apart": ((0, n_items - 1), (low, high)),
        "one item, in the middle": ((0,), ((low + high) / 2,)),
    }


def hostile(n_items: int, value_range: tuple[float, float]) -> dict[str, Row]:
    """Rows that `Ratings` refuses, by name: should one ever get past it, the bounds must still hold."""
    low, high = value_range
    every = np.arange(n_items)
    swing = np.where(every % 2 == 0, -1.0, 1.0)
    return {
        "huge values": (every, swing * 1e30),
        "one huge value": ((0,), (1e30,)),
        "tiny values": (every, swing * 1e-30),
        "not a number": (every, np.full(n_items, np.nan)),
        "infinite": (every, swing * np.inf),
        "one item many times": (np.zeros(4 * n_items), np.full(4 * n_items, high)),
        "two items in turn": (np.arange(4 * n_items) % 2, np.tile((low, high), 2 * n_items)),
    }


def check(subject: Subject, training: Training, world: World, *, steps: int, seed: int) -> list[Finding]:
    """Measured against declared, and single users against all, for every query of a training."""
    generator = np.random.default_rng(seed)
    findings = []
    with np.errstate(all="ignore"):  # hostile rows overflow on the way to the clip, and a broken query after it
        for answer in training.answers:
            worst = search(subject, answer, world, steps, generator)
            findings += [_against_declared(answer, worst), _separate(subject, answer, world)]
    return findings


def search(
    subject: Subject,
    answer: Answer,
    world: World,
    steps: int,
    generator: np.random.Generator,
    *,
    possible: bool = False,
) -> Worst:
    """The worst neighbours of the built-in rows (`possible`: of those that ratings can hold), and of a search on."""
    scale = scale_of(answer, subject.budget)
    if scale.units is None:
        scale = answer.query.scale(world.relation, 1.0)
    shape = world.n_items, world.value_range
    rows = adversaries(*shape) | ({} if possible else hostile(*shape))
    nobody = exact(answer, scale, world.with_target(*world.nobody))
    changes = {
        name: change(answer.query, exact(answer, scale, world.with_target(row)), nobody) for name, row in rows.items()
    }
    if world.relation == "add-remove":
        best = max(rows, key=lambda name: float(np.linalg.norm(changes[name])))
        pair, largest = (best, "nobody"), float(np.linalg.norm(changes[best]))
    else:
        pair, largest = _farthest(changes)
    first, second = rows[pair[0]], rows.get(pair[1], ((), ()))
    found = _climb(answer, scale, world, (first, second), largest, steps, generator)
    names = pair if found[1] <= largest else ("found by search", "found by search")
    return Worst(names, found[0], found[1] / scale.sensitivity, scale.sensitivity)


def _farthest(changes: dict[str, Floats]) -> tuple[tuple[str, str], float]:
    names = list(changes)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    distances = [float(np.linalg.norm(changes[a] - changes[b])) for a, b in pairs]
    best = int(np.argmax(distances))
    return pairs[best], distances[best]


def _climb(
    answer: Answer,
    scale: Scale,
    world: World,
    start: tuple[Row, Row],
    reached: float,
    steps: int,
    generator: np.random.Generator,
) -> tuple[tuple[Row, Row], float]:
    """Change a row at random, keep what moves the sums further apart."""
    pair, best = list(start), reached
    alone = world.relation == "add-remove"
    for step in range(steps):
        side = 0 if alone else step % 2
        tried = list(pair)
        tried[side] = _mutated(pair[side], world, generator)
        other = () if alone else (tried[1],)
        sums = [exact(answer, scale, world.with_target(*side)) for side in ((tried[0],), other)]
        distance = float(np.linalg.norm(change(answer.query, *sums)))
        if distance > best:
            pair, best = tried, distance
    return (pair[0], pair[1]), best


def _mutated(row: Row, world: World, generator: np.random.Generator) -> Row:
    low, high = world.value_range
    values = np.full(world.n_items, np.nan)
    kept = [(int(j), float(v)) for j, v in zip(*row, strict=True) if np.isfinite(v)]
    for item, value in kept:
        values[item] = value
    for item in generator.choice(world.n_items, size=generator.integers(1, 4)):
        values[item] = generator.choice((np.nan, low, high, generator.uniform(low, high)))
    rated = np.flatnonzero(np.isfinite(values))
    return rated, values[rated]


def _against_declared(answer: Answer, worst: Worst) -> Finding:
    names = worst.names[0] if worst.names[1] == "nobody" else " / ".join(worst.names)
    passed = bool(worst.ratio <= 1.0 + ROUNDING)  # NaN, after an overflow, is no pass
    verdict = "reached" if passed and worst.ratio >= 0.5 else "loose" if passed else "EXCEEDED"
    return Finding(
        check="neighbours",
        name=f"{answer.label} ({answer.query.name})",
        passed=passed,
        says=f"{worst.ratio:.4f} of the declared sensitivity, {verdict} ({names})",
        figures={"ratio": worst.ratio, "declared": worst.declared, "neighbours": list(worst.names)},
    )


def _separate(subject: Subject, answer: Answer, world: World) -> Finding:
    """Whole sums must be the integer sums of single users' contributions: then nobody's depends on another's row."""
    scale = scale_of(answer, subject.budget)
    ratings = world.with_target(*world.nobody)
    rows = rows_of(ratings)
    singles = [table([row], world.n_items, world.value_range) for row in rows]
    whole = exact(answer, scale, ratings)
    alone = exact(answer, scale, ratings, singles)
    backwards = exact(answer, scale, ratings, singles[::-1])
    same = all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(whole, alone, backwards, strict=True))
    integers = scale.units is None or all(part.dtype == np.int64 for part in whole)
    problem = "" if same else "a user's contribution depends on other users' rows, or sums depend on their order"
    return Finding(
        check="separate",
        name=f"{answer.label} ({answer.query.name})",
        passed=same and integers,
        says=problem or ("equal" if integers else "sums are not integers, so that they are not exact"),
    )
