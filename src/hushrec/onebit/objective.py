"""The negative log-likelihood of observed signs, the one-bit paper's eq. (2), as a function on the observed entries.

    f(X) = Σ over (i, j) in Ω of ℓ(X_ij, s_ij)  +  (λ/2) ‖X‖_F²          s = (1 + y)/2, or a perturbed real s

The sum depends on X through its values on Ω alone, so value and gradient take and give one number per rating, in
the row-major order that `rows` and `cols` are kept in. λ is the ridge of the strongly convex output mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from hushrec.errors import ConfigError
from hushrec.onebit.links import Link
from hushrec.onebit.lowrank import Array, Index


@dataclass(frozen=True, eq=False)
class Objective:
    """f on the entries (rows, cols), sorted and distinct; made by `make_objective`."""

    rows: Index
    cols: Index
    s: Array
    shape: tuple[int, int]
    link: Link
    ridge: float
    indptr: Index
    order: Index

    @property
    def count(self) -> int:
        """n = |Ω|, the number of observed entries."""
        return len(self.rows)

    def loss(self, x: Array) -> float:
        """The sum over Ω at the values x of X there; the ridge is not in it."""
        return float(self.link.loss(x, self.s).sum())

    def gradient(self, x: Array) -> Array:
        """The gradient of the sum, one number per entry of Ω."""
        return self.link.loss_gradient(x, self.s)

    def sparse(self, values: Array) -> sp.csr_matrix:
        """Values on Ω as a sparse matrix."""
        return sp.csr_matrix((values, self.cols, self.indptr), shape=self.shape)

    def convex(self, alpha: float) -> bool:
        """Whether f is convex on |X_ij| <= alpha."""
        low, high = (float(self.s.min()), float(self.s.max())) if self.count else (0.0, 1.0)
        return self.link.convex(alpha, low, high)


def make_objective(
    rows: ArrayLike, cols: ArrayLike, s: ArrayLike, shape: tuple[int, int], link: Link, *, ridge: float = 0.0
) -> Objective:
    """The objective of ratings s at (rows, cols) of a matrix of this shape, in any order, each entry at most once.

    `order` of the result says where each kept entry came from: kept.s == s[kept.order].
    """
    i, j = np.asarray(rows, np.int64).ravel(), np.asarray(cols, np.int64).ravel()
    values = np.asarray(s, np.float64).ravel()
    m, n = int(shape[0]), int(shape[1])
    if not len(i) == len(j) == len(values):
        raise ConfigError(f"rows, cols and s must be equally long, got {len(i)}, {len(j)} and {len(values)}.")
    if m < 1 or n < 1:
        raise ConfigError(f"shape must be two positive numbers, got {shape!r}.")
    if len(i) and not (i.min() >= 0 and i.max() < m and j.min() >= 0 and j.max() < n):
        raise ConfigError("rows and cols must lie inside the shape.")
    if not np.isfinite(values).all():
        raise ConfigError("s must hold finite numbers only.")
    if not (np.isfinite(ridge) and ridge >= 0):
        raise ConfigError(f"ridge must be a number of at least 0, got {ridge!r}.")
    flat = i * n + j
    order = np.argsort(flat, kind="stable")
    if (np.diff(flat[order]) == 0).any():
        raise ConfigError("rows and cols must name each entry at most once.")
    i, j = i[order], j[order]
    indptr = np.searchsorted(i, np.arange(m + 1))
    return Objective(i, j, values[order], (m, n), link, float(ridge), indptr, order)
