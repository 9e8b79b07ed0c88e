"""Black box: the same question, or a whole training, many times in two worlds, and the best test between them.

The attacker knows the other users, the two rows that the target may have, and every released value.

*One question*: each kind of query of the plan is asked alone, with the whole budget, at its worst-case pair of rows.
That takes a fraction of a millisecond, so it is asked often enough to prove most of μ. A few hundred answers show
how noisy each coordinate really is, and the score is the likelihood ratio for noise of that size: noise that is
missing on some coordinates gives these the weight that they deserve.

*The whole transcript*: whole trainings with two rows; the score adds the answers' likelihood ratios, each divided by
the variance that it really had in the pilot, so that one answer without noise is not drowned by the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.evaluate.audit.bounds import PILOT, curve, finding
from hushrec.evaluate.audit.neighbours import adversaries, search
from hushrec.evaluate.audit.report import Curve, Finding
from hushrec.evaluate.audit.subject import (
    Answer,
    Row,
    Subject,
    Training,
    World,
    change,
    exact,
    isometric,
    scale_of,
)
from hushrec.privacy.accounting import Budget

Floats = NDArray[np.float64]
Seeds = Callable[[], int | None]

PILOT_ASKS = 200
"""Answers in each world that show the noise of every coordinate, before any answer counts."""

ENOUGH = 2200.0
"""ENOUGH/μ² answers prove four fifths of μ on average, μ − 4.91/√N of the N = 80 % that count, and show that noise is
seven tenths of what it should be even at the confidence of an alarm: 1.4 μ − 12.3/√N is above μ."""

NUMBERS = 10**8
"""In all answers to one question in a world: drawing their noise takes seconds. Below 140 items nothing is cut."""

LEAST_REACHED = 0.5
"""Where the worst rows reach a part of a sensitivity, more answers make up for it; not for less than this part."""

MOST = 10
"""The most answers to one question, in trainings of the whole: what a very small μ would take is out of reach."""


def check(
    subject: Subject, world: World, *, trainings: int, confidence: float, seed: int | None, progress: Callable[[], None]
) -> tuple[list[Finding], dict[str, Curve]]:
    """Every kind of question alone, then whole trainings."""
    seeds = repeatable(seed)
    known = subject.train(world.with_target(*world.nobody), seed=0)
    findings, curves = [], {}
    for answer in one_of_each(known):
        found, drawn = _question(subject, answer, world, trainings, confidence, seeds)
        findings.append(found)
        curves[f"{answer.query.name} alone"] = drawn
    pair, names = worst_pair(subject, world)
    worlds = [world.with_target(*rows) for rows in pair]
    ratios = [_ratios(subject, ratings, worlds, trainings, seeds, progress) for ratings in worlds]
    scores, null = weighted(*ratios)
    findings.append(finding("black box", "whole transcript", scores, null, subject.budget, confidence, names))
    return findings, curves | {"all answers of a training": curve(scores, null)}


def repeatable(seed: int | None) -> Seeds:
    """A new seed for every trial of a repeatable audit; None, which is real noise, for any other."""
    counter = itertools.count(0 if seed is None else seed * 1_000_003)
    return lambda: None if seed is None else next(counter)


# --- one question ----------------------------------------------------------------------------------


def one_of_each(training: Training) -> list[Answer]:
    """The first answer to every kind of question."""
    kinds: dict[str, Answer] = {}
    for answer in training.answers:
        kinds.setdefault(answer.query.name, answer)
    return list(kinds.values())


def asks(budget: Any, trainings: int, coordinates: int, reached: float) -> int:
    """How often a question is asked in each world: `coordinates` numbers, this part of its sensitivity `reached`."""
    wanted = max(trainings, min(MOST * trainings, ENOUGH / min(budget.mu, 1e3) ** 2))
    wanted = math.ceil(wanted / min(max(reached, LEAST_REACHED), 1.0) ** 2)
    return min(wanted, max(PILOT_ASKS, NUMBERS // coordinates))


def _question(
    subject: Subject, answer: Answer, world: World, trainings: int, confidence: float, seeds: Seeds
) -> tuple[Finding, Curve]:
    """Ask one question alone, with the whole budget, at its worst-case neighbours."""
    worst = search(subject, answer, world, 0, np.random.default_rng(0), possible=True)
    times = asks(subject.budget, trainings, answer.query.coordinates(len(answer.kept)), worst.ratio)
    rows = worst.rows[:1] if world.relation == "add-remove" else worst.rows
    worlds = [world.with_target(row) for row in rows] + [world.with_target()] * (2 - len(rows))
    scale = answer.query.scale(subject.budget.relation, subject.mu)
    sums = [exact(answer, scale, ratings) for ratings in worlds]
    direction = change(answer.query, *sums)
    middle = isometric(answer.query, [(a.astype(float) + b) / 2 for a, b in zip(*sums, strict=True)])

    def ask(which: int) -> Floats:
        parts = subject.ask(answer, worlds[which], share=1.0, seed=seeds()).parts
        return isometric(answer.query, [part / scale.unit for part in parts]) - middle

    weights = direction / np.maximum(_variances(ask, len(direction)), 1e-9 * scale.sigma**2 + 1e-300)
    scores, null = (np.array([ask(which) @ weights for _ in range(times)]) for which in (0, 1))
    names = " / ".join(worst.names)
    how = f"{worst.ratio:.0%} of the sensitivity, {names}"
    name = f"{answer.query.name}, alone with the whole budget"
    return finding("black box", name, scores, null, subject.budget, confidence, how), curve(scores, null)


def _variances(ask: Callable[[int], Floats], size: int) -> Floats:
    """Of every coordinate, about its mean in each world: running sums, since a Gram may be large."""
    total = np.zeros(size)
    for which in (0, 1):
        mean, squares = np.zeros(size), np.zeros(size)
        for number in range(1, PILOT_ASKS + 1):
            seen = ask(which)
            step = seen - mean
            mean += step / number
            squares += step * (seen - mean)
        total += squares / (PILOT_ASKS - 1) / 2
    return total


# --- whole trainings -------------------------------------------------------------------------------


def _ratios(
    subject: Subject,
    ratings: Ratings,
    worlds: list[Ratings],
    trainings: int,
    seeds: Seeds,
    progress: Callable[[], None],
) -> list[dict[str, tuple[float, float]]]:
    """Of many trainings on these ratings, every answer's likelihood ratio and the gap that it should have."""
    found = []
    for _ in range(trainings):
        training = subject.train(ratings, seed=seeds())
        found.append({answer.label: answer_ratio(answer, subject, *worlds) for answer in training.answers})
        progress()
    return found


