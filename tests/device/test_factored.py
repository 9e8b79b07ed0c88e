"""The user half of the factored solvers against plain NumPy, one user at a time."""

import numpy as np
import pytest

from hushrec.device import factored, kernels
from making import csr, random_ratings

N, R, M = 12, 3, 40
RNG = np.random.default_rng(3)
LOADINGS = RNG.normal(size=(N, R))
PRECISION, NOISE = np.array([2.0, 1.0, 0.5]), RNG.uniform(0.3, 1.0, N)
RATINGS = random_ratings(users=M, items=N, seed=2)
INDPTR, INDICES, VALUES = (array.astype(np.float64) if array.dtype == np.float32 else array for array in csr(RATINGS))
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def rows():
    for i in range(M):
        own = slice(INDPTR[i], INDPTR[i + 1])
        yield i, INDICES[own], VALUES[own], own


def isometric(matrix):
    down, across = np.tril_indices(len(matrix))
    return np.where(down == across, 1.0, np.sqrt(2.0)) * matrix[down, across]


def cut(vector, longest):
    return vector * min(1.0, longest / max(np.linalg.norm(vector), 1e-300))


def test_energy_is_the_mean_square():
    found = factored.row_energy(INDPTR, VALUES)
    for i, items, values, _ in rows():
        np.testing.assert_allclose(found[i, 0], np.mean(values**2) if len(items) else 0.0, **CLOSE)


@pytest.mark.parametrize("most", [1, 4, 100])
def test_weights_have_unit_norm_and_prefer_priority(most):
    item_weights, priority = RNG.uniform(0.5, 2.0, N), RNG.integers(0, 4, N).astype(float)
    found = factored.user_weights(INDPTR, INDICES, item_weights, priority, most)
    scales = factored.user_scales(INDPTR, INDICES, item_weights, priority, most)
    for i, items, _, own in rows():
        expected = np.zeros(len(items))
        chosen = np.argsort(-priority[items], kind="stable")[:most]
        expected[chosen] = item_weights[items[chosen]]
        expected /= np.linalg.norm(expected) or 1.0
        np.testing.assert_allclose(found[own], expected, **CLOSE)
        np.testing.assert_allclose(scales[i] * item_weights[items[chosen]], expected[chosen], **CLOSE)


def test_moments_are_those_of_the_posterior():
    deviations = VALUES - 3.0
    users = kernels.posterior_means(INDPTR, INDICES, deviations, LOADINGS, PRECISION, NOISE)
    moments = factored.second_moments(users)
    points = moments.copy()
    factored.add_covariances(INDPTR, INDICES, LOADINGS, PRECISION, NOISE, moments)
    for i, items, _, own in rows():
        seen = LOADINGS[items]
        covariance = np.linalg.inv(np.diag(PRECISION) + seen.T @ (seen / NOISE[items][:, None]))
        mean = covariance @ seen.T @ (deviations[own] / NOISE[items])
        np.testing.assert_allclose(points[i], isometric(np.outer(mean, mean)), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(moments[i], isometric(np.outer(mean, mean) + covariance), rtol=1e-10, atol=1e-12)


def test_preferences_solve_every_users_own_system():
    prior = 0.3 * LOADINGS.T @ LOADINGS + np.eye(R)
    found = factored.preferences(INDPTR, INDICES, LOADINGS, prior)
    for i, items, _, _ in rows():
        seen = LOADINGS[items]
        np.testing.assert_allclose(found[i], np.linalg.solve(prior + seen.T @ seen, seen.sum(axis=0)), rtol=1e-10)


def by_hand(items, values, start, path, balances, steps, density, catalogue, longest):
    share = max(density, len(items) / catalogue)
    user = cut(values @ start[items] / share, longest)
    for loadings, balance, step in zip(path, balances, steps, strict=True):
        errors = loadings[items] @ user - values
        user = cut(user - step / share * errors @ loadings[items] - step / 2 * user @ balance, longest)
    return user


@pytest.mark.parametrize("catalogue", [float(N), 1e15])
def test_replayed_factors_are_the_rounds_of_algorithm_1(catalogue):
    path = RNG.normal(size=(4, N, R))
    symmetric = RNG.normal(size=(4, R, R))
    past = LOADINGS, path, symmetric + symmetric.transpose(0, 2, 1), RNG.uniform(0.01, 0.1, 4)
    rules = 0.4, catalogue, 1.3
    found = factored.replay(INDPTR, INDICES, VALUES, *past, *rules)
    for i, items, values, _ in rows():
        np.testing.assert_allclose(found[i], by_hand(items, values, *past, *rules), rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(found, axis=1).max() <= 1.3 * (1 + 1e-12)


def test_row_errors_are_cut_as_one_row():
    users = RNG.normal(size=(M, R))
    found = factored.row_errors(INDPTR, INDICES, VALUES, users, LOADINGS, 4.0)
    longest = 0.0
    for i, items, values, own in rows():
        row = LOADINGS[items] @ users[i] - values
        np.testing.assert_allclose(found[own], cut(row, 4.0) if len(items) else row, rtol=1e-10, atol=1e-12)
        longest = max(longest, float(np.linalg.norm(row)))
    assert longest > 4.0
