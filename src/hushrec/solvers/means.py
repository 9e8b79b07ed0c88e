"""Item means and popularity from one joint noisy release, shrunk against their known noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrec.privacy.curator import Curator, Noisy, Shape
from hushrec.privacy.queries import ItemMoments, ItemSums
from hushrec.solvers.base import Floats
from hushrec.solvers.shrinkage import deconvolve, spread_of

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
LEAST_COUNT = 1e-2  # of the average
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
    return means_from(ask_moments(curator, "means", share), curator.shape, users)


def ask_moments(curator: Curator, label: str, share: float) -> Noisy:
    """The item moments with this share of the budget.

    **Guarantee**: one release, with this label.
    """
    low, high = curator.shape.value_range
    curator.plan({label: share})
    return curator.release(
        label,
        ItemMoments(
            bound=BOUND,
            centre=(low + high) / 2,
            half_width=(high - low) / 2,
            count_weight=COUNT_WEIGHT,
            mean_weight=MEAN_WEIGHT,
            offset_prior=OFFSET_PRIOR,
        ),
    )


def means_from(answer: Noisy, shape: Shape, users: float) -> ItemMeans:
    """Item means and popularity from noisy item moments, shrunk against their noise."""
    low, high = shape.value_range
    centre, half_width = (low + high) / 2, (high - low) / 2
    sums, counts, own = answer.parts
    sigma = answer.sigma
    weights, doubt = popularity(counts / COUNT_WEIGHT, sigma / COUNT_WEIGHT, expected_weight(users, len(sums)))
    overall, within = users_moments(own / (MEAN_WEIGHT * users), sigma / (MEAN_WEIGHT * users))
    deviations = shrink(sums - weights * (sums.sum() / weights.sum()), weights, sigma, doubt)
    means = np.clip(centre + half_width * (overall + deviations), low, high)
    explained = float(np.square(deviations) @ weights / weights.sum())
    residual = max(within - explained, LEAST_PART * within)
    return ItemMeans(means, weights, residual * half_width**2)


def plain_means(curator: Curator, users: float, share: float, rated: float) -> ItemMeans:
    """Plain averages: every item's noisy sum of values over its noisy count, as papers take them out.

    Neither weighted nor shrunk; without noise they are the averages themselves. An item whose count does not stand
    out of its noise gets the average of all ratings. rated: a usual number of ratings of a user, for the bound.

    **Guarantee**: one release, labelled "means".
    """
    low, high = curator.shape.value_range
    centre, half_width = (low + high) / 2, (high - low) / 2
    curator.plan({"means": share})
    bound = math.sqrt(rated * (OVERALL_SPREAD**2 + TYPICAL_WITHIN + COUNT_WEIGHT**2))
    if not curator.budget.private:  # nothing is clipped: no row of any data is longer than this
        bound = math.sqrt(curator.shape.items) * math.hypot(1.0, COUNT_WEIGHT)
    answer = curator.release(
        "means", ItemSums(bound=bound, centre=centre, half_width=half_width, count_weight=COUNT_WEIGHT)
    )
    sums, counts = answer.parts[0], answer.parts[1] / COUNT_WEIGHT
    seen = counts > answer.sigma / COUNT_WEIGHT
    overall = float(sums.sum() / counts.sum()) if counts.sum() > 0 else 0.0
    average = np.where(seen, sums / np.where(seen, counts, 1.0), overall)
    means = np.clip(centre + half_width * average, low, high)
    weights = np.full(curator.shape.items, expected_weight(users, curator.shape.items))
    return ItemMeans(means, weights, TYPICAL_WITHIN * half_width**2)


def expected_weight(users: float, items: int) -> float:
    """A guess, from the shape alone, at Σ 1/√(her ratings) over an average item's raters."""
    rated = min(items, 3 * math.sqrt(items))  # ratings of a user; only the root of it matters
    return users * math.sqrt(rated) / items


def popularity(counts: Floats, sigma: float, expected: float) -> tuple[Floats, Floats]:
    """Weighted counts to divide sums by, positive, believed after noisy ones; and the variance left to doubt.

    What an item's sum says of its raters is divided by its count: a doubtful one counts as the root of its expected
    square, so that an underestimate does not blow the quotient up.
    """
    believed, doubt = deconvolve(counts, sigma, expected, SPREAD_WORTH)
    counted = np.sqrt(np.square(believed) + doubt)
    return np.maximum(counted, LEAST_COUNT * max(counted.mean(), 0.05 * expected)), doubt


def users_moments(seen: Floats, sigma: float) -> tuple[float, float]:
    """The overall mean of x and its variance within a user, from noisy means over users and what is typical."""
    trust = np.array([OVERALL_SPREAD**2, TYPICAL_WITHIN**2])
    typical = np.array([0.0, TYPICAL_WITHIN])
    mean, within = (seen * trust + typical * sigma**2) / (trust + sigma**2)
    return float(np.clip(mean, -1, 1)), float(np.clip(within, 1e-4, 1))


def shrink(sums: Floats, weights: Floats, sigma: float, doubt: Floats) -> Floats:
    """Empirical Bayes: the posterior mean of d in sums = weights · d + noise, with the spread of d estimated too.

    The noise of an item is what was added, and the sampling noise of its raters.
    """
    seen = sums / weights
    variance = (sigma**2 + SAMPLING * weights + ITEM_SPREAD**2 * doubt) / weights**2
    spread = spread_of(seen[:, None], variance[:, None], np.array([ITEM_SPREAD**2]), SPREAD_WORTH)
    return np.asarray(seen * spread / (spread + variance))
