"""What a model's predictions have in common wrong, learnt from one small release and put right on the device.

    e = rating − prediction from her other ratings,   f = 25 features of the prediction (`device.corrections`)
    E[e | f] = c · f,   c by regression over all users' ratings: c = (Σ w f fᵀ)⁻¹ Σ w f e

A Gaussian model is wrong in ways that all its predictions share: scales end, rare items are rated lower than their few
ratings show, busy users are stricter, a noisy factor is believed too much. What is so common is cheap to learn: every
rating of every user tells about the same few numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from hushrec.device.corrections import FEATURES, Gauge
from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import CorrectionRegression
from hushrec.solvers.base import Floats
from hushrec.solvers.choices import Belief, Prior
from hushrec.solvers.shrinkage import regress

CLIP = 0.7  # of a typical contribution
CLIPPED = 0.6  # of all users' weight is left when contributions are clipped there
ERROR_NORM = 5.5  # of a typical Σ w f e, whatever the number of ratings
MOMENT_NORM = 38.0  # of a typical Σ w f fᵀ, times the root of the number of ratings
PRECISION = 0.002  # noise of the first coefficient at which corrections are had for nearly nothing
DROWNED = 0.3  # of the budget, for that precision: from there on they are not asked for
LARGEST_SHARE, LEAST_SHARE = 0.04, 0.004
FEWEST = 10.0  # ratings of an item, on average
COEFFICIENT = 0.1  # typical size


@dataclass(frozen=True)
class Corrections:
    """gauge: zeros and units of the traits; traits (n, 2): those of the items; correction (25,): coefficients."""

    gauge: Gauge
    traits: Floats
    correction: Floats = field(default_factory=lambda: np.zeros(FEATURES))


def plan_corrections(users: float, items: int, typical: float, mu: float) -> float | None:
    """The share of the budget that corrections are worth, if any; typical: √(ratings of a user).

    None where noise would drown them, and where items have so few ratings that the model knows these by heart: what
    it leaves unexplained of them then says little about others.
    """
    if users * typical**2 < FEWEST * items:
        return None
    if math.isinf(mu):
        return LARGEST_SHARE
    bound = CLIP * math.sqrt(2.0) * ERROR_NORM
    share = (bound / (PRECISION * CLIPPED * users * typical * mu)) ** 2
    return None if share > DROWNED else float(np.clip(share, LEAST_SHARE, LARGEST_SHARE))


def gauge_of(belief: Belief, popularity: Floats, typical: float) -> Corrections:
    """Zeros and units for the traits from public values, and no correction yet."""
    part = popularity / popularity.sum()
    unit = math.sqrt(float(part @ belief.noise))
    centre = float(part @ belief.means)
    logs = np.log(part)
    logs -= part @ logs
    count = typical**2
    seen = (belief.loadings * (part / belief.noise)[:, None]).T @ belief.loadings
    covariance = np.linalg.inv(np.diag(belief.precision) + count * seen)
    spread = float(part @ np.einsum("jr,rs,js->j", belief.loadings, covariance, belief.loadings))
    traits = np.column_stack(((belief.means - centre) / unit, logs))
    return Corrections(Gauge(centre, unit, math.log(spread), math.log(count)), traits)


def learn_corrections(
    curator: Curator, belief: Belief, prior: Prior, popularity: Floats, typical: float
) -> Corrections:
    """The corrections of this model's predictions.

    **Guarantee**: one release, "corrections", of a share planned before.
    """
    start = gauge_of(belief, popularity, typical)
    moment_weight = ERROR_NORM / (MOMENT_NORM * typical)
    answer = curator.release(
        "corrections",
        CorrectionRegression(
            bound=CLIP * math.sqrt(2.0) * ERROR_NORM,
            arrays={**vars(belief), **prior.arrays, "traits": start.traits, "correction": start.correction},
            gauge=start.gauge,
            moment_weight=moment_weight,
        ),
    )
    among = np.zeros((FEATURES, FEATURES))
    among[np.tril_indices(FEATURES)] = answer.parts[1] / moment_weight
    among += np.tril(among, -1).T
    sigma = answer.sigma / moment_weight
    floor = sigma * math.sqrt(FEATURES) + 1e-3 * max(among[0, 0], 0.0)
    if floor <= 0.0:  # no ratings at all
        return start
    correction = regress(answer.parts[0], among, 1.0, answer.sigma, floor, 1.0 / typical, COEFFICIENT)
    return Corrections(start.gauge, start.traits, correction)
