"""The compiled kernels against plain NumPy, and one row alone against the same row among many."""

import numpy as np
import pytest

from hushrec.device import kernels, reference
from making import csr, random_ratings

RATINGS = random_ratings(users=80, items=30, seed=3)
RNG = np.random.default_rng(4)
MEANS = RNG.uniform(2, 4, 30)
LOADINGS = RNG.normal(size=(30, 5))
PRECISION = RNG.uniform(0.5, 2, 5)
NOISE = RNG.uniform(0.5, 2, 30)
USERS = RNG.normal(size=(80, 5))


def calls(module, ratings):
    indptr, indices, values = csr(ratings)
    deviations = values - MEANS[indices]
    return {
        "residuals": module.residuals(indptr, indices, values, MEANS, 3.0),
        "row_means": module.row_means(indptr, indices, values, MEANS),
        "posterior_means": module.posterior_means(indptr, indices, deviations, LOADINGS, PRECISION, NOISE),
        "projections": module.projections(indptr, indices, deviations, LOADINGS, 3.0, 2.5),
        "predict_at": module.predict_at(indptr, indices, MEANS, LOADINGS, USERS[: ratings.n_users]),
    }


@pytest.mark.parametrize("name", calls(reference, RATINGS))
def test_kernel_equals_plain_numpy(name):
    np.testing.assert_allclose(calls(kernels, RATINGS)[name], calls(reference, RATINGS)[name], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["residuals", "row_means", "posterior_means", "projections"])
def test_one_row_alone_equals_the_row_among_all(name):
    together = calls(kernels, RATINGS)[name]
    for user in range(RATINGS.n_users):
        own = RATINGS.rows(user, user + 1)
        alone = calls(kernels, own)[name]
        where = slice(RATINGS.indptr[user], RATINGS.indptr[user + 1]) if name == "residuals" else slice(user, user + 1)
        np.testing.assert_array_equal(alone, together[where])


def test_offset_prior_infinity_leaves_the_offset_in_and_zero_takes_it_all():
    indptr, indices, values = csr(RATINGS)
    np.testing.assert_allclose(
        kernels.residuals(indptr, indices, values, MEANS, np.inf), values - MEANS[indices], atol=1e-12
    )
    own_sums = np.add.reduceat(kernels.residuals(indptr, indices, values, MEANS, 0.0), indptr[2:-1])
    np.testing.assert_allclose(own_sums, 0, atol=1e-10)


def test_activity_weights_give_every_user_a_unit_row():
    weights = kernels.activity_weights(RATINGS.indptr, 0.5)
    rows = [weights[RATINGS.indptr[i] : RATINGS.indptr[i + 1]] for i in range(RATINGS.n_users)]
    assert [np.round(np.sum(row**2), 12) for row in rows] == [float(len(row) > 0) for row in rows]
