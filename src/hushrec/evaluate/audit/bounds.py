"""From attack scores in two worlds to what they prove: lower bounds on ε and μ, a curve, and how often it tells.

Scores of two worlds that differ in one user (or one rating), higher for "she is there". A first part of the trials
chooses the thresholds, the rest counts. With Clopper-Pearson bounds FPR ≤ a and TPR ≥ b at the stated confidence,

    ε ≥ log((b − δ)/a), and the same with the roles exchanged;     μ ≥ Φ⁻¹(b) − Φ⁻¹(a)

are then bounds that any (ε, δ)-DP, or μ-GDP, release must respect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta

from hushrec.evaluate.audit.report import Curve, Finding
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
    best_up, best_down = (float(thresholds[np.argmax(x)]) for x in (up, down))
    return _middle(thresholds, mu, 6.0 / math.sqrt(min(n, k))), best_up, best_down


def _middle(thresholds: Floats, values: Floats, doubt: float) -> float:
    """Of the thresholds that are as good as the best one, up to the pilot's own doubt, the middle one.

    The very best one is often at an end, by luck; in the middle the same number of trials proves more.
    """
    good = np.flatnonzero(values >= values.max() - doubt)
    return float(thresholds[good[np.argmin(np.abs(good - len(thresholds) / 2))]])


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


def curve(scores: Floats, null_scores: Floats, *, points: int = 201, private: bool = True) -> Curve:
    """The attack's ROC."""
    false = np.linspace(0.0, 1.0, points)
    thresholds = np.quantile(null_scores, 1.0 - false)
    true = np.mean(scores[:, None] > thresholds, axis=0)
    true[0], true[-1] = np.mean(scores > null_scores.max()), 1.0
    return Curve(false, np.maximum.accumulate(true), min(len(scores), len(null_scores)), private)


def auc(scores: Floats, null_scores: Floats) -> float:
    """How often a target scores higher than nobody; ties count half."""
    order = np.sort(null_scores)
    below, upto = np.searchsorted(order, scores, "left"), np.searchsorted(order, scores, "right")
    return float(np.mean((below + upto) / 2) / len(order))


def finding(check: str, name: str, scores: Floats, null: Floats, budget: Any, confidence: float, how: str) -> Finding:
    """Compare the bounds of an attack with the claim."""
    bounds = lower_bounds(scores, null, budget.delta, confidence)
    alarm = lower_bounds(scores, null, budget.delta, 1.0 - ALARM)
    gaussian = isinstance(budget, Budget) and budget.delta > 0.0
    mu = budget.mu if gaussian else math.inf
    passed = alarm.epsilon <= budget.epsilon and alarm.mu <= mu
    says = f"ε ≥ {bounds.epsilon:.3f} of {budget.epsilon:g}"
    if gaussian:
        as_epsilon = gaussian_epsilon(bounds.mu, budget.delta)
        says += f", μ ≥ {bounds.mu:.3f} of {mu:.3f}, {bounds.mu / mu:.0%} (as ε at this δ: {as_epsilon:.3f})"
    return Finding(
        check=check,
        name=name,
        passed=passed,
        says=f"{says}, {len(scores)} trials each ({how})",
        figures={
            "epsilon_lower": bounds.epsilon,
            "mu_lower": bounds.mu,
            "trainings": len(scores),
            "auc": auc(scores, null),
        },
    )
