"""The closed list of questions that a solver may ask: public arguments, and the user half that answers them.

What a query here computes is not trusted: `forms.py` owns sensitivity, noise and cost, and `contributions.py`
clips and certifies whatever comes out. One duty remains, and the audit checks it: a user's contribution is a
function of her own row and of public values, never of another user's row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.device import corrections, factored, frank_wolfe, holdout, kernels, posterior
from hushrec.device.kinds import KINDS, predict, surprises
from hushrec.device.paths import FactorPath, FrankWolfePath
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
    """Weighted sums of values and weighted counts of every item, and the users' own moments: one joint release.

    With x = (value − centre)/half_width and w = 1/√(her number of ratings), a user adds to each item she rated
    w · (x − her own mean of x, shrunk by `offset_prior` ratings) and w · count_weight; and to two further
    coordinates mean_weight · (her mean of x) and mean_weight · (her mean square of x about that shrunk mean).
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
        csr = _row(rows)
        values = kernels.residuals(*csr, centres, self.offset_prior)
        means = kernels.row_means(*csr, centres) / self.half_width
        spread = kernels.row_means(*csr[:2], np.square(values / self.half_width), np.zeros(rows.n_items))
        return (
            Block(entries=values * (weights / self.half_width)),
            Block(entries=weights * self.count_weight),
            Block(dense=np.column_stack((means, spread)) * self.mean_weight),
        )

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return (n_items,), (n_items,), (2,)


@dataclass(frozen=True, kw_only=True)
class ItemSums(SumQuery):
    """Plain sums of values and counts of every item: (value − centre)/half_width and count_weight a rating."""

    name: ClassVar[str] = "item sums"
    centre: float
    half_width: float
    count_weight: float

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        values = (rows.values.astype(np.float64) - self.centre) / self.half_width
        return Block(entries=values), Block(entries=np.full(rows.n_ratings, self.count_weight))

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return (n_items,), (n_items,)


@dataclass(frozen=True, kw_only=True)
class ResidualGram(GramQuery):
    """Σ e_i e_iᵀ of the rows left after item means and the user's own shrunk offset, items weighted."""

    name: ClassVar[str] = "residual Gram"
    means: Floats
    item_weights: Floats
    offset_prior: float = math.inf

    def row(self, rows: Ratings, cache: Cache) -> Floats:
        values = kernels.residuals(*_row(rows), self.means, self.offset_prior)
        return np.asarray(values * self.item_weights[rows.indices])


@dataclass(frozen=True, kw_only=True)
class FrankWolfeGram(FrankWolfePath, GramQuery):
    """Σ g_i g_iᵀ of the loss's gradient rows after t Frank-Wolfe updates: Algorithm 1."""

    name: ClassVar[str] = "Frank-Wolfe Gram"

    def row(self, rows: Ratings, cache: Cache) -> Floats:
        return self.replayed(_row(rows), cache)[1]


@dataclass(frozen=True, kw_only=True)
class FrankWolfeGap(FrankWolfePath, SumQuery):
    """Σ ⟨Y_i, g_i⟩, the loss and the number of ratings: with the next Gram, the duality gap."""

    name: ClassVar[str] = "duality gap"

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        scores, _ = self.replayed(_row(rows), cache)
        terms = frank_wolfe.gap_terms(*_row(rows), self.means, scores, self.rules)
        return (Block(dense=terms),)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return ((3,),)


@dataclass(frozen=True, kw_only=True)
class UnexplainedGram(GramQuery):
    """Σ e_i e_iᵀ of what the users' own fold-ins leave unexplained, items weighted."""

    name: ClassVar[str] = "unexplained Gram"
    means: Floats
    loadings: Floats
    precision: Floats
    noise: Floats
    item_weights: Floats
    rules: frank_wolfe.Rules

    def row(self, rows: Ratings, cache: Cache) -> Floats:
        csr = _row(rows)
        left = frank_wolfe.unexplained(csr, self.means, self.loadings, self.precision, self.noise, self.rules)
        return np.asarray(left * self.item_weights[rows.indices])


