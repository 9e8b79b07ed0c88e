"""Frank-Wolfe: the textbook algorithm without noise, the paper's own form, planted answers, honest epsilons."""

import math
import re

import numpy as np
import pytest
from scipy.special import ndtr
from threadpoolctl import threadpool_info, threadpool_limits

import hushrec as hr
from hushrec.data.ratings import Ratings
from hushrec.engines.local import LocalEngine
from hushrec.privacy.accounting import gaussian_epsilon, gaussian_mu
from hushrec.privacy.curator import Curator
from hushrec.release import card
from hushrec.release.complete import coordinates, predict_at
from hushrec.solvers import frank_wolfe
from making import csr, random_ratings

REPLAY = {"readout": "replay", "iterations": 12, "nuclear_norm": 40.0}


@pytest.fixture(scope="module")
def planted():
    return hr.synthetic(users=10_000, items=60, rank=1, per_user=20, seed=1)


def dense(ratings):
    values, seen = np.zeros((ratings.n_users, ratings.n_items)), np.zeros((ratings.n_users, ratings.n_items), bool)
    rows = np.repeat(np.arange(ratings.n_users), np.diff(ratings.indptr))
    values[rows, ratings.indices], seen[rows, ratings.indices] = ratings.values, True
    return values, seen


def textbook(target, seen, k, steps):
    """Frank-Wolfe on ‖P_Ω(Y − Y*)‖²/2 over a nuclear-norm ball, with full singular value decompositions."""
    y = np.zeros_like(target)
    for step in steps:
        u, _, vt = np.linalg.svd(np.where(seen, y - target, 0.0), full_matrices=False)
        y = (1 - step) * y + step * (-k * np.outer(u[:, 0], vt[0]))
    return y


def own_means(values, seen):
    return (values.sum(axis=1) / np.maximum(seen.sum(axis=1), 1))[:, None]


def everywhere(release, ratings):
    users = coordinates(release, csr(ratings))
    return release.arrays["means"] + users @ release.arrays["loadings"].T


@pytest.mark.parametrize("step", ["harmonic", "paper"])
def test_zero_noise_is_the_textbook_algorithm(step):
    ratings = random_ratings(users=40, items=15, seed=2)
    solver = hr.FrankWolfe(**REPLAY, step=step, step_scale=2.0, item_means=False, user_mean="none")
    release = hr.fit(ratings, solver, hr.NonPrivate())
    steps = [2 / (t + 2) if step == "harmonic" else 1 / 12 for t in range(12)]
    values, seen = dense(ratings)
    expected = textbook(np.where(seen, values - 3.0, 0.0), seen, 40.0, steps)
    np.testing.assert_allclose(
        everywhere(release, ratings) - 3.0, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max()
    )


def test_zero_noise_with_user_and_item_means_is_algorithm_2():
    ratings = random_ratings(users=40, items=15, seed=3)
    release = hr.fit(ratings, hr.FrankWolfe(**REPLAY, user_mean="once"), hr.NonPrivate())
    values, seen = dense(ratings)
    left = np.where(seen, values - release.arrays["means"], 0.0)
    offsets = left.sum(axis=1, keepdims=True) / (seen.sum(axis=1, keepdims=True) + 4.0)
    expected = textbook(np.where(seen, left - offsets, 0.0), seen, 40.0, [1 / (t + 1) for t in range(12)])
    found = everywhere(release, ratings) - release.arrays["means"] - offsets
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_algorithm_2_takes_out_the_plain_averages_of_items_and_users():
    """Unweighted, unshrunk, unclipped: np.mean over an item's raters, then over what is left of a user's row."""
    ratings = random_ratings(users=40, items=15, seed=3)
    values, seen = dense(ratings)
    items = np.array([values[seen[:, j], j].mean() for j in range(15)])
    left = np.where(seen, values - items, 0.0)
    users = np.array([left[i, seen[i]].mean() if seen[i].any() else 0.0 for i in range(40)])[:, None]
    expected = textbook(np.where(seen, left - users, 0.0), seen, 40.0, [2 / (t + 2) for t in range(12)])
    solver = hr.FrankWolfe(**REPLAY, averages="plain", step_scale=2.0)
    release = hr.fit(ratings, solver, hr.NonPrivate())
    np.testing.assert_allclose(release.arrays["means"], items, rtol=1e-12)
    np.testing.assert_allclose(coordinates(release, csr(ratings))[:, :1], users, atol=1e-12)
    found = everywhere(release, ratings) - items - users
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_plain_averages_of_items_that_nobody_rated_are_the_average_of_all():
    ratings = Ratings(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([1.0, 2.0, 5.0]), np.arange(3), (1, 5))
    release = hr.fit(ratings, hr.FrankWolfe(**REPLAY, averages="plain"), hr.NonPrivate())
    np.testing.assert_allclose(release.arrays["means"], [3.0, 2.0, 8 / 3])


