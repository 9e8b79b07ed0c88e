"""Small one-bit problems with known truth, shared by the tests of this folder."""

from __future__ import annotations

import numpy as np

from hushrec.onebit.links import Link
from hushrec.onebit.lowrank import Array
from hushrec.onebit.objective import Objective, make_objective


def planted(
    link: Link, *, shape: tuple[int, int] = (30, 30), rank: int = 2, share: float = 0.4, seed: int = 0, ridge: float = 0
) -> tuple[Objective, Array]:
    """Signs of a low-rank M with |M_ij| <= 1 at a share of its entries, and M."""
    rng = np.random.default_rng(seed)
    M = rng.uniform(-0.5, 0.5, (shape[0], rank)) @ rng.uniform(-0.5, 0.5, (rank, shape[1]))
    M /= np.abs(M).max()
    rows, cols = np.nonzero(rng.random(shape) < share)
    s = rng.random(len(rows)) < link.probability(M[rows, cols])
    return make_objective(rows, cols, s, shape, link, ridge=ridge), M
