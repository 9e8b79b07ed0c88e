"""The uncertainty kernels against plain NumPy: the covariance as an inverse, the scale and the worth by brute force."""

import numpy as np
import pytest

from hushrec.device import kernels, uncertainty

USERS, ITEMS, RANK = 6, 9, 3


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    loadings = np.column_stack((np.ones(ITEMS), rng.normal(size=(ITEMS, RANK - 1))))
    return loadings, np.array([4.0, 1.0, 2.0]), rng.uniform(0.5, 2.0, ITEMS)


@pytest.fixture(scope="module")
def rows():
    """Users with 0, 1, 2, ... ratings."""
    rng = np.random.default_rng(4)
    seen = [np.sort(rng.choice(ITEMS, k, replace=False)) for k in range(USERS)]
    indptr = np.concatenate(([0], np.cumsum([len(one) for one in seen]))).astype(np.int64)
    indices = np.concatenate(seen).astype(np.int32)
    return indptr, indices, rng.normal(size=len(indices))


@pytest.fixture(scope="module")
def everywhere():
    return np.arange(USERS + 1) * ITEMS, np.tile(np.arange(ITEMS), USERS)


def covariance(seen, loadings, precision, noise):
    return np.linalg.inv(np.diag(precision) + loadings[seen].T @ (loadings[seen] / noise[seen, None]))


def own(rows, user):
    span = slice(rows[0][user], rows[0][user + 1])
    return rows[1][span], rows[2][span]


def test_spreads_are_the_diagonal_of_the_posterior_covariance(model, rows, everywhere):
    found = uncertainty.spreads_at(*rows[:2], *everywhere, *model).reshape(USERS, ITEMS)
    for user in range(USERS):
        matrix = covariance(own(rows, user)[0], *model)
        np.testing.assert_allclose(found[user], np.diag(model[0] @ matrix @ model[0].T), rtol=1e-12)


def test_own_scale_is_the_marginal_quadratic_form(model, rows):
    """Q = dᵀ (noise + L P⁻¹ Lᵀ)⁻¹ d: the deviations' length in the model's own prior covariance."""
    loadings, precision, noise = model
    found = uncertainty.own_scales(*rows, *model, 5.0)
    for user in range(USERS):
        seen, deviations = own(rows, user)
        marginal = np.diag(noise[seen]) + loadings[seen] @ np.diag(1 / precision) @ loadings[seen].T
        expected = (5.0 + deviations @ np.linalg.solve(marginal, deviations)) / (5.0 + len(seen))
        assert found[user] == pytest.approx(expected, rel=1e-12)
    assert found[0] == 1.0


def test_worth_is_how_much_the_summed_variance_falls(model, rows, everywhere):
    loadings, _, noise = model
    gram = loadings.T @ loadings
    found = uncertainty.worth_of_asking(*rows[:2], *everywhere, *model, gram).reshape(USERS, ITEMS)
    for user in range(USERS):
        before = covariance(own(rows, user)[0], *model)
        for item in range(ITEMS):
            after = np.linalg.inv(np.linalg.inv(before) + np.outer(loadings[item], loadings[item]) / noise[item])
            fallen = np.trace(loadings @ (before - after) @ loadings.T)
            assert found[user, item] == pytest.approx(fallen, rel=1e-9)


def test_intervals_of_the_model_itself_cover_what_they_should(model):
    """Statistical: 4,000 users drawn from the model, everyone with her own scale; far from level ± 0.05 either way."""
    from scipy.special import stdtrit

    loadings, precision, noise = model
    rng, users, doubt = np.random.default_rng(7), 4000, 8.0
    scales = (doubt / 2) / rng.gamma(doubt / 2, size=users)
    factors = rng.normal(size=(users, RANK)) / np.sqrt(precision) * np.sqrt(scales)[:, None]
    ratings = factors @ loadings.T + rng.normal(size=(users, ITEMS)) * np.sqrt(noise * scales[:, None])
    indptr, indices = np.arange(users + 1) * (ITEMS - 1), np.tile(np.arange(ITEMS - 1, dtype=np.int32), users)
    row = indptr, indices, ratings[:, :-1].ravel()
    last = np.arange(users + 1), np.full(users, ITEMS - 1)
    middle = kernels.predict_at(*last, np.zeros(ITEMS), loadings, kernels.posterior_means(*row, *model))
    variance = uncertainty.own_scales(*row, *model, doubt) * (
        uncertainty.spreads_at(*row[:2], *last, *model) + noise[-1]
    )
    reach = stdtrit(doubt + ITEMS - 1, 0.95) * np.sqrt(variance)
    covered = np.mean(np.abs(ratings[:, -1] - middle) <= reach)
    assert abs(covered - 0.9) < 0.02  # four standard errors
    assert abs(np.mean(np.abs(ratings[:, -1] - middle) <= 0.8 * reach) - 0.9) > 0.05
    assert abs(np.mean(np.abs(ratings[:, -1] - middle) <= 1.25 * reach) - 0.9) > 0.04
