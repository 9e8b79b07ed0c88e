"""One run: canaries in a single training, after Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training
Run" (2023), Theorem 5.2.

Each canary has one of two rows, by a fair coin (under add-remove: she is there or not). The attacker estimates all
coins at once from the noisy answers, guesses the r surest and leaves out the rest. If training is (ε, δ)-DP and v
guesses are right, then with q = e^ε/(1 + e^ε), f(v) = P[Binomial(r, q) ≥ v] and m canaries

    P[at least v right] ≤ f(v) + 2 m δ max_{1 ≤ i ≤ v} (f(v − i) − f(v))/i,

so every ε for which this is below the risk is refuted. No retraining: a second for any solver, at the price of a
weaker bound. Even if all m guesses are right, it cannot pass about log(m/log(1/risk)): `ceiling`.

Canaries must not hide each other, so they are spread over as many items as give every one a direction of her own, and
their coins are estimated together: with D the canaries' effects over the noise and y what the answers show past the
mean of all coins, (D Dᵀ + 4)⁻¹ D y is the best linear estimate of coins ±1/2 under noise of variance 1. How large the
noise of an answer really is shows in what no coins explain of it, where it has more numbers than there are canaries.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from hushrec.evaluate.audit.bounds import ALARM
from hushrec.evaluate.audit.report import Finding
from hushrec.evaluate.audit.subject import Floats, Row, Subject, Training, World, exact, isometric, scale_of

Pair = tuple[tuple[Row, ...], tuple[Row, ...]]

GUESSED = (0.1, 0.25, 0.5, 1.0)
"""Shares of the canaries that are guessed; the risk is split over them."""

BY_DELTA = 100.0
"""An alarm is at a risk of this times δ, where that is more than elsewhere: the theorem's second term is not far below,
however many guesses are right."""

ROOM = 4
"""Coordinates of an item-by-item sum for each canary: random directions then hardly overlap."""

FEW = 256
"""Items; with more, the effects of all canaries would not fit into memory, and tell nothing new."""


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The probability bound above."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, q))
    before = np.cumsum(binom.pmf(right - np.arange(1, right + 1), guesses, q))  # f(v − i) − f(v)
    steepest = float(np.max(before / np.arange(1, right + 1))) if right else 0.0
    return min(1.0, tail + 2.0 * canaries * delta * steepest)


def epsilon_lower(canaries: int, guesses: int, right: int, delta: float, risk: float) -> float:
    """The largest ε that so many right guesses refute."""
    if p_value(canaries, guesses, right, 0.0, delta) > risk:
        return 0.0
    low, high = 0.0, 1.0
    while high < 200.0 and p_value(canaries, guesses, right, high, delta) <= risk:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = (low + high) / 2
        if p_value(canaries, guesses, right, middle, delta) <= risk:
            low = middle
        else:
            high = middle
    return low


def ceiling(canaries: int, delta: float, risk: float) -> float:
    """The largest ε that this many canaries can refute at all: every guess right."""
    return max(epsilon_lower(canaries, size, size, delta, risk / len(GUESSED)) for size in _guesses(canaries))


def _guesses(canaries: int) -> list[int]:
    return [max(1, int(share * canaries)) for share in GUESSED]


def items_for(canaries: int, items: int) -> int:
    """How many items the canaries need to keep out of each other's way; no fewer than the audited ones, if few."""
    return max(min(items, FEW), math.ceil(math.sqrt(2 * ROOM * canaries)))


def check(subject: Subject, world: World, *, canaries: int, confidence: float, seed: int | None) -> list[Finding]:
    """Train once with canaries, guess their coins, and bound ε. world: with room for them, see `items_for`."""
    generator = np.random.default_rng(seed)
    pairs = [_pair(world, generator) for _ in range(canaries)]
    coins = generator.integers(0, 2, canaries).astype(bool)
    rows = [row for pair, coin in zip(pairs, coins, strict=True) for row in (pair[0] if coin else pair[1])]
    training = subject.train(world.with_target(*rows), seed=seed)
    scores = estimated(training, subject, world, pairs)
    delta, risk = subject.budget.delta, 1.0 - confidence
    certain = max(ALARM, BY_DELTA * delta)
    found, alarm, best = 0.0, 0.0, "no guess is sure enough"
    for guesses in _guesses(canaries):
        surest = np.argsort(-np.abs(scores), kind="stable")[:guesses]
        right = int(np.sum((scores[surest] > 0) == coins[surest]))
        bound = epsilon_lower(canaries, guesses, right, delta, risk / len(GUESSED))
        alarm = max(alarm, epsilon_lower(canaries, guesses, right, delta, certain / len(GUESSED)))
        if bound > found:
            found, best = bound, f"{right} of {guesses} guesses right"
    most = ceiling(canaries, delta, risk)
    return [
        Finding(
            check="one run",
            name=f"{canaries} canaries, {world.n_items} items",
            passed=alarm <= subject.budget.epsilon,
            says=f"ε ≥ {found:.3f} of {subject.budget.epsilon:g} ({best}; this check cannot pass {most:.2f})",
            figures={"epsilon_lower": found, "canaries": canaries, "items": world.n_items, "ceiling": most},
        )
    ]


def _pair(world: World, generator: np.random.Generator) -> Pair:
    """Two rows far apart, in a direction of their own: random extremes on random items, and on all the others."""
    low, high = world.value_range
    items = np.sort(generator.choice(world.n_items, size=max(1, world.n_items // 2), replace=False))
    first = items, generator.choice((low, high), len(items))
    if world.relation == "add-remove":
        return (first,), ()
    others = np.setdiff1d(np.arange(world.n_items), items)
    return (first,), ((others, generator.choice((low, high), len(others))),)


def estimated(training: Training, subject: Subject, world: World, pairs: list[Pair]) -> NDArray[np.float64]:
    """The coins of all canaries, near 1/2 for the first row and −1/2 for the second, as far as noise lets see."""
    count = len(pairs)
    overlap, projected = np.zeros((count, count)), np.zeros(count)
    for answer in training.answers:
        scale = scale_of(answer, subject.budget)
        sigma = scale.sigma or 1.0
        base = isometric(answer.query, exact(answer, scale, world.with_target()))

        def effect(rows: tuple[Row, ...], answer=answer, scale=scale, size=len(base)) -> Floats:  # type: ignore[no-untyped-def]
            return isometric(answer.query, exact(answer, scale, world.alone(*rows))) if rows else np.zeros(size)

        there, instead = (np.array([effect(pair[which]) for pair in pairs]) for which in (0, 1))
        apart = (there - instead) / sigma
        middle = base + (there.sum(axis=0) + instead.sum(axis=0)) / 2
        seen = isometric(answer.query, [part / scale.unit for part in answer.noisy.parts])
        shown, mixed = (seen - middle) / sigma, apart @ apart.T
        variance = unexplained(apart, mixed, shown)
        overlap += mixed / variance
        projected += apart @ shown / variance
    return np.asarray(np.linalg.solve(overlap + 4.0 * np.eye(count), projected))


def unexplained(apart: Floats, mixed: Floats, shown: Floats) -> float:
    """The variance of an answer's noise in units of the declared one, from what no effects of canaries can explain."""
    spare = len(shown) - len(apart)
    if spare < 1:
        return 1.0
    tiny = 1e-9 * float(np.mean(np.diag(mixed))) + 1e-300  # two canaries may have one direction
    coins = np.linalg.solve(mixed + tiny * np.eye(len(mixed)), apart @ shown)
    return max(float(np.sum((shown - apart.T @ coins) ** 2)) / spare, 1e-9)