def test_the_top_eigenvector_is_found_by_one_thread(monkeypatch):
    """On a busy machine several threads wait for each other, ten times as long as one needs."""
    threads, eigh = [], frank_wolfe.eigh

    def counting(*arguments, **more):
        threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return eigh(*arguments, **more)

    monkeypatch.setattr(frank_wolfe, "eigh", counting)
    with threadpool_limits(limits=2, user_api="blas"):
        hr.fit(random_ratings(users=30, items=10), hr.FrankWolfe(**REPLAY), hr.Budget(1.0, 1e-6))
    assert threads
    assert set(threads) == {1}


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_the_top_eigenvector_of_a_large_matrix_is_the_same(gap):
    rng, n = np.random.default_rng(0), frank_wolfe.LARGE + 50
    noise = rng.normal(size=(n, n)) / math.sqrt(n)
    matrix = noise + noise.T
    matrix[0, 0] += (3 + gap) * (gap > 0)
    values, vectors = np.linalg.eigh(matrix)
    value, vector = frank_wolfe._top(matrix)
    assert value == pytest.approx(values[-1], rel=1e-12)
    np.testing.assert_allclose(np.abs(vector), np.abs(vectors[:, -1]), atol=1e-9)
    assert frank_wolfe._top(np.zeros((n, n)))[0] == 0.0


def test_numbers_of_numpy_are_settings_like_others(tmp_path):
    solver = hr.FrankWolfe(readout="replay", iterations=np.int64(3), nuclear_norm=np.float64(5.0))
    hr.fit(random_ratings(users=30, items=10), solver, hr.Budget(1.0, 1e-6)).save(tmp_path / "model.hush")
    settings = hr.Release.load(tmp_path / "model.hush").solver
    assert (settings["iterations"], settings["nuclear_norm"]) == (3, 5.0)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_plain_averages_with_noise_keep_the_budget_and_tend_to_the_averages(planted, relation):
    values, seen = dense(planted[0])
    averages = values.sum(axis=0) / seen.sum(axis=0)
    solver = hr.FrankWolfe(readout="replay", iterations=3, averages="plain")
    errors = []
    for epsilon in (0.01, 20.0):
        release = hr.fit(planted[0], solver, hr.Budget(epsilon, 1e-6, relation=relation), seed=0)
        errors.append(np.abs(release.arrays["means"] - averages).max())
        assert release.guarantee.spent <= epsilon
        assert [entry.name for entry in release.guarantee.ledger].count("means") == 1
    assert errors[1] < 0.02 < errors[0]


