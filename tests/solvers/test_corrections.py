"""Corrections: planted mistakes are found and put right, a sound model is left alone, noise is not believed."""

import math
from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.privacy.curator import Curator
from hushrec.solvers.choices import Belief, Prior
from hushrec.solvers.corrections import DROWNED, LARGEST_SHARE, LEAST_SHARE, learn_corrections, plan_corrections


def planted(users=6000, items=80, per_user=16, seed=0):
    """A Gaussian model, and ratings that obey it, popular items rated more often."""
    rng = np.random.default_rng(seed)
    loadings = np.column_stack((np.ones(items), 0.6 * rng.normal(size=(items, 2))))
    means, noise = rng.normal(0, 0.5, items), 0.7
    u = rng.normal(size=(users, 3)) * [0.5, 1.0, 1.0]
    likely = np.log(np.arange(1, items + 1) ** -0.7)
    chosen = np.argsort(-(likely + rng.gumbel(size=(users, items))), axis=1)[:, :per_user]
    rows = np.repeat(np.arange(users), per_user)
    columns = chosen.ravel()
    values = (
        means[columns]
        + np.einsum("pr,pr->p", loadings[columns], u[rows])
        + math.sqrt(noise) * rng.normal(size=len(rows))
    )
    ratings = hr.Ratings.from_codes(
        rows, columns, np.clip(values, -6, 6), items=np.arange(items), value_range=(-6, 6), n_users=users
    )
    return ratings, Belief(means, loadings, np.array([4.0, 1.0, 1.0]), np.full(items, noise))


def errors(train, test, belief, budget, seed=3):
    """RMSE without and with the corrections that this budget teaches."""
    curator = Curator(train, budget, seed=seed)
    curator.plan({"corrections": 1.0})
    popularity = np.maximum(np.bincount(train.indices, minlength=train.n_items), 1) / 4.0
    prior = Prior.blind(*belief.loadings.shape)
    learnt = learn_corrections(curator, belief, prior, popularity, 4.0)
    found = []
    for correction in (np.zeros_like(learnt.correction), learnt.correction):
        arrays = {**vars(belief), **prior.arrays, "traits": learnt.traits, "correction": correction}
        release = hr.fit(train, hr.Posterior(rank=0), hr.NonPrivate())
        release = replace(release, kind="refined", arrays=arrays, settings=learnt.gauge._asdict())
        found.append(hr.evaluate(release, train, test)["rmse"])
    return found


MISTAKES = {
    "believes too much": lambda b: replace(b, loadings=b.loadings * [1.0, 2.5, 2.5]),
    "knows means that are too far apart": lambda b: replace(b, means=1.8 * b.means),
    "takes the popular for the better": lambda b: replace(b, means=b.means + np.linspace(0.8, -0.8, len(b.means))),
    "thinks little of ratings": lambda b: replace(b, noise=6 * b.noise),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("budget", [hr.NonPrivate(), hr.Budget(2.0, 1e-6)], ids=["no noise", "epsilon 2"])
def test_what_a_model_has_wrong_everywhere_is_put_right(mistake, budget):
    ratings, belief = planted()
    train, test = hr.split(ratings, test=0.1, seed=0)
    truth, _ = errors(train, test, belief, hr.NonPrivate())
    before, after = errors(train, test, MISTAKES[mistake](belief), budget)
    assert before > 1.01 * truth
    assert after - truth < 0.6 * (before - truth)


@pytest.mark.parametrize("epsilon", [0.05, 2.0, math.inf])
def test_a_sound_model_is_left_alone(epsilon):
    """At any budget, noise alone included: the coefficients are shrunk as far as they are noise."""
    ratings, belief = planted()
    train, test = hr.split(ratings, test=0.1, seed=0)
    budget = hr.NonPrivate() if math.isinf(epsilon) else hr.Budget(epsilon, 1e-6)
    before, after = errors(train, test, belief, budget)
    assert abs(after / before - 1) < (0.002 if epsilon > 1 else 0.02)


def test_no_ratings_at_all_teach_nothing():
    ratings, belief = planted(users=20)
    nobody = ratings.keep(np.zeros(ratings.n_ratings, dtype=bool))
    curator = Curator(nobody, hr.NonPrivate())
    curator.plan({"corrections": 1.0})
    learnt = learn_corrections(curator, belief, Prior.blind(80, 3), np.ones(80), 4.0)
    assert not learnt.correction.any()


def test_corrections_are_asked_for_where_noise_leaves_something_of_them():
    assert plan_corrections(100.0, 50, 3.0, 0.1) is None
    assert plan_corrections(100.0, 50, 3.0, math.inf) == LARGEST_SHARE
    assert plan_corrections(1e7, 5000, 10.0, 1.0) == LEAST_SHARE
    between = plan_corrections(20_000.0, 5000, 10.0, 0.2)
    assert between is not None
    assert LEAST_SHARE < between < LARGEST_SHARE
    assert DROWNED >= LARGEST_SHARE


def test_they_are_not_asked_for_where_a_model_knows_its_few_ratings_by_heart():
    assert plan_corrections(300.0, 2000, 5.0, math.inf) is None
    assert plan_corrections(300.0, 200, 5.0, math.inf) is not None
