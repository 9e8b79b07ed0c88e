"""What it costs to keep the best of a random number of private runs, and the exact draw of that number.

Papernot, Steinke, "Hyperparameter tuning with Renyi differential privacy" (2022), Theorem 2. The number of runs K is
truncated negative binomial with shape eta >= 0 (1: geometric, 0: logarithmic) and parameter gamma:

    P(K = k) proportional to (1 - gamma)^k * prod_{l < k} (l + eta)/(l + 1),   k = 1, 2, ...

If one run, its score included, is (l, r(l))-RDP for all l, the best of the K runs is (l, r')-RDP with

    r' = r(l) + log(E K)/(l - 1) + (1 + eta) min_h ((1 - 1/h) r(h) + log(1/gamma)/h).

A mu-GDP run has r(l) = l mu^2/2, for which h is found in closed form. RDP becomes (epsilon, delta)-DP by
epsilon = r' + log(1 - 1/l) - log(delta l)/(l - 1) (Canonne, Kamath, Steinke 2020, Proposition 12), at the best l.
Every l and h gives a valid bound, so how well they are found decides nothing but tightness.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

DIGITS = 60
UNIFORM_BITS = 128  # the law of K is met up to 2^-127, far below any delta that could be asked
ROUNDING = 1e-12  # far above the floating-point error of the formula


class Selected(NamedTuple):
    """The best of K runs of `mu`-GDP each: E K = `mean`, and the shape of its law."""

    mu: float
    mean: float
    shape: float


def selection_epsilon(mu: float, delta: float, mean: float, shape: float) -> float:
    """Return the epsilon, at `delta`, of the best of K runs of `mu`-GDP each, E K = `mean`; rounded up.

    **Guarantee**: the run with the best score, and nothing of the others, is (returned epsilon, delta)-DP. K
    itself, and so how long it took, must stay secret.

    >>> round(selection_epsilon(0.1, 1e-6, mean=10.0, shape=0.0), 3)
    0.743
    """
    return composed_epsilon(0.0, [Selected(mu, mean, shape)], delta)


def composed_epsilon(mu: float, selected: Sequence[Selected], delta: float) -> float:
    """Return the epsilon, at `delta`, of releases of `mu`-GDP in all and these selections together; rounded up.

    **Guarantee**: all of them together are (returned epsilon, delta)-DP, in whatever order, each chosen after
    seeing the earlier ones: at every order their Renyi divergences add up.

    >>> composed_epsilon(0.1, [Selected(0.1, 10.0, 0.0)], 1e-6) > selection_epsilon(0.1, 1e-6, 10.0, 0.0)
    True
    """
    selected = [one for one in selected if one.mu > 0.0]
    if mu == 0.0 and not selected:
        return 0.0
    if math.isinf(mu + sum(one.mu for one in selected)) or delta == 0.0:
        return math.inf
    curves = [_curve(one) for one in selected]

    def bound(log_above_one: float) -> float:
        above = math.exp(log_above_one)
        order = 1.0 + above
        renyi = order * mu * mu / 2.0 + math.fsum(curve(above) for curve in curves)
        return renyi + math.log(above / order) - (math.log(delta) + math.log(order)) / above

    grid = np.linspace(-12.0, 25.0, 150)
    start = int(np.argmin([bound(float(point)) for point in grid]))
    ends = grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]
    found = minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return max(float(found.fun), 0.0) * (1.0 + ROUNDING)


def _curve(one: Selected) -> Callable[[float], float]:
    """r' of a selection at order 1 + above. A divergence never falls with its order, so a bound at a higher order
    holds at a lower one: below its lowest point r' is that point.
    """
    squared, log_inverse_gamma = one.mu * one.mu, -log_gamma(one.mean, one.shape)
    best = max(math.sqrt(2.0 * log_inverse_gamma) / one.mu, 1.0)
    constant = (1.0 + one.shape) * ((best - 1.0) * squared / 2.0 + log_inverse_gamma / best)
    log_mean, lowest = math.log(one.mean), math.sqrt(2.0 * math.log(one.mean)) / one.mu

    def curve(above: float) -> float:
        higher = max(above, lowest)
        return (1.0 + higher) * squared / 2.0 + log_mean / higher + constant

    return curve


def selection_mu(epsilon: float, delta: float, mean: float, shape: float) -> float:
    """Return the largest mu of one run for which the best of K runs is (`epsilon`, `delta`)-DP, rounded down.

    **Guarantee**: ``selection_epsilon(mu, delta, mean, shape) <= epsilon`` at the returned mu.

    >>> mu = selection_mu(1.0, 1e-6, mean=10.0, shape=0.0)
    >>> selection_epsilon(mu, 1e-6, mean=10.0, shape=0.0) <= 1.0
    True
    """
    high = 1.0
    while selection_epsilon(high, delta, mean, shape) < epsilon:
        high *= 2.0
    low = high
    while selection_epsilon(low, delta, mean, shape) > epsilon:
        low /= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        inside = selection_epsilon(middle, delta, mean, shape) <= epsilon
        low, high = (middle, high) if inside else (low, middle)
    return low


def log_gamma(mean: float, shape: float) -> float:
    """Return log gamma of the truncated negative binomial with this mean above 1 and shape.

    >>> round(math.exp(log_gamma(10.0, 1.0)), 12)  # geometric: mean 1/gamma
    0.1
    """
    found: float = brentq(lambda log: _log_mean(log, shape) - math.log(mean), -700.0, -1e-12, xtol=1e-15, rtol=1e-15)
    return found


def _log_mean(log_gamma: float, shape: float) -> float:
    """The log of E K: eta (1 - gamma) / (gamma (1 - gamma^eta)), and its limit at eta = 0."""
    per_shape = -math.expm1(shape * log_gamma) / shape if shape else -log_gamma
    return math.log(-math.expm1(log_gamma)) - log_gamma - math.log(per_shape)


def draw_runs(mean: float, shape: float, uniform: int) -> int:
    """Return the number of runs K at a quantile, `uniform` / 2^128, by adding up the law in 60 digits.

    >>> [draw_runs(10.0, 1.0, int(share * 2**128)) for share in (0.05, 0.11, 0.5)]
    [1, 2, 7]
    """
    with localcontext() as context:
        context.prec = DIGITS
        goal = Decimal(uniform) / Decimal(2**UNIFORM_BITS)
        gamma, eta = Decimal(log_gamma(mean, shape)).exp(), Decimal(shape)
        runs, left = 1, 1 - gamma
        if shape:
            chance = eta * left * gamma**eta / (1 - gamma**eta)
        else:
            chance = left / -gamma.ln()
        total = chance
        while total <= goal and chance > Decimal(2) ** -(2 * UNIFORM_BITS):
            chance *= left * (runs + eta) / (runs + 1)
            runs += 1
            total += chance
        return runs
