"""What theory says about the error and the number of users: the bounds of the Frank-Wolfe paper as functions.

Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018): Theorems 3.2, A.1, B.3,
Corollary 3.1, Tables 1 and 2. The paper's O(·) and Õ(·) hide constants and logarithms; here every hidden
constant is 1 and hidden logarithms are left out, so the values show how errors grow and fall, not what they
are. `users_needed` is not from the paper: it is sharp, and says from how many users on there is anything to see.

Letters: m users, n items, k nuclear norm, L norm of a user's observed row, |Ω| ratings, T rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushrec.errors import ConfigError
from hushrec.privacy.accounting import Budget, NonPrivate


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The quantities that the bounds are made of, all positive; `nuclear_norm` is k, `row_norm` L, `ratings` |Ω|."""

    users: float
    items: float
    ratings: float
    nuclear_norm: float
    row_norm: float
    epsilon: float = 1.0
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} must be a positive number, not {value}.")
        if not self.delta < 1:
            raise ConfigError(f"delta must be below 1, not {self.delta}.")

    @property
    def noise(self) -> float:
        """√(n^½ log^½(1/δ) log n / ε): what the noise adds in Theorem 3.2."""
        logs = math.sqrt(math.log(1 / self.delta)) * math.log(self.items)
        return math.sqrt(math.sqrt(self.items) * logs / self.epsilon)


def rank_one(users: float, items: float, epsilon: float = 1.0, delta: float = 1e-6) -> Setting:
    """The example of Remarks 1 and 3: a rank-one matrix in [−1, 1], √n ratings a user, k = √(mn), L = n^¼."""
    return Setting(
        users=users,
        items=items,
        ratings=users * math.sqrt(items),
        nuclear_norm=math.sqrt(users * items),
        row_norm=items**0.25,
        epsilon=epsilon,
        delta=delta,
    )


def nonprivate_bound(setting: Setting, rounds: float, slack: float = 0.0) -> float:
    """Theorem A.1: excess empirical risk of Frank-Wolfe after T rounds, k²/(2|Ω|T) + slack; this one is exact.

    >>> nonprivate_bound(rank_one(users=10_000, items=100), rounds=10)
    0.5
    """
    return setting.nuclear_norm**2 / (2 * setting.ratings * rounds) + slack


def frank_wolfe_bound(setting: Setting, rounds: float | None = None) -> float:
    """Theorem 3.2, equation (3): empirical risk of Algorithm 1 after T rounds (None: the best T)."""
    rounds = best_rounds(setting) if rounds is None else rounds
    k, omega = setting.nuclear_norm, setting.ratings
    return k**2 / (omega * rounds) + k * rounds**0.25 * setting.row_norm * setting.noise / omega


def best_rounds(setting: Setting) -> float:
    """The T that makes equation (3) smallest, (4k / (L·noise))^⅘: of the order k^⅘ ε^⅖ / (n^⅕ L^⅘)."""
    return float((4 * setting.nuclear_norm / (setting.row_norm * setting.noise)) ** 0.8)


def empirical_rate(setting: Setting) -> float:
    """Theorem 3.2 at the best T, without logarithms: k^(6/5) n^⅕ L^⅘ / (|Ω| ε^⅖)."""
    k, row = setting.nuclear_norm, setting.row_norm
    return float(k**1.2 * setting.items**0.2 * row**0.8 / (setting.ratings * setting.epsilon**0.4))


def generalization_bound(setting: Setting) -> tuple[float, float]:
    """Corollary 3.1: mean squared error on all entries, as (the price of privacy, the error of completion)."""
    k, omega, both = setting.nuclear_norm, setting.ratings, setting.users + setting.items
    private = k ** (4 / 3) * setting.row_norm * setting.items**0.25
    private /= math.sqrt(setting.epsilon * omega ** (13 / 6) * both ** (1 / 6))
    return private, (k * math.sqrt(both) / omega) ** (2 / 3)


def generalization_rounds(setting: Setting) -> float:
    """Corollary 3.1: the number of rounds k^(4/3) / (|Ω| (m + n))^⅓."""
    both = setting.users + setting.items
    return float(setting.nuclear_norm ** (4 / 3) / (setting.ratings * both) ** (1 / 3))


