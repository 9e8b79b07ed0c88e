"""Singular values of "low rank + sparse" matrices: projection on the nuclear-norm ball, and proved bounds.

    P(M) = Σ (σ_i - θ)₊ u_i v_iᵀ,  θ >= 0 the least with Σ (σ_i - θ)₊ <= τ          (projection on ‖X‖_* <= τ)

Only the σ_i above θ are needed: block power steps from the last subspace, with Rayleigh-Ritz and a few spare
columns. If more than a share of the spectrum survives, the Gram matrix of the smaller side is decomposed instead.
Every P(M) returned lies in the ball however early the steps were stopped; `error` estimates its distance from P(M).
A bound ‖A‖ <= t is proved, up to rounding, by a Cholesky factor of t² I - AᵀA.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from hushrec.onebit.lowrank import BLOCK, Array, LowRank, add_product

SMALL = 160
"""Smaller side up to which a full singular value decomposition is the quickest."""

WIDE = 0.35
"""Share of the smaller side beyond which the whole spectrum is computed at once."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix by rows and by columns, so that both products run along contiguous memory."""

    by_row: sp.csr_matrix
    by_column: sp.csr_matrix

    @staticmethod
    def of(matrix: sp.csr_matrix) -> Sparse:
        return Sparse(matrix, matrix.T.tocsr())


