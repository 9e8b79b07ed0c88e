"""OneBit as a solver: what each form promises, the textbook without noise, and the same function on a device."""

from __future__ import annotations

import numpy as np
import pytest

import hushrec as hr
from hushrec.onebit.links import make_link
from hushrec.onebit.objective import make_objective
from hushrec.onebit.spg import solve
from hushrec.privacy.curator import Curator
from hushrec.privacy.fits import pattern_of
from hushrec.release.complete import predict_at
from onebit.answers import answers

RATINGS = answers()
BUDGET = hr.Budget(4.0, 1e-6, unit="rating")
FREE = hr.NonPrivate(unit="rating")
# mechanism and form -> (ε promised, δ, model)
PROMISES = [
    ({"mechanism": "input"}, 4.0, 0.0, "local"),
    ({"mechanism": "objective"}, 4.0, 0.0, "local"),
    ({"mechanism": "objective", "noise": "gaussian"}, 4.0, 1e-6, "local"),
    ({"mechanism": "objective", "form": "paper"}, 4.0, 0.0, "local"),
    ({"mechanism": "objective", "form": "paper", "link": "probit"}, None, 0.0, "central"),
    ({"mechanism": "gradient"}, 4.0, 0.0, "central"),
    ({"mechanism": "gradient", "gradient_rounds": 3, "effects": False, "clamp": None}, 4.0, 0.0, "central"),
    ({"mechanism": "gradient", "gradient_rounds": 2, "clamp": None, "link": "probit"}, 4.0, 0.0, "central"),
    ({"mechanism": "gradient", "noise": "gaussian"}, 4.0, 1e-6, "central"),
    ({"mechanism": "output"}, 4.0, 0.0, "central"),
    ({"mechanism": "output", "ridge": 0.5}, 4.0, 1e-6, "central"),
    ({"mechanism": "output", "form": "paper"}, None, 0.0, "central"),
    ({"mechanism": "input", "threshold": "mean"}, 4.0, 0.0, "central"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "epsilon", "delta", "model"), PROMISES, ids=lambda one: str(one))
def test_a_release_promises_what_is_proved_and_no_more(settings, epsilon, delta, model, tmp_path):
    release = hr.fit(RATINGS, hr.OneBit(**settings), BUDGET)
    promise = release.guarantee
    assert (promise.epsilon, promise.unit, promise.relation) == (epsilon, "rating", "replace-one")
    assert (promise.delta, promise.model) == (delta, model)
    assert not promise.void
    if epsilon is not None:
        assert 3.9 < promise.spent <= 4.0
    card = release.card()
    assert "which items" in card.lower()
    assert "FrankWolfe(loss=" in card
    assert ("claimed for parts" in card) == (epsilon is None)
    release.save(tmp_path / "model.hush")
    again = hr.Release.load(tmp_path / "model.hush")
    items, values = RATINGS.user(3)
    chances = again.complete(items, values)
    assert np.array_equal(chances, release.complete(items, values))
    assert chances.min() > 0
    assert chances.max() < 1


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("mechanism", ["none", "input", "objective"])
def test_without_noise_a_mechanism_is_the_textbook_fit(mechanism, link):
    solver = hr.OneBit(mechanism=mechanism, link=link, rank=1, effects=False)
    threshold, completion = solver.complete(Curator(RATINGS, FREE))
    pattern = pattern_of(RATINGS)
    o = make_objective(pattern.rows, pattern.indices, RATINGS.values, pattern.shape, make_link(link))
    assert threshold == 0.5
    textbook = solve(o, solver.settings(pattern.shape)).matrix.toarray()
    assert np.allclose(completion.matrix.toarray(), textbook, rtol=0, atol=1e-10)


def test_without_noise_the_papers_output_is_the_fit():
    fits = [
        hr.OneBit(mechanism=name, form=form, rank=1, effects=False).complete(Curator(RATINGS, FREE))[1].matrix.toarray()
        for name, form in (("output", "paper"), ("none", None))
    ]
    assert np.allclose(*fits)


@pytest.mark.parametrize("effects", [True, False])
def test_without_noise_the_output_mechanism_gives_the_signs_back(effects):
    """Turned by its optimality condition, the strongly convex fit is the statistic that it was made of."""
    fits = [
        hr.OneBit(mechanism=name, effects=effects).complete(Curator(RATINGS, FREE))[1].matrix.toarray()
        for name in ("output", "none")
    ]
    assert np.allclose(*fits, atol=1e-8)


