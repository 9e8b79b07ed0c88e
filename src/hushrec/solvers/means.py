"""Item means and popularity from one joint noisy release, shrunk against their known noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrec.privacy.curator import Curator, Shape
from hushrec.privacy.queries import ItemMoments
from hushrec.solvers.base import Floats
from hushrec.solvers.shrinkage import spread_of

# In units of half the value range, for ratings of any scale: the bounds of typical users, not of the data at hand.
VALUE_NORM = math.sqrt(0.3)  # norm of a typical row of values about its own mean
COUNT_WEIGHT = 0.3  # counts are needed less exactly than sums
MEAN_WEIGHT = 0.2  # a single coordinate over all users: precise at any weight
BOUND = math.hypot(VALUE_NORM, COUNT_WEIGHT)
ITEM_SPREAD = 0.2  # of true item means about the overall mean
OVERALL_SPREAD = 0.3  # of the overall mean about the middle of the range
TYPICAL_WITHIN = 0.18  # variance of one user's ratings
LEAST_PART = 0.1  # of a user's variance is never explained by item means
OFFSET_PRIOR = 1.0
SPREAD_WORTH = 2.0  # items' worth of belief in ITEM_SPREAD
SAMPLING = 0.05  # variance of a rating about its item's mean, times the typical weight 1/√(ratings of a user)


@dataclass(frozen=True)
class ItemMeans:
    """means: (n,) in the unit of the values; weights: (n,) noisy Σ over raters of 1/√(her ratings), positive.

    residual: variance of a rating about its item's mean and its user's offset, in the unit of the values squared.
    """

    means: Floats
    weights: Floats
    residual: float


def means_share(shape: Shape, users: float, mu: float) -> float:
    """The share of the budget at which the means' noise and the noise of what follows hurt about alike.

    It grows with the noise of an item's mean relative to the spread of means, as public values foretell it.
    """
    if math.isinf(mu):
        return 0.1
    weight = expected_weight(users, shape.items)
    noise = BOUND / (mu * weight * ITEM_SPREAD)
    return float(np.clip(2.75 * noise, 0.05, 0.5))


def learn_means(curator: Curator, users: float, share: float) -> ItemMeans:
    """Ask for the item moments with this share of the budget, and shrink item means toward the overall mean.

    **Guarantee**: one release, labelled "means".
    """
    low, high = curator.shape.value_range
    centre, half_width = (low + high) / 2, (high - low) / 2
    curator.plan({"means": share})
    answer = curator.release(
        "means",
        ItemMoments(
            bound=BOUND,
            centre=centre,
            half_width=half_width,
            count_weight=COUNT_WEIGHT,
            mean_weight=MEAN_WEIGHT,
            offset_prior=OFFSET_PRIOR,
        ),
    )
    sums, counts, own = answer.parts
    sigma = answer.sigma
    weights = popularity(counts / COUNT_WEIGHT, sigma / COUNT_WEIGHT, expected_weight(users, len(sums)))
    overall, within = users_moments(own / (MEAN_WEIGHT * users), sigma / (MEAN_WEIGHT * users))
    deviations = shrink(sums - weights * (sums.sum() / weights.sum()), weights, sigma)
    means = np.clip(centre + half_width * (overall + deviations), low, high)
    explained = float(np.square(deviations) @ weights / weights.sum())
    residual = max(within - explained, LEAST_PART * within)
    return ItemMeans(means, weights, residual * half_width**2)


def expected_weight(users: float, items: int) -> float:
    """A guess, from the shape alone, at Σ 1/√(her ratings) over an average item's raters."""
    rated = min(items, 3 * math.sqrt(items))  # ratings of a user; only the root of it matters
    return users * math.sqrt(rated) / items


def popularity(counts: Floats, sigma: float, expected: float) -> Floats:
    """Noisy weighted counts, shrunk toward their mean against their noise, and positive.

    The mean itself is shrunk toward what the shape lets expect. No count is believed far below its own noise.
    """
    noise = sigma**2 / len(counts)
    mean = max((counts.mean() * expected**2 + expected * noise) / (expected**2 + noise), 0.05 * expected)
    variance = np.full((len(counts), 1), sigma**2)
    spread = spread_of((counts - mean)[:, None], variance, np.array([mean**2]), SPREAD_WORTH)[0]
    shrunk = mean + (counts - mean) * spread / (spread + sigma**2)
    return np.maximum(shrunk, max(0.5 * sigma * math.sqrt(spread / (spread + sigma**2)), 1e-3 * mean))


def users_moments(seen: Floats, sigma: float) -> tuple[float, float]:
    """The overall mean of x and its variance within a user, from noisy means over users and what is typical."""
    trust = np.array([OVERALL_SPREAD**2, TYPICAL_WITHIN**2])
    typical = np.array([0.0, TYPICAL_WITHIN])
    mean, within = (seen * trust + typical * sigma**2) / (trust + sigma**2)
    return float(np.clip(mean, -1, 1)), float(np.clip(within, 1e-4, 1))


def shrink(sums: Floats, weights: Floats, sigma: float) -> Floats:
    """Empirical Bayes: the posterior mean of d in sums = weights · d + noise, with the spread of d estimated too.

    The noise of an item is what was added, and the sampling noise of its raters.
    """
    seen = sums / weights
    variance = (sigma**2 + SAMPLING * weights) / weights**2
    spread = spread_of(seen[:, None], variance[:, None], np.array([ITEM_SPREAD**2]), SPREAD_WORTH)
    return np.asarray(seen * spread / (spread + variance))