def test_the_papers_noise_takes_the_papers_readout_where_none_is_named():
    ratings = random_ratings(users=30, items=10, seed=0)
    budget = hr.Budget(1.0, 1e-6)
    named = {"readout": "replay", "step": "paper", "noise": "paper", "iterations": 4}
    unnamed = {name: value for name, value in named.items() if name != "readout"}
    releases = [hr.fit(ratings, hr.FrankWolfe(**settings), budget, seed=0) for settings in (named, unnamed)]
    assert [release.kind for release in releases] == ["frank-wolfe", "frank-wolfe"]
    np.testing.assert_array_equal(releases[1].arrays["steps"][1:], np.full(4, 1 / 4))
    for name, array in releases[0].arrays.items():
        np.testing.assert_array_equal(array, releases[1].arrays[name])
    assert hr.FrankWolfe(noise="paper", readout="ridge").form == "ridge"
    assert hr.fit(ratings, hr.FrankWolfe(iterations=1), budget, seed=0).kind == "gaussian"


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": "paper"},
        {"step_scale": 2.0},
        {"nuclear_norm": 5.0},
        {"user_mean": "once"},
        {"averages": "plain"},
        {"failure": 0.1},
        {"noise": "paper", "readout": "ridge", "step": "paper"},
        {"readout": "replay", "directions": 3},
        {"noise": "paper", "offset_prior": 2.0},
        {"readout": "replay", "head": 10},
        {"claim": 1.0},
    ],
)
def test_settings_that_the_readout_or_the_noise_would_ignore_are_refused(wrong):
    name = list(wrong)[-1]
    with pytest.raises(hr.ConfigError, match=rf"^{name} belongs to the \w+ '\w+': with '\w+' it must be left out"):
        hr.FrankWolfe(**wrong)


def certificate(release):
    return [float(number) for number in re.findall(r"(?:risk|gap|norm) ([0-9.e+-]+[0-9])", release.notes[-1])]


def test_the_duality_gap_certifies_convergence():
    ratings = random_ratings(users=40, items=15, seed=2)
    settings = {**REPLAY, "step_scale": 2.0, "item_means": False, "user_mean": "none"}
    best = certificate(hr.fit(ratings, hr.FrankWolfe(**{**settings, "iterations": 600}), hr.NonPrivate()))
    previous = math.inf
    for rounds in (10, 40, 160):
        risk, gap, k = certificate(
            hr.fit(ratings, hr.FrankWolfe(**{**settings, "iterations": rounds}), hr.NonPrivate())
        )
        assert k == 40.0
        assert risk - best[0] <= gap < previous
        previous = gap
    assert best[1] < 0.1 * best[0]


def test_the_gap_is_the_one_of_the_definition():
    ratings = random_ratings(users=40, items=15, seed=4)
    release = hr.fit(ratings, hr.FrankWolfe(**REPLAY, item_means=False, user_mean="none"), hr.NonPrivate())
    values, seen = dense(ratings)
    scores = everywhere(release, ratings) - 3.0
    slope = np.where(seen, scores - (values - 3.0), 0.0)
    gap = (scores * slope).sum() + 40.0 * np.linalg.norm(slope, 2)
    risk, found, _ = certificate(release)
    assert found == pytest.approx(gap / seen.sum(), rel=1e-7)
    assert risk == pytest.approx(0.5 * (slope**2).sum() / seen.sum(), rel=1e-7)


def test_the_papers_form_is_algorithm_1_line_by_line():
    """With hardly any noise: Π_{L,Ω}, Y* cut to L, λ_biased, the own mean taken out once, step 1/T."""
    ratings = random_ratings(users=40, items=15, seed=5)
    bound, rounds, k = 2.0, 6, 30.0
    solver = hr.FrankWolfe(
        readout="replay", noise="paper", step="paper", iterations=rounds, nuclear_norm=k, row_bound=bound, claim=1e-3
    )
    release = hr.fit(ratings, solver, hr.NonPrivate())
    values, seen = dense(ratings)
    target = np.where(seen, values - own_means(values, seen), 0.0)
    length = np.linalg.norm(target, axis=1, keepdims=True)
    target *= np.minimum(1.0, bound / np.maximum(length, 1e-300))
    y = np.zeros_like(target)
    for _ in range(rounds):
        slope = np.where(seen, y - target, 0.0)
        squares, vectors = np.linalg.eigh(slope.T @ slope)
        v, length = vectors[:, -1], math.sqrt(squares[-1])
        y = (1 - 1 / rounds) * y - k / rounds * np.outer(slope @ v / length, v)
        norms = np.linalg.norm(np.where(seen, y, 0.0), axis=1, keepdims=True)
        y *= np.where(norms >= bound, bound / np.maximum(norms, 1e-300), 1.0)
    found = everywhere(release, ratings) - release.arrays["means"] - coordinates(release, csr(ratings))[:, :1]
    np.testing.assert_allclose(found, y, atol=1e-10)
    np.testing.assert_allclose(
        3.0 + coordinates(release, csr(ratings))[:, 0:1],
        np.where(seen.any(axis=1, keepdims=True), own_means(values, seen), 3.0),
    )


