"""Private SVD completion: one noisy Gram matrix, then every user completes her own row.

Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018), Algorithm 3:

    W = Σ_i Π_L(P_Ω(Y_i))ᵀ Π_L(P_Ω(Y_i)) + N          released once, N exact Gaussian noise
    V_r = top-r eigenvectors of W                       post-processing
    Ŷ_i = (1/p) P_Ω(Y_i) V_r V_rᵀ                       readout="projection", by the user herself

Y_i are residuals after noisy item means and the user's own offset. readout="ridge" (default) reads the denoised
eigenpairs as the covariance of a Gaussian model instead, and the user's device computes the posterior mean of
her row, a ridge regression on all her own ratings: that costs no privacy and is far more accurate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.queries import ResidualGram
from hushrec.solvers import checks
from hushrec.solvers.again import more_means
from hushrec.solvers.base import Floats, Model, Positions
from hushrec.solvers.density import learn_density
from hushrec.solvers.means import ItemMeans, ask_moments, means_from, means_share
from hushrec.solvers.spectrum import Sampling, Spectrum, denoise

USERS_SHARE = 0.002
ROW_BOUND = 0.1  # of half the value range: below any real row, so that every user's row counts alike
POPULARITY_POWER = 0.25
ACTIVITY = 1.15  # E[ratings] / E[√ratings]² of a typical data set: by how much pairs of ratings cluster in users
LEAST_NOISE = 0.3
STRONG = 0.5  # of a residual's variance, explained by one factor: hardly any data have more


@dataclass(frozen=True, kw_only=True)
class SVD:
    """Private SVD completion (Algorithm 3), one Gram release.

    readout: "ridge" (the user's own regression, default) or "projection" (the paper's).
    rank: largest number of eigenpairs (None: all that stand out of the noise; 8 for "projection").
    head: largest number of items in the Gram, by noisy popularity; other items keep their means.
    offset_prior: how many ratings the belief in an average user's offset is worth.
    means_share: share of the budget for item means and counts (None: from public quantities).
    density: p of the "projection" readout, observed entries / all entries, where it is public (None: a noisy count).

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove only),
    "means", "ratings" (only for a projection whose density is not given) and "gram", each recorded in the ledger;
    where the Gram could only be noise, "more means" in place of it.

    >>> SVD(rank=5).readout
    'ridge'
    """

    readout: Literal["ridge", "projection"] = "ridge"
    rank: int | None = None
    head: int = 1000
    offset_prior: float = 4.0
    means_share: float | None = None
    density: float | None = None

    def __post_init__(self) -> None:
        checks.choices(self)
        checks.whole(self, rank=1, head=2)
        checks.number(self, "offset_prior")
        checks.share(self, "means_share", below=0.9)
        checks.number(self, "density", most=1)

    def solve(self, curator: Curator) -> Model:
        """Means, then one Gram of the residual rows, then the readout's public arrays."""
        users = curator.count_users(USERS_SHARE)
        share = self.means_share or means_share(curator.shape, users, curator.budget.mu)
        moments = ask_moments(curator, "means", share)
        items = means_from(moments, curator.shape, users)
        head = most_popular(items.weights, self.head)
        if self.readout == "projection":
            density = learn_density(curator, users) if self.density is None else self.density
            curator.plan({"gram": curator.left()})
            return self._projection(curator, items, head, density)
        if forlorn(curator, items.weights, head, users, curator.left()):
            nothing = np.zeros((len(items.means), 0))
            return ridge_model(more_means(curator, moments, users), nothing, 1.0, self.offset_prior)
        curator.plan({"gram": curator.left()})
        loadings, noise = head_model(curator, items, head, users, self.offset_prior, self.rank)
        return ridge_model(items, loadings, noise, self.offset_prior)

    def _projection(self, curator: Curator, items: ItemMeans, head: Positions, density: float) -> Model:
        low, high = curator.shape.value_range
        gram = curator.release(
            "gram",
            ResidualGram(
                # A row of this density, with errors of a quarter of the range.
                bound=(high - low) / 4 * math.sqrt(density * curator.shape.items),
                means=items.means,
                item_weights=np.ones(len(items.means)),
                offset_prior=self.offset_prior,
                head=head,
            ),
        )
        _, vectors = np.linalg.eigh(gram.parts[0])
        top = vectors[:, ::-1][:, : self.rank or 8]
        loadings = with_offset(spread_out(top, head, len(items.means)))
        settings = {"offset_prior": self.offset_prior, "density": density}
        return Model(kind="projection", arrays={"means": items.means, "loadings": loadings}, settings=settings)


def head_model(
    curator: Curator, items: ItemMeans, head: Positions, users: float, offset_prior: float, rank: int | None
) -> tuple[Floats, float]:
    """Loadings (n, r) and noise variance of the Gaussian model of the head's items, from the release "gram".

    Every user's row is scaled to the same small norm, so users count alike; both are in the unit where a user's
    mean squared residual is 1. Other items have zero loadings.
    """
    low, high = curator.shape.value_range
    bound = ROW_BOUND * (high - low) / 2
    weights, exposure = head_weights(items.weights, head, users)
    gram = curator.release(
        "gram",
        ResidualGram(
            bound=bound,
            means=items.means,
            item_weights=weights,
            offset_prior=offset_prior,
            head=head,
            diagonal=False,
        ),
    )
    loadings, noise = gaussian_model(gram, exposure, bound**2, rank, users)
    return spread_out(loadings, head, len(weights)), noise


