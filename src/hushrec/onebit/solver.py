"""One-bit completion with four mechanisms: what users say yes or no to, each single answer protected.

Li, Fang, Feng, Ye, "Privacy-preserving one-bit matrix completion" (2021), after Davenport et al. (2014), eq. (2):

    y_ij = +1 with probability h(M_ij), else −1, for (i, j) in Ω;     M̂ minimises −log P(y | X) over
    C = {‖X‖_* ≤ τ, |X_ij| ≤ α},     τ = α √(r m n) for matrices of rank r

    input       every sign kept with odds e^ε : 1                                     Algorithm 1
    objective   Laplace noise on the likelihood's data, the signs themselves          Algorithm 2
    gradient    Laplace or Gaussian noise on K gradients, no line search              Algorithm 3
    output      noise on the fit                                                      Algorithm 4
    none        no protection

The item list, Ω and thus its size are public here: the budget has unit="rating". To protect which items
somebody rated, and all of her ratings at once, use `FrankWolfe(loss="logistic")`, `ALS` or `Posterior`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hushrec.errors import ConfigError
from hushrec.onebit.completion import Completion, Setting, complete
from hushrec.onebit.links import Link, make_link
from hushrec.onebit.model import released
from hushrec.onebit.spg import SPGSettings
from hushrec.privacy.curator import Curator
from hushrec.privacy.signs import MeanValue
from hushrec.solvers.base import Model

MEAN_SHARE = 0.02
USUAL_RADIUS = 0.15
"""τ in units of α √(m n), where neither it nor a rank is given; a rank-one matrix of uniform factors has 1/3."""
CHOICES = {
    "mechanism": ("none", "input", "objective", "gradient", "output"),
    "link": ("logistic", "probit"),
    "form": (None, "paper", "strongly-convex"),
    "noise": ("laplace", "gaussian"),
}


@dataclass(frozen=True, kw_only=True)
class OneBit:
    """One-bit matrix completion under differential privacy for single ratings; fit it with Budget(..., unit="rating").

    mechanism: where the noise goes. link, sigma: the noise model of a sign, h(x/sigma). alpha: bound of |X_ij|.
    tau: bound of the nuclear norm, or rank: τ = α √(rank m n) (neither: 0.15 α √(m n)). threshold: yes is a value above
    it (None: the middle of the value range; "mean": the noisy mean, at 2 % of the budget). form: None for the default
    (proved) form; "paper": Algorithm 2 and 4 as printed; "strongly-convex": the output mechanism's default.
    effects: fit item and user effects before the matrix (None: yes, but not in the paper's forms).
    noise: of "objective" and "gradient". gradient_rounds: K. clamp: bound of every entry of a gradient (None: none).
    ridge: λ of the strongly convex form (None: from Ω). already_randomized: the ratings' values are signs that
    were randomized on the users' own devices ("input"). iterations, tolerance: of the fit.

    **Guarantee**: for each single rating's value, with Ω public. input, objective: ε-DP, also against whoever runs
    the fit if the noise is added before; gradient: ε-DP (Laplace) or (ε, δ)-DP (Gaussian); output: (ε, δ)-DP.
    The paper's forms of output, and of objective with the probit link: nothing is proved for the release.

    >>> OneBit(mechanism="input", rank=1).radius((100, 100))
    100.0
    """

    mechanism: Literal["none", "input", "objective", "gradient", "output"] = "input"
    link: Literal["logistic", "probit"] = "logistic"
    alpha: float = 1.0
    tau: float | None = None
    rank: float | None = None
    sigma: float = 1.0
    threshold: float | Literal["mean"] | None = None
    form: Literal["paper", "strongly-convex"] | None = None
    effects: bool | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    gradient_rounds: int = 2
    clamp: float | None = 0.5
    ridge: float | None = None
    already_randomized: bool = False
    iterations: int = 60
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                words = ", ".join(repr(choice) for choice in allowed if choice is not None)
                raise ConfigError(f"{name} must be one of {words}, not {getattr(self, name)!r}.")
        for name in ("alpha", "tau", "rank", "sigma", "clamp", "ridge", "tolerance"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} must be a positive number, not {value!r}.")
        for name in ("gradient_rounds", "iterations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)!r}.")
        self._check_together()

    def _check_together(self) -> None:
        if self.tau is not None and self.rank is not None:
            raise ConfigError("tau and rank exclude each other: rank sets tau = alpha sqrt(rank m n).")
        if self.form == "strongly-convex" and self.mechanism != "output":
            raise ConfigError('form="strongly-convex" is a form of the output mechanism.')
        if self.form == "paper" and self.effects:
            raise ConfigError('form="paper" fits no effects.')
        if self.already_randomized and (self.mechanism != "input" or self.threshold == "mean"):
            raise ConfigError('already_randomized needs mechanism="input" and a threshold that is public.')
        if isinstance(self.threshold, str) and self.threshold != "mean":
            raise ConfigError(f'threshold must be a number or "mean", not {self.threshold!r}.')
        if isinstance(self.threshold, float | int) and not math.isfinite(self.threshold):
            raise ConfigError(f"threshold must be a finite number, not {self.threshold!r}.")

    @property
    def with_effects(self) -> bool:
        """Whether effects are fitted before the matrix."""
        return self.effects if self.effects is not None else self.form != "paper"

    def made_link(self) -> Link:
        """The link h."""
        return make_link(self.link, self.sigma)

    def radius(self, shape: tuple[int, int]) -> float:
        """τ for a matrix of this shape."""
        if self.tau is not None:
            return self.tau
        whole = self.alpha * math.sqrt(shape[0] * shape[1])
        return USUAL_RADIUS * whole if self.rank is None else math.sqrt(self.rank) * whole

    def settings(self, shape: tuple[int, int], *, line_search: bool = True, iterations: int = 0) -> SPGSettings:
        """The public constants of a fit."""
        return SPGSettings(
            nuclear_radius=self.radius(shape),
            entry_bound=self.alpha,
            iterations=iterations or self.iterations,
            tolerance=self.tolerance,
            line_search=line_search,
        )

    def solve(self, curator: Curator) -> Model:
        """The model that a user's device completes her own row with."""
        threshold, completion = self.complete(curator)
        return released(self, completion, threshold, curator)

    def complete(self, curator: Curator) -> tuple[float, Completion]:
        """The threshold between no and yes, and M̂ for every user and item."""
        private = curator.budget.private
        if self.mechanism == "none" and private:
            raise ConfigError('mechanism="none" adds no noise: it needs NonPrivate() in place of a budget.')
        pattern, share = curator.pattern, 1.0
        if self.threshold == "mean":
            curator.plan({"mean": MEAN_SHARE})
            share = curator.left() * (1.0 - 1e-12)
            threshold = float(curator.release("mean", MeanValue()).parts[0][0])
        else:
            low, high = curator.shape.value_range
            threshold = (low + high) / 2.0 if self.threshold is None else float(self.threshold)
            if not low <= threshold < high:
                raise ConfigError(f"threshold must lie inside the value range ({low:g}, {high:g}), not {threshold:g}.")
        setting = Setting(solver=self, curator=curator, pattern=pattern, threshold=threshold, share=share)
        return threshold, complete(setting)
