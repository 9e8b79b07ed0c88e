"""The tastes of implicit feedback against plain NumPy, and against the model's own log-likelihood."""

import numpy as np
import pytest

from hushrec.device import clicks

ITEMS, RANK = 8, 2


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    popularity = rng.dirichlet(np.ones(ITEMS))
    leanings = rng.normal(size=(ITEMS, RANK)) * 0.3
    return popularity, leanings, (popularity[:, None] * leanings).T @ leanings, popularity @ leanings


def test_tastes_are_the_normal_equations(model):
    _, leanings, gram, centre = model
    indptr, indices = np.array([0, 3, 3, 4, 12]), np.array([0, 2, 5, 7, *range(ITEMS)], dtype=np.int32)
    found = clicks.tastes(indptr, indices, leanings, gram, centre)
    for user in range(4):
        used = indices[indptr[user] : indptr[user + 1]]
        right = leanings[used].sum(axis=0) - len(used) * centre
        np.testing.assert_allclose(found[user], np.linalg.solve(np.eye(RANK) + len(used) * gram, right), rtol=1e-12)
    assert not found[1].any()


def test_tastes_are_a_newton_step_on_the_gaussian_likelihood_about_the_expected_uses(model):
    """They minimise Σ_j (x_j − k q_j (1 + b_j·u))² / (k q_j) + |u|²: what she did not use counts as well."""
    popularity, leanings, gram, centre = model
    indices = np.array([1, 4, 6], dtype=np.int32)
    (found,) = clicks.tastes(np.array([0, 3]), indices, leanings, gram, centre)
    uses = np.bincount(indices, minlength=ITEMS)
    expected = 3 * popularity

    def loss(tastes):
        return np.square(uses - expected * (1 + leanings @ tastes)) @ (1 / expected) + tastes @ tastes

    for step in (*np.eye(RANK), *-np.eye(RANK)):
        assert loss(found) < loss(found + 1e-3 * step)