def weighted(
    there: list[dict[str, tuple[float, float]]], instead: list[dict[str, tuple[float, float]]]
) -> tuple[Floats, Floats]:
    """One score for each training: its answers' ratios, by how large they should differ over how much they vary."""
    labels = sorted({label for training in (*there, *instead) for label in training})
    both = [
        np.array([[training.get(label, (0.0, 0.0)) for label in labels] for training in world])
        for world in (there, instead)
    ]
    pilots = [world[: max(2, int(len(world) * PILOT))] for world in both]
    gaps = np.mean([pilot[:, :, 1].mean(axis=0) for pilot in pilots], axis=0)
    spread = np.mean([pilot[:, :, 0].var(axis=0, ddof=1) for pilot in pilots], axis=0)
    weights = gaps / np.maximum(spread, 1e-9 * gaps + 1e-300)
    return both[0][:, :, 0] @ weights, both[1][:, :, 0] @ weights


def answer_ratio(answer: Answer, subject: Subject, there: Ratings, instead: Ratings) -> tuple[float, float]:
    """log P(answer | there) − log P(answer | instead) for noise of the declared size, and the gap of its two means."""
    scale = scale_of(answer, subject.budget)
    more, less = exact(answer, scale, there), exact(answer, scale, instead)
    direction = change(answer.query, more, less)
    seen = isometric(answer.query, [part / scale.unit for part in answer.noisy.parts])
    middle = isometric(answer.query, [(a.astype(float) + b) / 2 for a, b in zip(more, less, strict=True)])
    variance = max(scale.sigma, 1e-300) ** 2
    return float((seen - middle) @ direction) / variance, float(direction @ direction) / variance


def worst_pair(subject: Subject, world: World) -> tuple[tuple[tuple[Row, ...], tuple[Row, ...]], str]:
    """The two worlds of built-in rows that a likelihood ratio tells apart best, from one training's questions."""
    training = subject.train(world.with_target(*world.nobody), seed=0)
    rows = adversaries(world.n_items, world.value_range)
    profiles = {name: profile(training, subject, world, row) for name, row in rows.items()}
    if world.relation == "add-remove":
        best = max(rows, key=lambda name: float(np.linalg.norm(profiles[name])))
        return ((rows[best],), ()), f"{best} / nobody"
    pairs = list(itertools.combinations(rows, 2))
    one, two = pairs[int(np.argmax([np.linalg.norm(profiles[a] - profiles[b]) for a, b in pairs]))]
    return ((rows[one],), (rows[two],)), f"{one} / {two}"


def profile(training: Training, subject: Subject, world: World, row: Row) -> Floats:
    """What a row adds to every answer, in units of that answer's noise."""
    parts = []
    for answer in training.answers:
        scale = scale_of(answer, subject.budget)
        sums = exact(answer, scale, world.alone(row))
        parts.append(isometric(answer.query, sums) / (scale.sigma or 1.0))
    return np.concatenate(parts)


# --- the attack on anything ------------------------------------------------------------------------


def check_mechanism(
    mechanism: Callable[[Any], Floats],
    there: Any,
    not_there: Any,
    score: Callable[[Floats], float],
    budget: Budget,
    *,
    trainings: int,
    confidence: float = 0.95,
    name: str = "a mechanism",
) -> Finding:
    """Attack any function from data to released numbers on one pair of neighbours, with a score of the attacker's."""
    scores, null = (np.array([score(mechanism(data)) for _ in range(trainings)]) for data in (there, not_there))
    return finding("black box", name, scores, null, budget, confidence, "as given")
