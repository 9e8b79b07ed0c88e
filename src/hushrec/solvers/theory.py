"""What theory says about the error and the number of users: the Frank-Wolfe paper's bounds, and what is proved.

Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018): Theorems 3.2, A.1, B.3,
Corollary 3.1, Tables 1 and 2. The paper's O(·) and Õ(·) hide constants and logarithms; here every hidden
constant is 1 and hidden logarithms are left out, so the values show how errors grow and fall, not what they
are. They stand here as published. Theorem A.1 does not hold as published, and Theorem 3.2 and Corollary 3.1
rest on it (docs/theory.md has the proofs and the counterexamples):

- with a step of 1/T the recursion keeps (1 − 1/T)^T, about 0.37, of the first error f(0) − min f; the proof drops
  it, but it is there: of a rank-one matrix that is seen whole, many rounds reach only 63 %;
- the curvature is 4k²/|Ω|, not the k²/|Ω| that the theorem's constant needs.

`excess_risk_bound` is the bound that does hold, for the very steps that `FrankWolfe` makes (`step_size`).
`users_needed` is not from the paper: it is sharp, and says from how many users on there is anything to see.

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


# --- what is proved -------------------------------------------------------------------------------


def step_size(done: int, rounds: int, step: str = "harmonic", scale: float = 1.0) -> float:
    """The step η after `done` of T rounds, as `FrankWolfe` makes it: "harmonic", c/(done + c), or "paper", 1/T.

    >>> [step_size(done, 4, scale=2.0) for done in range(3)]
    [1.0, 0.6666666666666666, 0.5]
    """
    return 1 / rounds if step == "paper" else scale / (done + scale)


def curvature(setting: Setting) -> float:
    """C_f of f(Y) = ‖P_Ω(Y − Y*)‖²/(2|Ω|) over ‖Y‖_nuc ≤ k, exactly: its largest ‖P_Ω(S − X)‖²/|Ω|, 4k²/|Ω|."""
    return 4 * setting.nuclear_norm**2 / setting.ratings


def excess_risk_bound(
    setting: Setting, rounds: int, *, step: str = "harmonic", scale: float = 1.0, slack: float = 0.0
) -> float:
    """What f(Y) − min f is at most after T rounds whose directions miss the best one by at most `slack`: proved.

    With h = f(Y) − min f, a round with step η leaves h ≤ (1 − η) h + η slack + η² C_f/2, from h ≤ f(0) ≤
    m L²/(2|Ω|) on. In closed form: at most 2C_f/(T + 2) = 8k²/(|Ω|(T + 2)) for η = 2/(t + 2), and
    C_f (1 + 1/2 + … + 1/T)/(2T) for η = 1/(t + 1), both plus slack; for η = 1/T, (1 − 1/T)^T f(0) never goes.

    >>> example = rank_one(users=10_000, items=100)
    >>> [round(excess_risk_bound(example, rounds, scale=2.0), 3) for rounds in (10, 100, 1000)]
    [5.804, 0.759, 0.079]
    >>> round(excess_risk_bound(example, 100_000, step="paper"), 3)
    0.184
    """
    left = setting.users * setting.row_norm**2 / (2 * setting.ratings)
    for done in range(rounds):
        eta = step_size(done, rounds, step, scale)
        left = (1 - eta) * left + eta * slack + eta**2 * curvature(setting) / 2
    return left


# --- as published ---------------------------------------------------------------------------------


def nonprivate_bound(setting: Setting, rounds: float, slack: float = 0.0) -> float:
    """Theorem A.1 as published, k²/(2|Ω|T) + slack, for the excess empirical risk after T rounds: it does not hold.

    >>> nonprivate_bound(rank_one(users=10_000, items=100), rounds=10)
    0.5
    """
    return setting.nuclear_norm**2 / (2 * setting.ratings * rounds) + slack


def frank_wolfe_bound(setting: Setting, rounds: float | None = None) -> float:
    """Theorem 3.2, equation (3), as published: empirical risk of Algorithm 1 after T rounds (None: the best T).

    Its first term is Theorem A.1's: of the right order for the step 2/(t + 2), and wrong for 1/T.
    """
    rounds = best_rounds(setting) if rounds is None else rounds
    k, omega = setting.nuclear_norm, setting.ratings
    return k**2 / (omega * rounds) + k * rounds**0.25 * setting.row_norm * setting.noise / omega


def best_rounds(setting: Setting) -> float:
    """The T that makes equation (3), as published, smallest, (4k / (L·noise))^⅘: of the order k^⅘ ε^⅖ / (n^⅕ L^⅘)."""
    return float((4 * setting.nuclear_norm / (setting.row_norm * setting.noise)) ** 0.8)


def empirical_rate(setting: Setting) -> float:
    """Theorem 3.2 at the best T as published, without logarithms: k^(6/5) n^⅕ L^⅘ / (|Ω| ε^⅖)."""
    k, row = setting.nuclear_norm, setting.row_norm
    return float(k**1.2 * setting.items**0.2 * row**0.8 / (setting.ratings * setting.epsilon**0.4))


def generalization_bound(setting: Setting) -> tuple[float, float]:
    """Corollary 3.1 as published: mean squared error on all entries, (the price of privacy, the error of completion).

    It adds Theorem 3.2, with what that says of its step, and takes for granted that the completed entries are bounded.
    """
    k, omega, both = setting.nuclear_norm, setting.ratings, setting.users + setting.items
    private = k ** (4 / 3) * setting.row_norm * setting.items**0.25
    private /= math.sqrt(setting.epsilon * omega ** (13 / 6) * both ** (1 / 6))
    return private, (k * math.sqrt(both) / omega) ** (2 / 3)


def generalization_rounds(setting: Setting) -> float:
    """Corollary 3.1 as published: the number of rounds k^(4/3) / (|Ω| (m + n))^⅓."""
    both = setting.users + setting.items
    return float(setting.nuclear_norm ** (4 / 3) / (setting.ratings * both) ** (1 / 3))


def svd_bound(
    setting: Setting, *, spectral_norm: float, rank: int = 1, condition: float = 1.0, incoherence: float | None = None
) -> tuple[float, float]:
    """Theorem B.3 as published: mean squared error of Algorithm 3, (the price of privacy, the error of completion).

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
    """Table 1 as published: users beyond which the error vanishes, and ratings a user, for n items (up to logarithms).

    >>> round(sample_complexity(400)["private Frank-Wolfe"][0])
    1789
    """
    root = math.sqrt(items)
    return {"nuclear norm, not private": (items, root), "private Frank-Wolfe": (items**1.25, root)}