def test_without_noise_gradient_steps_are_those_of_a_plain_loop():
    """Three projected spectral steps in plain NumPy, no line search, nothing clamped."""
    solver = hr.OneBit(mechanism="gradient", gradient_rounds=3, clamp=None, effects=False, tau=3.0, alpha=0.2)
    found = solver.complete(Curator(RATINGS, FREE))[1].matrix.toarray()
    from hushrec.onebit.projection import project

    pattern = pattern_of(RATINGS)
    seen, s = (pattern.rows, pattern.indices), RATINGS.values.astype(float)

    def slope(X):
        G = np.zeros(pattern.shape)
        G[seen] = 1 / (1 + np.exp(-X[seen])) - s
        return G

    X, step = np.zeros(pattern.shape), 4.0
    G = slope(X)
    for _ in range(3):
        new, _ = project(X - step * G, nuclear_radius=3.0, entry_bound=0.2, tolerance=1e-10)
        after = slope(new)
        moved, turned = new - X, after - G
        step = np.clip(np.vdot(moved, moved) / np.vdot(moved, turned), 1e-3, 1e3)
        X, G = new, after
    assert np.sum(np.abs(X) > 0.2 - 1e-9) > 10  # box and ball both bind
    assert np.linalg.norm(X, "nuc") > 3.0 - 1e-6
    assert np.linalg.norm(found - X) < 1e-6 * np.linalg.norm(X)
    assert np.linalg.norm(found, "nuc") <= 3.0 * (1 + 1e-9)
    assert np.abs(found).max() <= 0.2 + 1e-12


def test_training_and_device_are_the_same_function():
    release = hr.fit(RATINGS, hr.OneBit(mechanism="none"), FREE)
    rows = RATINGS.indptr, RATINGS.indices, RATINGS.values.astype(float)
    for user in (0, 7, 39):
        everything = np.array([0, RATINGS.n_items]), np.arange(RATINGS.n_items)
        own = RATINGS.rows(user, user + 1)
        row = own.indptr, own.indices, own.values.astype(float)
        alone = predict_at(release, row, everything)
        assert np.allclose(release.complete(*RATINGS.user(user)), alone, atol=1e-12)
    indptr = np.arange(41) * RATINGS.n_items
    together = predict_at(release, rows, (indptr, np.tile(np.arange(RATINGS.n_items), 40)))
    assert np.allclose(together[7 * RATINGS.n_items : 8 * RATINGS.n_items], release.complete(*RATINGS.user(7)))


def test_private_fits_foretell_better_than_the_majority():
    train, test = hr.split(answers(users=300, items=40, strength=3.0), test=0.2, seed=1)
    for mechanism in ("input", "objective", "gradient", "output"):
        release = hr.fit(train, hr.OneBit(mechanism=mechanism), hr.Budget(4.0, unit="rating"), seed=0)
        figures = hr.evaluate(release, train, test)
        assert figures["accuracy"] > figures["majority"] + 0.08, mechanism
        assert figures["log_loss"] < np.log(2)


