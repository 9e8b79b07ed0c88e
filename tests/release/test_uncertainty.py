"""What a device says about its own predictions, and which questions it asks."""

from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.release.uncertainty import DOUBT


@pytest.fixture(scope="module")
def planted():
    return hr.synthetic(users=3000, items=40, rank=2, per_user=15, noise=0.3, seed=2)


@pytest.fixture(scope="module")
def release(planted):
    return hr.fit(planted[0], hr.Posterior(), hr.Budget(5.0, 1e-6), seed=0)


def test_uncertainty_is_the_students_deviation_of_the_posterior(release, planted):
    items, values = planted[0].user(3)
    arrays, seen = release.arrays, np.searchsorted(release.items, items)
    loadings, noise = arrays["loadings"], arrays["noise"]
    active = max(np.log(len(seen)) - release.settings["usual_count"], -1.0)
    prior = arrays["start"] + arrays["activity"] * active + arrays["choices"][seen].sum(0) / len(seen) ** 0.5
    deviations = values - arrays["means"][seen] - loadings[seen] @ prior
    marginal = np.diag(noise[seen]) + loadings[seen] @ np.diag(1 / arrays["precision"]) @ loadings[seen].T
    freedom = DOUBT + len(items)
    scale = (DOUBT + deviations @ np.linalg.solve(marginal, deviations)) / freedom
    normal = np.diag(arrays["precision"]) + loadings[seen].T @ (loadings[seen] / noise[seen, None])
    variance = np.diag(loadings @ np.linalg.inv(normal) @ loadings.T) + noise
    expected = np.sqrt(scale * variance * freedom / (freedom - 2))
    np.testing.assert_allclose(release.uncertainty(items, values), expected, rtol=1e-6)


def test_more_ratings_leave_less_uncertainty(release):
    values = release.arrays["means"][:20]  # as expected: they say nothing but where she stands
    none, some, many = (release.uncertainty(release.items[:k], values[:k]) for k in (0, 5, 20))
    assert (some < none).all()
    assert many.mean() < some.mean()


def test_intervals_hold_the_prediction_stay_in_range_and_grow_with_the_level(release, planted):
    items, values = planted[0].user(0)
    predictions = release.complete(items, values)
    low, high = release.intervals(items, values)
    wider = release.intervals(items, values, level=0.99)
    assert ((low <= predictions) & (predictions <= high)).all()
    assert low.min() >= release.value_range[0]
    assert high.max() <= release.value_range[1]
    assert (wider[0] <= low).all()
    assert (wider[1] >= high).all()
    assert (wider[1] - wider[0]).mean() > (high - low).mean()


def test_ask_next_names_the_unrated_item_that_lowers_the_uncertainty_most(release, planted):
    items, values = planted[0].user(1)
    loadings, precision, noise = (release.arrays[name] for name in ("loadings", "precision", "noise"))

    def summed(rated):
        seen = loadings[rated]
        return np.trace(
            loadings @ np.linalg.inv(np.diag(precision) + seen.T @ (seen / noise[rated, None])) @ loadings.T
        )

    rated = np.searchsorted(release.items, items)
    others = np.setdiff1d(np.arange(release.n_items), rated)
    left = np.array([summed(np.append(rated, item)) for item in others])
    best = others[np.argmin(left)]
    assert release.ask_next(items, values, candidates=release.items[others]) == release.items[best]
    rest = [item for item in release.items[others] if item != release.items[best]]
    assert release.ask_next(items, values, candidates=rest) in rest
    assert release.ask_next([], [], candidates=[release.items[7]]) == release.items[7]

    # Without candidates she may not know the item: the gain counts as often as a usual user rated it.
    traits = release.arrays["traits"].copy()
    traits[best, 1] -= 2.0
    unknown = replace(release, arrays={**release.arrays, "traits": traits})
    popularity = np.exp(traits[:, 1]) / np.exp(traits[:, 1]).sum()
    known = 1 - np.exp(-np.exp(release.settings["usual_count"]) * popularity[others])
    expected = others[np.argmax(known * (summed(rated) - left))]
    assert expected != best
    assert unknown.ask_next(items, values) == release.items[expected]


def test_bad_questions_are_refused_in_one_sentence(release, planted):
    items, values = planted[0].user(1)
    with pytest.raises(hr.ConfigError, match="level"):
        release.intervals(items, values, level=1.0)
    with pytest.raises(hr.DataError, match="left to ask"):
        release.ask_next(items, values, candidates=items)
    with pytest.raises(hr.DataError, match="candidates"):
        release.ask_next(items, values, candidates=[10**9])


def test_a_release_without_a_posterior_says_so(planted):
    release = hr.fit(planted[0], hr.SVD(readout="projection", rank=2), hr.NonPrivate())
    for ask in (release.uncertainty, release.intervals, release.ask_next):
        with pytest.raises(hr.ConfigError, match="posterior"):
            ask([], [])
