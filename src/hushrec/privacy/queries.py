"""The closed list of questions that a solver may ask: public arguments, and the user half that answers them.

What a query here computes is not trusted: `forms.py` owns sensitivity, noise and cost, and `contributions.py`
clips and certifies whatever comes out. One duty remains, and the audit checks it: a user's contribution is a
function of her own row and of public values, never of another user's row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.device import kernels
from hushrec.engines.base import Cache
from hushrec.privacy.contributions import Block, Floats
from hushrec.privacy.forms import GramQuery, SumQuery


@dataclass(frozen=True, kw_only=True)
class UserCount(SumQuery):
    """How many users there are; each contributes 1."""

    name: ClassVar[str] = "user count"
    bound: float = 1.0

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        return (Block(dense=np.ones((rows.n_users, 1))),)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return ((1,),)


@dataclass(frozen=True, kw_only=True)
class ItemCounts(SumQuery):
    """How often each item was rated; a user's ratings count 1/√(her number of ratings) each, a unit row."""

    name: ClassVar[str] = "item counts"
    bound: float = 1.0

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        return (Block(entries=kernels.activity_weights(rows.indptr, 0.5)),)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return ((n_items,),)


@dataclass(frozen=True, kw_only=True)
class ItemMoments(SumQuery):
    """Weighted sums of values and weighted counts of every item, and the users' mean values: one joint release.

    With x = (value − centre)/half_width and w = 1/√(her number of ratings), a user adds to each item she rated
    w · (x − her own mean of x, shrunk by `offset_prior` ratings) and w · count_weight; and to a single further
    coordinate mean_weight · (her mean of x).
    """

    name: ClassVar[str] = "item moments"
    centre: float
    half_width: float
    count_weight: float
    mean_weight: float
    offset_prior: float

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        weights = kernels.activity_weights(rows.indptr, 0.5)
        centres = np.full(rows.n_items, self.centre)
        csr = (rows.indptr, rows.indices, rows.values)
        values = kernels.residuals(*csr, centres, self.offset_prior)
        means = kernels.row_means(*csr, centres)
        return (
            Block(entries=values * (weights / self.half_width)),
            Block(entries=weights * self.count_weight),
            Block(dense=means[:, None] * (self.mean_weight / self.half_width)),
        )

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return (n_items,), (n_items,), (1,)


@dataclass(frozen=True, kw_only=True)
class ResidualGram(GramQuery):
    """Σ e_i e_iᵀ of the rows left after item means and the user's own shrunk offset, items weighted."""

    name: ClassVar[str] = "residual Gram"
    means: Floats
    item_weights: Floats
    offset_prior: float = math.inf

    def row(self, rows: Ratings, cache: Cache) -> Floats:
        values = kernels.residuals(rows.indptr, rows.indices, rows.values, self.means, self.offset_prior)
        return np.asarray(values * self.item_weights[rows.indices])