def svd_bound(
    setting: Setting, *, spectral_norm: float, rank: int = 1, condition: float = 1.0, incoherence: float | None = None
) -> tuple[float, float]:
    """Theorem B.3: mean squared error of Algorithm 3, as (the price of privacy, the error of completion).

    With an incoherence µ the first term is the theorem's second form, min(L², µ²rn/m) in place of L⁴/‖Y*‖₂².
    """
    m, n, omega = setting.users, setting.items, setting.ratings
    price = 64 * math.log(1 / setting.delta) / setting.epsilon**2
    if incoherence is None:
        head, spread = setting.row_norm**4 / spectral_norm**2, 1.0
    else:
        head, spread = min(setting.row_norm**2, incoherence**2 * rank * n / m), incoherence
    private = head * condition**4 * m**3 * n**4 * rank * price / omega**4
    return private, spread * spectral_norm**2 * rank**2 * math.log(m) / (n * omega)


def sample_complexity(items: float) -> dict[str, tuple[float, float]]:
    """Table 1: users beyond which the error vanishes, and ratings a user, for n items; (ω(·) up to logarithms).

    >>> round(sample_complexity(400)["private Frank-Wolfe"][0])
    1789
    """
    root = math.sqrt(items)
    return {"nuclear norm, not private": (items, root), "private Frank-Wolfe": (items**1.25, root)}


def approximation_errors(users: float, items: float, incoherence: float = 1.0) -> dict[str, tuple[float, float]]:
    """Table 2: (‖Y − Y*‖_F, rank) of low-rank approximation for rows of norm at most 1 and a rank-one Y*.

    The first four keep plain differential privacy, the last two joint differential privacy, a weaker promise.
    """
    m, n, mu = users, items, incoherence
    return {
        "randomized response": (math.sqrt(m + n), 1.0),
        "Gaussian measurement": (math.sqrt(m) + math.sqrt(mu * n / m), 1.0),
        "noisy power method": (math.sqrt(mu), 1.0),
        "exponential mechanism": (m + n, 1.0),
        "private Frank-Wolfe": ((m**3 * n) ** 0.1, m**0.4 / n**0.2),
        "private SVD": (math.sqrt(mu * (n**2 / m + m / n)), 1.0),
    }


STRUCTURE = 0.1  # of a user's squared residuals, explained by the strongest direction


def users_needed(
    items: int, budget: Budget | NonPrivate, *, ratings_per_user: float | None = None, structure: float = STRUCTURE
) -> int:
    """How many users it takes until the strongest direction stands out of the noise of one private Gram of n items.

    Rows are scaled to norm 1. A direction that explains the share `structure` of a row's squared residual (0.1:
    what star ratings show after means and offsets), over the d of n items that she rated (None: √n, the paper's),
    is an eigenvalue of about m·structure·d/n. The noise's eigenvalues end at σ√(2n), with σ = Δ/µ and Δ = 1 under
    add-remove, √2 under replace-one. Below that number of users a model predicts item means and offsets.

    >>> users_needed(400, Budget(1.0, 1e-6))
    33798
    """
    if items < 2:
        raise ConfigError(f"items must be at least 2, not {items}.")
    rated = math.sqrt(items) if ratings_per_user is None else ratings_per_user
    if not 0 < rated <= items:
        raise ConfigError(f"ratings_per_user must be above 0 and at most items={items}, not {rated}.")
    if not 0 < structure <= 1:
        raise ConfigError(f"structure must be above 0 and at most 1, not {structure}.")
    if not budget.private:
        return 1
    sensitivity = 1.0 if budget.relation == "add-remove" else math.sqrt(2.0)
    edge = sensitivity / budget.mu * math.sqrt(2.0 * items)
    return math.ceil(edge * items / (structure * rated))


def budget_report(users: int, items: int, budget: Budget) -> dict[str, Any]:
    """What theory says to somebody who plans: users needed, and the paper's bounds in its own example."""
    example = rank_one(users, items, budget.epsilon, budget.delta or 1e-6)
    private, completion = generalization_bound(example)
    needed = users_needed(items, budget)
    return {
        "users": users,
        "items": items,
        "users_needed": needed,
        "worth_training": users >= needed,
        "users_by_table_1": math.ceil(sample_complexity(items)["private Frank-Wolfe"][0]),
        "rounds_by_theorem_3_2": max(round(best_rounds(example)), 1),
        "privacy_error_by_corollary_3_1": private,
        "completion_error_by_corollary_3_1": completion,
    }
