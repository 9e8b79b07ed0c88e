"""The projection on ball ∩ box: against Dykstra's method, against CVXPY, and its proof against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrec.errors import ConfigError
from hushrec.onebit.lowrank import LowRank
from hushrec.onebit.projection import project, retract
from hushrec.onebit.spectral import simplex_projection


def dykstra(V: np.ndarray, radius: float, bound: float, rounds: int) -> np.ndarray:
    """The textbook method: slow, obvious."""
    Y = np.zeros_like(V)
    for _ in range(rounds):
        u, s, vt = np.linalg.svd(V - Y, full_matrices=False)
        Z = (u * simplex_projection(s, radius)) @ vt
        Y = Y + Z - np.clip(Y + Z, -bound, bound)
    return np.clip(Z, -bound, bound)


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.3, 30), st.floats(0.05, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_answer_is_feasible_and_nearer_than_any_other_feasible_point(m, n, radius, bound, seed):
    rng = np.random.default_rng(seed)
    V = 2 * rng.standard_normal((m, n))
    X, proof = project(V, nuclear_radius=radius, entry_bound=bound)
    assert np.abs(X).max() <= bound
    assert np.linalg.norm(X, "nuc") <= radius * (1 + 1e-12)
    assert proof.distance <= 1e-6 * (1 + np.linalg.norm(V))
    # <V - X*, S - X*> <= 0 for all S in the set, up to the proved distance
    for _ in range(5):
        S, _ = project(rng.standard_normal((m, n)), nuclear_radius=radius, entry_bound=bound, tolerance=1e-2)
        slack = proof.distance * (np.linalg.norm(V) + 2 * np.linalg.norm(S) + 2 * np.linalg.norm(X))
        assert np.vdot(V - X, S - X) <= slack + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_dykstra(seed):
    V = 2 * np.random.default_rng(seed).standard_normal((20, 14))
    X, proof = project(V, nuclear_radius=18.0, entry_bound=0.6)
    assert np.linalg.norm(X - dykstra(V, 18.0, 0.6, 4000)) < 1e-6
    assert np.mean(np.abs(X) > 0.6 - 1e-6) > 0.05
    assert proof.nuclear_norm <= 18.0 * (1 + 1e-12)
    assert proof.largest_entry <= 0.6


def test_spectral_steps_need_far_fewer_spectra_where_few_entries_bind():
    """Nearly rank one, with a spike: Dykstra's multiplier creeps, since one entry hardly moves a singular vector."""
    rng = np.random.default_rng(0)
    left, right = 1 + 0.2 * rng.random(60), 1 + 0.2 * rng.random(50)
    left[0], right[0] = 2 * left[0], 2 * right[0]
    V = np.outer(left, right)
    radius = 0.5 * float(np.linalg.norm(V, "nuc"))
    X, proof = project(V, nuclear_radius=radius, entry_bound=0.75)
    assert proof.distance < 1e-4
    assert proof.decompositions < 200
    assert np.linalg.norm(X - dykstra(V, radius, 0.75, 200)) > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_the_proved_distance_covers_the_true_one(seed):
    V = 2 * np.random.default_rng(seed).standard_normal((15, 15))
    exact, _ = project(V, nuclear_radius=12.0, entry_bound=0.5, tolerance=1e-7)
    for evaluations in (1, 3, 10, 30):
        X, proof = project(V, nuclear_radius=12.0, entry_bound=0.5, evaluations=evaluations)
        assert np.linalg.norm(X - exact) <= proof.distance + 1e-6
        assert proof.decompositions <= evaluations
        assert np.linalg.norm(X, "nuc") <= 12.0 * (1 + 1e-12)


def test_a_point_of_the_set_stays_and_large_matrices_go_the_same_way():
    rng = np.random.default_rng(5)
    V = rng.standard_normal((210, 2)) @ rng.standard_normal((2, 170)) / 8
    X, _ = project(V, nuclear_radius=1e4, entry_bound=10.0)
    assert np.allclose(X, V, atol=1e-6)
    X, proof = project(V, nuclear_radius=20.0, entry_bound=0.3, tolerance=1e-4)
    assert proof.distance < 1e-4 * (1 + np.linalg.norm(V))


def test_a_retracted_matrix_is_feasible_whatever_it_was():
    rng = np.random.default_rng(2)
    for scale in (0.1, 1.0, 5.0):
        Z = LowRank(scale * rng.standard_normal((90, 3)), rng.standard_normal((70, 3)))
        done, norm = retract(Z, 60.0, 1.0)
        X = done.toarray()
        assert np.abs(X).max() <= 1.0
        assert np.linalg.norm(X, "nuc") <= norm * (1 + 1e-9)
        assert norm <= 60.0 * (1 + 1e-12)
        assert np.allclose(done.rows(5, 9), X[5:9], atol=1e-13)
        assert np.allclose(done.entries(np.array([7, 0]), np.array([3, 69])), X[[7, 0], [3, 69]], atol=1e-13)


def test_it_agrees_with_cvxpy():
    cp = pytest.importorskip("cvxpy")
    V = 2 * np.random.default_rng(1).standard_normal((12, 10))
    X = cp.Variable(V.shape)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(X - V)), [cp.normNuc(X) <= 9.0, cp.abs(X) <= 0.5])
    problem.solve(solver="SCS", eps_abs=1e-9, eps_rel=1e-9, max_iters=100_000)
    got, _ = project(V, nuclear_radius=9.0, entry_bound=0.5)
    assert np.linalg.norm(got - X.value) < 1e-5


def test_settings_are_checked():
    for bad in ({"nuclear_radius": 0.0}, {"entry_bound": -1.0}, {"nuclear_radius": np.nan}):
        with pytest.raises(ConfigError, match=next(iter(bad))):
            project(np.eye(2), **({"nuclear_radius": 1.0, "entry_bound": 1.0} | bad))
    for V in (np.ones(3), np.array([[np.nan]])):
        with pytest.raises(ConfigError, match="matrix"):
            project(V, nuclear_radius=1.0, entry_bound=1.0)