# Exact values of the paper's noise at delta = 1e-6, claimed -> (replace-one, add-remove), to the digits given.
PAPER = {0.1: (0.067, 0.046), 1.0: (0.79, 0.545), 5.0: (4.617, 3.128), 20.0: (24.68, 15.83)}


@pytest.mark.parametrize("claim", PAPER)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("readout", ["replay", "ridge"])
def test_the_papers_noise_costs_what_is_printed(claim, relation, readout):
    ratings = random_ratings(users=30, items=10, seed=0)
    exact = dict(zip(("replace-one", "add-remove"), PAPER[claim], strict=True))
    budget = hr.Budget(1.01 * exact[relation] + 0.01, 1e-6, relation=relation)
    solver = hr.FrankWolfe(readout=readout, noise="paper", claim=claim, iterations=5, row_bound=3.0)
    release = hr.fit(ratings, solver, budget)
    (claims,) = release.guarantee.claims
    printed = [float(number) for number in re.findall(r"([0-9.]+) (?:for the noise|under)", claims)]
    digits = {0.1: 3, 1.0: 3, 5.0: 3, 20.0: 2}[claim]
    assert printed[0] == claim
    assert [round(value, digits) for value in printed[1:]] == list(PAPER[claim])
    rounds = [entry for entry in release.guarantee.ledger if entry.name.startswith("round")]
    spent = gaussian_epsilon(math.hypot(*(entry.mu for entry in rounds)), 1e-6)
    assert spent == pytest.approx(printed[1 if relation == "replace-one" else 2], rel=1e-3)
    assert release.guarantee.spent <= budget.epsilon


@pytest.mark.parametrize(("claim", "claimed"), [(27.6, True), (27.7, False), (40.0, False)])
def test_nothing_is_said_to_be_claimed_beyond_the_theorems_own_condition(claim, claimed):
    """Theorem 3.1 holds for ε ≤ 2 log(1/δ), 27.63 at δ = 1e-6."""
    ratings = random_ratings(users=30, items=10, seed=0)
    solver = hr.FrankWolfe(noise="paper", claim=claim, iterations=3)
    release = hr.fit(ratings, solver, hr.Budget(80.0, 1e-6), seed=0)
    (words,) = release.guarantee.claims
    assert words.startswith(f"The paper claims epsilon {claim:g}") == claimed
    assert ("claims nothing: Theorem 3.1 ends at 2 log(1/delta) = 27.63" in words) != claimed
    assert "claims nothing" in card.text(release).replace("\n", " ") or claimed
    exact = gaussian_epsilon(math.sqrt(2) * claim / math.sqrt(4 * math.log(1e6)), 1e-6)
    assert f"{exact:.4g} under replace-one" in words


def test_the_papers_sigma_is_the_one_that_is_added():
    ratings = random_ratings(users=30, items=10, seed=0)
    solver = hr.FrankWolfe(readout="replay", noise="paper", iterations=5, row_bound=3.0)
    release = hr.fit(ratings, solver, hr.Budget(1.0, 1e-6))
    sigma = 9.0 * math.sqrt(64 * 5 * math.log(1e6)) / 1.0
    for entry in release.guarantee.ledger:
        # the ledger counts in grid units: sigma/sensitivity is free of units, the sensitivity is √2 (2L)²
        assert entry.scale / entry.sensitivity == pytest.approx(sigma / (math.sqrt(2) * 36.0), rel=1e-6)


def test_the_papers_noise_is_refused_where_it_would_overspend():
    ratings = random_ratings(users=30, items=10, seed=0)
    with pytest.raises(hr.BudgetError, match=r"really costs 24\.68 under replace-one"):
        hr.fit(ratings, hr.FrankWolfe(readout="replay", noise="paper"), hr.Budget(20.0, 1e-6))


