"""The user half of Frank-Wolfe against plain NumPy: gradients, replay, sampling, and regression under a link."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr

from hushrec.device import frank_wolfe as device
from hushrec.device.frank_wolfe import LOGISTIC, NO_OFFSET, ONCE, PROBIT, PROFILED, SQUARED, Rules
from making import csr, random_ratings

N = 12
STARS = Rules(loss=SQUARED, offset=PROFILED, prior=1.0, limit=0.0, most=0, seed=0, low=1.0, high=5.0)


@pytest.fixture(scope="module")
def ratings():
    return random_ratings(users=25, items=N, seed=3)


def updates(rounds=4, seed=0):
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(N, rounds)))[0].T.copy()
    return vectors, 1 / (1 + np.arange(float(rounds))), rng.uniform(0.2, 1.0, rounds)


def loss(x, y, rules):
    share = (y - rules.low) / (rules.high - rules.low)
    if rules.loss == SQUARED:
        return 0.5 * (x - y) ** 2
    if rules.loss == LOGISTIC:
        return np.logaddexp(0, x) - share * x
    return -share * log_ndtr(x) - (1 - share) * log_ndtr(-x)


def slope(x, y, rules, step=1e-6):
    return (loss(x + step, y, rules) - loss(x - step, y, rules)) / (2 * step)


def one_user(items, values, means, path, rules):
    """(gradient, Y everywhere, offset) of one user, straight from the definitions."""
    values = values.astype(float)
    y = np.zeros(N)
    base = means[items]
    offset, factor = 0.0, 1.0
    if rules.offset != NO_OFFSET and len(items):
        if rules.loss == SQUARED:
            offset = (values - base).sum() / (len(items) + rules.prior)
        else:
            curvature = 0.25 if rules.loss == LOGISTIC else 0.6366
            offset = -slope(base, values, rules).sum() / (curvature * (len(items) + rules.prior))
    if rules.limit:
        factor = min(1.0, rules.limit / max(np.linalg.norm(values - base - offset), 1e-300))

    def gradient():
        own = offset
        if rules.offset == PROFILED and len(items):
            own = (values - base - y[items]).sum() / (len(items) + rules.prior)
        if factor < 1.0:
            return y[items] - factor * (values - base - own), own
        return slope(base + own + y[items], values, rules), own

    g, own = gradient()
    for v, step, gain in zip(*path, strict=True):
        y = (1 - step) * y - gain * (g @ v[items]) * v
        if rules.limit and np.linalg.norm(y[items]) > rules.limit:
            y *= rules.limit / np.linalg.norm(y[items])
        g, own = gradient()
    return g, y, own


CASES = [
    STARS,
    STARS._replace(offset=ONCE, prior=0.0, limit=1.5),
    STARS._replace(offset=NO_OFFSET),
    STARS._replace(loss=LOGISTIC, offset=ONCE),
    STARS._replace(loss=PROBIT, offset=ONCE),
]


@pytest.mark.parametrize("rules", CASES)
def test_gradients_and_replay_follow_the_definitions(ratings, rules):
    means = np.linspace(-0.5, 0.5, N) if rules.loss != SQUARED else np.linspace(2, 4, N)
    path = updates()
    scores = np.zeros(ratings.n_ratings)
    found = device.gradients(*csr(ratings), means, *path, 0, scores, rules)
    users = device.replay(*csr(ratings), means, *path, rules)
    for i in range(ratings.n_users):
        own = slice(ratings.indptr[i], ratings.indptr[i + 1])
        gradient, y, offset = one_user(ratings.indices[own], ratings.values[own], means, path, rules)
        np.testing.assert_allclose(found[own], gradient, atol=1e-8)
        np.testing.assert_allclose(scores[own], y[ratings.indices[own]], atol=1e-8)
        np.testing.assert_allclose(users[i, 1:] @ path[0], y, atol=1e-8)
        assert users[i, 0] == pytest.approx(offset, abs=1e-8)


def test_one_round_at_a_time_is_the_whole_path(ratings):
    means, (vectors, steps, gains) = np.linspace(2, 4, N), updates(rounds=5)
    kept = np.zeros(ratings.n_ratings)
    for t in range(6):
        start = max(t - 1, 0)
        found = device.gradients(*csr(ratings), means, vectors[:t], steps[:t], gains[:t], start, kept, STARS)
    anew = device.gradients(*csr(ratings), means, vectors, steps, gains, 0, np.zeros(ratings.n_ratings), STARS)
    np.testing.assert_array_equal(found, anew)


def test_a_sample_keeps_at_most_so_many_and_depends_on_her_row_alone(ratings):
    kept = device.sample(ratings.indptr, ratings.indices, 4, 7)
    sizes = np.add.reduceat(np.append(kept, 0.0), ratings.indptr[:-1]) * (np.diff(ratings.indptr) > 0)
    assert np.array_equal(sizes, np.minimum(np.diff(ratings.indptr), 4))
    for i in (0, 5, 9):
        own = slice(ratings.indptr[i], ratings.indptr[i + 1])
        alone = device.sample(np.array([0, own.stop - own.start]), ratings.indices[own], 4, 7)
        assert np.array_equal(kept[own], alone)
    assert not np.array_equal(kept, device.sample(ratings.indptr, ratings.indices, 4, 8))


def test_samples_favour_no_item():
    full = random_ratings(users=4000, items=40, density=0.5, seed=1)
    kept = device.sample(full.indptr, full.indices, 5, 0)
    rates = np.bincount(full.indices, kept, 40) / np.bincount(full.indices, minlength=40)
    assert rates.std() < 0.02  # 0.25 each, with a deviation of 0.01 by chance
    assert rates.mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
def test_regression_under_a_link_is_the_most_likely_one(ratings, link):
    rules = STARS._replace(loss=link)
    rng = np.random.default_rng(0)
    means, loadings, precision = rng.normal(0, 0.3, N), rng.normal(0, 1, (N, 3)), np.array([1.0, 2.0, 0.5])
    found = device.linked_means(*csr(ratings), means, loadings, precision, rules)
    for i in range(8):
        own = slice(ratings.indptr[i], ratings.indptr[i + 1])
        items, values = ratings.indices[own], ratings.values[own].astype(float)

        def risk(u, items=items, values=values):
            return loss(means[items] + loadings[items] @ u, values, rules).sum() + 0.5 * precision @ u**2

        best = minimize(risk, np.zeros(3), options={"gtol": 1e-9}).x
        np.testing.assert_allclose(found[i], best, atol=2e-4)
        left = device.unexplained(
            (np.array([0, len(items)]), items, values), means, loadings, precision, np.ones(N), rules
        )
        np.testing.assert_allclose(left, -slope(means[items] + loadings[items] @ found[i], values, rules), atol=1e-6)


def test_the_gap_terms_are_the_sums_of_the_definition(ratings):
    means, path = np.linspace(2, 4, N), updates()
    for rules in (STARS, STARS._replace(loss=LOGISTIC, offset=ONCE), STARS._replace(offset=NO_OFFSET)):
        scores = np.zeros(ratings.n_ratings)
        gradient = device.gradients(*csr(ratings), means, *path, 0, scores, rules)
        offsets = device.replay(*csr(ratings), means, *path, rules)[:, 0]
        found = device.gap_terms(*csr(ratings), means, scores, rules)
        rows = np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr))
        x = means[ratings.indices] + offsets[rows] + scores
        risk = loss(x, ratings.values.astype(float), rules).sum()
        if rules.offset == PROFILED:
            risk += 0.5 * rules.prior * (offsets**2).sum()
        assert found.sum(axis=0) == pytest.approx([scores @ gradient, risk, ratings.n_ratings])


@pytest.mark.parametrize("x", [-40.0, -8.0, -1.0, 0.0, 1.0, 8.0, 24.0, 26.0, 40.0])
def test_the_probit_slope_is_stable_in_the_tails(x):
    rules = STARS._replace(loss=PROBIT)
    for y in (1.0, 2.0, 5.0):
        exact = slope(np.float64(x), y, rules, step=1e-4 * max(abs(x), 1))
        assert device._slope(x, y, rules) == pytest.approx(exact, rel=1e-3, abs=1e-6)


def test_links_map_scores_into_the_value_range():
    scores = np.array([-50.0, -1.0, 0.0, 1.0, 50.0])
    np.testing.assert_array_equal(device.to_values(scores, SQUARED, 1.0, 5.0), scores)
    for link in (LOGISTIC, PROBIT):
        values = device.to_values(scores, link, 1.0, 5.0)
        assert values == pytest.approx([1.0, values[1], 3.0, values[3], 5.0])
        assert 1.0 < values[1] < 3.0 < values[3] < 5.0
