"""SVD after cleansing: the private baseline of McSherry and Mironov, at its exact user-level sensitivity.

McSherry, Mironov, "Differentially Private Recommender Systems" (KDD 2009), as restated in the experiments of
Jain, Thakkar, Thakurta (2018):

    M_j      noisy item means, shrunk toward the noisy overall mean              released with the item counts
    r̂_i      = clamp(r_i − M − the user's own shrunk average, ±B)                user half
    S, W     = Σ w_i r̂_i r̂_iᵀ,  Σ w_i e_i e_iᵀ,  w_i = 1/(her number of ratings) released, Gaussian noise
    C_jk     = (S_jk + β S̄) / (W_jk + β W̄),  S̄ and W̄ the average entries        post-processing
    rank-k factors of C, with each user's regression on them                     post-processing, user half

noise="paper" is the strawman that those experiments ran: noise for a single rating times `ratings_per_user`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.queries import CleansedGram
from hushrec.solvers import checks
from hushrec.solvers.again import more_means
from hushrec.solvers.base import Floats, Model, Positions
from hushrec.solvers.means import ItemMeans, ask_moments, means_from, means_share
from hushrec.solvers.svd import (
    LEAST_NOISE,
    USERS_SHARE,
    forlorn,
    gaussian_model,
    most_popular,
    ridge_model,
    spread_out,
)

COVARIANCE_SHARE = 0.8  # of what the means leave; the other part goes to the weights
RATING_SENSITIVITY = 1 + 2 * math.sqrt(2)  # of S and W to one rating, in units of B² and of 1, as published
LEAST_WEIGHT = 2.0  # standard deviations of the noise below which no weight of a pair is believed


@dataclass(frozen=True, kw_only=True)
class CleansedSVD:
    """SVD after cleansing (McSherry, Mironov 2009), each release at its exact user-level sensitivity.

    rank: most factors. clamp: B, in half value ranges. shrinkage: β. offset_prior, head: as in `SVD`.
    noise: "exact", or "paper", the strawman of the Frank-Wolfe experiments: every release gets the noise that would
    protect one rating, times ratings_per_user, which spends only a small part of the budget.

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove only), "means",
    "covariance" and "weights", each recorded in the ledger; where these could only be noise, "more means" instead.

    >>> CleansedSVD(rank=5).noise
    'exact'
    """

    rank: int = 20
    clamp: float = 0.5
    shrinkage: float = 0.1
    offset_prior: float = 4.0
    head: int = 1000
    noise: Literal["exact", "paper"] = "exact"
    ratings_per_user: int = 80

    def __post_init__(self) -> None:
        checks.choices(self)
        checks.whole(self, rank=1, ratings_per_user=1, head=2)
        checks.number(self, "clamp", "shrinkage", "offset_prior")

    def solve(self, curator: Curator) -> Model:
        """Means, then covariance and weights, then the cleaned covariance's factors."""
        users = curator.count_users(USERS_SHARE)
        left, share = curator.left(), means_share(curator.shape, users, curator.budget.mu)
        moments = ask_moments(curator, "means", share * self._part(math.sqrt(self.ratings_per_user)))
        items = means_from(moments, curator.shape, users)
        rest = (left - share) * self._part(RATING_SENSITIVITY * self.ratings_per_user) * (1 - 1e-12)
        head = most_popular(items.weights, self.head)
        loadings, noise = np.zeros((len(items.means), 0)), 1.0
        if self.noise == "exact" and forlorn(curator, items.weights, head, users, COVARIANCE_SHARE * rest):
            items = more_means(curator, moments, users)
        else:
            curator.plan({"covariance": COVARIANCE_SHARE * rest, "weights": (1 - COVARIANCE_SHARE) * rest})
            loadings, noise = self._learn(curator, items, head, users)
        model = ridge_model(items, loadings, noise, self.offset_prior)
        return Model(kind=model.kind, arrays=model.arrays, notes=(*model.notes, *self._remarks()))

    def _learn(self, curator: Curator, items: ItemMeans, head: Positions, users: float) -> tuple[Floats, float]:
        """Loadings (n, r) and noise of the Gaussian model, from the covariance and the weights of the head's items."""
        low, high = curator.shape.value_range
        clamp = self.clamp * (high - low) / 2
        asked: dict[str, Any] = {"means": items.means, "offset_prior": self.offset_prior, "head": head}
        covariance = curator.release("covariance", CleansedGram(bound=clamp, clamp=clamp, **asked))
        weights = curator.release("weights", CleansedGram(bound=1.0, **asked))
        loadings, noise = self._factors(covariance, weights, users)
        return spread_out(loadings, head, len(items.means)), noise

    def _part(self, more_noise: float) -> float:
        """The part of a share that is spent when a release gets so many times the noise that it needs."""
        return 1.0 if self.noise == "exact" else more_noise**-2

    def _factors(self, covariance: Noisy, weights: Noisy, users: float) -> tuple[Floats, float]:
        """Loadings (h, r) and noise of the Gaussian model behind the cleaned covariance."""
        sums, seen = covariance.parts[0].copy(), weights.parts[0].copy()
        n = len(sums)
        least = max(weights.sigma, np.finfo(float).tiny)  # no sum of weights is believed below its own noise
        spread = max(float(np.trace(sums)), 0.0) / max(float(np.trace(seen)), least)
        if spread <= 0 or n < 2:
            return np.zeros((n, 0)), 1.0
        np.fill_diagonal(sums, 0.0)
        np.fill_diagonal(seen, 0.0)
        usual = max(float(seen.sum()) / max(n * (n - 1), 1), least / n)
        belief = max(self.shrinkage * usual, LEAST_WEIGHT * weights.sigma / math.sqrt(2))
        shrunk = sums + belief * float(sums.sum()) / (n * (n - 1) * usual)
        # Rows of W are about proportional: with their product for it, the noise is alike on all entries again.
        exposure = np.maximum(seen.sum(axis=1), belief)
        exposure = exposure / math.sqrt(float(exposure.sum()))
        cleaned = shrunk / (np.maximum(seen, 0.0) + belief) * np.outer(exposure, exposure)
        np.fill_diagonal(cleaned, 0.0)
        if self.noise == "paper":  # as published: the first k factors, whether or not they stand out of the noise
            values, vectors = (part[..., -self.rank :] for part in np.linalg.eigh(cleaned / spread))
            return vectors * np.sqrt(np.maximum(values, 0.0)) / exposure[:, None], LEAST_NOISE
        return gaussian_model(Noisy((cleaned,), covariance.sigma), exposure, spread, self.rank, users)

    def _remarks(self) -> tuple[str, ...]:
        if self.noise == "exact":
            return ()
        return (
            "A strawman, for comparison with published curves: its noise protects single ratings and was multiplied "
            f"by {self.ratings_per_user} ratings a user, far more than a user needs.",
        )
