"""Asking again: two noisy answers to one question as one, and item means that all that is left of a budget sharpens."""

from __future__ import annotations

import math

from hushrec.privacy.curator import Curator, Noisy
from hushrec.solvers.means import ItemMeans, ask_moments, means_from

LEAST_SHARE = 1e-6  # of the budget: with less, asking again would tell nothing


def together(first: Noisy, second: Noisy) -> Noisy:
    """Two noisy answers to one question as one: the mean that weighs each by its precision. Post-processing."""
    weight = second.sigma**2 / (first.sigma**2 + second.sigma**2)
    parts = tuple(weight * one + (1.0 - weight) * other for one, other in zip(first.parts, second.parts, strict=True))
    return Noisy(parts, first.sigma * math.sqrt(weight))


def more_means(curator: Curator, moments: Noisy, users: float, share: float | None = None) -> ItemMeans:
    """Item means from `moments` and, where noise was added, from a second answer with `share` of the budget (all left).

    **Guarantee**: at most one release, "more means".
    """
    share = curator.left() if share is None else share
    if curator.budget.private and share > LEAST_SHARE:
        moments = together(moments, ask_moments(curator, "more means", share))
    return means_from(moments, curator.shape, users)
