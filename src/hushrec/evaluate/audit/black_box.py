"""Black box: many trainings with and without a target, and what the best threshold proves about ε and μ.

The attacker knows the other users, the two rows that the target may have, and every released value; his score is
the likelihood ratio of the whole transcript. A first part of the trainings chooses the thresholds, the rest counts.
With Clopper-Pearson bounds FPR ≤ a and TPR ≥ b at the stated confidence,

    ε ≥ log((b − δ)/a), and the same with the roles exchanged;     μ ≥ Φ⁻¹(b) − Φ⁻¹(a)

are then bounds that any (ε, δ)-DP, or μ-GDP, release must respect.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta

from hushrec.data.ratings import Ratings
from hushrec.evaluate.audit.neighbours import adversaries
from hushrec.evaluate.audit.report import Curve, Finding
from hushrec.evaluate.audit.subject import Answer, Row, Subject, Training, World, change, exact, isometric, scale_of
from hushrec.privacy.accounting import Budget, gaussian_epsilon

Floats = NDArray[np.float64]
PILOT = 0.2
ALARM = 1e-6
"""A claim is called broken only by a bound at this much more confidence: sound systems raise no false alarm."""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds on ε and μ at one confidence, and the rates behind them."""

    epsilon: float
    mu: float


def lower_bounds(scores: Floats, null_scores: Floats, delta: float, confidence: float, pilot: float = PILOT) -> Bounds:
    """Bounds from attack scores (higher: "she is there") in the two worlds, each array in the order of its trials."""
    first, rest = _cut(scores, pilot), _cut(null_scores, pilot)
    (tuned, counted), (null_tuned, null_counted) = first, rest
    thresholds = np.unique(np.quantile(np.concatenate((tuned, null_tuned)), np.linspace(0.005, 0.995, 199)))
    mu_at, up_at, down_at = _best_thresholds(thresholds, tuned, null_tuned, delta)
    risk = 1.0 - confidence
    mu = _mu(_rates(counted, null_counted, mu_at, risk / 2))
    epsilon = max(
        _epsilon(*_rates(counted, null_counted, up_at, risk / 4), delta),
        _epsilon(*_rates(-null_counted, -counted, -down_at, risk / 4), delta),
        0.0,
    )
    return Bounds(epsilon, max(mu, 0.0))


def _cut(scores: Floats, pilot: float) -> tuple[Floats, Floats]:
    size = max(1, int(len(scores) * pilot))
    return scores[:size], scores[size:]


def _best_thresholds(thresholds: Floats, tuned: Floats, null: Floats, delta: float) -> tuple[float, float, float]:
    """The thresholds with the largest μ and the largest ε in both directions, by smoothed rates of the pilot."""
    n, k = len(tuned), len(null)
    hits = (np.sum(tuned[:, None] > thresholds, axis=0) + 0.5) / (n + 1)
    alarms = (np.sum(null[:, None] > thresholds, axis=0) + 0.5) / (k + 1)
    # A rate counts for as much as its lower confidence bound: rare events are not believed.
    doubt = 2.0 * np.sqrt(hits * (1 - hits) / n), 2.0 * np.sqrt(alarms * (1 - alarms) / k)
    low_hits, high_alarms = np.clip(hits - doubt[0], 1e-9, 1), np.clip(alarms + doubt[1], 1e-9, 1 - 1e-9)
    mu = ndtri(np.clip(low_hits, 1e-9, 1 - 1e-9)) - ndtri(high_alarms)
    up = np.log(np.maximum(low_hits - delta, 1e-12) / high_alarms)
    low_rest, high_misses = np.clip(1 - alarms - doubt[1], 1e-9, 1), np.clip(1 - hits + doubt[0], 1e-9, 1)
    down = np.log(np.maximum(low_rest - delta, 1e-12) / high_misses)
    return float(thresholds[np.argmax(mu)]), float(thresholds[np.argmax(up)]), float(thresholds[np.argmax(down)])


def _rates(scores: Floats, null: Floats, threshold: float, risk: float) -> tuple[float, float]:
    """(TPR at least, FPR at most), each failing with probability `risk` at most: Clopper-Pearson."""
    hits, alarms = int(np.sum(scores > threshold)), int(np.sum(null > threshold))
    low = float(beta.ppf(risk, hits, len(scores) - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - risk, alarms + 1, len(null) - alarms)) if alarms < len(null) else 1.0
    return low, high


def _mu(rates: tuple[float, float]) -> float:
    low, high = rates
    return float(ndtri(low) - ndtri(high)) if low > 0.0 and high < 1.0 else -math.inf


def _epsilon(low: float, high: float, delta: float) -> float:
    return math.log((low - delta) / high) if low > delta and high > 0.0 else -math.inf