@pytest.mark.parametrize("readout", ["ridge", "replay"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_budget_is_kept_and_spent(planted, readout, relation):
    budget = hr.Budget(1.0, 1e-6, relation=relation)
    release = hr.fit(planted[0], hr.FrankWolfe(readout=readout, schedule="paper"), budget)
    assert release.guarantee.spent <= 1.0
    assert release.guarantee.spent == pytest.approx(1.0, rel=1e-5)
    rounds = [entry for entry in release.guarantee.ledger if entry.name.startswith("round")]
    assert rounds[0].mu < rounds[-1].mu
    assert sum(entry.name == "users" for entry in release.guarantee.ledger) == (relation == "add-remove")


def test_planted_structure_is_found(planted):
    train, test = planted
    for readout, most in (("replay", 0.08), ("ridge", 0.02)):
        release = hr.fit(train, hr.FrankWolfe(readout=readout), hr.Budget(20.0, 1e-6), seed=0)
        assert hr.evaluate(release, train, test)["rmse"] < most


def test_training_and_device_agree():
    """After training, a user's own replay gives the scores that training kept, whatever the shards and caches."""
    ratings = random_ratings(users=200, items=12, seed=6)
    solver = hr.FrankWolfe(readout="replay", iterations=5, ratings_per_user=4)
    releases = [
        hr.fit(ratings, solver, hr.Budget(50.0, 1e-6), seed=3, engine=LocalEngine(workers=1, shards=shards))
        for shards in (1, 7)
    ]
    for name, array in releases[0].arrays.items():
        assert np.array_equal(array, releases[1].arrays[name])
    release, user = releases[0], 17
    alone = release.complete(*ratings.user(user))
    one = csr(ratings.rows(user, user + 1))
    together = predict_at(release, csr(ratings), (np.arange(0, 12 * 200 + 1, 12), np.tile(np.arange(12), 200)))
    np.testing.assert_allclose(alone, together.reshape(200, 12)[user], atol=1e-12)
    assert coordinates(release, one).shape == (1, 6)


def test_a_dropped_cache_changes_nothing(monkeypatch):
    ratings = random_ratings(users=60, items=12, seed=7)
    solver = hr.FrankWolfe(readout="replay", iterations=5)
    kept = hr.fit(ratings, solver, hr.Budget(50.0, 1e-6), seed=3)
    from hushrec.engines import local

    total = local.LocalJob.total

    def forgetful(job, work):
        job.caches = [{} for _ in job.caches]
        return total(job, work)

    monkeypatch.setattr(local.LocalJob, "total", forgetful)
    dropped = hr.fit(ratings, solver, hr.Budget(50.0, 1e-6), seed=3)
    for name, array in kept.arrays.items():
        assert np.array_equal(array, dropped.arrays[name])


def signs(users=4000, items=30, link="logistic", seed=0):
    """Yes and no answers from a planted rank-one matrix of scores; returns (ratings, chances of yes)."""
    rng = np.random.default_rng(seed)
    scores = 3.0 * np.outer(rng.uniform(-1, 1, users), rng.uniform(-1, 1, items)) + 0.5
    chances = 1 / (1 + np.exp(-scores)) if link == "logistic" else ndtr(scores)
    seen = rng.random((users, items)) < 0.6
    rows, columns = np.nonzero(seen)
    answers = (rng.random(len(rows)) < chances[rows, columns]).astype(float)
    ratings = Ratings.from_codes(rows, columns, answers, items=np.arange(items), value_range=(0, 1), n_users=users)
    return ratings, chances


@pytest.mark.parametrize("loss", ["logistic", "probit"])
@pytest.mark.parametrize("readout", ["replay", "ridge"])
def test_one_bit_answers_are_completed_at_user_level(loss, readout):
    ratings, chances = signs(link=loss)
    solver = hr.FrankWolfe(loss=loss, readout=readout)
    release = hr.fit(ratings, solver, hr.Budget(8.0, 1e-6), seed=1)
    found = predict_at(release, csr(ratings), (np.arange(0, 30 * 4000 + 1, 30), np.tile(np.arange(30), 4000)))
    error = np.sqrt(np.mean((found.reshape(4000, 30) - chances) ** 2))
    assert found.min() >= 0
    assert found.max() <= 1
    assert error < (0.75 if readout == "ridge" else 0.92) * chances.std()


def test_fewer_ratings_a_user_are_used_when_asked(planted):
    curator = Curator(planted[0], hr.NonPrivate())
    model = hr.FrankWolfe(readout="replay", iterations=2, ratings_per_user=5).solve(curator)
    assert model.settings["most"] == 5
    all_of_them = hr.fit(planted[0], hr.FrankWolfe(iterations=2), hr.Budget(5.0, 1e-6), seed=0)
    some = hr.fit(planted[0], hr.FrankWolfe(iterations=2, ratings_per_user=5), hr.Budget(5.0, 1e-6), seed=0)
    errors = [hr.evaluate(release, *planted)["rmse"] for release in (all_of_them, some)]
    assert errors[0] < errors[1]


def test_rounds_follow_public_quantities_alone():
    few, many = random_ratings(users=1000, seed=0, density=0.2), random_ratings(users=1000, seed=1, density=0.9)
    for readout in ("ridge", "replay"):  # at a budget where rounds are worth while: else noisy counts decide
        releases = [hr.fit(data, hr.FrankWolfe(readout=readout), hr.Budget(20.0, 1e-6)) for data in (few, many)]
        labels = [[entry.name for entry in release.guarantee.ledger] for release in releases]
        assert labels[0] == labels[1]


@pytest.mark.parametrize("data", ["empty rows", "one item", "two users"])
@pytest.mark.parametrize("readout", ["replay", "ridge"])
def test_small_data_of_every_shape_works(data, readout):
    ratings = {
        "empty rows": lambda: random_ratings(users=30, items=5, density=0.02),
        "one item": lambda: Ratings(np.array([0, 1, 1]), np.array([0]), np.array([3.0]), np.arange(1), (1, 5)),
        "two users": lambda: random_ratings(users=2, items=3),
    }[data]()
    for budget in (hr.Budget(1.0, 1e-6), hr.NonPrivate()):
        release = hr.fit(ratings, hr.FrankWolfe(readout=readout, iterations=3), budget, seed=0)
        assert np.isfinite(release.complete([], [])).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"readout": "guess"},
        {"noise": "none"},
        {"step": "line search"},
        {"schedule": "x"},
        {"user_mean": "x"},
        {"loss": "x"},
        {"iterations": 0},
        {"directions": 0},
        {"ratings_per_user": 0},
        {"head": 1},
        {"nuclear_norm": 0.0},
        {"claim": -1.0},
        {"row_bound": math.nan},
        {"failure": 1.0},
        {"sampling_seed": -1},
        {"loss": "probit", "noise": "paper"},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(hr.ConfigError, match=next(iter(wrong))):
        hr.FrankWolfe(**wrong)


@pytest.mark.slow
def test_planted_rank_one_reaches_its_targets():
    train, test = hr.synthetic(users=500_000, items=400, rank=1, per_user=80, seed=0, test_per_user=2)
    for epsilon, most in ((0.1, 0.10), (1.0, 0.045), (5.0, 0.03)):
        replay = hr.fit(train, hr.FrankWolfe(readout="replay"), hr.Budget(epsilon, 1e-6), seed=0)
        assert hr.evaluate(replay, train, test)["rmse"] <= most
    ridge = hr.fit(train, hr.FrankWolfe(), hr.Budget(1.0, 1e-6), seed=0)
    assert hr.evaluate(ridge, train, test)["rmse"] <= 0.045 / 2


def test_the_noise_scales_of_the_table_are_consistent():
    assert gaussian_mu(0.79, 1e-6) == pytest.approx(1 / math.sqrt(2 * math.log(1e6)), rel=1e-3)
