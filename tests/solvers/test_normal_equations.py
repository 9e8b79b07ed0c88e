"""Noisy normal equations: coordinates, positive semidefinite repair, posterior means against closed forms."""

import numpy as np

from hushrec.solvers.normal_equations import Equations, positive, posterior, regularised, solve, square

RNG = np.random.default_rng(0)
N, R = 400, 3


def true_equations(weights):
    factors = RNG.normal(size=(N, 50, R))
    return weights[:, None, None] * np.einsum("jka,jkb->jab", factors, factors) / 50


def test_isometric_coordinates_come_back_as_the_matrix():
    matrix = RNG.normal(size=(R, R))
    matrix += matrix.T
    down, across = np.tril_indices(R)
    coordinates = np.where(down == across, 1.0, np.sqrt(2.0)) * matrix[down, across]
    np.testing.assert_allclose(square(np.stack((coordinates, 2 * coordinates))), [matrix, 2 * matrix], rtol=1e-14)


def test_repair_leaves_good_matrices_and_finds_the_nearest_otherwise():
    good = true_equations(np.ones(N))
    np.testing.assert_allclose(positive(good), good, rtol=1e-9, atol=1e-9)
    bad = np.diag([2.0, 1.0, -5.0])
    np.testing.assert_allclose(positive(bad), np.diag([2.0, 1.0, 0.0]), atol=1e-8)


def test_without_noise_nothing_is_shrunk():
    normal = true_equations(np.ones(N))
    found = regularised(Equations(normal, np.zeros((N, R)), 0.0, 0.0), np.ones(N))
    np.testing.assert_allclose(found.normal, normal, rtol=1e-9, atol=1e-9)


def test_shrinking_brings_noisy_matrices_nearer_to_the_truth():
    weights = RNG.uniform(0.2, 3.0, N)
    truth = true_equations(weights)
    noise = RNG.normal(size=(N, R, R))
    noise = (noise + noise.transpose(0, 2, 1)) / 2  # deviation 1 on the diagonal, 1/√2 off it
    found = regularised(Equations(truth + noise, np.zeros((N, R)), 1.0, 1.0), weights).normal
    assert np.square(found - truth).sum() < 0.2 * np.square(noise).sum()
    assert np.linalg.eigvalsh(found).min() > 0


def test_the_posterior_is_that_of_the_gaussian_model():
    normal, right, spread = true_equations(np.ones(N)), RNG.normal(size=(N, R)), np.array([0.5, 1.0, 2.0])
    error, sigma = 0.3, 0.7
    means, variances = posterior(Equations(normal, right, 0.0, sigma), spread, error)
    for j in (0, 17, 200):
        covariance = normal[j] @ np.diag(spread) @ normal[j] + error * normal[j] + sigma**2 * np.eye(R)
        gain = np.diag(spread) @ normal[j] @ np.linalg.inv(covariance)
        np.testing.assert_allclose(means[j], gain @ right[j], rtol=1e-9)
        np.testing.assert_allclose(
            variances[j], np.diag(np.diag(spread) - gain @ normal[j] @ np.diag(spread)), rtol=1e-8
        )


def test_a_fixed_ridge_is_the_textbook_solution_and_a_known_offset_moves_to_the_right():
    normal, right = true_equations(np.ones(N)), RNG.normal(size=(N, R))
    equations = Equations(normal, right, 0.0, 0.0)
    found = solve(equations, 0.1)
    np.testing.assert_allclose(found[5], np.linalg.solve(normal[5] + 0.1 * np.eye(R), right[5]), rtol=1e-10)
    rest = solve(equations.without_first(), 0.1)
    expected = np.linalg.solve(normal[5, 1:, 1:] + 0.1 * np.eye(R - 1), right[5, 1:] - normal[5, 1:, 0])
    np.testing.assert_allclose(rest[5], expected, rtol=1e-10)