def curve(scores: Floats, null_scores: Floats, points: int = 201) -> Curve:
    """The attack's ROC: (false-positive rates, true-positive rates)."""
    false = np.linspace(0.0, 1.0, points)
    thresholds = np.quantile(null_scores, 1.0 - false)
    true = np.mean(scores[:, None] > thresholds, axis=0)
    true[0], true[-1] = np.mean(scores > null_scores.max()), 1.0
    return false, np.maximum.accumulate(true)


def auc(scores: Floats, null_scores: Floats) -> float:
    """How often a target scores higher than nobody; ties count half."""
    order = np.sort(null_scores)
    below, upto = np.searchsorted(order, scores, "left"), np.searchsorted(order, scores, "right")
    return float(np.mean((below + upto) / 2) / len(order))


# --- the attack on a solver ------------------------------------------------------------------------


def check(
    subject: Subject, world: World, *, trainings: int, confidence: float, seed: int | None, progress: Callable[[], None]
) -> tuple[list[Finding], dict[str, Curve]]:
    """Train with each of the two worst rows and bound ε and μ."""
    budget = subject.budget
    pair, names = worst_pair(subject, world)
    worlds = [world.with_target(*rows) for rows in pair]
    scores: list[Floats] = []
    for which, ratings in enumerate(worlds):
        found = np.empty(trainings)
        for number in range(trainings):
            training = subject.train(ratings, seed=None if seed is None else (2 * number + which) * 65_537 + seed)
            found[number] = likelihood_ratio(training, budget, *worlds)
            progress()
        scores.append(found)
    report = finding("black box", "whole transcript", scores[0], scores[1], budget, confidence, names)
    return [report], {"attack on the whole transcript": curve(scores[0], scores[1])}


def finding(check: str, name: str, scores: Floats, null: Floats, budget: Any, confidence: float, names: str) -> Finding:
    """Compare the bounds of an attack with the claim."""
    bounds = lower_bounds(scores, null, budget.delta, confidence)
    alarm = lower_bounds(scores, null, budget.delta, 1.0 - ALARM)
    gaussian = isinstance(budget, Budget) and budget.delta > 0.0
    mu = budget.mu if gaussian else math.inf
    passed = alarm.epsilon <= budget.epsilon and alarm.mu <= mu
    says = f"ε ≥ {bounds.epsilon:.3f} of {budget.epsilon:g}"
    if gaussian:
        as_epsilon = gaussian_epsilon(bounds.mu, budget.delta)
        says += f", μ ≥ {bounds.mu:.3f} of {mu:.3f} (as ε at this δ: {as_epsilon:.3f})"
    return Finding(
        check=check,
        name=name,
        passed=passed,
        says=f"{says}, {len(scores)} trainings each ({names})",
        figures={
            "epsilon_lower": bounds.epsilon,
            "mu_lower": bounds.mu,
            "trainings": len(scores),
            "auc": auc(scores, null),
        },
    )


def worst_pair(subject: Subject, world: World) -> tuple[tuple[tuple[Row, ...], tuple[Row, ...]], str]:
    """The two worlds of built-in rows that a likelihood ratio tells apart best, from one training's questions."""
    training = subject.train(world.with_target(*world.nobody), seed=0)
    rows = adversaries(world.n_items, world.value_range)
    profiles = {name: _profile(training, subject.budget, world, row) for name, row in rows.items()}
    if world.relation == "add-remove":
        best = max(rows, key=lambda name: float(np.linalg.norm(profiles[name])))
        return ((rows[best],), ()), f"{best} / nobody"
    names = list(rows)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    one, two = pairs[int(np.argmax([np.linalg.norm(profiles[a] - profiles[b]) for a, b in pairs]))]
    return ((rows[one],), (rows[two],)), f"{one} / {two}"


def _profile(training: Training, budget: Any, world: World, row: Row) -> Floats:
    """What a row adds to every answer, in units of that answer's noise."""
    alone = World(others=(), n_items=world.n_items, value_range=world.value_range, relation=world.relation)
    parts = []
    for answer in training.answers:
        scale = scale_of(answer, budget)
        sums = exact(answer.query, scale, alone.with_target(row))
        parts.append(isometric(answer.query, sums) / (scale.sigma or 1.0))
    return np.concatenate(parts)


def likelihood_ratio(training: Training, budget: Any, there: Ratings, not_there: Ratings) -> float:
    """log P(transcript | there) − log P(transcript | not there), for Gaussian noise of the declared size."""
    return float(sum(_answer_ratio(answer, budget, there, not_there) for answer in training.answers))


def _answer_ratio(answer: Answer, budget: Any, there: Ratings, not_there: Ratings) -> float:
    scale = scale_of(answer, budget)
    more, less = exact(answer.query, scale, there), exact(answer.query, scale, not_there)
    direction = change(answer.query, more, less)
    seen = isometric(answer.query, [part / scale.unit for part in answer.noisy.parts])
    middle = isometric(answer.query, [(a.astype(float) + b) / 2 for a, b in zip(more, less, strict=True)])
    return float((seen - middle) @ direction) / max(scale.sigma, 1e-300) ** 2


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
