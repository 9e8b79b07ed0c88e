"""Factored matrices and their spectra against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from hushrec.onebit import lowrank, spectral
from hushrec.onebit.lowrank import Entries, LowRank
from hushrec.onebit.spectral import Sparse, Structured, project_nuclear, simplex_projection


def random_low(m: int, n: int, r: int, seed: int) -> LowRank:
    rng = np.random.default_rng(seed)
    return LowRank(rng.standard_normal((m, r)), rng.standard_normal((n, r)))


def structured(m: int, n: int, seed: int = 0, dense: bool = False) -> Structured:
    """Rank 5 that stands out, plus two sparse parts (and a dense one)."""
    low = random_low(m, n, 5, seed)
    parts = tuple(Sparse.of(sp.random(m, n, 0.05, format="csr", rng=seed + k)) for k in range(2))
    return Structured(low, parts, 0.01 * np.ones((m, n)) if dense else None)


def dense_projection(M: np.ndarray, radius: float) -> np.ndarray:
    u, s, vt = np.linalg.svd(M, full_matrices=False)
    return (u * simplex_projection(s, radius)) @ vt


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 6), st.floats(0.05, 8.0), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_entry_over_the_limit_is_missed(m, n, r, limit, seed):
    X = random_low(m, n, r, seed)
    full = X.toarray().ravel()
    found = X.exceeding(limit)
    assert np.array_equal(found.flat, np.flatnonzero(np.abs(full) > limit))
    assert np.allclose(found.values, full[found.flat], rtol=1e-12)


def test_blocks_of_any_size_find_the_same(monkeypatch):
    X = random_low(83, 57, 4, 1)
    whole = X.exceeding(2.5)
    monkeypatch.setattr(lowrank, "BLOCK", 100)
    parts = X.exceeding(2.5)
    assert np.array_equal(whole.flat, parts.flat)
    assert len(whole.flat) > 100


def test_factored_arithmetic_is_that_of_the_dense_matrices():
    X, Y = random_low(20, 13, 3, 0), random_low(20, 13, 2, 1)
    assert X.inner(Y) == pytest.approx(float((X.toarray() * Y.toarray()).sum()))
    assert np.allclose(X.towards(Y, 0.25).toarray(), 0.75 * X.toarray() + 0.25 * Y.toarray())
    assert X.towards(Y, 0.25).rank == 5
    assert X.nuclear_bound >= np.linalg.norm(X.toarray(), "nuc")
    assert X.compressed().nuclear_bound == pytest.approx(np.linalg.norm(X.toarray(), "nuc"))
    rows, cols = np.array([0, 19, 3]), np.array([12, 0, 3])
    assert np.allclose(X.entries(rows, cols), X.toarray()[rows, cols])


def test_sparse_entries_look_up_and_lay_out():
    y = Entries(np.array([1, 5, 11]), np.array([2.0, 0.0, -1.0]))
    assert y.at(np.array([0, 1, 5, 11, 12])).tolist() == [0, 2, 0, -1, 0]
    assert y.nonzero().flat.tolist() == [1, 11]
    assert np.array_equal(y.tocsr((4, 3)).toarray().ravel()[[1, 5, 11]], y.values)
    assert lowrank.merged(np.array([1, 4]), np.array([0, 4, 9])).tolist() == [0, 1, 4, 9]


def test_products_do_not_depend_on_the_number_of_cores(monkeypatch):
    matrix = sp.random(900, 700, 0.2, format="csr", rng=0)
    right = np.random.default_rng(0).standard_normal((700, 40))
    results = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(lowrank, "available_cores", lambda cores=cores: cores)
        out = np.zeros((900, 40))
        lowrank.add_product(matrix, right, out)
        results.append(out)
    assert np.allclose(results[0], matrix @ right)
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("dense", [False, True])
def test_structured_products_are_those_of_the_laid_out_matrix(dense):
    M = structured(40, 25, dense=dense)
    full = M.rows(0, 40)
    P = np.random.default_rng(3).standard_normal((25, 4))
    assert np.allclose(M.apply(P), full @ P)
    assert np.allclose(M.apply_transposed(full @ P), full.T @ (full @ P))
    assert np.allclose(M.gram(), full.T @ full)
    assert np.allclose(M.transposed().gram(), full.T @ full)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=8), st.floats(0.01, 60))
@settings(max_examples=40, deadline=None)
def test_simplex_projection_is_the_nearest_point(values, radius):
    s = np.sort(values)[::-1]
    p = simplex_projection(s, radius)
    assert p.min() >= 0
    assert p.sum() <= radius * (1 + 1e-12) + 1e-12
    ball = {"type": "ineq", "fun": lambda q: radius - q.sum(), "jac": lambda q: -np.ones_like(q)}
    start = s * min(1, radius / max(s.sum(), 1e-9))
    nearest = minimize(
        lambda q: ((q - s) ** 2).sum(), start, jac=lambda q: 2 * (q - s), bounds=[(0, None)] * len(s), constraints=ball
    )
    assert ((p - s) ** 2).sum() <= nearest.fun + 1e-6 * max(1.0, nearest.fun)


# 30 columns: full decomposition; 170: block steps; a wide ball: the Gram matrix
@pytest.mark.parametrize(("m", "n", "share"), [(30, 50, 0.5), (240, 170, 0.5), (170, 240, 0.5), (170, 240, 1.3)])
def test_the_nuclear_projection_is_that_of_the_whole_decomposition(m, n, share):
    M = structured(m, n)
    full = M.rows(0, m)
    radius = share * LowRank(M.low.left, M.low.right).compressed().nuclear_bound
    got = project_nuclear(M, radius, tolerance=1e-9, passes=400)
    assert np.linalg.norm(got.projected.toarray() - dense_projection(full, radius)) < 1e-7 * radius
    assert np.linalg.norm(got.projected.toarray(), "nuc") <= radius * (1 + 1e-12)
    Z = got.projected.toarray()
    assert got.energy == pytest.approx(float((Z * full).sum() - 0.5 * (Z * Z).sum()), rel=1e-9)


def test_a_stopped_projection_is_in_the_ball_and_knows_its_error():
    M = structured(240, 170)
    wanted = dense_projection(M.rows(0, 240), 400.0)
    for passes in (1, 2, 4):
        got = project_nuclear(M, 400.0, passes=passes)
        Z = got.projected.toarray()
        assert np.linalg.norm(Z, "nuc") <= 400.0 * (1 + 1e-9)
        off = np.linalg.norm(Z - wanted)
        assert off <= 3 * got.error + 1e-9 or got.error == np.inf


def test_the_zero_matrix_and_a_ball_that_holds_everything():
    zero = Structured(LowRank.zeros((300, 200)))
    assert project_nuclear(zero, 5.0).projected.rank == 0
    M = structured(240, 170)
    everything = project_nuclear(M, 1e9)
    assert np.allclose(everything.projected.toarray(), M.rows(0, 240), atol=1e-5)


@pytest.mark.parametrize(("m", "n"), [(30, 50), (240, 170)])
def test_the_proved_norm_is_above_and_close(m, n):
    M = structured(m, n)
    true = np.linalg.norm(M.rows(0, m), 2)
    basis = np.random.default_rng(0).standard_normal((n, 8))
    assert spectral.norm_estimate(M, basis) <= true * (1 + 1e-12)
    assert true * (1 - 1e-12) <= spectral.norm_bound(M, basis) <= true * (1 + 1e-5)
    assert true <= spectral.norm_bound(M, np.zeros((n, 0))) <= true * (1 + 1e-5)
    assert np.allclose(spectral.singular_values(M)[:5], np.linalg.svd(M.rows(0, m), compute_uv=False)[:5])
