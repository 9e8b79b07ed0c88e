"""The part of all entries that is observed, p, from a noisy count of ratings."""

from __future__ import annotations

import math

import numpy as np

from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import RatingCount

SHARE = 0.01


def learn_density(curator: Curator, users: float) -> float:
    """p = |Ω| / (m n), a user counting with at most 10 √n ratings.

    **Guarantee**: one release, "ratings", at 1 % of the budget.
    """
    items = curator.shape.items
    curator.plan({"ratings": SHARE})
    query = RatingCount(bound=min(items, 10.0 * math.sqrt(items)) / 2)
    (count,) = curator.release("ratings", query).parts
    return float(np.clip((count[0] / users + query.bound) / items, 1.0 / items, 1.0))