def test_stars_become_answers_at_a_public_threshold_or_the_noisy_mean():
    stars = answers(users=200, value_range=(1.0, 5.0))
    assert hr.OneBit(mechanism="none").complete(Curator(stars, FREE))[0] == 3.0
    assert hr.OneBit(mechanism="none", threshold=3.5).complete(Curator(stars, FREE))[0] == 3.5
    threshold, _ = hr.OneBit(threshold="mean").complete(Curator(stars, hr.Budget(50.0, unit="rating"), seed=0))
    assert threshold == pytest.approx(stars.values.mean(), abs=0.05)
    with pytest.raises(hr.ConfigError, match="inside the value range"):
        hr.fit(stars, hr.OneBit(threshold=9.0), BUDGET)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mechanism": "magic"}, "mechanism must be one of"),
        ({"link": "cauchit"}, "link must be one of"),
        ({"tau": 1.0, "rank": 1.0}, "exclude each other"),
        ({"alpha": -1.0}, "alpha must be a positive number"),
        ({"form": "strongly-convex", "mechanism": "objective"}, "output mechanism"),
        ({"form": "paper", "effects": True, "mechanism": "objective"}, "fits no effects"),
        ({"alpha": "1"}, "alpha must be a positive number, not '1'"),
        ({"iterations": "5"}, "iterations must be a whole number"),
        ({"gradient_rounds": 1.5, "mechanism": "gradient"}, "gradient_rounds must be a whole number"),
        ({"threshold": [1]}, "threshold must be a finite number"),
        ({"threshold": True}, "threshold must be a finite number"),
        ({"noise": "gaussian", "mechanism": "input"}, "noise='gaussian' does nothing with mechanism='input'"),
        ({"noise": "laplace", "mechanism": "none"}, "does nothing with mechanism='none'"),
        ({"ridge": 1.0, "mechanism": "input"}, "ridge=1.0 does nothing"),
        ({"ridge": 1.0, "mechanism": "gradient"}, "ridge=1.0 does nothing"),
        ({"clamp": None, "mechanism": "objective"}, "clamp=None does nothing"),
        ({"gradient_rounds": 3, "mechanism": "output"}, "gradient_rounds=3 does nothing"),
        ({"iterations": 9, "mechanism": "gradient"}, "iterations=9 does nothing"),
        ({"tolerance": 0.1, "mechanism": "gradient"}, "tolerance=0.1 does nothing"),
        *(
            ({"form": "paper", "mechanism": name}, "form='paper' does nothing")
            for name in ("input", "gradient", "none")
        ),
        ({"form": "paper", "mechanism": "output", "ridge": 1.0}, "no ridge"),
        ({"form": "paper", "mechanism": "output", "noise": "gaussian"}, "paper's own noise"),
        ({"gradient_rounds": 0}, "gradient_rounds must be a whole number of at least 1"),
        ({"already_randomized": True, "mechanism": "objective"}, "already_randomized needs"),
        ({"threshold": "median"}, "threshold must be a number"),
        ({"threshold": float("nan")}, "threshold must be a finite"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(hr.ConfigError, match=sentence):
        hr.OneBit(**settings)


def test_a_budget_for_users_or_no_budget_is_refused_where_it_does_not_fit():
    with pytest.raises(hr.ConfigError, match='unit="rating"'):
        hr.fit(RATINGS, hr.OneBit(), hr.Budget(1.0, 1e-6))
    with pytest.raises(hr.ConfigError, match="NonPrivate"):
        hr.fit(RATINGS, hr.OneBit(mechanism="none"), BUDGET)
    with pytest.raises(hr.ConfigError, match="delta"):
        hr.fit(RATINGS, hr.OneBit(noise="gaussian", mechanism="objective"), hr.Budget(1.0, unit="rating"))


def test_a_catalogue_with_unrated_items_and_silent_users_is_fine():
    rows = hr.Ratings.from_codes(
        np.array([0, 0, 3]), np.array([1, 4, 1]), np.array([1.0, 0.0, 1.0]), items=np.arange(6), value_range=(0, 1),
        n_users=5,
    )  # fmt: skip
    for mechanism in ("input", "objective", "gradient", "output"):
        release = hr.fit(rows, hr.OneBit(mechanism=mechanism), hr.Budget(1.0, unit="rating"))
        assert release.complete([], []).shape == (6,)


def test_top_items_are_chosen_by_counts_that_are_public_here_and_cost_nothing():
    counts = np.bincount(RATINGS.indices, minlength=RATINGS.n_items)
    for budget in (BUDGET, FREE, hr.NonPrivate()):
        mechanism = "objective" if budget.private else "none"
        release = hr.fit(RATINGS, hr.OneBit(mechanism=mechanism), budget, top=4)
        assert sorted(counts[release.items]) == sorted(counts)[-4:]
        assert release.guarantee.epsilon == budget.epsilon
        if budget.unit == "rating":
            assert [entry.name for entry in release.guarantee.ledger] == ["signs"]
    with pytest.raises(hr.ConfigError, match="top is 31"):
        hr.fit(RATINGS, hr.OneBit(), BUDGET, top=31)


def test_a_tuning_says_what_it_needs_before_it_spends(tmp_path):
    users = hr.Budget(1.0, 1e-6)
    for budget in (BUDGET, users, hr.NonPrivate(unit="rating")):
        with pytest.raises(hr.ConfigError, match="OneBit protects single ratings"):
            hr.tune(RATINGS, [hr.OneBit()], budget, ledger=tmp_path / "L.json")
    assert not (tmp_path / "L.json").exists()


def test_what_others_set_aside_is_left_to_them():
    """A solver plans what is left, not the whole: a share that somebody else has planned before stays."""
    for settings in ({"mechanism": "input"}, {"mechanism": "gradient"}, {"threshold": "mean"}):
        curator = Curator(RATINGS, BUDGET)
        curator.plan({"mine": 0.25})
        hr.OneBit(**settings).complete(curator)
        assert 2.99 < curator.ledger.pure_epsilon <= 3.0


def test_the_card_says_what_a_form_of_the_output_mechanism_is():
    alone = hr.fit(RATINGS, hr.OneBit(mechanism="output"), BUDGET)
    assert "It is the objective mechanism in other units" in " ".join(alone.notes)
    pooled = hr.fit(RATINGS, hr.OneBit(mechanism="output", ridge=0.5), BUDGET)
    assert "whether or not they converged" in " ".join(pooled.notes)
    assert "converge" not in " ".join(pooled.guarantee.assumptions)
    with pytest.raises(hr.ConfigError, match="noise must be"):
        hr.fit(RATINGS, hr.OneBit(mechanism="output", ridge=0.5, noise="laplace"), BUDGET)


def test_at_its_default_ridge_the_output_mechanism_is_the_objective_mechanism():
    """Same noise bits, same signs: what the card says of it is so, and at a smaller ridge it is not."""
    fits = {
        name: hr.OneBit(mechanism=name, ridge=ridge).complete(Curator(RATINGS, hr.Budget(4.0, unit="rating"), seed=5))
        for name, ridge in (("output", None), ("objective", None))
    }
    one, two = (completion.matrix.toarray() for _, completion in fits.values())
    assert np.allclose(one, two, atol=1e-6)
    assert np.ptp(one) > 0.1


def test_a_tilted_fits_line_in_the_ledger_does_not_say_that_it_had_no_noise():
    solver = hr.OneBit(mechanism="objective", form="paper", link="probit")
    line = next(line for line in hr.fit(RATINGS, solver, BUDGET).card().splitlines() if "tilted fit" in line)
    assert "laplace inside" in line
    assert "none" not in line
    free = hr.fit(RATINGS, hr.OneBit(mechanism="none"), FREE).card()
    assert " none " in next(line for line in free.splitlines() if "noisy signs" in line)