def head_weights(popularity: Floats, head: Positions, users: float) -> tuple[Floats, Floats]:
    """The items' weights (n,) in a Gram of unit rows over the head, and the exposure (h,) of its items.

    A user with k ratings of head items adds (weights_j e_j)(weights_k e_k)/k to a pair that she rated. With
    popularity Σ 1/√(ratings) and a part q of all popularity in the head, k is q times her ratings, and the sum
    over users of 1/k is about ACTIVITY · popularity_j · popularity_k / (users · q).
    """
    weights = popularity**-POPULARITY_POWER
    part = popularity[head] / popularity[head].sum()
    weights /= math.sqrt(float(np.square(weights[head]) @ part))
    covered = float(popularity[head].sum() / popularity.sum())
    return weights, math.sqrt(ACTIVITY / (users * covered)) * (popularity * weights)[head]


def forlorn(curator: Curator, popularity: Floats, head: Positions, users: float, share: float) -> bool:
    """Whether a Gram of the head with this share of the budget is foretold to be noise, even with a strong factor."""
    return outlook(popularity, head, users, gram_noise(curator, share), STRONG) < 1.0


def outlook(popularity: Floats, head: Positions, users: float, noise: float, signal: float) -> float:
    """The first factor's eigenvalue over the edge of all noise in a Gram of rows of norm 1, as foretold.

    signal: the factor's share of a residual's variance. Beside the privacy noise, of deviation `noise` an entry, the
    rows themselves scatter: each user adds terms of 1/k at k² of the head's pairs, √users/head an entry.
    """
    exposure = head_weights(popularity, head, users)[1]
    return signal * float(exposure @ exposure) / (2.0 * math.sqrt(len(head) * noise**2 + users / len(head)))


def gram_noise(curator: Curator, share: float) -> float:
    """The deviation of an off-diagonal entry's noise in a Gram of rows of norm 1, with this share of the budget."""
    query = ResidualGram(bound=1.0, means=np.zeros(1), item_weights=np.ones(1))
    return query.sensitivity(curator.budget.relation) / (curator.budget.mu * math.sqrt(2.0 * share))


def most_popular(weights: Floats, most: int) -> Positions:
    """The increasing positions of the `most` items with the largest noisy weights."""
    return np.sort(np.argsort(-weights, kind="stable")[:most])


def gaussian_model(
    gram: Noisy, exposure: Floats, unit: float, rank: int | None, users: float | None = None
) -> tuple[Floats, float]:
    """Loadings (n, r) and noise variance of the Gaussian model behind a Gram of rows that were scaled to norm √unit.

    A pair of items (j, k) has entry exposure_j · exposure_k · unit · (loadings_j · loadings_k) on average, in
    the unit where a user's mean squared residual is 1. Scaled by the exposure, the noise of the Gram is the same
    on all entries, as `denoise` wants it; scaled back, each item's loadings are shrunk against their own noise.
    """
    part = exposure ** (2 / 3) / (exposure ** (2 / 3)).sum()
    sampling = Sampling(users, 1 / float(part @ part)) if users else None
    spectrum = denoise(gram.parts[0] / unit, gram.sigma / unit / math.sqrt(2), None, sampling)
    values, vectors = spectrum.values[:rank], spectrum.vectors[:, :rank]
    loadings = vectors * np.sqrt(values) / exposure[:, None]
    loadings *= _reliability(loadings, exposure, Spectrum(values, vectors, spectrum.noise))
    signal = float(np.square(loadings).sum(axis=1) @ exposure / exposure.sum())
    return loadings, max(1.0 - signal, LEAST_NOISE)


def _reliability(loadings: Floats, exposure: Floats, spectrum: Spectrum) -> Floats:
    """Which part of each loading's variance is signal: spread²·exposure² / (spread²·exposure² + noise²/λ)."""
    weight = np.square(exposure)[:, None]
    spread = (np.square(loadings) * weight).sum(axis=0) / weight.sum()
    return np.asarray(spread * weight / (spread * weight + spectrum.noise**2 / spectrum.values))


def ridge_model(items: ItemMeans, loadings: Floats, noise: float, offset_prior: float) -> Model:
    """The Gaussian model with the user's offset as its first factor."""
    rank = loadings.shape[1]
    notes = () if rank else ("No structure stood out of the noise: predictions are item means and user offsets.",)
    return Model(
        kind="gaussian",
        arrays={
            "means": items.means,
            "loadings": with_offset(loadings),
            "precision": np.concatenate(([offset_prior], np.ones(rank))),
            "noise": np.full(len(items.means), noise),
        },
        notes=notes,
    )


def with_offset(loadings: Floats) -> Floats:
    """Loadings with a first column of ones: the user's own offset is a coordinate like the others."""
    return np.column_stack((np.ones(len(loadings)), loadings))


def spread_out(rows: Floats, head: Positions, n_items: int) -> Floats:
    """Rows of the head's items at their places among all items, zeros elsewhere."""
    out = np.zeros((n_items, rows.shape[1]))
    out[head] = rows
    return out
