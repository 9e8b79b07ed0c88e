"""Small planted signs as ratings, shared by tests about whole one-bit fits."""

from __future__ import annotations

import numpy as np

from hushrec.data.ratings import Ratings


def answers(users=40, items=30, share=0.4, seed=0, value_range=(0.0, 1.0), strength=2.0) -> Ratings:
    """Signs of a rank-one preference with item effects, as the ends of the value range."""
    rng = np.random.default_rng(seed)
    preference = np.outer(rng.uniform(-1, 1, users), rng.uniform(-1, 1, items)) + rng.uniform(-1, 1, items)
    rows, columns = np.nonzero(rng.random((users, items)) < share)
    yes = rng.random(len(rows)) < 1 / (1 + np.exp(-strength * preference[rows, columns]))
    values = np.where(yes, value_range[1], value_range[0])
    return Ratings.from_codes(
        rows, columns, values, items=np.arange(items), value_range=value_range, n_users=users, catalogue="declared"
    )
