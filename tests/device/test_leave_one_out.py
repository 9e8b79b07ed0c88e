"""Leave-one-out posteriors and the regression's sums, against doing it the long way."""

import numpy as np
import pytest

from hushrec.device import kernels, posterior
from making import csr, random_ratings

RATINGS = random_ratings(users=25, items=15, seed=3)
RNG = np.random.default_rng(0)
LOADINGS, PRECISION = RNG.normal(size=(15, 4)), RNG.uniform(0.5, 2, 4)
NOISE, MEANS = RNG.uniform(0.5, 1, 15), np.full(15, 3.0)
INDPTR, INDICES, VALUES = csr(RATINGS)
DEVIATIONS = VALUES - MEANS[INDICES]


def leave_one_out():
    return posterior.leave_one_out(INDPTR, INDICES, DEVIATIONS, LOADINGS, PRECISION, NOISE)


@pytest.mark.parametrize("place", [0, 7, 31, RATINGS.n_ratings - 1])
def test_leaving_out_is_forgetting_the_rating(place):
    found, spread = leave_one_out()
    mask = np.arange(RATINGS.n_ratings) != place
    rest = RATINGS.keep(mask)
    user = int(np.searchsorted(INDPTR, place, side="right")) - 1
    indptr, indices, values = csr(rest)
    expected = kernels.posterior_means(indptr, indices, values - MEANS[indices], LOADINGS, PRECISION, NOISE)[user]
    np.testing.assert_allclose(found[place], expected, rtol=1e-10)
    own = indices[indptr[user] : indptr[user + 1]]
    covariance = np.linalg.inv(np.diag(PRECISION) + (LOADINGS[own].T / NOISE[own]) @ LOADINGS[own])
    vector = LOADINGS[INDICES[place]]
    assert spread[place] == pytest.approx(vector @ covariance @ vector, rel=1e-10)


def test_a_rating_has_no_part_in_its_own_coordinates():
    found, _ = leave_one_out()
    changed = DEVIATIONS.copy()
    changed[5] += 100.0
    again, _ = posterior.leave_one_out(INDPTR, INDICES, changed, LOADINGS, PRECISION, NOISE)
    np.testing.assert_allclose(again[5], found[5], atol=1e-9)
    assert np.abs(again[4] - found[4]).max() > 0.1


def test_regression_rows_are_the_plain_sums():
    coordinates, spread = leave_one_out()
    errors, weights = RNG.normal(size=len(INDICES)), RNG.uniform(0.5, 1, len(INDICES))
    vectors, moments = posterior.regression_rows(INDPTR, INDICES, errors, coordinates, weights, LOADINGS, spread, NOISE)
    np.testing.assert_allclose(vectors, (weights * errors)[:, None] * coordinates)
    rest = errors - np.einsum("pk,pk->p", LOADINGS[INDICES], coordinates)
    for user in range(RATINGS.n_users):
        own = slice(INDPTR[user], INDPTR[user + 1])
        second = (coordinates[own] * weights[own, None]).T @ coordinates[own]
        packed = [second[a, b] * (1 if a == b else 2**0.5) for a in range(4) for b in range(a + 1)]
        tail = [weights[own] @ rest[own] ** 2, weights[own] @ (spread[own] + NOISE[INDICES[own]])]
        np.testing.assert_allclose(moments[user], [*packed, *tail], rtol=1e-10, atol=1e-12)
