"""Posterior: a Gaussian model of a user's row, learnt from a few private moments, completed on her own device.

    1. item means and popularity, one joint release (`means.py`)
    2. Gram of the residual rows of the most popular items, denoised: the loadings of a head of items (`svd.py`)
    3. a few rounds of: every user infers her coordinates u from her row, leaving out one rating at a time;
       released are b_j = Σ w e u for every item and, shared by all, M = Σ w u uᵀ; every item's mean and loadings
       move to b_j against popularity_j · M, shrunk by empirical Bayes against their known noise
    4. what the choice of items says about coordinates, and how far offsets lie apart: one small release (`choices.py`)
    5. what predictions have in common wrong: one small release more (`corrections.py`)
    6. on the device: the posterior mean of her coordinates given her own ratings, her offset among them, corrected

One shared M in place of a matrix for each item is what keeps the noise small (compare `als.py`); leaving the
rating itself out of u makes the regression unbiased, so a round or two is enough. The squared errors released
beside b calibrate the model's noise. Sizes, shares and bounds follow from public values and earlier releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.queries import FactorRegression
from hushrec.solvers import checks
from hushrec.solvers.again import more_means
from hushrec.solvers.base import Floats, Model
from hushrec.solvers.choices import NOBODY, Belief, Prior, learn_choices, plan_choices
from hushrec.solvers.corrections import Corrections, gauge_of, learn_corrections, plan_corrections
from hushrec.solvers.means import ItemMeans, ask_moments, means_from, means_share
from hushrec.solvers.shrinkage import spread_of
from hushrec.solvers.svd import (
    ACTIVITY,
    POPULARITY_POWER,
    USERS_SHARE,
    gram_noise,
    head_model,
    most_popular,
    outlook,
    with_offset,
)

LARGEST_MEANS_SHARE = 0.2  # the rounds refine the means as well
LEAST_GRAM_SHARE = 0.35
GRAM_SHARE_COVERED = 0.3
RELIABILITY = 0.5  # typical part of a coordinate's variance that a user's ratings reveal
CLIP = 0.7  # of a typical contribution: clipping half of the users costs less than the noise it saves
MOMENT_NORM = 0.3  # what the shared moments may take of a contribution, relative to the rest
ENOUGH = 9.0  # the head grows while its first factor stands so many times above the edge of the noise
SIGNAL = 0.15  # typical share of the first factor in the variance of a residual
LARGEST_HEAD = 1200  # n³ eigenvalues and n² noise
FIRST_GROUP = 100
GROUP_WORTH = 2.0  # how many perfectly known items the spread over all items counts in each group's own
SPREAD = 0.15
FORLORN = 1.0  # the Gram is not asked for where its first factor is foretold to lie below the edge of the noise
SECOND_LOOK = 0.75  # where there are no factors: of what is left, for the moments again; the rest for a round


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """The default solver: private moments on the server, Bayesian inference on the user's device.

    rounds: regressions over all items after the first Gram. rank: largest number of factors. means_share: part
    of the budget for means and popularity; gram_share: part of the rest for the Gram (None: from public values).
    head: number of items in the Gram (None: from the noisy popularities and the noise). offset_prior: how many
    ratings the belief in an average user's offset is worth.

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove only), "means",
    "gram", "round 1" …, "choices" and "corrections", each recorded in the ledger; "gram", "choices" and "corrections"
    only where public numbers foretell that they stand out of the noise; without factors "more means".

    >>> Posterior(rounds=3).rounds
    3
    """

    rounds: int = 2
    rank: int = 32
    gram_share: float | None = None
    means_share: float | None = None
    head: int | None = None
    offset_prior: float = 4.0

    def __post_init__(self) -> None:
        checks.whole(self, rounds=0, rank=0, head=2)
        checks.share(self, "gram_share", "means_share")
        checks.number(self, "offset_prior")

    def solve(self, curator: Curator) -> Model:
        """Means, Gram of the head, rounds of regression."""
        users = curator.count_users(USERS_SHARE)
        mu = curator.budget.mu
        share = self.means_share or min(means_share(curator.shape, users, mu), LARGEST_MEANS_SHARE)
        moments = ask_moments(curator, "means", share)
        items = means_from(moments, curator.shape, users)
        typical = max(float(items.weights.sum()) / users, 1.0)  # √(ratings of a user)
        choices = plan_choices(users, mu)
        corrections = plan_corrections(users, len(items.means), typical, mu)
        if choices:
            curator.plan({"choices": choices.share})
        if corrections:
            curator.plan({"corrections": corrections})
        left = curator.left() * (1 - 1e-12)  # a hair less than all, so that no rounding of shares can pass the whole
        state, items = self._learn(curator, moments, users, left)
        prior = Prior.blind(*state.loadings.shape)
        if choices:
            prior = learn_choices(curator, state.belief, items.weights, users, choices.whole)
            state = state.with_offsets(prior.offset_variance)
        corrected = gauge_of(state.belief, items.weights, typical)
        if corrections:
            corrected = learn_corrections(curator, state.belief, prior, items.weights, typical)
        return state.model(prior, corrected) if choices or corrections else state.plain()

    def _learn(self, curator: Curator, moments: Noisy, users: float, left: float) -> tuple[State, ItemMeans]:
        """The Gram and the rounds; where the Gram is or could only be noise, means and a round with all of `left`."""
        items = means_from(moments, curator.shape, users)
        loadings, noise = np.zeros((len(items.means), 0)), 1.0
        head = most_popular(items.weights, self.head or head_size(items.weights, users, gram_noise(curator, left / 2)))
        gram_share = left * self._gram_share(float(items.weights[head].sum() / items.weights.sum()))
        ahead = outlook(items.weights, head, users, gram_noise(curator, gram_share), SIGNAL)
        if not self.rounds or self.head is not None or ahead >= FORLORN:
            curator.plan({"gram": gram_share})
            loadings, noise = head_model(curator, items, head, users, self.offset_prior, self.rank)
            left -= gram_share
        if self.rounds and not loadings.shape[1]:
            items = more_means(curator, moments, users, left * SECOND_LOOK)
            left *= 1.0 - SECOND_LOOK
        state = State.begin(curator, items, loadings, noise, self.offset_prior)
        rounds = self.rounds if loadings.shape[1] else min(self.rounds, 1)
        labels = [f"round {number + 1}" for number in range(rounds)]
        curator.plan(dict.fromkeys(labels, left / max(rounds, 1)))
        for label in labels:
            state = improve(curator, label, state, items.weights, users)
        return state, items

    def _gram_share(self, covered: float) -> float:
        """The Gram's part of what is left: the more of all ratings its head covers, the less is left to the rounds."""
        if self.rounds == 0:
            return 1.0
        return self.gram_share if self.gram_share is not None else LEAST_GRAM_SHARE + GRAM_SHARE_COVERED * covered


