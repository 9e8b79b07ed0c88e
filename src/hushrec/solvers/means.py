"""Item means and popularity from one joint noisy release, shrunk against their known noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrec.privacy.curator import Curator, Shape
from hushrec.privacy.queries import ItemMoments
from hushrec.solvers.base import Floats

# In units of half the value range, for ratings of any scale: the bounds of typical users, not of the data at hand.
VALUE_NORM = math.sqrt(0.3)  # norm of a typical row of values about its own mean
COUNT_WEIGHT = 0.3  # counts are needed less exactly than sums
MEAN_WEIGHT = 0.2  # a single coordinate over all users: precise at any weight
BOUND = math.hypot(VALUE_NORM, COUNT_WEIGHT)
ITEM_SPREAD = 0.2  # of true item means about the overall mean
OVERALL_SPREAD = 0.3  # of the overall mean about the middle of the range
OFFSET_PRIOR = 1.0


@dataclass(frozen=True)
class ItemMeans:
    """means: (n,) in the unit of the values; weights: (n,) noisy Σ over raters of 1/√(her ratings), positive."""

    means: Floats
    weights: Floats


def means_share(shape: Shape, users: float, mu: float) -> float:
    """The share of the budget at which the means' noise and the noise of what follows hurt about alike.

    It grows with the noise of an item's mean relative to the spread of means, as public values foretell it.
    """
    if math.isinf(mu):
        return 0.1
    rated = min(shape.items, 3 * math.sqrt(shape.items))  # a guess at ratings a user; only the root of it matters
    weight = users * math.sqrt(rated) / shape.items
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
    sums, counts, mean = answer.parts
    weights = counts / COUNT_WEIGHT
    total = max(float(weights.sum()), answer.sigma / COUNT_WEIGHT, np.finfo(float).tiny)
    # No count is believed below its own noise, nor below a thousandth of the average.
    weights = np.maximum(weights, max(answer.sigma / COUNT_WEIGHT, 1e-3 * total / len(weights)))
    precision = (MEAN_WEIGHT * users / answer.sigma) ** 2 if answer.sigma else math.inf
    overall = float(np.clip(mean[0] / (MEAN_WEIGHT * users) / (1 + 1 / (OVERALL_SPREAD**2 * precision)), -1, 1))
    deviations = shrink(sums - weights * (sums.sum() / total), weights, answer.sigma)
    means = np.clip(centre + half_width * (overall + deviations), low, high)
    return ItemMeans(means, weights)


def shrink(sums: Floats, weights: Floats, sigma: float) -> Floats:
    """Empirical Bayes: the posterior mean of d in sums = weights · d + noise, with the spread of d estimated too.

    The noise of an item is what was added, and the sampling noise of its raters.
    """
    spread = max(float((sums**2 - sigma**2).sum() / (weights**2).sum()), 1e-4)
    sampling = 0.05 * weights
    return np.asarray(spread * weights * sums / (spread * weights**2 + sigma**2 + sampling))
