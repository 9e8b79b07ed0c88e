"""What the factored solvers ask for first: how many users, item means and popularity, and the size of deviations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.queries import ItemCounts, RowEnergy
from hushrec.solvers.again import more_means
from hushrec.solvers.base import Floats, Model
from hushrec.solvers.means import ItemMeans, ask_moments, expected_weight, means_from, means_share, popularity
from hushrec.solvers.svd import head_model, head_weights, most_popular, with_offset

USERS_SHARE = 0.002
COUNTS_SHARE = 0.05
SCALE_SHARE = 0.01
LEAST_ENERGY = 0.003  # of half the value range, squared
POPULARITY_POWER = 0.25
NO_OFFSET = 1e15  # ratings of doubt: an own offset that is always zero, as a finite number for the release
NO_FACTORS = "No structure stood out of the noise"


@dataclass(frozen=True)
class Beginning:
    """users: (noisy) number; items: means and weights (n,); unit: root of the mean squared deviation.

    offset_prior: ratings of doubt in a user's own offset; `NO_OFFSET` where she has none. moments: the answer that
    item means come from, None where they are no answer but the middle of the value range.
    """

    users: float
    items: ItemMeans
    unit: float
    offset_prior: float
    moments: Noisy | None

    @property
    def own(self) -> int:
        """How many coordinates of a user stand for her own offset."""
        return 0 if self.offset_prior == NO_OFFSET else 1

    def loadings(self, factors: Floats) -> Floats:
        """Loadings of all coordinates of a user: her offset, where she has one, then the factors."""
        return with_offset(factors) if self.own else factors

    def precision(self, rank: int) -> Floats:
        """Prior precision of all coordinates of a user whose factors have unit variance."""
        return np.concatenate(([self.offset_prior] * self.own, np.ones(rank)))

    def model(self, factors: Floats, noise: float, claims: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> Model:
        """The Gaussian model with these loadings (n, r): every user's own ridge regression is its readout."""
        if factors.shape[1] == 0:
            factors = np.zeros((len(factors), 1))
        arrays = {
            "means": self.items.means,
            "loadings": self.loadings(factors),
            "precision": self.precision(factors.shape[1]),
            "noise": np.full(len(factors), noise),
        }
        return Model(kind="gaussian", arrays=arrays, notes=notes, claims=claims)


def begin(curator: Curator, *, centre: bool, share: float | None, offset_prior: float) -> Beginning:
    """Ask for the number of users, and item means, popularity and the size of deviations.

    Where `centre` is false, deviations are from the middle of the value range, and users have no offset.
    **Guarantee**: releases "users" (add-remove only) and "means", or "users", "counts" and "scale".
    """
    users, moments = curator.count_users(USERS_SHARE), None
    if centre:
        share = share or means_share(curator.shape, users, curator.budget.mu)
        moments = ask_moments(curator, "means", share)
        items = means_from(moments, curator.shape, users)
    else:
        offset_prior = NO_OFFSET
        low, high = curator.shape.value_range
        middle = np.full(curator.shape.items, (low + high) / 2)
        counts = counts_from(ask_counts(curator, "counts", share or COUNTS_SHARE), curator, users)
        items = ItemMeans(middle, counts, learn_energy(curator, users, middle))
    return Beginning(users, items, math.sqrt(items.residual), offset_prior, moments)


def fall_back(curator: Curator, begun: Beginning, why: str, claims: tuple[str, ...] = ()) -> Model:
    """Predictions without factors, and a note that says why; what is left of the budget sharpens the item means.

    **Guarantee**: one more release, "more means", where item means were asked for before and noise was added.
    """
    nothing = np.zeros((curator.shape.items, 0))
    if begun.moments is None:
        note = f"{why}: predictions are the middle of the value range, and what was left of the budget is unspent."
        return begun.model(nothing, 1.0, claims, (note,))
    begun = replace(begun, items=more_means(curator, begun.moments, begun.users))
    return begun.model(nothing, 1.0, claims, (f"{why}: predictions are item means and user offsets.",))


def ask_counts(curator: Curator, label: str, share: float) -> Noisy:
    """Noisy weighted counts of the items with this share of the budget.

    **Guarantee**: one release, with this label.
    """
    curator.plan({label: share})
    return curator.release(label, ItemCounts())


def counts_from(answer: Noisy, curator: Curator, users: float) -> Floats:
    """Positive counts from noisy ones, shrunk against their noise."""
    return popularity(answer.parts[0], answer.sigma, expected_weight(users, curator.shape.items))[0]


def learn_energy(curator: Curator, users: float, means: Floats) -> float:
    """The users' mean squared deviation from `means`.

    **Guarantee**: one release, "scale".
    """
    low, high = curator.shape.value_range
    half_width = (high - low) / 2
    curator.plan({"scale": SCALE_SHARE})
    query = RowEnergy(bound=0.5, means=means, unit=half_width, offset_prior=NO_OFFSET)
    (energy,) = curator.release("scale", query).parts
    return half_width**2 * float(np.clip(energy[0] / users + query.bound, LEAST_ENERGY, 1.0))


def gram_loadings(curator: Curator, begun: Beginning, most: int, rank: int) -> tuple[Floats, Floats, float]:
    """Loadings (n, r) of at most `rank` factors from a noisy Gram, their spread (r,), and the noise of a rating.

    Only the `most` most popular items are in the Gram; the others get loadings of zero. All in begun.unit.
    **Guarantee**: one release, "gram", which must be planned.
    """
    head = most_popular(begun.items.weights, most)
    loadings, noise = head_model(curator, begun.items, head, begun.users, begun.offset_prior, rank)
    exposure = np.square(head_weights(begun.items.weights, head, begun.users)[1])
    return loadings, np.square(loadings[head]).T @ exposure / exposure.sum(), noise
