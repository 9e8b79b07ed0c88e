"""What theory promises about private matrix completion: Table 1 of the DPLMC paper (Wang, Zhao, Kolar 2023).

All orders hide constants, logarithms, and polynomials in singular values and incoherence, as the paper's table
does: they compare how methods scale, and say nothing about the error of one run.

    method         sample complexity |Ω|    utility                        rate
    Frank-Wolfe    n √m                     r √n / (m ε)^{2/5}             sublinear    Jain et al. 2018
    ALS            r⁶ m                     r⁵ n² / (m |Ω| ε²)             linear       Chien et al. 2021
    DPLMC          r² m                     r⁴ n² / (m |Ω| ε²)             linear       Theorem 5.2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hushrec.errors import ConfigError

CURVATURE = 42.0 / 43.0  # μ of Lemma B.1


@dataclass(frozen=True, kw_only=True)
class Orders:
    """One line of the table: orders as functions of m users, n items, rank, |Ω| observed entries and ε."""

    sample_complexity: Callable[[float, float, float], float]
    utility: Callable[[float, float, float, float, float], float]
    rate: str
    source: str


TABLE = {
    "frank-wolfe": Orders(
        sample_complexity=lambda m, n, r: n * math.sqrt(m),
        utility=lambda m, n, r, observed, epsilon: r * math.sqrt(n) / (m * epsilon) ** 0.4,
        rate="sublinear",
        source="Jain, Thakkar, Thakurta 2018",
    ),
    "als": Orders(
        sample_complexity=lambda m, n, r: r**6 * m,
        utility=lambda m, n, r, observed, epsilon: r**5 * n**2 / (m * observed * epsilon**2),
        rate="linear",
        source="Chien et al. 2021",
    ),
    "dplmc": Orders(
        sample_complexity=lambda m, n, r: r**2 * m,
        utility=lambda m, n, r, observed, epsilon: r**4 * n**2 / (m * observed * epsilon**2),
        rate="linear",
        source="Wang, Zhao, Kolar 2023, Theorem 5.2",
    ),
}


def sample_complexity(method: str, users: float, items: float, rank: float) -> float:
    """How many observed entries a method needs, in order: column 2 of Table 1.

    >>> sample_complexity("als", 1000, 100, 5) / sample_complexity("dplmc", 1000, 100, 5)
    625.0
    """
    _check(users=users, items=items, rank=rank)
    return float(_orders(method).sample_complexity(users, items, rank))


def utility(method: str, users: float, items: float, rank: float, observed: float, epsilon: float) -> float:
    """The error that privacy costs, in order: column 3 of Table 1.

    >>> utility("als", 1000, 100, 5, 5e4, 1) / utility("dplmc", 1000, 100, 5, 5e4, 1)
    5.0
    """
    _check(users=users, items=items, rank=rank, observed=observed, epsilon=epsilon)
    return float(_orders(method).utility(users, items, rank, observed, epsilon))


def contraction(step: float, smallest_singular_value: float) -> float:
    """ρ = 1 − η μ σ_r / 20, by which one round of DPLMC shrinks ‖U − U*‖² + ‖V − V*‖² at least (proof of Thm. 5.2).

    >>> round(contraction(0.5, 1.0), 4)
    0.9756
    """
    _check(step=step, smallest_singular_value=smallest_singular_value)
    return 1.0 - step * CURVATURE * smallest_singular_value / 20.0


def balance_share(density: float, items: float) -> float:
    """ω = 1/(1 + K/p²) of Theorem 5.2 with K = pn ratings a user: the part of a round's budget that R gets.

    The theorem's error of privacy grows with `noise_error(ω, ...)`; this ω costs at most twice its least value.

    >>> round(balance_share(0.5, 100), 4)
    0.005
    """
    _check(density=density, items=items)
    return 1.0 / (1.0 + items / density)


def noise_error(share: float, density: float, items: float) -> float:
    """1/ω + (K/p²)/(1 − ω) with K = pn: how the error of privacy in Theorem 5.2 depends on ω (ε₂ of its proof).

    >>> round(noise_error(balance_share(0.5, 100), 0.5, 100))
    402
    """
    _check(share=share, density=density, items=items)
    if share >= 1:
        raise ConfigError(f"share must be below 1, not {share}.")
    return 1.0 / share + items / density / (1.0 - share)


def _orders(method: str) -> Orders:
    if method not in TABLE:
        raise ConfigError(f"method must be one of {', '.join(TABLE)}, not {method!r}.")
    return TABLE[method]


def _check(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{name} must be a positive number, not {value}.")
