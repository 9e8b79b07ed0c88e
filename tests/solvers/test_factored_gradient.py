"""DPLMC: Algorithm 1 in dense NumPy without noise, its noise and ledger, replay on the device, safety."""

import math

import numpy as np
import pytest

import hushrec as hr
from hushrec.engines.local import LocalEngine, LocalJob
from hushrec.privacy.accounting import gaussian_epsilon
from hushrec.privacy.curator import Curator
from hushrec.release.complete import coordinates
from hushrec.solvers import dplmc, dplmc_noise, factored_gradient
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
    """Dense NumPy, all users at once, from the random start or Algorithm 2; the public p alone. Returns U^T, V^T."""
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
    if solver.begin_with == "random":
        items = np.linalg.qr(np.random.default_rng(0).normal(size=(n, r)))[0] * math.sqrt(scale)
        users = cut(values @ items @ np.linalg.inv(items.T @ items) / solver.density, alpha_1)
    else:
        items, users = algorithm_2(values, solver.density, solver.start_scale, r, longest)
        users = cut(users, alpha_1)
    for _ in range(rounds):
        step = solver.step / max(scale, np.linalg.eigvalsh(items.T @ items)[-1])
        errors = np.where(seen, users @ items.T - values, 0.0)
        balance = users.T @ users - items.T @ items
        new_items = items - step / solver.density * cut(errors, longest).T @ users + step / 2 * items @ balance
        users = cut(users - step / solver.density * errors @ items - step / 2 * users @ balance, alpha_1)
        items = cut(new_items, alpha_2)
    return users, items


def algorithm_2(values, density, tau, rank, longest):
    """V⁰ Σ^½ of A = τ² Σ Y_i Y_iᵀ/p², rows cut to G, and U⁰ = τ Y V⁰ Σ^-½/p."""
    rows = cut(values, longest)
    vectors, sizes, _ = np.linalg.svd(tau**2 * rows.T @ rows / density**2)
    vectors, sizes = vectors[:, :rank], sizes[:rank]
    return vectors * np.sqrt(sizes), tau * values @ vectors / np.sqrt(sizes) / density


@pytest.mark.parametrize("bounds", [{}, UNCUT])
@pytest.mark.parametrize("start", [{"begin_with": "random"}, {"begin_with": "private", "start_scale": 0.7}])
def test_zero_noise_is_algorithm_1(start, bounds):
    ratings = random_ratings(users=120, items=ITEMS, seed=2)
    solver = hr.FactoredGradient(rounds=12, own_density=False, **PLAIN, **start, **bounds)
    release = hr.fit(ratings, solver, hr.NonPrivate())
    unit = begin(Curator(ratings, hr.NonPrivate()), centre=False, share=None, offset_prior=4.0).unit
    users, items = algorithm_1(ratings, solver, unit, 12)
    loadings = release.arrays["loadings"][:, 1:]
    found = coordinates(release, (*csr(ratings)[:2], ratings.values.astype(float)))[:, 1:]
    same = np.sign((loadings * items).sum(axis=0))  # eigenvectors of Algorithm 2 have no sign of their own
    assert np.abs(loadings * same - items).max() <= 1e-10 * np.abs(items).max()
    assert np.abs(found * same - users * unit).max() <= 1e-10 * np.abs(users * unit).max()


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