@dataclass(frozen=True, kw_only=True)
class FactorRegression(SumQuery):
    """For every item Σ w e u over its raters; with it Σ w u uᵀ over all ratings, and how large the errors are.

    u are a user's coordinates inferred from her *other* ratings, with a constant 1 in the place of her offset (the
    first coordinate, which is hers alone); e is the rating freed of item mean and offset, and
    w = item_weights / √(her number of ratings). The moments (see `device.posterior.regression_rows`) are times
    `moment_weight`, the squared errors among them in units of `error_unit`.
    """

    name: ClassVar[str] = "factor regression"
    means: Floats
    loadings: Floats
    precision: Floats
    noise: Floats
    item_weights: Floats
    moment_weight: float
    error_unit: float

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        row = rows.indptr, rows.indices
        deviations = rows.values - self.means[rows.indices]
        coordinates, spread = posterior.leave_one_out(*row, deviations, self.loadings, self.precision, self.noise)
        errors = deviations - coordinates[:, 0]
        coordinates[:, 0] = 1.0
        factors = self.loadings.copy()
        factors[:, 0] = 0.0
        weights = kernels.activity_weights(rows.indptr, 0.5) * self.item_weights[rows.indices]
        vectors, moments = posterior.regression_rows(*row, errors, coordinates, weights, factors, spread, self.noise)
        moments[:, -2:] /= self.error_unit
        return Block(entries=vectors), Block(dense=moments * self.moment_weight)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        rank = self.loadings.shape[1]
        return (n_items, rank), (rank * (rank + 1) // 2 + 2,)


@dataclass(frozen=True, kw_only=True)
class ChoiceRegression(SumQuery):
    """What the choice of items says about users' coordinates: moments of the two, from every user a short vector.

    With x her posterior mean in units of the prior deviations (its first `leading` entries), k how much of them her
    ratings tell, and f the features of her choice (`device.posterior`): x fᵀ, the lower triangle of
    f fᵀ, k, x² − k and k².
    """

    name: ClassVar[str] = "choice regression"
    means: Floats
    loadings: Floats
    precision: Floats
    noise: Floats
    leanings: Floats
    usual_log: float
    leading: int

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        row, model = (rows.indptr, rows.indices), (self.loadings, self.precision, self.noise)
        features = posterior.choice_features(*row, self.leanings, self.usual_log)
        wanted = slice(self.leading)
        means = kernels.posterior_means(*row, rows.values - self.means[rows.indices], *model)
        x = means[:, wanted] * np.sqrt(self.precision[wanted])
        known = posterior.reliabilities(*row, *model)[:, wanted]
        across = (x[:, :, None] * features[:, None, :]).reshape(rows.n_users, -1)
        a, b = np.tril_indices(features.shape[1])
        among = features[:, a] * features[:, b]
        return tuple(Block(dense=part) for part in (across, among, known, x**2 - known, known**2))

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        rank, width = self.leading, 2 + self.leanings.shape[1]
        return (rank * width,), (width * (width + 1) // 2,), (rank,), (rank,), (rank,)


@dataclass(frozen=True, kw_only=True)
class CorrectionRegression(SumQuery):
    """What predictions have in common wrong: Σ w f e and Σ w f fᵀ over all ratings, from every user 350 numbers.

    e is what her *other* ratings leave unexplained of a rating, in units of the gauge's, f are the features of that
    prediction (`device.corrections`), and w = 1/√(her number of ratings). The second sum is times `moment_weight`.
    arrays: those of a release of this kind; the correction that it has is not made.
    """

    name: ClassVar[str] = "correction regression"
    kind: ClassVar[str] = "refined"
    arrays: Mapping[str, Floats]
    gauge: corrections.Gauge
    moment_weight: float

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        row, model = (rows.indptr, rows.indices), self.arrays
        _, deviations = surprises(model, self.gauge._asdict(), _row(rows))
        users, spreads = posterior.leave_one_out(
            *row, deviations, model["loadings"], model["precision"], model["noise"]
        )
        left = deviations - np.einsum("pr,pr->p", model["loadings"][rows.indices], users)
        weights = kernels.activity_weights(rows.indptr, 0.5)
        across, among = corrections.regression_rows(
            *row, left / self.gauge.unit, rows.values - left, spreads, weights, model["traits"], self.gauge
        )
        return Block(dense=across), Block(dense=among * self.moment_weight)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        width = corrections.FEATURES
        return (width,), (width * (width + 1) // 2,)


@dataclass(frozen=True, kw_only=True)
class RowEnergy(SumQuery):
    """Σ of the users' mean squared deviations from item means and own shrunk offsets, in units of `unit`².

    Each is cut at 2 · `bound` and counts less `bound`: centred, it needs half the noise.
    """

    name: ClassVar[str] = "row energy"
    means: Floats
    unit: float
    offset_prior: float

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        errors = kernels.residuals(*_row(rows), self.means, self.offset_prior)
        energy = factored.row_energy(rows.indptr, errors / self.unit)
        return (Block(dense=np.minimum(energy, 2.0 * self.bound) - self.bound),)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return ((1,),)


@dataclass(frozen=True, kw_only=True)
class RatingCount(SumQuery):
    """How many ratings there are: each number, cut at 2 · `bound`, counts less `bound`."""

    name: ClassVar[str] = "rating count"

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        counts = np.diff(rows.indptr)[:, None].astype(np.float64)
        return (Block(dense=np.minimum(counts, 2.0 * self.bound) - self.bound),)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return ((1,),)


@dataclass(frozen=True, kw_only=True)
class NormalEquations(SumQuery):
    """Every item's normal equations, Σ_i w_ij E[u_i u_iᵀ] and Σ_i w_ij e_ij u_i: one stacked contribution a user.

    e_ij = (value − mean_j)/unit; u_i is her posterior mean under `loadings` (n, r), `precision` and `noise`, and
    E[u_i u_iᵀ] has its posterior covariance too where `covariance` says so. w_i: `item_weights` on at most
    `most` of her ratings, those of highest `priority`, with unit norm. The first block is in isometric
    coordinates, times `moment_weight`.
    """

    name: ClassVar[str] = "normal equations"
    means: Floats
    unit: float
    loadings: Floats
    precision: Floats
    noise: Floats
    item_weights: Floats
    priority: Floats
    moment_weight: float
    most: int = 2**31 - 1
    covariance: bool = True

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        row = rows.indptr, rows.indices
        deviations = (rows.values - self.means[rows.indices]) / self.unit
        users = kernels.posterior_means(*row, deviations, self.loadings, self.precision, self.noise)
        moments = factored.second_moments(users)
        if self.covariance:
            factored.add_covariances(*row, self.loadings, self.precision, self.noise, moments)
        weights = factored.user_weights(*row, self.item_weights, self.priority, self.most)
        return (
            Block(entries=weights * self.moment_weight, dense=moments),
            Block(entries=weights * deviations, dense=users),
        )

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        rank = self.loadings.shape[1]
        return (n_items, rank * (rank + 1) // 2), (n_items, rank)


@dataclass(frozen=True, kw_only=True)
class CooccurrenceGram(GramQuery):
    """Σ a_i a_iᵀ of the users' rows of item weights at the items they used, whatever the values."""

    name: ClassVar[str] = "co-occurrence Gram"
    item_weights: Floats

    def row(self, rows: Ratings, cache: Cache) -> Floats:
        return np.asarray(self.item_weights[rows.indices])


@dataclass(frozen=True, kw_only=True)
class ImplicitEquations(SumQuery):
    """Normal equations of implicit feedback: Σ w_ij u_i u_iᵀ and Σ w_ij u_i an item, and one Σ_i s_i u_i u_iᵀ.

    u_i solves her own row under `loadings` and `prior`; w_i are `item_weights` on her items, scaled to unit norm
    by s_i. The blocks of second moments are in isometric coordinates, times `moment_weight` and `gram_weight`.
    """

    name: ClassVar[str] = "implicit equations"
    loadings: Floats
    prior: Floats
    item_weights: Floats
    priority: Floats
    moment_weight: float
    gram_weight: float
    most: int = 2**31 - 1

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        row = rows.indptr, rows.indices
        users = factored.preferences(*row, self.loadings, self.prior)
        moments = factored.second_moments(users)
        weights = factored.user_weights(*row, self.item_weights, self.priority, self.most)
        scales = factored.user_scales(*row, self.item_weights, self.priority, self.most)
        return (
            Block(entries=weights * self.moment_weight, dense=moments),
            Block(entries=weights, dense=users),
            Block(dense=moments * (scales * self.gram_weight)[:, None]),
        )

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        rank = self.loadings.shape[1]
        size = rank * (rank + 1) // 2
        return (n_items, size), (n_items, rank), (size,)


@dataclass(frozen=True, kw_only=True)
class FactorGram(GramQuery):
    """Σ U_i U_iᵀ of the users' factors after the rounds of `past`, each cut to norm `bound`."""

    name: ClassVar[str] = "factor Gram"
    past: FactorPath

    def row(self, rows: Ratings, cache: Cache) -> Floats:
        return self.past.users(_row(rows), cache).ravel()

    def size(self, n_items: int) -> int:
        return self.past.rank

    def table(self, rows: Ratings, cache: Cache) -> tuple[NDArray[Any], NDArray[np.int32], int, Floats]:
        rank, users = self.past.rank, rows.n_users
        positions = np.tile(np.arange(rank, dtype=np.int32), users)
        return np.arange(users + 1, dtype=np.int64) * rank, positions, rank, self.row(rows, cache)


@dataclass(frozen=True, kw_only=True)
class FactorGradient(SumQuery):
    """Σ_i (Ŷ_i − Y_i)ᵀ U_i over the observed entries, each user's row of errors cut to norm `row_bound` first."""

    name: ClassVar[str] = "factor gradient"
    past: FactorPath
    loadings: Floats
    row_bound: float

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        users = self.past.users(_row(rows), cache)
        row = rows.indptr, rows.indices, self.past.values(_row(rows))
        return (Block(entries=factored.row_errors(*row, users, self.loadings, self.row_bound), dense=users),)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return (self.loadings.shape,)


@dataclass(frozen=True, kw_only=True)
class CleansedGram(GramQuery):
    """Σ w_i r_i r_iᵀ of residuals clamped to ±`clamp`, or with clamp=None Σ w_i e_i e_iᵀ; e_ij = 1 where she rated.

    w_i = 1/(her number of ratings). The residuals are what item means and her own shrunk offset leave.
    """

    name: ClassVar[str] = "cleansed Gram"
    means: Floats
    offset_prior: float
    clamp: float | None = None

    def row(self, rows: Ratings, cache: Cache) -> Floats:
        weights = kernels.activity_weights(rows.indptr, 0.5)
        if self.clamp is None:
            return weights
        left = kernels.residuals(*_row(rows), self.means, self.offset_prior)
        return np.asarray(np.clip(left, -self.clamp, self.clamp) * weights)


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """A public rule by which each user holds out about `share` of her own ratings: see `device.holdout`."""

    salt: int
    share: float

    def mask(self, rows: Ratings) -> NDArray[np.bool_]:
        """Which ratings (nnz,) are held out; whether one is depends on her own row alone."""
        return np.asarray(holdout.held_out(*_row(rows), self.salt, self.share))


@dataclass(frozen=True, kw_only=True)
class HeldOutErrors(SumQuery):
    """How well a model foretells the held-out ratings from each user's others: Σ w (d − 1) and Σ w.

    d is the mean of her squared errors in units of `unit`, and w how many they are, at most `most`; the second
    sum is times `count_weight`. The model is one of the kinds of a release, with its public arrays and settings.
    """

    name: ClassVar[str] = "held-out errors"
    hold_out: HoldOut
    kind: str
    arrays: Mapping[str, Floats]
    settings: Mapping[str, float]
    unit: float
    most: float
    count_weight: float

    def blocks(self, rows: Ratings, cache: Cache) -> tuple[Block, ...]:
        mask = self.hold_out.mask(rows)
        known, (indptr, indices, values) = _part(rows, ~mask), _part(rows, mask)
        predicted = predict(KINDS[self.kind], self.arrays, self.settings, known, (indptr, indices))
        errors = np.square(np.clip(predicted, *rows.value_range) - values) / self.unit - 1.0
        return (Block(dense=holdout.mean_errors(indptr, errors, self.most) * [1.0, self.count_weight]),)

    def shapes(self, n_items: int) -> tuple[tuple[int, ...], ...]:
        return ((2,),)


def _row(rows: Ratings) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """The three arrays that the user half takes."""
    return rows.indptr, rows.indices, rows.values


def _part(rows: Ratings, mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """The users' ratings where the mask is true, as a table of their own."""
    before = np.concatenate(([0], np.cumsum(mask)))
    return before[rows.indptr], rows.indices[mask], rows.values[mask].astype(np.float64)