@dataclass(frozen=True, eq=False)
class Structured:
    """M = low-rank part + sparse parts (+ a dense part): all that is asked of M is products with thin matrices."""

    low: LowRank
    sparse: tuple[Sparse, ...] = ()
    dense: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.low.shape

    def plus(self, part: sp.csr_matrix) -> Structured:
        """M + part."""
        return Structured(self.low, (*self.sparse, Sparse.of(part)), self.dense)

    def apply(self, right: Array) -> Array:
        """M @ right."""
        out = self.low.left @ (self.low.right.T @ right)
        for part in self.sparse:
            add_product(part.by_row, right, out)
        return out if self.dense is None else out + self.dense @ right

    def apply_transposed(self, left: Array) -> Array:
        """M.T @ left."""
        return self.transposed().apply(left)

    def rows(self, start: int, stop: int) -> Array:
        """M laid out for a range of rows."""
        out = self.low.left[start:stop] @ self.low.right.T
        for part in self.sparse:
            block = part.by_row[start:stop].tocoo()
            out[block.row, block.col] += block.data
        return out if self.dense is None else out + self.dense[start:stop]

    def gram(self) -> Array:
        """M Mᵀ or MᵀM, whichever is smaller, from blocks of rows of the longer side."""
        if self.shape[0] < self.shape[1]:
            return self.transposed().gram()
        m, n = self.shape
        out, step = np.zeros((n, n)), max(1, BLOCK // n)
        for start in range(0, m, step):
            block = self.rows(start, min(m, start + step))
            out += block.T @ block
        return out

    def transposed(self) -> Structured:
        """Mᵀ, a view."""
        parts = tuple(Sparse(part.by_column, part.by_row) for part in self.sparse)
        dense = None if self.dense is None else self.dense.T
        return Structured(LowRank(self.low.right, self.low.left), parts, dense)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """P(M) and what was learned on the way: singular triplets above θ, and a subspace to start from next time."""

    left: Array
    right: Array
    singular: Array
    kept: Array
    basis: Array
    error: float

    @property
    def projected(self) -> LowRank:
        """P(M), balanced factors."""
        root = np.sqrt(self.kept)
        return LowRank(self.left * root, self.right * root)

    @property
    def energy(self) -> float:
        """max over the ball of <S, M> - ‖S‖²/2, attained at P(M)."""
        return float(self.kept @ self.singular - 0.5 * self.kept @ self.kept)


def simplex_projection(singular: Array, radius: float) -> Array:
    """The projection of descending, nonnegative values on {p >= 0, Σ p <= radius}."""
    if singular.sum() <= radius:
        return singular.copy()
    excess = (np.cumsum(singular) - radius) / np.arange(1, len(singular) + 1)
    last = np.flatnonzero(singular > excess)[-1]
    return np.maximum(singular - excess[last], 0.0)


def project_nuclear(
    M: Structured,
    radius: float,
    *,
    basis: Array | None = None,
    tolerance: float = 0.0,
    passes: int = 30,
    seed: int = 0,
) -> Spectrum:
    """The projection of M on the nuclear-norm ball, to about `tolerance` in Frobenius norm.

    basis: (n, k) columns to start from. passes: the most block power steps; after that the best so far is returned.
    """
    side = min(M.shape)
    if side <= SMALL:
        return _whole_spectrum(M, radius)
    rng = np.random.default_rng(seed)
    if basis is None or basis.shape[1] == 0:
        basis = rng.standard_normal((M.shape[1], 16))
    image, best = M.apply(basis), None
    for _ in range(passes):
        if basis.shape[1] > WIDE * side:
            return _whole_spectrum(M, radius)
        best = _rayleigh_ritz(M, image, radius)
        basis, r = best.basis, len(best.kept)
        if r >= basis.shape[1] - 2:
            basis = np.hstack([basis, rng.standard_normal((M.shape[1], max(16, basis.shape[1] // 2)))])
            image = M.apply(basis)
            continue
        image = M.apply(basis)
        error = _residual(best, image[:, :r])
        best = Spectrum(best.left, best.right, best.singular, best.kept, _trimmed(basis, r), error)
        if error <= tolerance:
            break
    return best if best is not None else _whole_spectrum(M, radius)


def _rayleigh_ritz(M: Structured, image: Array, radius: float) -> Spectrum:
    """The singular triplets of M compressed to the span of `image` on the left, projected."""
    q = _orthonormal(image)
    turned = M.apply_transposed(q)
    w, u = np.linalg.eigh(turned.T @ turned)
    s, u = np.sqrt(np.maximum(w[::-1], 0.0)), u[:, ::-1]
    kept = simplex_projection(s, radius)
    # the square root of rounding error is all that a Gram matrix resolves; the directions below it are spare
    s = np.maximum(s, 1e-8 * s[0] + 1e-300)
    basis = (turned @ u) / s
    r = int(np.count_nonzero(kept))
    return Spectrum(q @ u[:, :r], basis[:, :r], s[:r], kept[:r], basis, np.inf)


def _orthonormal(columns: Array) -> Array:
    """An orthonormal basis of the span: by Cholesky when the columns are nearly orthogonal, as Ritz vectors are."""
    size = np.linalg.norm(columns, axis=0)
    if size.min(initial=np.inf) > 1e-12 * size.max(initial=0.0):
        scaled = columns / size
        try:
            triangle = np.linalg.cholesky(scaled.T @ scaled)
        except np.linalg.LinAlgError:
            triangle = np.zeros((1, 1))
        if triangle.diagonal().min() > 1e-2:
            return np.asarray(sla.solve_triangular(triangle, scaled.T, lower=True, check_finite=False).T, np.float64)
    return np.asarray(np.linalg.qr(columns)[0], np.float64)


def _residual(found: Spectrum, image: Array) -> float:
    """First-order distance from the exact projection: each triplet's residual, weighted as P weights it."""
    misfit = np.linalg.norm(image - found.left * found.singular, axis=0)
    return float(np.linalg.norm(misfit * found.kept / np.maximum(found.singular, 1e-300)))


def _trimmed(basis: Array, rank: int) -> Array:
    """The surviving directions and a fourth as many spare ones (at least 8)."""
    return basis[:, : rank + max(8, rank // 4)]


def _whole_spectrum(M: Structured, radius: float) -> Spectrum:
    """The same projection from the full decomposition: directly when small, else from the smaller Gram matrix."""
    if min(M.shape) <= SMALL:
        u, s, vt = np.linalg.svd(M.rows(0, M.shape[0]), full_matrices=False)
        kept = simplex_projection(s, radius)
        r = int(np.count_nonzero(kept))
        return Spectrum(u[:, :r], vt[:r].T, s[:r], kept[:r], vt[:r].T, 0.0)
    w, v = sla.eigh(M.gram(), overwrite_a=True, check_finite=False)
    s, v = np.sqrt(np.maximum(w[::-1], 0.0)), v[:, ::-1]
    kept = simplex_projection(s, radius)
    # a Gram matrix knows singular values to the root of rounding error: below that a direction is noise
    r = int(np.count_nonzero((kept > 0) & (s > 1e-7 * s[0])))
    s, v, kept = s[:r], v[:, :r], kept[:r]
    if M.shape[0] < M.shape[1]:
        left, right = v, M.apply_transposed(v) / s
    else:
        left, right = M.apply(v) / s, v
    return Spectrum(left, right, s, kept, right, 0.0)


def singular_values(M: Structured) -> Array:
    """All singular values of M, descending."""
    if min(M.shape) <= SMALL:
        return np.asarray(np.linalg.svd(M.rows(0, M.shape[0]), compute_uv=False), np.float64)
    w = sla.eigh(M.gram(), eigvals_only=True, overwrite_a=True, check_finite=False)
    return np.sqrt(np.maximum(w[::-1], 0.0))


def singular_estimates(M: Structured, basis: Array, steps: int = 1) -> Array:
    """The largest singular values of M as seen from a subspace: none above the true one of its rank."""
    if min(M.shape) <= SMALL:
        return singular_values(M)
    for _ in range(steps):
        basis = M.apply_transposed(_orthonormal(M.apply(basis)))
    triangle: Array = np.linalg.qr(basis)[1]
    return np.asarray(np.linalg.svd(triangle, compute_uv=False), np.float64)


def norm_estimate(M: Structured, basis: Array, steps: int = 1) -> float:
    """The largest singular value of M as seen from a subspace: never above the true one."""
    return float(singular_estimates(M, basis, steps).max(initial=0.0))


def norm_bound(M: Structured, basis: Array) -> float:
    """A number proved, up to rounding, to be no less than the largest singular value of M."""
    if min(M.shape) <= SMALL:
        return float(singular_values(M)[0]) * (1.0 + 1e-13)
    if basis.shape[1] == 0:
        basis = np.random.default_rng(0).standard_normal((M.shape[1], 8))
    t, gram = norm_estimate(M, basis, steps=8), M.gram()
    for margin in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
        if _dominates((t * (1.0 + margin)) ** 2, gram):
            return t * (1.0 + margin)
    return float(np.sqrt(np.abs(gram).sum(axis=1).max()))


def _dominates(square: float, gram: Array) -> bool:
    """Whether square · I - gram is positive definite."""
    shifted = -gram
    shifted[np.diag_indices_from(shifted)] += square
    try:
        sla.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True
