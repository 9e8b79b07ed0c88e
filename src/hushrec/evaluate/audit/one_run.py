"""One run: canaries in a single training, after Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training
Run" (2023), Theorem 5.2.

Each canary has one of two rows, by a fair coin (under add-remove: she is there or not). The attacker scores each by
the likelihood ratio of the transcript, guesses the r surest and leaves out the rest. If training is (ε, δ)-DP and v
guesses are right, then with q = e^ε/(1 + e^ε), f(v) = P[Binomial(r, q) ≥ v] and m canaries

    P[at least v right] ≤ f(v) + 2 m δ max_{1 ≤ i ≤ v} (f(v − i) − f(v))/i,

so every ε for which this is below the risk is refuted. No retraining: a few seconds for any solver, at the price
of a weaker bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from hushrec.evaluate.audit.black_box import ALARM
from hushrec.evaluate.audit.report import Finding
from hushrec.evaluate.audit.subject import Floats, Row, Subject, Training, World, exact, isometric, scale_of

GUESSED = (0.25, 0.5, 1.0)
"""Shares of the canaries that are guessed; the risk is split over them."""


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


def check(subject: Subject, world: World, *, canaries: int, confidence: float, seed: int | None) -> list[Finding]:
    """Train once with canaries, guess their coins, and bound ε."""
    generator = np.random.default_rng(seed)
    pairs = [_pair(world, generator) for _ in range(canaries)]
    coins = generator.integers(0, 2, canaries).astype(bool)
    rows = [row for pair, coin in zip(pairs, coins, strict=True) for row in (pair[0] if coin else pair[1])]
    training = subject.train(world.with_target(*rows), seed=seed)
    scores = _scores(training, subject, world, pairs)
    found, alarm, best = 0.0, 0.0, ""
    for share in GUESSED:
        guesses = max(1, int(share * canaries))
        surest = np.argsort(-np.abs(scores), kind="stable")[:guesses]
        right = int(np.sum((scores[surest] > 0) == coins[surest]))
        count = (canaries, guesses, right, subject.budget.delta)
        bound = epsilon_lower(*count, (1 - confidence) / len(GUESSED))
        alarm = max(alarm, epsilon_lower(*count, ALARM / len(GUESSED)))
        if bound >= found:
            found, best = bound, f"{right} of {guesses} guesses right"
    return [
        Finding(
            check="one run",
            name=f"{canaries} canaries",
            passed=alarm <= subject.budget.epsilon,
            says=f"ε ≥ {found:.3f} of {subject.budget.epsilon:g} ({best})",
            figures={"epsilon_lower": found, "canaries": canaries},
        )
    ]


def _pair(world: World, generator: np.random.Generator) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Two rows far apart, in a direction of their own: random items, random extremes, and the opposite of each."""
    low, high = world.value_range
    size = max(2, world.n_items // 2)
    items = np.sort(generator.choice(world.n_items, size=min(size, world.n_items), replace=False))
    if world.relation == "add-remove":
        return ((items, generator.choice((low, high), len(items))),), ()
    others = np.setdiff1d(np.arange(world.n_items), items)
    first = items, generator.choice((low, high), len(items))
    second = others, generator.choice((low, high), len(others))
    return (first,), (second,)


def _scores(
    training: Training, subject: Subject, world: World, pairs: list[tuple[tuple[Row, ...], tuple[Row, ...]]]
) -> NDArray[np.float64]:
    """For each canary the likelihood ratio of her two rows, every other canary taken as half of each."""
    alone = World(others=(), n_items=world.n_items, value_range=world.value_range, relation=world.relation)
    scores = np.zeros(len(pairs))
    for answer in training.answers:
        scale = scale_of(answer, subject.budget)
        base = isometric(answer.query, exact(answer.query, scale, world.with_target()))

        def contribution(rows: tuple[Row, ...], answer=answer, scale=scale, size=len(base)) -> Floats:  # type: ignore[no-untyped-def]
            return (
                isometric(answer.query, exact(answer.query, scale, alone.with_target(*rows)))
                if rows
                else np.zeros(size)
            )

        there = np.array([contribution(pair[0]) for pair in pairs])
        instead = np.array([contribution(pair[1]) for pair in pairs])
        direction = there - instead
        middle = base + (there.sum(axis=0) + instead.sum(axis=0)) / 2
        seen = isometric(answer.query, [part / scale.unit for part in answer.noisy.parts])
        # The other canaries' coins are noise too: each adds a quarter of the square of its projection.
        overlap = direction @ direction.T
        interference = (np.square(overlap).sum(axis=1) - np.diag(overlap) ** 2) / 4
        variance = scale.sigma**2 * np.diag(overlap) + interference
        scores += (direction @ (seen - middle)) * np.diag(overlap) / np.maximum(variance, 1e-300)
    return scores
