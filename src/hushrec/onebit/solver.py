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
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from hushrec.errors import ConfigError
from hushrec.onebit.completion import Completion, Setting, complete
from hushrec.onebit.links import Link, make_link
from hushrec.onebit.model import released
from hushrec.onebit.spg import SPGSettings
from hushrec.privacy.curator import Curator
from hushrec.privacy.signs import MeanValue
from hushrec.solvers import checks
from hushrec.solvers.base import Model

MEAN_SHARE = 0.02
USUAL_RADIUS = 0.15
"""τ in units of α √(m n), where neither it nor a rank is given; a rank-one matrix of uniform factors has 1/3."""

ACTS_IN = {
    "form": ("objective", "output"),
    "noise": ("objective", "gradient", "output"),
    "gradient_rounds": ("gradient",),
    "clamp": ("gradient",),
    "ridge": ("output",),
    "iterations": ("none", "input", "objective", "output"),
    "tolerance": ("none", "input", "objective", "output"),
}
"""In which mechanisms a setting does anything."""


@dataclass(frozen=True, kw_only=True)
class OneBit:
    """One-bit matrix completion under differential privacy for single ratings; fit it with Budget(..., unit="rating").

    mechanism: where the noise goes. link, sigma: the noise model of a sign, h(x/sigma). alpha: bound of |X_ij|.
    tau: bound of the nuclear norm, or rank: τ = α √(rank m n) (neither: 0.15 α √(m n)). threshold: yes is a value above
    it (None: the middle of the value range, or that of ratings randomized before; "mean": the noisy mean, at 2 % of
    the budget). form: None for the default (proved) form; "paper": Algorithm 2 and 4 as printed; "strongly-convex":
    the output mechanism's default.
    effects: fit item and user effects before the matrix (None: yes, but not in the paper's forms). M̂ is then
    effects + X with X in C, and may itself leave C.
    noise: of "objective", "gradient" and "output" ("laplace" or "gaussian"; None: Laplace, Gaussian where the output
    mechanism pools). gradient_rounds: K. With effects the first gradient is for these, so the default takes a single
    projected step, and spectral steps begin at K = 3; each further gradient makes all of them noisier. clamp: bound of
    every entry of a gradient (None: none).
    ridge: λ of the strongly convex form. None: the least public one at which no constraint binds, where every value is
    one of two public numbers, so that it is the objective mechanism in other units. A smaller one pools ratings inside
    the curator, at an (ε, δ) that holds for any data, with noise in proportion to 1/λ: on MovieLens 100K (u1, ε = 4,
    δ = 1e-6) λ = 3, 1, 0.1 came to 61, 58 and 55 % accuracy, the default to 72 %. It takes a full singular value
    decomposition a step.
    already_randomized: the ratings are answers that were randomized on the users' own devices ("input"): the fit is
    post-processing, which costs nothing more however often it is made. iterations, tolerance: of the fit.
    A setting that does nothing with the chosen mechanism is refused.

    **Guarantee**: for each single rating's value, with Ω public. input, objective: ε-DP, also against whoever runs
    the fit if the noise is added before; gradient: ε-DP (Laplace) or (ε, δ)-DP (Gaussian); output: ε-DP at the default
    ridge, (ε, δ)-DP at a smaller one, whether or not a fit converged.
    The paper's forms of output, and of objective with the probit link: nothing is proved for the release.

    >>> OneBit(mechanism="input", rank=1).radius((100, 100))
    100.0
    """

    unit: ClassVar[str] = "rating"
    mechanism: Literal["none", "input", "objective", "gradient", "output"] = "input"
    link: Literal["logistic", "probit"] = "logistic"
    alpha: float = 1.0
    tau: float | None = None
    rank: float | None = None
    sigma: float = 1.0
    threshold: float | Literal["mean"] | None = None
    form: Literal["paper", "strongly-convex"] | None = None
    effects: bool | None = None
    noise: Literal["laplace", "gaussian"] | None = None
    gradient_rounds: int = 2
    clamp: float | None = 0.5
    ridge: float | None = None
    already_randomized: bool = False
    iterations: int = 60
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        checks.choices(self)
        checks.number(self, "alpha", "tau", "rank", "sigma", "clamp", "ridge", "tolerance")
        checks.whole(self, gradient_rounds=1, iterations=1)
        self._check_together()

    def _check_together(self) -> None:
        self._check_idle()
        if self.tau is not None and self.rank is not None:
            raise ConfigError("tau and rank exclude each other: rank sets tau = alpha sqrt(rank m n).")
        if self.form == "strongly-convex" and self.mechanism != "output":
            raise ConfigError('form="strongly-convex" is a form of the output mechanism.')
        if self.form == "paper" and (self.ridge is not None or self.noise is not None):
            raise ConfigError('form="paper" has no ridge and the paper\'s own noise: leave ridge and noise out.')
        if self.form == "paper" and self.effects:
            raise ConfigError('form="paper" fits no effects.')
        if self.already_randomized and (self.mechanism != "input" or self.threshold == "mean"):
            raise ConfigError('already_randomized needs mechanism="input" and a threshold that is public.')
        if isinstance(self.threshold, str) and self.threshold != "mean":
            raise ConfigError(f'threshold must be a number or "mean", not {self.threshold!r}.')
        if not (self.threshold is None or isinstance(self.threshold, str) or checks.is_finite(self.threshold)):
            raise ConfigError(f"threshold must be a finite number, not {self.threshold!r}.")

    def _check_idle(self) -> None:
        """Refuse a setting that the mechanism would ignore."""
        usual = {item.name: item.default for item in fields(self)}
        for name, mechanisms in ACTS_IN.items():
            value = getattr(self, name)
            if self.mechanism not in mechanisms and value != usual[name]:
                raise ConfigError(f"{name}={value!r} does nothing with mechanism={self.mechanism!r}: leave it out.")

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
        pattern = curator.pattern
        threshold = self._noisy_mean(curator) if self.threshold == "mean" else self._public_threshold(curator)
        left = curator.left()
        share = left if left == 1.0 else left * (1.0 - 1e-12)
        setting = Setting(solver=self, curator=curator, pattern=pattern, threshold=threshold, share=share)
        return threshold, complete(setting)

    def _noisy_mean(self, curator: Curator) -> float:
        curator.plan({"mean": MEAN_SHARE * curator.left()})
        return float(curator.release("mean", MeanValue()).parts[0][0])

    def _public_threshold(self, curator: Curator) -> float:
        """As given, or where the users' devices had it, or the middle of the value range."""
        low, high = curator.shape.value_range
        known = curator.threshold if self.already_randomized else None
        usual = (low + high) / 2.0 if known is None else known
        threshold = usual if self.threshold is None else float(self.threshold)
        if not low <= threshold < high:
            raise ConfigError(f"threshold must lie inside the value range ({low:g}, {high:g}), not {threshold:g}.")
        return threshold
