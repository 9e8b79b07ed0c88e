"""Links h: from a real preference x to the probability of a "yes" (one-bit paper, eq. (1) and section 3.2).

    logistic   h(x) = 1 / (1 + exp(-x/σ))
    probit     h(x) = Φ(x/σ)
    flipped    c(x) = h(x)(1 - p) + (1 - h(x)) p          (eq. (3): every sign flipped with probability p)

Each is symmetric, 1 - h(x) = h(-x), so two primitives carry everything: log h and the score h'/h.
The negative log-likelihood of any link is linear in the sign y, with s = (1 + y)/2 and g = log(h/(1-h)):

    ℓ(x, s)  = -s g(x) - log(1 - h(x)) = -s log h(x) - (1 - s) log h(-x)
    ℓ'(x, s) = g'(x) (h(x) - s)        = (1 - s) score(-x) - s score(x)

The right-hand forms do not cancel, for s in {0, 1} at any x, and hold for a perturbed, real-valued s too.
Constants: L_α = sup |h'|/(h(1-h)) = sup g' and β_α = sup h(1-h)/h'² over |x| <= α (section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, expit, log_expit, log_ndtr

from hushrec.errors import ConfigError

Array = NDArray[np.float64]

_MILLS = float(np.sqrt(2 / np.pi))


class Link:
    """What every link offers; a link gives `log_probability`, `score` and `bend`, all else follows by symmetry."""

    def log_probability(self, x: Array) -> Array:
        """log h(x)."""
        raise NotImplementedError

    def score(self, x: Array) -> Array:
        """h'(x) / h(x), the derivative of log h."""
        raise NotImplementedError

    def bend(self, x: Array) -> Array:
        """h''(x) / h'(x), which decides where log h is concave."""
        raise NotImplementedError

    @property
    def curvature(self) -> float:
        """A public guess at the largest second derivative of the loss: it sets the first step only."""
        raise NotImplementedError

    def log_complement(self, x: Array) -> Array:
        """log(1 - h(x))."""
        return self.log_probability(-x)

    def probability(self, x: Array) -> Array:
        """h(x), the probability of a "yes"."""
        return np.exp(self.log_probability(x))

    def derivative(self, x: Array) -> Array:
        """h'(x)."""
        return self.probability(x) * self.score(x)

    def logit(self, x: Array) -> Array:
        """g(x) = log(h(x) / (1 - h(x))), the natural parameter."""
        return self.log_probability(x) - self.log_probability(-x)

    def logit_slope(self, x: Array) -> Array:
        """g'(x) = h'(x) / (h(x)(1 - h(x))), the size of one rating in the gradient."""
        return self.score(x) + self.score(-x)

    def loss(self, x: Array, s: Array) -> Array:
        """ℓ(x, s) entry by entry, for s in {0, 1} or a perturbed real s."""
        return -s * self.log_probability(x) - (1.0 - s) * self.log_probability(-x)

    def loss_gradient(self, x: Array, s: Array) -> Array:
        """dℓ/dx entry by entry, for s in {0, 1} or a perturbed real s."""
        return (1.0 - s) * self.score(-x) - s * self.score(x)

    def steepness(self, alpha: float) -> float:
        """L_α = sup of |h'| / (h(1-h)) over |x| <= alpha."""
        return _supremum(self.logit_slope, alpha)

    def flatness(self, alpha: float) -> float:
        """β_α = sup of h(1-h) / h'² over |x| <= alpha."""
        return _supremum(lambda x: 1.0 / (self.score(x) * self.score(-x)), alpha)

    def convex(self, alpha: float, lowest: float = 0.0, highest: float = 1.0) -> bool:
        """Whether ℓ(·, s) is convex on |x| <= alpha for every s between `lowest` and `highest`."""
        return lowest >= 0.0 and highest <= 1.0


