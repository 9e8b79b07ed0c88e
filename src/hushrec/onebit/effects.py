"""Item and user effects of signs: what most of a sign's mean is made of, before any matrix is fitted.

    s_ij − ½ = μ + a_i + b_j + noise                      s_ij: unbiased, however noisy, answers on Ω

Backfitting: a from what μ and b leave, b from what μ and a leave, each shrunk by empirical Bayes against the noise
that is seen in the answers themselves. A nuclear norm charges these two directions as much as any other, so
it shrinks them, and where noise is large hides them; fitted first, they cost nothing and stand. Everything is
post-processing of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrec.onebit.links import Array, Link
from hushrec.onebit.lowrank import LowRank

SWEEPS = 8


@dataclass(frozen=True, eq=False)
class Effects:
    """μ, a (m,) and b (n,) on the link's scale, and the standard deviation that users' effects seem to have."""

    overall: float
    users: Array
    items: Array
    spread: float

    @staticmethod
    def none(shape: tuple[int, int]) -> Effects:
        """No effects at all: the plain nuclear-norm fit."""
        return Effects(0.0, np.zeros(shape[0]), np.zeros(shape[1]), 0.0)

    def at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> Array:
        """μ + a_i + b_j at the given positions."""
        return np.asarray(self.overall + self.users[rows] + self.items[cols])

    def factors(self) -> LowRank:
        """The same as a matrix of rank two."""
        left = np.column_stack((self.overall + self.users, np.ones(len(self.users))))
        return LowRank(left, np.column_stack((np.ones(len(self.items)), self.items)))


def fit_effects(
    answers: Array, rows: NDArray[np.integer], cols: NDArray[np.integer], shape: tuple[int, int], link: Link
) -> Effects:
    """Effects of unbiased answers s (n,) at (rows, cols), on the scale of the link by its slope at 0."""
    if len(answers) == 0:
        return Effects.none(shape)
    overall = float(answers.mean()) - 0.5
    z = answers - 0.5 - overall
    users, items, spread = np.zeros(shape[0]), np.zeros(shape[1]), 0.0
    for _ in range(SWEEPS):
        variance = float(np.mean(np.square(z - users[rows] - items[cols])))
        items, _ = _shrunk(cols, z - users[rows], shape[1], variance)
        users, spread = _shrunk(rows, z - items[cols], shape[0], variance)
    slope = float(link.derivative(np.zeros(1))[0])
    return Effects(overall / slope, users / slope, items / slope, spread / slope)


def _shrunk(groups: NDArray[np.integer], z: Array, size: int, variance: float) -> tuple[Array, float]:
    """Posterior means of the groups' effects and their spread, from the second moment of the groups' sums."""
    sums, counts = np.bincount(groups, z, minlength=size), np.bincount(groups, minlength=size).astype(np.float64)
    square = float((sums @ sums - variance * counts.sum()) / (counts @ counts))
    if square <= 0.0:  # nothing stands out of the noise
        return np.zeros(size), 0.0
    return sums / (counts + variance / square), float(np.sqrt(square))
