"""Grid, noise and cost of the two forms of query: closed forms, limits, and noise of the right size."""

import math

import numpy as np
import pytest
from query_examples import EXAMPLES, ITEMS
from scipy import stats

from constants import ALPHA
from hushrec.data.ratings import MAX_USERS
from hushrec.errors import ConfigError
from hushrec.privacy.forms import GramQuery, SumQuery
from hushrec.privacy.noise import SeededBits
from hushrec.privacy.queries import ItemCounts, ResidualGram, UserCount

MUS = [1e-6, 1e-3, 0.03, 1.0, 30.0, 1e4]
FACTORS = {("gram", "add-remove"): 1.0, ("gram", "replace-one"): 2**0.5} | {
    ("sum", "add-remove"): 1.0,
    ("sum", "replace-one"): 2.0,
}


def form(query):
    return "gram" if isinstance(query, GramQuery) else "sum"


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_sensitivity_is_the_closed_form(query, relation):
    power = 2 if form(query) == "gram" else 1
    expected = FACTORS[form(query), relation] * query.bound**power
    assert query.sensitivity(relation) == pytest.approx(expected, rel=1e-14)
    scale = query.scale(relation, 0.3)
    assert scale.sensitivity * scale.unit == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_noise_costs_at_most_mu_and_no_sum_can_overflow(query, mu, relation):
    scale = query.scale(relation, mu)
    assert scale.sensitivity / scale.sigma <= mu
    assert scale.sensitivity / scale.sigma == pytest.approx(mu, rel=1e-10)
    largest_contribution = scale.units ** (2 if form(query) == "gram" else 1)
    assert MAX_USERS * largest_contribution <= 2**62
    assert scale.units < 2**30  # truncation goes by way of int32


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_without_a_limit_there_is_neither_grid_nor_noise(query):
    scale = query.scale("replace-one", math.inf)
    assert (scale.units, scale.unit, scale.sigma) == (None, 1.0, 0.0)


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_coordinates_counts_what_is_released(query):
    sums = query.zeros(ITEMS, np.int64)
    query.add_noise(sums, 1e9, SeededBits(0))
    assert sum(int(np.count_nonzero(part)) for part in sums) == query.coordinates(ITEMS)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, 1e-101, 1e151, True, "1"])
def test_a_bound_must_be_positive_and_of_a_size_that_floats_can_handle(bound):
    with pytest.raises(ConfigError, match="bound"):
        ItemCounts(bound=bound)


def chi_squared_tail(samples, sigma):
    statistic = float(np.square(samples / sigma).sum())
    return min(stats.chi2.cdf(statistic, len(samples)), stats.chi2.sf(statistic, len(samples)))


def gram_noise(items=300, sigma=1e5, diagonal=True):
    query = ResidualGram(bound=1.0, means=np.zeros(items), item_weights=np.ones(items), diagonal=diagonal)
    sums = query.zeros(items, np.int64)
    query.add_noise(sums, sigma, SeededBits(7))
    return query.finish(sums, 1.0)[0]


@pytest.mark.parametrize(("wrong", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False), (2**-0.5, False)])
def test_gram_noise_is_isometric(wrong, accepted):
    sigma = 1e5
    noise = gram_noise(sigma=sigma)
    np.testing.assert_array_equal(noise, noise.T)
    for samples, deviation in (
        (np.diag(noise), sigma),
        (noise[np.tril_indices(300, -1)], sigma / math.sqrt(2)),
    ):
        assert (chi_squared_tail(samples, wrong * deviation) > ALPHA) == accepted


def test_a_gram_without_diagonal_releases_none():
    assert not np.diag(gram_noise(diagonal=False)).any()


@pytest.mark.parametrize(("wrong", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_sum_noise_has_the_declared_scale(wrong, accepted):
    sums = ItemCounts().zeros(2000, np.int64)
    ItemCounts().add_noise(sums, 1e6, SeededBits(3))
    assert (chi_squared_tail(sums[0], wrong * 1e6) > ALPHA) == accepted


STACKED = [query for query in EXAMPLES if isinstance(query, SumQuery) and len(query.shapes(ITEMS)) > 1]


@pytest.mark.parametrize(("wrong", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
@pytest.mark.parametrize("query", STACKED, ids=lambda q: type(q).__name__)
def test_every_block_of_a_sum_has_the_declared_noise(query, wrong, accepted):
    """The same deviation on each block, by itself: in an average the large ones would hide a small one."""
    bits, sigma, noise = SeededBits(5), 1e6, []
    for _ in range(400 // min(math.prod(shape) for shape in query.shapes(ITEMS))):
        noise.append(query.zeros(ITEMS, np.int64))
        query.add_noise(noise[-1], sigma, bits)
    for block in zip(*noise, strict=True):
        assert (chi_squared_tail(np.ravel(block), wrong * sigma) > ALPHA) == accepted


def test_noise_is_added_and_does_not_replace():
    sums = (np.array([10**15]),)
    UserCount().add_noise(sums, 100.0, SeededBits(0))
    assert 0 < abs(int(sums[0][0]) - 10**15) < 1000
