"""Asked first ratings against random ones, where the answer is known: a model in which a few items tell everything."""

import numpy as np
import pytest

import hushrec as hr
from hushrec.data.ratings import Ratings
from hushrec.evaluate.asking import first_questions


@pytest.fixture(scope="module")
def telling():
    """Two hidden tastes; a third of the items depend on them three times as strongly as the others."""
    rng = np.random.default_rng(6)
    users, items = 3000, 45
    loadings = rng.normal(size=(2, items)) * np.where(np.arange(items) % 3 == 0, 0.6, 0.2)
    values = rng.normal(size=(users, 2)) @ loadings + 0.3 * rng.normal(size=(users, items))
    rows, columns = np.nonzero(rng.random((users, items)) < 0.7)
    ratings = Ratings.from_codes(
        rows, columns, np.clip(values[rows, columns], -3, 3), items=np.arange(items), value_range=(-3.0, 3.0)
    )
    return ratings, hr.fit(ratings, hr.Posterior(), hr.Budget(10.0, 1e-6), seed=0)


def test_asked_ratings_teach_more_than_random_ones(telling):
    ratings, release = telling
    found = first_questions(release, ratings, questions=3)
    assert found["everything"] < found["asked"] < found["random"] < found["none"]
    assert found["gain"] > 0.05
    assert found["answered"] == found["answered_random"] == 3.0


def test_questions_about_unknown_items_are_not_answered(telling):
    ratings, release = telling
    found = first_questions(release, ratings, questions=3, among="all")
    assert 0.5 < found["answered_random"] < 1.6  # 35 % of all items
    assert found["asked"] < found["random"] < found["none"]


def test_the_first_question_is_that_of_ask_next(telling):
    """Every item known, one question: after it the errors are those of the release's own answer to it."""
    ratings, release = telling
    whole = np.flatnonzero(np.diff(ratings.indptr) >= 20)[:50]
    mask = np.repeat(np.isin(np.arange(ratings.n_users), whole), np.diff(ratings.indptr))
    found = first_questions(release, ratings.keep(mask), questions=1, among="all", seed=1)
    item = release.ask_next([], [])
    draw = np.random.default_rng(1)
    kept = ratings.keep(mask)
    part = draw.random(kept.n_ratings) < 0.5
    answers, test = kept.keep(part), kept.keep(~part)
    errors = []
    for user in whole:
        if np.diff(answers.indptr)[user] < 2 or np.diff(test.indptr)[user] == 0:
            continue
        ids, values = answers.user(user)
        known = ids == item
        predicted = release.complete(ids[known], values[known])
        wanted, truth = test.user(user)
        errors.append(predicted[np.searchsorted(release.items, wanted)] - truth)
    assert found["asked"] == pytest.approx(np.sqrt(np.mean(np.concatenate(errors) ** 2)), rel=1e-9)


def test_bad_settings_are_named(telling):
    ratings, release = telling
    with pytest.raises(hr.ConfigError, match="questions"):
        first_questions(release, ratings, questions=0)
    with pytest.raises(hr.ConfigError, match="among"):
        first_questions(release, ratings, among="some")
    with pytest.raises(hr.DataError, match="enough"):
        first_questions(release, ratings, questions=40)