class Watched(Curator):
    """Keeps the noise of every answer."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.sigmas = {}

    def release(self, label, query):
        answer = super().release(label, query)
        self.sigmas[label] = answer.sigma
        return answer


def solved(ratings, solver, budget):
    """The noise of every answer, the ledger by name, the model, and α₁ and G in units of the mean deviation."""
    curator = Watched(ratings, budget, seed=0)
    model = solver.solve(curator)
    users = curator.shape.users
    alpha_1 = solver.user_bound * math.sqrt(solver.rank * math.sqrt(users * ITEMS / solver.rank) / users)
    return curator, model, alpha_1, solver.row_bound * math.sqrt(solver.density * ITEMS)


def test_sensitivities_are_the_tight_ones(planted):
    """√2 α₁² for R and 2 G α₁ for Q: the noise itself, from the settings and the planned shares of μ²."""
    budget = hr.Budget(5.0, 1e-6)
    solver = hr.FactoredGradient(
        begin_with="random", rounds=2, balance_share=0.3, user_bound=1.7, row_bound=0.6, **PLAIN
    )
    curator, _, alpha_1, longest = solved(planted[0], solver, budget)
    entries = {entry.name: entry for entry in curator.ledger}
    each = (1.0 - entries["counts"].share - entries["scale"].share) / 2
    for number in (1, 2):
        sigma = math.sqrt(2) * alpha_1**2 / (budget.mu * math.sqrt(0.3 * each))
        assert curator.sigmas[f"balance {number}"] == pytest.approx(sigma, rel=1e-6)
        sigma = 2 * longest * alpha_1 / (budget.mu * math.sqrt(0.7 * each))
        assert curator.sigmas[f"gradient {number}"] == pytest.approx(sigma, rel=1e-6)


def test_shares_follow_the_sensitivities_of_the_relation(planted):
    """ω at its default: the noise of R is what the rounds do not feel, under either relation."""
    shares = {}
    for relation, factor in (("replace-one", math.sqrt(2)), ("add-remove", 1.0)):
        budget = hr.Budget(5.0, 1e-6, relation=relation)
        curator = Curator(planted[0], budget, seed=0)
        begun = begin(curator, centre=False, share=None, offset_prior=4.0)
        solver = hr.FactoredGradient(begin_with="random", rounds=2, **PLAIN)
        scale, alpha_1 = math.sqrt(begun.users * ITEMS / RANK), 1.3
        found, sigma = dplmc_noise.exact_shares(solver, curator, scale, alpha_1, 2.0)
        each = curator.left() / 2
        wanted = (factor * alpha_1**2 / (budget.mu * math.sqrt(each)) / (0.2 * scale)) ** 2
        assert 1e-3 < wanted < 0.5
        assert found.balance == pytest.approx(wanted * each, rel=1e-9)
        assert sigma == pytest.approx(factor**2 * 2.0 * alpha_1 / (budget.mu * math.sqrt(found.gradient)), rel=1e-9)
        shares[relation] = found
    assert shares["add-remove"].balance < shares["replace-one"].balance


def worth(grams, sums, delta):
    """The claim's words for releases whose squares bound²/ν² sum to these: √2, 2 under replace-one; 1, 1 else."""
    replaced = gaussian_epsilon(math.sqrt(2 * grams + 4 * sums), delta)
    removed = gaussian_epsilon(math.sqrt(grams + sums), delta)
    return f"epsilon {replaced:.4g} under replace-one and {removed:.4g} under add-remove"


@pytest.mark.parametrize("readout", ["factors", "ridge"])
@pytest.mark.parametrize("begin_with", ["private", "random", "gram"])
def test_papers_noise_is_theorem_5_1_and_the_claim_says_what_it_is_worth(planted, begin_with, readout):
    budget, rounds, omega, log = hr.Budget(5.0, 1e-5), 20, 0.2, math.log(1e5)
    solver = hr.FactoredGradient(
        begin_with=begin_with, noise="paper", rounds=rounds, balance_share=omega, user_bound=1.7, row_bound=0.6,
        **{**PLAIN, "readout": readout},
    )  # fmt: skip
    curator, model, alpha_1, longest = solved(planted[0], solver, budget)
    epsilon = 5.0 if begin_with == "random" else 4.0
    nu_1 = alpha_1**2 * math.sqrt(8 * rounds * (log + epsilon)) / (math.sqrt(omega) * epsilon)
    nu_2 = 4 * alpha_1 * longest * math.sqrt(rounds * (log + epsilon)) / (math.sqrt(1 - omega) * epsilon)
    assert curator.sigmas["balance 1"] == pytest.approx(nu_1, rel=1e-6)
    assert curator.sigmas["gradient 20"] == pytest.approx(nu_2, rel=1e-6)
    grams, sums = rounds * alpha_1**4 / nu_1**2, rounds * (longest * alpha_1) ** 2 / nu_2**2
    (claim,) = model.claims
    if begin_with == "private":
        unit = begin(Curator(planted[0], budget, seed=0), centre=False, share=None, offset_prior=4.0).unit
        nu_0 = 4 * longest**2 * math.sqrt(log)
        assert curator.sigmas["gram"] == pytest.approx(nu_0 * unit**2, rel=1e-6)
        grams += longest**4 / nu_0**2
        assert "Theorem 5.3" in claim
        assert "together 5 at delta 2e-05" in claim
    else:
        assert "Theorem 5.3" not in claim
    assert f"epsilon {epsilon:g} for the noise of the rounds (Theorem 5.1)" in claim
    assert worth(grams, sums, 1e-5) in claim


def test_the_papers_omega_is_that_of_theorem_5_2(planted):
    solver = hr.FactoredGradient(begin_with="random", noise="paper", rounds=4, **PLAIN)
    curator, _, alpha_1, longest = solved(planted[0], solver, hr.Budget(5.0, 1e-6))
    ratio = curator.sigmas["balance 1"] / curator.sigmas["gradient 1"]
    omega = 1 / (1 + DENSITY * ITEMS / DENSITY**2)
    assert ratio == pytest.approx(alpha_1 / longest * math.sqrt((1 - omega) / (2 * omega)), rel=1e-6)


