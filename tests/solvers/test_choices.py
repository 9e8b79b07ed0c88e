"""Choices: the moments against plain NumPy, a planted rule found again, and no question where it cannot be answered."""

import math
from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.device.kinds import KINDS, prior_means
from hushrec.privacy.curator import Curator
from hushrec.solvers.choices import LARGEST_SHARE, Belief, Prior, learn_choices, plan_choices
from hushrec.solvers.corrections import gauge_of
from making import random_ratings


def choosy(users=4000, items=120, telling=1.0, seed=0):
    """Two tastes; the more `telling`, the more a user rates what she likes. Offsets have a deviation of 0.5."""
    rng = np.random.default_rng(seed)
    likes, loadings = rng.normal(size=(users, 2)), rng.normal(size=(items, 2))
    leaning = likes @ loadings.T
    chance = 1 / (1 + np.exp(2.5 - telling * leaning))
    rows, columns = np.nonzero(rng.random((users, items)) < chance)
    values = 0.5 * leaning[rows, columns] + rng.normal(0, 0.5, users)[rows] + rng.normal(0, 1.0, len(rows))
    return as_ratings(rows, columns, values, items, users), loadings


def as_ratings(rows, columns, values, items, users):
    return hr.Ratings.from_codes(
        rows, columns, np.clip(values, -4, 4), items=np.arange(items), value_range=(-4, 4), n_users=users
    )


def belief(loadings, offset_variance=0.25):
    n, r = loadings.shape
    return Belief(
        np.zeros(n),
        np.column_stack((np.ones(n), 0.5 * loadings)),
        np.concatenate(([1 / offset_variance], np.ones(r))),
        np.ones(n),
    )


def asked(ratings, model, budget, **settings):
    curator = Curator(ratings, budget, seed=3)
    curator.plan({"choices": 0.5})
    return learn_choices(curator, model, popularity_of(ratings), float(ratings.n_users), **settings)


def popularity_of(ratings):
    return np.maximum(np.bincount(ratings.indices, minlength=ratings.n_items), 1) / 4.0


def plain_coordinates(ratings, model, prior, usual):
    """The posterior means by textbook formulas, one user at a time."""
    found = []
    for i in range(ratings.n_users):
        own = slice(ratings.indptr[i], ratings.indptr[i + 1])
        seen, values = ratings.indices[own], ratings.values[own].astype(float)
        loadings = model.loadings[seen]
        middle = np.zeros(len(model.precision))
        if len(seen):
            middle = (
                prior.start
                + prior.activity * max(math.log(len(seen) / usual), -1.0)
                + prior.choices[seen].sum(0) / len(seen) ** 0.5
            )
        normal = np.diag(model.precision) + loadings.T @ (loadings / model.noise[seen, None])
        right = loadings.T @ ((values - model.means[seen]) / model.noise[seen]) + model.precision * middle
        found.append(np.linalg.solve(normal, right))
    return np.array(found)


def test_prior_means_and_fold_in_are_the_textbooks():
    ratings = random_ratings(users=40, items=12, seed=2)
    rng = np.random.default_rng(1)
    model = belief(rng.normal(size=(12, 2)))
    prior = Prior(rng.normal(size=3), rng.normal(size=3), rng.normal(size=(12, 3)), 1.0)
    arrays = {**vars(model), **prior.arrays}
    rows = ratings.indptr, ratings.indices, ratings.values.astype(float)
    settings = {"usual_count": math.log(30.0)}  # some users have less than 1/e times as many
    np.testing.assert_allclose(
        KINDS["refined"].fold_in(arrays, settings, rows), plain_coordinates(ratings, model, prior, 30.0), atol=1e-10
    )
    without = {name: arrays[name] for name in vars(model)}
    assert not prior_means(without, {}, rows).any()


def test_a_telling_choice_is_learnt_and_helps_and_a_blind_one_is_left_alone():
    for telling, at_least, at_most in ((1.0, 0.008, 1.0), (0.0, -0.003, 0.003)):
        ratings, loadings = choosy(telling=telling)
        train, test = hr.split(ratings, test=0.1, seed=0)
        model = belief(loadings)
        prior = asked(train, model, hr.Budget(5.0, 1e-6), whole=True)
        errors = []
        for believed in (Prior.blind(*model.loadings.shape), prior):
            release = hr.fit(train, hr.Posterior(rank=0), hr.NonPrivate())
            popularity = popularity_of(train)
            gauge = gauge_of(model, popularity, popularity.sum() / train.n_users)
            arrays = {**vars(model), **believed.arrays, "traits": gauge.traits, "correction": gauge.correction}
            release = replace(release, kind="refined", arrays=arrays, settings=gauge.gauge._asdict())
            errors.append(hr.evaluate(release, train, test)["rmse"])
        assert at_least < 1 - errors[1] / errors[0] < at_most


@pytest.mark.parametrize("assumed", [0.05, 0.25, 1.0])
def test_the_spread_of_offsets_is_found_whatever_was_assumed(assumed):
    """Planted: 0.25. Clipping favours users whose offsets are small, so what is found lies a little below."""
    ratings, loadings = choosy(telling=0.0)
    prior = asked(ratings, belief(loadings, assumed), hr.Budget(5.0, 1e-6), whole=False)
    assert 0.15 < assumed * prior.offset_variance < 0.3


def test_nothing_is_asked_where_noise_would_drown_it():
    assert plan_choices(100.0, 0.1) is None
    some = plan_choices(5000.0, 0.25)
    assert some is not None
    assert not some.whole
    much = plan_choices(100_000.0, 1.0)
    assert much is not None
    assert much.whole
    assert much.share < LARGEST_SHARE
    unbounded = plan_choices(10.0, math.inf)
    assert unbounded is not None
    assert unbounded.whole
