"""DPLMC: Algorithm 1 in dense NumPy without noise, its noise and ledger, replay on the device, safety."""

import math

import numpy as np
import pytest

import hushrec as hr
from hushrec.engines.local import LocalEngine, LocalJob
from hushrec.privacy.accounting import gaussian_epsilon
from hushrec.privacy.curator import Curator
from hushrec.release.complete import coordinates
from hushrec.solvers import dplmc
from hushrec.solvers.beginnings import begin
from making import csr, random_ratings

USERS, ITEMS, RANK = 3000, 40, 2
DENSITY = 18 / ITEMS
PLAIN = {"centre": False, "rank": RANK, "density": DENSITY, "readout": "factors"}
UNCUT = {"user_bound": 1e5, "item_bound": 1e5, "row_bound": 1e5}


@pytest.fixture(scope="module")
def planted():
    return hr.synthetic(users=USERS, items=ITEMS, rank=RANK, per_user=18, noise=0.1, seed=1)


def cut(rows, longest):
    return rows * np.minimum(1.0, longest / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]


def algorithm_1(ratings, solver, unit, rounds):
    """Dense NumPy, all users at once, from the random start; the public p alone. Returns U^T, V^T."""
    m, n, r = ratings.n_users, ratings.n_items, solver.rank
    values, seen = np.zeros((m, n)), np.zeros((m, n), dtype=bool)
    rows = np.repeat(np.arange(m), np.diff(ratings.indptr))
    middle = sum(ratings.value_range) / 2
    values[rows, ratings.indices] = (ratings.values.astype(float) - middle) / unit
    seen[rows, ratings.indices] = True
    scale = math.sqrt(m * n / r)
    alpha_1 = solver.user_bound * math.sqrt(r * scale / m)
    alpha_2 = solver.item_bound * math.sqrt(r * scale / n)
    longest = solver.row_bound * math.sqrt(solver.density * n)
    items = np.linalg.qr(np.random.default_rng(0).normal(size=(n, r)))[0] * math.sqrt(scale)
    users = cut(values @ items @ np.linalg.inv(items.T @ items) / solver.density, alpha_1)
    for _ in range(rounds):
        step = solver.step / max(scale, np.linalg.eigvalsh(items.T @ items)[-1])
        errors = np.where(seen, users @ items.T - values, 0.0)
        balance = users.T @ users - items.T @ items
        new_items = items - step / solver.density * cut(errors, longest).T @ users + step / 2 * items @ balance
        users = cut(users - step / solver.density * errors @ items - step / 2 * users @ balance, alpha_1)
        items = cut(new_items, alpha_2)
    return users, items


@pytest.mark.parametrize("bounds", [{}, UNCUT])
def test_zero_noise_is_algorithm_1(bounds):
    ratings = random_ratings(users=120, items=ITEMS, seed=2)
    solver = hr.FactoredGradient(begin_with="random", rounds=12, own_density=False, **PLAIN, **bounds)
    release = hr.fit(ratings, solver, hr.NonPrivate())
    unit = begin(Curator(ratings, hr.NonPrivate()), centre=False, share=None, offset_prior=4.0).unit
    users, items = algorithm_1(ratings, solver, unit, 12)
    found = coordinates(release, (*csr(ratings)[:2], ratings.values.astype(float)))
    assert np.abs(release.arrays["loadings"][:, 1:] - items).max() <= 1e-10 * np.abs(items).max()
    assert np.abs(found[:, 1:] - users * unit).max() <= 1e-10 * np.abs(users * unit).max()


def test_without_noise_the_rate_is_linear():
    train, _ = hr.synthetic(users=600, items=ITEMS, rank=RANK, per_user=24, noise=0.0, seed=3)
    _, observed = train.user(0), train.values.astype(float)

    def error(rounds):
        settings = {**PLAIN, **UNCUT, "density": 0.6}
        release = hr.fit(train, hr.FactoredGradient(begin_with="random", rounds=rounds, **settings), hr.NonPrivate())
        users = coordinates(release, (train.indptr, train.indices, observed))
        rows = np.repeat(np.arange(train.n_users), np.diff(train.indptr))
        fitted = np.einsum("ik,ik->i", users[rows, 1:], release.arrays["loadings"][train.indices, 1:])
        return math.sqrt(np.mean((fitted - observed) ** 2))

    first, second, third = error(30), error(40), error(50)
    assert second < 0.5 * first
    assert 0.7 < (third / second) / (second / first) < 1.4
    assert third / second < dplmc_rate(step=0.5) ** 10


