"""One user's own ratings in, predictions out: against NumPy, and against every kind of bad input."""

import numpy as np
import pytest

from hushrec import ConfigError, DataError, Release
from hushrec.privacy.accounting import Ledger, LedgerEntry
from hushrec.privacy.guarantee import Guarantee

RNG = np.random.default_rng(0)
N, R = 9, 3
ARRAYS = {
    "means": RNG.uniform(2, 4, N),
    "loadings": RNG.normal(size=(N, R)),
    "precision": np.array([4.0, 1.0, 1.0]),
    "noise": np.full(N, 0.7),
}
SPENT = Ledger((LedgerEntry("gram", "gaussian", sensitivity=1.0, scale=20.0, share=1.0, coordinates=9),))
GUARANTEE = Guarantee(epsilon=1.0, delta=1e-6, unit="user", relation="replace-one", model="joint", ledger=SPENT)


def release(items=None, **changes) -> Release:
    settings = {
        "kind": "gaussian",
        "arrays": ARRAYS,
        "items": np.arange(100, 100 + N) if items is None else items,
        "value_range": (1.0, 5.0),
        "guarantee": GUARANTEE,
    }
    return Release(**{**settings, **changes})


def by_hand(positions, values):
    seen = ARRAYS["loadings"][positions]
    normal = np.diag(ARRAYS["precision"]) + seen.T @ seen / 0.7
    user = np.linalg.solve(normal, seen.T @ (values - ARRAYS["means"][positions]) / 0.7)
    return np.clip(ARRAYS["means"] + ARRAYS["loadings"] @ user, 1, 5)


def test_completion_is_the_posterior_mean_whatever_the_order():
    expected = by_hand([1, 4, 6], np.array([5.0, 2.0, 3.0]))
    np.testing.assert_allclose(release().complete([101, 104, 106], [5, 2, 3]), expected, rtol=1e-12)
    np.testing.assert_allclose(release().complete([106, 101, 104], [3, 5, 2]), expected, rtol=1e-12)


def test_a_user_without_ratings_gets_the_item_means():
    np.testing.assert_allclose(release().complete([], []), ARRAYS["means"])


def test_recommendations_are_the_best_unrated_items():
    scores = by_hand([1, 4], np.array([5.0, 1.0]))
    best = [j for j in np.argsort(-scores) if j not in (1, 4)][:3]
    found = release().recommend([101, 104], [5, 1], top=3)
    assert [item for item, _ in found] == [100 + j for j in best]
    np.testing.assert_allclose([score for _, score in found], scores[best])
    assert len(release().recommend([101, 104], [5, 1], top=100)) == N - 2


def test_ids_of_either_type_find_the_items():
    by_number = release().complete([101], [5])
    np.testing.assert_array_equal(release().complete(["101"], [5]), by_number)
    named = release(items=np.array([str(j) for j in range(100, 100 + N)]))
    np.testing.assert_array_equal(named.complete([101], [5]), by_number)


@pytest.mark.parametrize(
    ("items", "values", "says"),
    [
        ([101, 101], [5, 4], "more than once"),
        ([101], [5, 4], "same length"),
        ([101], [np.nan], "finite"),
        ([101], [np.inf], "finite"),
        ([101], [9], "outside"),
        ([101], [0.5], "outside"),
        ([999, 101], [5, 4], "1 of the items"),
        (["nobody"], [5], "whole numbers"),
        ([1.5], [5], "whole numbers"),
        ([101], ["five"], "numbers"),
    ],
)
def test_bad_own_ratings_get_one_clear_sentence(items, values, says):
    with pytest.raises(DataError, match=says) as caught:
        release().complete(items, values)
    assert "9" not in str(caught.value).replace("N", "") or says != "outside"


def test_unknown_items_can_be_ignored():
    np.testing.assert_array_equal(
        release().complete([999, 101], [2, 5], unknown="ignore"), release().complete([101], [5])
    )


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="unknown"):
        release().complete([101], [5], unknown="drop")
    for top in (0, 2.5, 3.0, None, "3", True):
        with pytest.raises(ConfigError, match=r"top is .* whole number of at least 1"):
            release().recommend([101], [5], top=top)


def test_predictions_stay_in_the_public_range():
    wild = release(arrays={**ARRAYS, "loadings": 100 * ARRAYS["loadings"]})
    predictions = wild.complete([101, 102], [5, 1])
    assert predictions.min() >= 1
    assert predictions.max() <= 5
