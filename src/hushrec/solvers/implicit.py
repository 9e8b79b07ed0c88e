"""ImplicitPosterior: clicks, plays, purchases; tastes learnt from private moments, inferred on the user's device.

    A user with k uses takes item j with rate k q_j (1 + b_j · u), where u ~ N(0, I) are her tastes.
    1. popularity q from noisy counts; the most popular items form the head
    2. Gram of her unit row of uses, each item weighted with q^-1/2: a pair (j, l) has mean t √(q_j q_l) (1 + b_j · b_l)
       and the items' own chance has the same variance everywhere
    3. the public rank-one part t √(q_j q_l) is fitted and taken off the noisy Gram, what is left is denoised
       (`spectrum.py`): its eigenpairs are √q_j b_j
    4. on the device: her posterior mean of u, given what she used and what she did not; scores q_j (1 + b_j · u)

Rows stay sparse, although the model centres them: the centring is done on the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrec.privacy.curator import Curator
from hushrec.privacy.queries import CooccurrenceGram, ItemCounts
from hushrec.solvers import checks
from hushrec.solvers.base import Floats, Model, Positions
from hushrec.solvers.spectrum import denoise
from hushrec.solvers.svd import USERS_SHARE, most_popular, spread_out

EDGE = 0.06  # the head grows while the noise's largest eigenvalue is this part of its items' uses by a user
SMALLEST_HEAD, LARGEST_HEAD = 50, 1200
CERTAIN = 10.0  # standard errors by which the popularity part of the Gram must stand out


@dataclass(frozen=True, kw_only=True)
class ImplicitPosterior:
    """Implicit feedback: every entry is one use of an item, whatever its value; predictions are scores to rank by.

    counts_share: the part of the budget for popularity, the rest is for the Gram. head: number of items in the Gram
    (None: from the noisy popularities and the noise); the others are ranked by popularity. rank: largest number of
    tastes.

    **Guarantee**: joint (ε, δ)-DP at the budget's unit and relation; releases "users" (add-remove only), "counts"
    and "gram", each recorded in the ledger.

    >>> ImplicitPosterior(rank=8).rank
    8
    """

    counts_share: float = 0.1
    head: int | None = None
    rank: int = 64

    def __post_init__(self) -> None:
        checks.share(self, "counts_share", below=0.9)
        checks.whole(self, head=2, rank=0)

    def solve(self, curator: Curator) -> Model:
        """Counts, then one Gram, then the public arrays."""
        users = curator.count_users(USERS_SHARE)
        curator.plan({"counts": self.counts_share})
        counts = believed(*_counted(curator))
        gram_share = curator.left()
        curator.plan({"gram": gram_share})
        size = self.head or head_size(counts, users, curator.budget.mu * math.sqrt(gram_share))
        head = most_popular(counts, size)
        popularity = counts / counts.sum()
        leanings = spread_out(learn_leanings(curator, popularity, head, users, self.rank), head, len(counts))
        notes = () if leanings.shape[1] else ("No structure stood out of the noise: scores are popularity alone.",)
        if not leanings.shape[1]:
            leanings = np.zeros((len(counts), 1))
        return Model(
            kind="clicks",
            arrays={"means": popularity, "loadings": popularity[:, None] * leanings},
            notes=notes,
            assumptions=("Every entry counts as one use of an item: values are ignored.",),
        )


def _counted(curator: Curator) -> tuple[Floats, float]:
    answer = curator.release("counts", ItemCounts())
    return answer.parts[0], answer.sigma


def believed(counts: Floats, sigma: float) -> Floats:
    """Noisy counts, none of them below its own noise or a thousandth of the average."""
    average = max(float(counts.sum()), sigma, np.finfo(float).tiny) / len(counts)
    return np.asarray(np.maximum(counts, max(sigma, 1e-3 * average)))


def head_size(counts: Floats, users: float, mu: float) -> int:
    """How many of the most popular items to put into the Gram, from noisy counts Σ 1/√(her uses) and the noise to come.

    In the unit where an item's own chance has variance 1, the noise of h items reaches √2 h^1.5/(users μ), and
    what users have in common grows with how many of the h items they use.
    """
    ordered = np.sort(counts)[::-1]
    size = np.arange(1, len(ordered) + 1)
    uses = (ordered.sum() / users) ** 2 * np.cumsum(ordered) / ordered.sum()
    fits = np.flatnonzero(math.sqrt(2.0) * size**1.5 <= EDGE * uses * users * mu)
    return min(max(int(fits[-1]) + 1 if fits.size else 0, SMALLEST_HEAD), LARGEST_HEAD, len(ordered))


def learn_leanings(curator: Curator, popularity: Floats, head: Positions, users: float, rank: int) -> Floats:
    """b (h, r) of the head's items, from the release "gram"."""
    weights = np.sqrt(popularity[head].mean() / popularity)
    bound = 0.5 * float(weights[head].min())  # below any row with a use: every user counts alike
    query = CooccurrenceGram(bound=bound, item_weights=weights, head=head, diagonal=False)
    answer = curator.release("gram", query)
    unit = users * bound**2 / len(head)  # a diagonal entry's mean: the variance of an item's own chance
    gram, sigma = answer.parts[0] / unit, answer.sigma / unit / math.sqrt(2.0)
    found = denoise(gram, sigma, rank + 1)
    roots = np.sqrt(popularity[head])
    if len(found.values) < 2:
        return np.zeros((len(head), 0))
    activity = found.values[0] / float(roots @ roots)
    return np.asarray(found.vectors[:, 1:] * np.sqrt(found.values[1:] / activity) / roots[:, None])