@dataclass(frozen=True)
class State:
    """The model between rounds: means (n,), loadings (n, 1 + r) with the offset first, precision, noise, unit.

    unit: the variance of a residual about item mean and offset, as released with the means.
    """

    means: Floats
    loadings: Floats
    precision: Floats
    noise: float
    unit: float
    value_range: tuple[float, float]

    @classmethod
    def begin(cls, curator: Curator, items: ItemMeans, loadings: Floats, noise: float, offset_prior: float) -> State:
        """The model of the head, brought from its own unit to that of the values."""
        unit = items.residual
        precision = np.concatenate(([offset_prior / unit], np.ones(loadings.shape[1])))
        return cls(
            items.means,
            with_offset(loadings * math.sqrt(unit)),
            precision,
            noise * unit,
            unit,
            curator.shape.value_range,
        )

    def model(self, prior: Prior, corrections: Corrections) -> Model:
        """The public arrays, with what choices say and what is corrected."""
        extra = {**prior.arrays, "traits": corrections.traits, "correction": corrections.correction}
        gauge = {name: float(value) for name, value in corrections.gauge._asdict().items()}
        return Model(kind="refined", arrays={**vars(self.belief), **extra}, settings=gauge, notes=self.notes)

    def plain(self) -> Model:
        """The public arrays of the Gaussian model alone."""
        return Model(kind="gaussian", arrays=vars(self.belief), notes=self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Without factors that is said."""
        if self.loadings.shape[1] > 1:
            return ()
        return ("No structure stood out of the noise: predictions are item means and user offsets.",)

    @property
    def belief(self) -> Belief:
        """The Gaussian model itself."""
        return Belief(self.means, self.loadings, self.precision, np.full(len(self.means), self.noise))

    def with_offsets(self, variance: float) -> State:
        """The same with offsets as far apart as they are, relative to what was believed."""
        precision = self.precision.copy()
        precision[0] /= variance
        return replace(self, precision=precision)


def head_size(popularity: Floats, users: float, noise: float) -> int:
    """How many of the most popular items to put into the Gram, from noisy popularity and the noise of an entry.

    The first factor's eigenvalue over the edge of the privacy noise, as `svd.head_weights` foretells them, falls as
    the head grows; the head grows while that stays above ENOUGH.
    """
    edges = 2.0 * noise * np.sqrt(np.arange(1, len(popularity) + 1))
    enough = np.flatnonzero(_eigenvalues(popularity, users) >= ENOUGH * edges)
    largest = int(enough[-1]) + 1 if enough.size else 0
    return min(max(largest, FIRST_GROUP), LARGEST_HEAD, len(popularity))


def _eigenvalues(popularity: Floats, users: float) -> Floats:
    """The first factor's eigenvalue in the Gram of heads of 1, 2, …, n items."""
    ordered = np.sort(popularity)[::-1]
    weights = ordered ** (-2 * POPULARITY_POWER)
    total = np.cumsum(ordered)
    covered, scale = total / total[-1], np.cumsum(ordered * weights) / total
    return np.asarray(SIGNAL * ACTIVITY / users * np.cumsum(ordered**2 * weights) / (scale * covered))


def improve(curator: Curator, label: str, state: State, popularity: Floats, users: float) -> State:
    """One round: release the regression, move means and loadings, calibrate the noise."""
    rank = state.loadings.shape[1]
    item_weights = popularity**-POPULARITY_POWER
    item_weights /= (item_weights @ popularity) / popularity.sum()
    part = item_weights * popularity / popularity.sum()
    typical = max(float(popularity.sum()) / users, 1.0)  # √(ratings of a user)
    bound = CLIP * math.sqrt(state.unit * (1 + RELIABILITY * (rank - 1)))
    moment_weight = MOMENT_NORM * bound / (typical * (1 + RELIABILITY * (rank - 1)))
    answer = curator.release(
        label,
        FactorRegression(
            bound=bound,
            means=state.means,
            loadings=state.loadings,
            precision=state.precision,
            noise=np.full(len(state.means), state.noise),
            item_weights=item_weights,
            moment_weight=moment_weight,
            error_unit=state.unit,
        ),
    )
    sums, moments = answer.parts[0], answer.parts[1] / moment_weight
    noise = calibrated(state.noise, moments[-2:], answer.sigma / moment_weight)
    values, vectors = np.linalg.eigh(unpack(moments[:-2], rank))
    values = np.maximum(values, 1e-3 * values[-1] + 2 * answer.sigma / moment_weight)
    exposure = np.maximum(part[:, None] * values, NOBODY)
    before = np.column_stack((np.zeros(len(part)), state.loadings[:, 1:])) @ vectors
    # Noise of a coefficient: what was added, and the raters' own errors. A rare item's larger weight counts where means
    # are all there is; with factors, which busy users tell, it is made up for by the smaller ones of its raters.
    own = noise / typical * (item_weights[:, None] if rank == 1 else 1.0)
    variance = (answer.sigma**2 + own * exposure) / exposure**2
    after = move(before, (sums @ vectors) / exposure, variance, popularity, state.unit) @ vectors.T
    means = np.clip(state.means + after[:, 0], *state.value_range)
    return replace(state, means=means, loadings=with_offset(after[:, 1:]), noise=noise)


def calibrated(noise: float, sums: Floats, sigma: float) -> float:
    """The noise variance, scaled by how the squared errors compare with what the model expected of them."""
    seen, expected = sums
    if expected <= 10 * sigma:  # nothing to be learnt from it
        return noise
    return noise * float(np.clip(seen / expected, 0.25, 4.0))


def unpack(packed: Floats, rank: int) -> Floats:
    """The symmetric matrix (r, r) of isometric coordinates: lower triangle row by row, off-diagonal times √2."""
    lower = np.zeros((rank, rank))
    lower[np.tril_indices(rank)] = packed
    below = np.tril(lower, -1) / math.sqrt(2.0)
    return below + below.T + np.diag(np.diag(lower))


def move(before: Floats, seen: Floats, variance: Floats, popularity: Floats, unit: float) -> Floats:
    """Posterior means of coefficients (n, r) that lie around `before` and were seen with the given variance.

    How far they lie from it, coefficient by coefficient, is estimated over all items, and then within groups of
    items of like popularity, since it is the rare ones of which least is known.
    """
    steps = seen - before
    start = np.full(before.shape[1], SPREAD**2 * unit)
    overall = spread_of(steps, variance, start, 1.0)
    order = np.argsort(-popularity, kind="stable")
    edges = [FIRST_GROUP * 2**k for k in range(32) if FIRST_GROUP * 2**k < 0.75 * len(order)]
    after = np.empty_like(before)
    for group in np.split(order, edges):
        spread = spread_of(steps[group], variance[group], overall, GROUP_WORTH)
        after[group] = before[group] + steps[group] * spread / (spread + variance[group])
    return after
