"""Recovery bounds of the one-bit paper: how far M̂ may be from the truth, as mean squared error (Theorems 1, 2, 4).

    statistical = C α L_α β_α sqrt(r (d1 + d2) / n) · crowding
    Theorem 1 (input)       statistical with the constants of c instead of h
    Theorem 2 (objective)   statistical + 8 √2 Δ β_α / (ε n^{1/3})
    Theorem 4 (output)      statistical + C α² log²(d1 + d2) / ε²

The constants C are not given in the paper: they are the argument `constant`, 1 unless set, so only the shape in
n, r, d, ε means anything. Two readings of the crowding term: the paper prints sqrt(C_Ω / n) with
C_Ω = sqrt(n + d1 d2 log(d1 + d2)), which would fall as n^{-1/4} and so beat the minimax rate that its source
(Davenport et al. 2014, Theorems 1 and 3) proves; the source has sqrt(1 + (d1 + d2) log(d1 + d2) / n), the default.
Theorem 2's privacy term is as printed; its proof treats the noise as independent of M̂. L and β are exact suprema
(`links.py`): the paper's β <= e^α for the logistic link, and its β for c, are below them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from hushrec.errors import ConfigError
from hushrec.onebit.links import Flipped, Link

Form = Literal["source", "paper"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A completion task: d1 by d2, of rank at most `rank`, entries within `entry_bound` (α), `observed` (n) of them."""

    shape: tuple[int, int]
    rank: float
    entry_bound: float
    observed: int

    def __post_init__(self) -> None:
        d1, d2 = self.shape
        if not (d1 >= 1 and d2 >= 1 and 1 <= self.observed <= d1 * d2):
            raise ConfigError(f"observed must be between 1 and the {d1} by {d2} entries, got {self.observed!r}.")
        if not (self.rank > 0 and self.entry_bound > 0):
            raise ConfigError(f"rank and entry_bound must be positive, got {self.rank!r} and {self.entry_bound!r}.")


@dataclass(frozen=True, kw_only=True)
class RecoveryBound:
    """A bound of ‖M̂ - M‖_F² / (d1 d2) up to constants: what sampling costs, and what privacy adds."""

    statistical: float
    privacy: float

    @property
    def total(self) -> float:
        return self.statistical + self.privacy


def clear_bound(task: Problem, link: Link, *, constant: float = 1.0, form: Form = "source") -> RecoveryBound:
    """Without privacy: Davenport et al., Theorem 1, which the paper's theorems all build on.

    >>> from hushrec.onebit.links import Logistic
    >>> task = Problem(shape=(100, 100), rank=1, entry_bound=1.0, observed=1500)
    >>> round(clear_bound(task, Logistic()).total, 2)
    2.43
    """
    d1, d2 = task.shape
    n, d = task.observed, d1 + d2
    if form == "source":
        crowding = np.sqrt(1.0 + d * np.log(d) / n)
    elif form == "paper":
        crowding = np.sqrt(np.sqrt(n + d1 * d2 * np.log(d)) / n)
    else:
        raise ConfigError(f'form must be "source" or "paper", got {form!r}.')
    alpha = task.entry_bound
    size = constant * alpha * link.steepness(alpha) * link.flatness(alpha)
    return RecoveryBound(statistical=float(size * np.sqrt(task.rank * d / n) * crowding), privacy=0.0)


def input_bound(
    task: Problem, link: Link, epsilon: float, *, constant: float = 1.0, form: Form = "source"
) -> RecoveryBound:
    """Theorem 1: signs flipped with probability 1/(1 + e^ε); all of the cost is in the constants of c."""
    _check_epsilon(epsilon)
    flipped = Flipped(link, float(expit(-epsilon)))
    clear = clear_bound(task, link, constant=constant, form=form).statistical
    total = clear_bound(task, flipped, constant=constant, form=form).statistical
    return RecoveryBound(statistical=clear, privacy=total - clear)


def objective_bound(
    task: Problem, link: Link, epsilon: float, *, constant: float = 1.0, form: Form = "source"
) -> RecoveryBound:
    """Theorem 2: Laplace noise of scale Δ/ε in the objective, Δ the largest change of one entry's gradient."""
    _check_epsilon(epsilon)
    alpha = task.entry_bound
    price = 8.0 * np.sqrt(2.0) * link.steepness(alpha) * link.flatness(alpha) / (epsilon * np.cbrt(task.observed))
    clear = clear_bound(task, link, constant=constant, form=form).statistical
    return RecoveryBound(statistical=clear, privacy=float(price))


def output_bound(
    task: Problem, link: Link, epsilon: float, *, constant: float = 1.0, form: Form = "source"
) -> RecoveryBound:
    """Theorem 4: Laplace noise of scale 2α/ε added to every entry.

    form="source" has what that noise adds on average, exactly its variance 8 α²/ε²; "paper" the printed logarithm.
    """
    _check_epsilon(epsilon)
    clear = clear_bound(task, link, constant=constant, form=form).statistical
    spread = 8.0 if form == "source" else constant * np.log(sum(task.shape)) ** 2
    return RecoveryBound(statistical=clear, privacy=float(spread * task.entry_bound**2 / epsilon**2))


def _check_epsilon(epsilon: float) -> None:
    if not epsilon > 0:
        raise ConfigError(f"epsilon must be positive, got {epsilon!r}.")
