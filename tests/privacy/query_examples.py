"""One or more sound instances of every query of the closed list: the contract tests run over all of them."""

from __future__ import annotations

import numpy as np

from hushrec.privacy import queries

ITEMS = 12
MEANS = np.linspace(2.0, 4.0, ITEMS)

EXAMPLES = [
    queries.UserCount(),
    queries.ItemCounts(),
    queries.ItemMoments(bound=0.6, centre=3.0, half_width=2.0, count_weight=0.3, mean_weight=0.2, offset_prior=1.0),
    queries.ResidualGram(bound=2.0, means=MEANS, item_weights=np.ones(ITEMS)),
    queries.ResidualGram(
        bound=0.2,
        means=MEANS,
        item_weights=np.linspace(0.5, 2.0, ITEMS),
        offset_prior=4.0,
        head=np.array([1, 3, 4, 8, 9, 11]),
        diagonal=False,
    ),
]