def test_the_papers_start_alone_is_claimed_alone():
    solver = hr.FactoredGradient(begin_with="private", noise="paper", start_epsilon=0.5, **PLAIN)
    curator = Curator(random_ratings(users=50, items=9, seed=0), hr.Budget(2.0, 1e-5))
    noise = dplmc_noise.paper_noise(solver, curator, DENSITY, 1.0)
    (claim,) = noise.claims(rounds=False)
    assert worth(0.25 / (16 * math.log(1e5)), 0.0, 1e-5) in claim
    assert "5.1" not in claim


@pytest.mark.parametrize("begin_with", ["private", "random", "gram"])
def test_a_fallback_claims_nothing_for_noise_that_was_never_drawn(planted, begin_with):
    solver = hr.FactoredGradient(noise="paper", begin_with=begin_with, **PLAIN)
    release = hr.fit(planted[0], solver, hr.Budget(0.02, 1e-6), seed=0)
    assert {entry.name for entry in release.guarantee.ledger} == {"counts", "scale"}
    assert release.guarantee.claims == ()


def test_papers_noise_that_cannot_fit_is_refused_before_a_rating_is_read(planted):
    curator = Curator(planted[0], hr.Budget(5.0, 1e-6), seed=0)
    with pytest.raises(hr.ConfigError, match="means_share"):
        hr.FactoredGradient(noise="paper", means_share=0.85).solve(curator)
    assert len(curator.ledger) == 0


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


@pytest.mark.parametrize("begin_with", ["gram", "private", "random"])
def test_where_rounds_are_hopeless_it_falls_back_to_item_means_and_says_so(planted, begin_with):
    train, _ = planted
    release = hr.fit(train, hr.FactoredGradient(begin_with=begin_with), hr.Budget(0.05, 1e-6), seed=0)
    (note,) = release.notes
    assert "none was run: predictions are item means and user offsets" in note
    assert [entry.name for entry in release.guarantee.ledger] == ["means", "ratings", "more means"]
    assert 0.0499 < release.guarantee.spent <= 0.05
    means = release.arrays["means"]
    assert np.ptp(release.complete(*train.user(3)) - means) < 1e-9


@pytest.mark.parametrize("budget", [hr.NonPrivate(), hr.Budget(50.0, 1e-6)], ids=["bare", "private"])
def test_users_with_few_ratings_get_few_factors(budget):
    """r log(m) ratings a user, as in the paper's experiments; who asks for factors gets them."""
    for per_user, factors in ((7, 0), (9, 2), (45, 5)):  # log(3000) = 8.0
        train, _ = hr.synthetic(users=3000, items=60, rank=1, per_user=per_user, seed=1)
        settings = {"begin_with": "random", "rounds": 2, "density": per_user / 60}
        release = hr.fit(train, hr.FactoredGradient(**settings), budget, seed=0)
        assert ("gradient 1" in [entry.name for entry in release.guarantee.ledger]) == (factors > 0)
        if factors:
            assert release.arrays["loadings"].shape[1] == 1 + factors
        words = f"{factored_gradient.TOO_FEW}: predictions are item means and user offsets."
        assert (words in release.notes) == (factors == 0)
        asked = hr.fit(train, hr.FactoredGradient(**settings, rank=3), budget, seed=0)
        assert asked.arrays["loadings"].shape[1] == 4


def test_a_fallback_without_item_means_says_what_it_predicts(planted):
    train, _ = planted
    release = hr.fit(train, hr.FactoredGradient(centre=False), hr.Budget(0.05, 1e-6), seed=0)
    (note,) = release.notes
    assert "middle of the value range" in note
    assert "unspent" in note
    assert release.guarantee.spent < 0.02
    middle = sum(train.value_range) / 2
    assert np.abs(release.complete(*train.user(3)) - middle).max() < 1e-9


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
        solver = hr.FactoredGradient(begin_with="random", rank=RANK, density=density, centre=False)
        curator = Curator(ratings, hr.Budget(epsilon, 1e-6), seed=0)
        begun = begin(curator, centre=False, share=None, offset_prior=4.0)
        plan = dplmc.make_plan(solver, curator, begun, density)
        return dplmc.predicted_noise(plan)

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
        {"start_scale": 0.0},
    ],
)
def test_settings_are_checked(settings):
    (name,) = settings
    with pytest.raises(hr.ConfigError, match=name):
        hr.FactoredGradient(**settings)


def test_papers_noise_without_room_is_refused(planted):
    with pytest.raises(hr.ConfigError, match="start_epsilon"):
        hr.fit(planted[0], hr.FactoredGradient(noise="paper", start_epsilon=3.0), hr.Budget(2.0, 1e-6), seed=0)