@dataclass(frozen=True)
class Logistic(Link):
    """h(x) = 1 / (1 + exp(-x/sigma)); its natural parameter is x/sigma, so its loss is convex for every real s."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    def log_probability(self, x: Array) -> Array:
        return log_expit(x / self.sigma)

    def score(self, x: Array) -> Array:
        return expit(-x / self.sigma) / self.sigma

    def bend(self, x: Array) -> Array:
        return -np.tanh(x / (2 * self.sigma)) / self.sigma

    def logit(self, x: Array) -> Array:
        return x / self.sigma

    @property
    def curvature(self) -> float:
        return 0.25 / self.sigma**2

    def convex(self, alpha: float, lowest: float = 0.0, highest: float = 1.0) -> bool:
        return True


@dataclass(frozen=True)
class Probit(Link):
    """h(x) = Φ(x/sigma), the Gaussian noise model of the paper."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        _check_sigma(self.sigma)

    def log_probability(self, x: Array) -> Array:
        return log_ndtr(x / self.sigma)

    def score(self, x: Array) -> Array:
        # φ/Φ through the scaled error function: no quotient of two numbers that both underflow
        return _MILLS / erfcx(-x / (self.sigma * np.sqrt(2.0))) / self.sigma

    def bend(self, x: Array) -> Array:
        return -x / self.sigma**2

    @property
    def curvature(self) -> float:
        return 1.0 / self.sigma**2


@dataclass(frozen=True)
class Flipped(Link):
    """c(x) = h(x)(1-p) + (1-h(x))p: the link of signs that were each flipped with probability `flip`."""

    base: Link
    flip: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.flip < 0.5:
            raise ConfigError(f"flip must be at least 0 and below 0.5, got {self.flip!r}.")

    def log_probability(self, x: Array) -> Array:
        if self.flip == 0.0:
            return self.base.log_probability(x)
        kept = np.log1p(-self.flip) + self.base.log_probability(x)
        return np.logaddexp(kept, np.log(self.flip) + self.base.log_probability(-x))

    def score(self, x: Array) -> Array:
        share = np.exp(self.base.log_probability(x) - self.log_probability(x))
        return (1.0 - 2.0 * self.flip) * share * self.base.score(x)

    def bend(self, x: Array) -> Array:
        return self.base.bend(x)

    @property
    def curvature(self) -> float:
        return self.base.curvature

    def convex(self, alpha: float, lowest: float = 0.0, highest: float = 1.0) -> bool:
        """Convex where log c is concave, c''/c' <= c'/c; both sides are monotone, so -alpha decides."""
        edge = np.array([-alpha])
        return super().convex(alpha, lowest, highest) and bool(self.bend(edge) <= self.score(edge))


@dataclass(frozen=True, eq=False)
class Shifted(Link):
    """The loss at x + shift_ij, for what is known of an entry before the fit: usable on all of Ω alone."""

    base: Link
    shift: Array

    def log_probability(self, x: Array) -> Array:
        return self.base.log_probability(x + self.shift)

    def score(self, x: Array) -> Array:
        return self.base.score(x + self.shift)

    def loss(self, x: Array, s: Array) -> Array:
        return self.base.loss(x + self.shift, s)

    def loss_gradient(self, x: Array, s: Array) -> Array:
        return self.base.loss_gradient(x + self.shift, s)

    @property
    def curvature(self) -> float:
        return self.base.curvature

    def convex(self, alpha: float, lowest: float = 0.0, highest: float = 1.0) -> bool:
        return self.base.convex(alpha + float(np.abs(self.shift).max(initial=0.0)), lowest, highest)


def make_link(name: str | Link, sigma: float = 1.0) -> Link:
    """The link called "logistic" or "probit" at scale `sigma`; a link is returned as it is."""
    if isinstance(name, Link):
        return name
    kinds: dict[str, Any] = {"logistic": Logistic, "probit": Probit}
    if name not in kinds:
        raise ConfigError(f'link must be "logistic" or "probit", got {name!r}.')
    return kinds[name](sigma)


def _check_sigma(sigma: float) -> None:
    if not (np.isfinite(sigma) and sigma > 0):
        raise ConfigError(f"sigma must be a positive number, got {sigma!r}.")


def _supremum(f: Callable[[Array], Array], alpha: float) -> float:
    """The largest value on [0, alpha] of a smooth even function: a grid, then a search in the best cell."""
    if not (np.isfinite(alpha) and alpha >= 0):
        raise ConfigError(f"alpha must be a number of at least 0, got {alpha!r}.")
    grid = np.linspace(0.0, alpha, 2049)
    values = f(grid)
    k = int(np.argmax(values))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    if high <= low:
        return float(values[k])
    inner = minimize_scalar(lambda x: -f(np.array([x]))[0], bounds=(low, high), method="bounded")
    return float(max(values[k], -inner.fun))
