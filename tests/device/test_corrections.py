"""Features and corrections against plain NumPy, and predictions of a release against both."""

import math
from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.device import corrections
from hushrec.device.corrections import CUT, FEATURES, Gauge
from hushrec.errors import ReleaseError
from hushrec.release.complete import predict_at
from making import random_ratings

GAUGE = Gauge(3.0, 0.8, -1.2, 1.4)


def plain_features(score, spread, count, item, gauge):
    """The polynomial, written down once more."""
    p = (score - gauge.centre) / gauge.unit
    s = 2 * (math.log(spread) - gauge.usual_spread)
    k = math.log(count) - gauge.usual_count - 1
    p, m, s, k, a = np.clip([p, item[0], s, k, item[1]], -CUT, CUT)
    pairs = [p * p - 1, m * p, m * m - 1, s * p, s * m, s * s - 1, k * p, k * m, k * s, k * k - 1]
    pairs += [a * p, a * m, a * s, a * k, a * a - 1]
    more = [p**3 - 3 * p, m * (p * p - 1), s * (p * p - 1), p**4 - 6 * p**2 + 3]
    return np.array([1, p, m, s, k, a, *pairs, *more])


def same_up_to_order(ours, theirs):
    return np.allclose(np.sort(ours), np.sort(theirs), atol=1e-12)


def predictions(ratings, seed=0):
    """Made-up scores and spreads, some of them far outside of what is usual."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(3.0, 2.0, ratings.n_ratings)
    return scores, np.exp(rng.normal(-1.0, 1.5, ratings.n_ratings)), rng.normal(size=(ratings.n_items, 2))


def features_of(ratings, scores, spreads, items):
    """All features, by asking for the correction that each coefficient alone makes."""
    counts, entries = np.diff(ratings.indptr), (ratings.indptr, ratings.indices)
    columns = [
        corrections.corrections_at(counts, *entries, scores, spreads, items, GAUGE, unit) for unit in np.eye(FEATURES)
    ]
    return np.column_stack(columns) / GAUGE.unit


def test_features_are_the_polynomial():
    ratings = random_ratings(users=30, items=12, seed=4)
    scores, spreads, items = predictions(ratings)
    counts = np.repeat(np.diff(ratings.indptr), np.diff(ratings.indptr))
    ours = features_of(ratings, scores, spreads, items)
    assert np.abs(ours[:, 1:6]).max() <= CUT**2
    for p in range(ratings.n_ratings):
        theirs = plain_features(scores[p], spreads[p], counts[p], items[ratings.indices[p]], GAUGE)
        assert same_up_to_order(ours[p], theirs), p


def test_moments_are_those_of_the_features():
    ratings = random_ratings(users=30, items=12, seed=4)
    scores, spreads, items = predictions(ratings)
    rng = np.random.default_rng(1)
    errors, weights = rng.normal(size=ratings.n_ratings), rng.uniform(0.1, 1.0, ratings.n_ratings)
    row = ratings.indptr, ratings.indices
    across, among = corrections.regression_rows(*row, errors, scores, spreads, weights, items, GAUGE)
    f = features_of(ratings, scores, spreads, items)
    low = np.tril_indices(FEATURES)
    for i in range(ratings.n_users):
        own = slice(ratings.indptr[i], ratings.indptr[i + 1])
        np.testing.assert_allclose(across[i], f[own].T @ (weights[own] * errors[own]), atol=1e-10)
        np.testing.assert_allclose(among[i], (f[own].T @ (weights[own, None] * f[own]))[low], atol=1e-10)


@pytest.fixture(scope="module")
def corrected():
    """A release with a correction that is far from nothing, and its ratings."""
    ratings, _ = hr.synthetic(users=300, items=20, rank=2, per_user=8, value_range=(1, 5), noise=0.3)
    release = hr.fit(ratings, hr.Posterior(), hr.NonPrivate())
    chosen = np.linspace(-0.1, 0.1, FEATURES)
    return replace(release, arrays={**release.arrays, "correction": chosen}), ratings


def test_a_device_predicts_what_is_predicted_for_everybody(corrected):
    release, ratings = corrected
    rows = ratings.indptr, ratings.indices, ratings.values.astype(float)
    everything = np.arange(ratings.n_users + 1) * 20, np.tile(np.arange(20), ratings.n_users)
    table = predict_at(release, rows, everything).reshape(-1, 20)
    for i in range(10):
        np.testing.assert_allclose(release.complete(*ratings.user(i)), table[i], atol=1e-12)
    nothing = replace(release, arrays={**release.arrays, "correction": np.zeros(FEATURES)})
    assert np.abs(predict_at(nothing, rows, everything).reshape(-1, 20) - table).max() > 0.05


def test_intervals_lie_about_the_corrected_prediction(corrected):
    release, ratings = corrected
    low, high = release.intervals(*ratings.user(0), level=0.5)
    inside = (low > 1) & (high < 5)
    np.testing.assert_allclose((low + high)[inside] / 2, release.complete(*ratings.user(0))[inside], atol=1e-12)


@pytest.mark.parametrize(("name", "shape"), [("correction", FEATURES + 1), ("correction", 3), ("traits", (20, 1))])
def test_a_release_with_other_sizes_is_refused(corrected, tmp_path, name, shape):
    """The compiled loops check no index."""
    release, _ = corrected
    with pytest.raises(ReleaseError, match=name):
        replace(release, arrays={**release.arrays, name: np.zeros(shape)}).save(tmp_path / "model.hush")


def test_extreme_numbers_in_a_release_are_cut_off(corrected):
    """Traits are bounded whatever the file holds: a prediction cannot leave what the coefficients allow."""
    release, ratings = corrected
    settings = dict.fromkeys(Gauge._fields, 1e-300) | {"usual_spread": -1e300}
    extreme = replace(release, settings=settings)
    found = extreme.complete(*ratings.user(0))
    assert ((found >= 1) & (found <= 5)).all()