def approximation_errors(users: float, items: float, incoherence: float = 1.0) -> dict[str, tuple[float, float]]:
    """Table 2 as published: (‖Y − Y*‖_F, rank) of low-rank approximation for rows of norm at most 1 and a rank-one Y*.

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


REMARK = (
    "Users needed are those of ratings in which a user rated √items items and one taste explains a tenth of what "
    "item means and her own mean leave: with more ratings a user, fewer are needed ('hushrec plan' takes yours). "
    "The Frank-Wolfe paper's figures are as published, with every hidden constant 1: they show how things scale. Its "
    "Theorem A.1, on which Theorem 3.2 and Corollary 3.1 rest, fails as stated: with its step 1/T many rounds "
    "reach only 63 % of a rank-one matrix, and its curvature constant is too small. See docs/theory.md."
)


def budget_report(users: int, items: int, budget: Budget) -> dict[str, Any]:
    """What theory says to somebody who plans: users needed, and the paper's bounds as published in its own example."""
    if budget.unit != "user":
        raise ConfigError(
            f'What a number of users buys is known where all ratings of a user are protected: unit must be "user", '
            f"not {budget.unit!r}."
        )
    if budget.delta == 0:
        raise ConfigError("What a number of users buys needs a delta above 0, for example 1e-6, not 0.")
    example = rank_one(users, items, budget.epsilon, budget.delta)
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
        "remark": REMARK,
    }