def dplmc_rate(step):
    from hushrec.solvers.theory_factored import contraction

    return contraction(step, 1.0)


class ForgetfulEngine(LocalEngine):
    """Drops every cache before each question: users compute their factors anew from the public past."""

    def attach(self, ratings):
        job = super().attach(ratings)
        return ForgetfulJob(workers=job.workers, shards=job.shards)


class ForgetfulJob(LocalJob):
    def total(self, work):
        self.caches = [{} for _ in self.shards]
        return super().total(work)


@pytest.mark.parametrize("begin_with", ["gram", "private", "random"])
def test_a_dropped_cache_changes_nothing(planted, begin_with):
    solver = hr.FactoredGradient(begin_with=begin_with, rounds=3, **PLAIN)
    kept, dropped = (
        hr.fit(planted[0], solver, hr.Budget(5.0, 1e-6), seed=0, engine=engine)
        for engine in (LocalEngine(shards=3), ForgetfulEngine(shards=2))
    )
    for name, array in kept.arrays.items():
        np.testing.assert_array_equal(array, dropped.arrays[name])


@pytest.mark.parametrize("readout", ["factors", "ridge"])
@pytest.mark.parametrize("begin_with", ["gram", "private", "random"])
def test_structure_is_found_under_privacy(planted, begin_with, readout):
    train, test = planted
    solver = hr.FactoredGradient(begin_with=begin_with, readout=readout, centre=False, rank=RANK)
    release = hr.fit(train, solver, hr.Budget(10.0, 1e-6), seed=0)
    assert hr.evaluate(release, train, test)["rmse"] < 0.6 * float(np.std(test.values))


def test_item_means_and_offsets_are_part_of_the_factors_readout():
    train, test = hr.synthetic(
        users=USERS, items=ITEMS, rank=RANK, per_user=18, noise=0.1, seed=1, value_range=(1.0, 5.0)
    )
    shifted = hr.Ratings(train.indptr, train.indices, np.clip(train.values + 0.5, 1, 5), train.items, (1.0, 5.0))
    release = hr.fit(shifted, hr.FactoredGradient(readout="factors", rank=RANK), hr.Budget(10.0, 1e-6), seed=0)
    found = release.complete(*shifted.user(7))
    assert abs(float(np.mean(release.arrays["means"])) - 3.5) < 0.2
    assert found.shape == (ITEMS,)
    answer = hr.evaluate(
        release, shifted, hr.Ratings(test.indptr, test.indices, test.values + 0.5, test.items, (1.0, 5.5))
    )
    assert answer["rmse"] < 0.6 * float(np.std(test.values))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_ledger_spends_the_budget_and_names_every_release(planted, relation):
    release = hr.fit(planted[0], hr.FactoredGradient(rounds=2), hr.Budget(5.0, 1e-6, relation=relation), seed=0)
    names = [entry.name for entry in release.guarantee.ledger]
    first = ["users"] if relation == "add-remove" else []
    rounds = ["balance 1", "gradient 1", "balance 2", "gradient 2"]
    assert names == [*first, "means", "ratings", "gram", *rounds]
    assert 4.99 < release.guarantee.spent <= 5.0


def test_sensitivities_are_the_tight_ones(planted):
    """√2 α₁² for R and 2 G α₁ for Q, in the units of the grid: (sensitivity/σ)² is exactly the planned share."""
    budget = hr.Budget(5.0, 1e-6)
    curator = Curator(planted[0], budget, seed=0)
    solver = hr.FactoredGradient(begin_with="random", rounds=2, balance_share=0.3, **PLAIN)
    solver.solve(curator)
    entries = {entry.name: entry for entry in curator.ledger}
    left = 1.0 - entries["counts"].share - entries["scale"].share
    for name, share in (("balance 1", 0.3), ("gradient 2", 0.7)):
        assert (entries[name].mu / budget.mu) ** 2 == pytest.approx(share * left / 2, rel=1e-6)


