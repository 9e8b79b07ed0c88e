"""What an epsilon means: how well the best possible attacker can do.

The attacker knows everything except which of two data sets (neighbours: they differ in one unit) was used,
sees the release, and must tell which. A trade-off curve gives, for each false-positive rate alpha that he
accepts, the smallest false-negative rate that he can reach. Nobody can do better, whatever he knows.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from hushrec import require
from hushrec.errors import ConfigError
from hushrec.privacy.accounting import Budget, NonPrivate

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class AttackSuccess:
    """The best attacker: his true minus false-positive rate at best, and at low false-positive rates."""

    advantage: float
    tpr_at_1pct_fpr: float
    tpr_at_01pct_fpr: float


@dataclass(frozen=True, kw_only=True)
class Belief:
    """An attacker's belief in the truth: before, and at most after, except with a stated probability."""

    before: float
    after_at_most: float
    except_with_probability: float


def gaussian_tradeoff(alpha: ArrayLike, mu: float) -> Floats:
    """Return the best attacker's false-negative rates at false-positive rates ``alpha`` under mu-GDP.

    **Guarantee**: exact for the Gaussian mechanism; Phi(Phi^-1(1 - alpha) - mu).

    >>> round(float(gaussian_tradeoff(0.01, 0.2367)), 4)
    0.9817
    """
    rates = _checked_rates(alpha)
    require.number("mu", mu, 0.0, math.inf)
    if math.isinf(mu):
        return np.zeros_like(rates)
    return np.asarray(ndtr(-ndtri(rates) - mu))


def epsilon_delta_tradeoff(alpha: ArrayLike, epsilon: float, delta: float = 0.0) -> Floats:
    """Return a lower bound on false-negative rates at ``alpha`` that (epsilon, delta)-DP alone implies.

    **Guarantee**: holds for every (epsilon, delta)-DP release; reached at delta = 0 by randomized response.

    >>> round(float(epsilon_delta_tradeoff(0.01, 1.0)), 4)
    0.9728
    """
    rates = _checked_rates(alpha)
    require.number("epsilon", epsilon, 0.0, math.inf)
    require.number("delta", delta, 0.0, 1.0)
    # e^700 times any positive rate of interest is above 1 already, and 0 times it stays 0.
    steep = 1.0 - delta - math.exp(min(epsilon, 700.0)) * rates
    flat = math.exp(-epsilon) * (1.0 - delta - rates)
    return np.maximum(0.0, np.maximum(steep, flat))


def attack_success(mu: float) -> AttackSuccess:
    """Return how well the best attacker does against a ``mu``-GDP release.

    **Guarantee**: an upper bound for every attacker, reached by the likelihood-ratio test.

    >>> round(attack_success(0.2367).advantage, 3)
    0.094
    """
    require.number("mu", mu, 0.0, math.inf)
    return _success(lambda alpha: gaussian_tradeoff(alpha, mu), math.erf(mu / math.sqrt(8.0)))


def pure_attack_success(epsilon: float) -> AttackSuccess:
    """Return how well the best attacker does against an ``epsilon``-DP release (delta = 0).

    **Guarantee**: an upper bound for every attacker and every epsilon-DP release.

    >>> round(pure_attack_success(1.0).advantage, 3)
    0.462
    """
    require.number("epsilon", epsilon, 0.0, math.inf)
    return _success(lambda alpha: epsilon_delta_tradeoff(alpha, epsilon), math.tanh(epsilon / 2.0))


def posterior_odds(prior: float, epsilon: float, mu: float | None = None) -> Belief:
    """Return how far the release can raise the belief ``prior`` in the truth: odds grow e^epsilon-fold.

    **Guarantee**: without ``mu``, always, for an epsilon-DP release. With ``mu``, for a mu-GDP release,
    except with the returned probability, Phi(mu/2 - epsilon/mu).

    >>> round(posterior_odds(0.5, 1.0).after_at_most, 3)
    0.731
    """
    require.number("prior", prior, 0.0, 1.0, above_low=True, below_high=True)
    require.number("epsilon", epsilon, 0.0, math.inf)
    after = prior / (prior + (1.0 - prior) * math.exp(-epsilon))
    if mu is None:
        exception = 0.0
    else:
        require.number("mu", mu, 0.0, math.inf)
        exception = 0.0 if mu == 0.0 else 1.0 if math.isinf(mu) else float(ndtr(mu / 2.0 - epsilon / mu))
    return Belief(before=prior, after_at_most=after, except_with_probability=exception)


def roc(mu: float, points: int = 101) -> tuple[Floats, Floats]:
    """Return (false-positive rates, true-positive rates) of the best attacker against a ``mu``-GDP release.

    The rates run from 0 to 1 with ``points`` values, dense at both ends where the interest is.

    **Guarantee**: no attacker's curve lies above.

    >>> false_positive, true_positive = roc(1.0, points=5)
    >>> [round(float(rate), 2) for rate in true_positive]
    [0.0, 0.02, 0.84, 1.0, 1.0]
    """
    require.whole("points", points, 2)
    false_positive = np.asarray(ndtr(np.linspace(-6.0, 6.0, points)))
    false_positive[0], false_positive[-1] = 0.0, 1.0
    return false_positive, 1.0 - gaussian_tradeoff(false_positive, mu)


def explain_budget(budget: Budget | NonPrivate) -> dict[str, Any]:
    """Return what a budget means as one flat dict, its mu and the best attacker's success included.

    **Guarantee**: the figures bound every attacker on a release that spends the budget; a budget with
    delta > 0 is taken to be spent on Gaussian noise, as all mechanisms here with delta > 0 do.

    >>> round(explain_budget(Budget(1.0, 1e-6))["tpr_at_1pct_fpr"], 3)
    0.018
    """
    pure = budget.private and budget.delta == 0.0
    mu = None if pure else budget.mu
    success = pure_attack_success(budget.epsilon) if mu is None else attack_success(mu)
    public = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": budget.relation,
        "unit": budget.unit,
    }
    return public | {"mu": mu} | asdict(success)


def _success(tradeoff: Callable[[float], Floats], advantage: float) -> AttackSuccess:
    return AttackSuccess(
        advantage=advantage,
        tpr_at_1pct_fpr=1.0 - float(tradeoff(0.01)),
        tpr_at_01pct_fpr=1.0 - float(tradeoff(0.001)),
    )


def _checked_rates(alpha: ArrayLike) -> Floats:
    rates = np.asarray(alpha, dtype=np.float64)
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ConfigError("alpha holds something else than rates in [0, 1].")
    return rates
