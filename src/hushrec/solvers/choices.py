"""What a user chose to rate says about her taste: a prior mean for her coordinates, from one small release.

    f = (1, log k, Σ g_j/√k over the k items that she rated)    g: the items' loadings, means and log popularity;
                                                                log k less the usual, and cut off below
    E[u | which items she rated] = W f                          W (r, q + 2) by regression over all users

W is small and every user adds to it, so it costs little budget; the g are public already, and on the device the
rule needs no rating but her own. Ratings are missing for reasons (Marlin, Zemel 2009; the implicit part of SVD++, Koren
2008, learns a vector for each item instead). From the same release, how far users' offsets lie apart: the moments of
her posterior mean x with reliability k obey E[x²] = k + (v − 1) k² for a true prior variance v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.queries import ChoiceRegression
from hushrec.solvers.base import Floats
from hushrec.solvers.shrinkage import regress

CLIP = 0.7  # of a typical contribution
CLIPPED = 0.4  # of all users' weight is left when contributions are clipped there
USUAL_RANK = 8  # for the plan, before the rank is known
PRECISION = 0.015  # noise of a coefficient, in prior deviations, at which choices are worth asking for
OFFSET_PRECISION = 0.05
LARGEST_SHARE, LEAST_SHARE = 0.05, 0.001
COEFFICIENT = 0.1  # typical size of a coefficient
VARIANCES = (0.02, 20.0)  # of the offsets, relative to what was believed
LEAST_KNOWN = 0.02
NOBODY = 1e-100  # of weight, where there are no ratings and no noise: its square is a number still
ROUNDING = 1e-6  # leanings that vary less than this, relative to the loadings, count as none


@dataclass(frozen=True)
class Plan:
    """The share of the budget for the release "choices", and whether all coordinates or offsets alone are asked for."""

    share: float
    whole: bool


@dataclass(frozen=True)
class Prior:
    """start, activity (r,) and choices (n, r): E[u] = start + activity · f₁ + Σ choices_j/√k over her k items.

    offset_variance: how far users' offsets lie apart, relative to what was believed.
    """

    start: Floats
    activity: Floats
    choices: Floats
    offset_variance: float = 1.0

    @classmethod
    def blind(cls, items: int, rank: int) -> Prior:
        """The choice of items tells nothing."""
        return cls(np.zeros(rank), np.zeros(rank), np.zeros((items, rank)))

    @property
    def arrays(self) -> dict[str, Floats]:
        """What a release holds of it."""
        return {name: getattr(self, name) for name in ("start", "activity", "choices")}


@dataclass(frozen=True)
class Belief:
    """The Gaussian model without choices: what `FactorRegression` takes as well."""

    means: Floats
    loadings: Floats
    precision: Floats
    noise: Floats


def plan_choices(users: float, mu: float) -> Plan | None:
    """What the choices are worth at this budget: everything, the offsets alone, or nothing."""
    if math.isinf(mu):
        return Plan(LARGEST_SHARE, whole=True)
    for whole, rank, width, precision in (
        (True, USUAL_RANK, USUAL_RANK + 3, PRECISION),
        (False, 1, 2, OFFSET_PRECISION),
    ):
        share = (_bound(rank, width) / (precision * CLIPPED * users * mu)) ** 2
        if share <= LARGEST_SHARE:
            return Plan(max(share, LEAST_SHARE), whole)
    return None


def _bound(rank: int, width: int) -> float:
    """A typical contribution's norm, clipped: x fᵀ, f fᵀ, and three moments for each coordinate."""
    return CLIP * math.sqrt(0.6 * rank * width + width * (width + 1) / 2 + 3 * rank)


def learn_choices(curator: Curator, belief: Belief, popularity: Floats, users: float, whole: bool) -> Prior:
    """The prior means that choices give, all coordinates' or the offsets' alone.

    **Guarantee**: one release, "choices", of a share planned before.
    """
    usual_log = 2.0 * math.log(max(float(popularity.sum()) / users, 1.0))
    leanings = public_leanings(belief, popularity) if whole else np.zeros((len(popularity), 0))
    leading = belief.loadings.shape[1] if whole else 1
    width = leanings.shape[1] + 2
    answer = curator.release(
        "choices",
        ChoiceRegression(
            bound=_bound(leading, width),
            leanings=leanings,
            usual_log=usual_log,
            leading=leading,
            **vars(belief),
        ),
    )
    weights, explained = _coefficients(answer, leading, width)
    variance = _offset_variance(answer, explained)
    full = np.zeros((belief.loadings.shape[1], width))
    full[:leading] = weights / np.sqrt(belief.precision[:leading, None])
    return Prior(full[:, 0], full[:, 1], leanings @ full[:, 2:].T, variance)


def public_leanings(belief: Belief, popularity: Floats) -> Floats:
    """g (n, q): loadings (without the offset's), means and log popularity, each centred and of unit variance."""
    part = popularity / popularity.sum()
    public = np.column_stack((belief.loadings[:, 1:], belief.means, np.log(part)))
    public = public - part @ public
    scale = np.sqrt(part @ np.square(public))
    kept = scale > ROUNDING * scale.max()
    return np.asarray(np.where(kept, public / np.where(kept, scale, 1.0), 0.0))


def _coefficients(answer: Noisy, leading: int, width: int) -> tuple[Floats, float]:
    """W (leading, width) in prior deviations, shrunk against its noise; the part of the offsets that it explains."""
    across, among, known = answer.parts[0].reshape(leading, width), answer.parts[1], answer.parts[2]
    second = np.zeros((width, width))
    second[np.tril_indices(width)] = among
    second += np.tril(second, -1).T
    total = max(second[0, 0], 3.0 * answer.sigma, NOBODY)  # the users' weights after clipping: f starts with a 1
    floor = 2.0 * answer.sigma * math.sqrt(width) + 1e-3 * total
    part = np.clip(known / total, LEAST_KNOWN, 1.0)[:, None]
    weights = regress(across, second, part, answer.sigma, floor, 1.0, COEFFICIENT)
    return weights, max(float(weights[0, 1:] @ second[1:, 1:] @ weights[0, 1:]) / total, 0.0)


def _offset_variance(answer: Noisy, explained: float) -> float:
    """v of the offsets, less what choices explain of it, shrunk toward 1."""
    total = max(float(answer.parts[1][0]), 3.0 * answer.sigma, NOBODY)
    excess, squares = float(answer.parts[3][0]), max(float(answer.parts[4][0]), LEAST_KNOWN * total)
    doubt = (answer.sigma / squares) ** 2 + 2.0 / total
    return float(np.clip(1.0 + excess / squares / (1.0 + doubt) - explained, *VARIANCES))