@pytest.mark.parametrize("begin_with", ["private", "random"])
def test_papers_noise_is_theorem_5_1_and_costs_less_than_it_claims(planted, begin_with):
    budget, rounds, omega = hr.Budget(5.0, 1e-5), 20, 0.2
    solver = hr.FactoredGradient(begin_with=begin_with, noise="paper", rounds=rounds, balance_share=omega, **PLAIN)
    release = hr.fit(planted[0], solver, budget, seed=0)
    epsilon = 5.0 - (0.0 if begin_with == "random" else 1.0)
    log = math.log(1e5)
    entries = {entry.name: entry for entry in release.guarantee.ledger}
    # μ = sensitivity/ν: α₁ and G cancel.
    nu_1 = math.sqrt(8 * rounds * (log + epsilon)) / (math.sqrt(omega) * epsilon)
    nu_2 = 4 * math.sqrt(rounds * (log + epsilon)) / (math.sqrt(1 - omega) * epsilon)
    assert entries["balance 1"].mu == pytest.approx(math.sqrt(2) / nu_1, rel=1e-6)
    assert entries["gradient 20"].mu == pytest.approx(2 / nu_2, rel=1e-6)
    if begin_with == "private":
        assert entries["gram"].mu == pytest.approx(math.sqrt(2) / (4 * math.sqrt(log)), rel=1e-6)
    rounds_mu = math.sqrt(rounds * (2 / nu_1**2 + 4 / nu_2**2))
    assert gaussian_epsilon(rounds_mu, 1e-5) < 0.7 * epsilon
    assert release.guarantee.spent < 5.0
    assert any("Theorem 5.1" in claim for claim in release.guarantee.claims)


@pytest.mark.parametrize("settings", [{"density": 0.01}, {"step": 1.0, "rounds": 40}, {"row_bound": 100.0}])
@pytest.mark.parametrize("epsilon", [0.01, 20.0, math.inf])
def test_nothing_diverges_at_any_epsilon(planted, epsilon, settings):
    train, test = planted
    budget = hr.NonPrivate() if math.isinf(epsilon) else hr.Budget(epsilon, 1e-6)
    for begin_with in ("gram", "random"):
        release = hr.fit(
            train, hr.FactoredGradient(begin_with=begin_with, readout="factors", **settings), budget, seed=0
        )
        assert hr.evaluate(release, train, test)["rmse"] < 1.5 * float(np.std(test.values))


def test_where_rounds_are_hopeless_it_falls_back_to_item_means_and_says_so(planted):
    train, _ = planted
    release = hr.fit(train, hr.FactoredGradient(), hr.Budget(0.05, 1e-6), seed=0)
    assert any("item means" in note for note in release.notes)
    assert not any(entry.name.startswith("gradient") for entry in release.guarantee.ledger)
    means = release.arrays["means"]
    assert np.ptp(release.complete(*train.user(3)) - means) < 1e-9


def test_a_factors_release_survives_its_file(planted, tmp_path):
    train, _ = planted
    release = hr.fit(train, hr.FactoredGradient(readout="factors"), hr.Budget(10.0, 1e-6), seed=0)
    assert release.kind == "factors"
    release.save(tmp_path / "model.hush")
    loaded = hr.Release.load(tmp_path / "model.hush")
    np.testing.assert_array_equal(loaded.complete(*train.user(3)), release.complete(*train.user(3)))


def test_predicted_noise_grows_with_noise_and_with_sparsity():
    ratings = random_ratings(users=500, items=30, seed=0)

    def predicted(epsilon, density):
        solver = hr.FactoredGradient(begin_with="random", density=density, centre=False)
        curator = Curator(ratings, hr.Budget(epsilon, 1e-6), seed=0)
        begun = begin(curator, centre=False, share=None, offset_prior=4.0)
        plan = dplmc.make_plan(solver, curator, begun, density)
        return dplmc.predicted_noise(plan, dplmc.start(solver, curator, begun, plan))

    assert predicted(1.0, 0.5) > 4 * predicted(5.0, 0.5)
    assert predicted(1.0, 0.1) > 2 * predicted(1.0, 0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"rank": 0},
        {"rounds": 0},
        {"step": 0.0},
        {"step": 1.5},
        {"density": 0.0},
        {"readout": "none"},
        {"begin_with": "warm"},
        {"noise": "loud"},
        {"balance_share": 1.0},
        {"user_bound": math.inf},
    ],
)
def test_settings_are_checked(settings):
    (name,) = settings
    with pytest.raises(hr.ConfigError, match=name):
        hr.FactoredGradient(**settings)


def test_papers_noise_without_room_is_refused(planted):
    with pytest.raises(hr.ConfigError, match="start_epsilon"):
        hr.fit(planted[0], hr.FactoredGradient(noise="paper", start_epsilon=3.0), hr.Budget(2.0, 1e-6), seed=0)
