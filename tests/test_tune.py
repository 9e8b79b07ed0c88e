"""Tuning: the price of a selection against an independent accountant, the law of K, the hold-out, the choice."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event, rdp

import hushrec as hr
from hushrec.device import holdout
from hushrec.errors import BudgetError, ConfigError, ReleaseError
from hushrec.privacy.accounting import Ledger, LedgerEntry, gaussian_epsilon
from hushrec.privacy.curator import Curator
from hushrec.privacy.noise import SeededBits
from hushrec.privacy.queries import CooccurrenceGram, HeldOutErrors, HoldOut
from hushrec.privacy.selection import (
    Selected,
    composed_epsilon,
    draw_runs,
    log_gamma,
    selection_epsilon,
    selection_mu,
)
from hushrec.tune import Law, one_of, trial
from making import csr, random_ratings

BUDGET = hr.Budget(6.0, 1e-6)
RULE = HoldOut(salt=11, share=0.3)
MEANS = np.linspace(2.0, 4.0, 12)


def planted(users=1500, seed=0):
    return hr.synthetic(users=users, items=24, rank=1, per_user=12, test_per_user=4, noise=0.05, seed=seed)


# --- the price of a selection ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("mean", "mu", "delta"), [(1.5, 0.05, 1e-6), (10.0, 0.2, 1e-5), (40.0, 1.0, 1e-9)])
def test_the_price_is_that_of_an_independent_accountant(shape, mean, mu, delta):
    accountant = rdp.RdpAccountant(orders=1 + np.geomspace(1e-3, 4000, 1200))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1 / mu), mean, shape))
    theirs, ours = accountant.get_epsilon(delta), selection_epsilon(mu, delta, mean, shape)
    assert ours == pytest.approx(theirs, rel=5e-5)
    assert ours <= theirs * (1 + 1e-9)  # they search a grid of orders, all of which we may use


@pytest.mark.parametrize("mu", [0.0, 0.02, 0.3])
def test_fits_and_tunings_together_cost_what_an_independent_accountant_says(mu):
    chosen = [Selected(0.05, 10.0, 0.0), Selected(0.2, 3.0, 1.0), Selected(0.0, 5.0, 1.0)]
    accountant = rdp.RdpAccountant(orders=1 + np.geomspace(1e-3, 4000, 1200))
    for one in chosen[:2]:
        event = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1 / one.mu), one.mean, one.shape)
        accountant.compose(event)
    if mu:
        accountant.compose(dp_event.GaussianDpEvent(1 / mu))
    theirs, ours = accountant.get_epsilon(1e-6), composed_epsilon(mu, chosen, 1e-6)
    assert ours == pytest.approx(theirs, rel=5e-5)
    assert ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_a_selection_costs_more_than_a_run_and_the_inverse_is_safe(shape):
    for epsilon in (0.01, 1.0, 30.0):
        mu = selection_mu(epsilon, 1e-6, 10.0, shape)
        assert epsilon * (1 - 1e-9) <= selection_epsilon(mu, 1e-6, 10.0, shape) <= epsilon
        assert gaussian_epsilon(mu, 1e-6) < epsilon
    assert selection_epsilon(0.0, 1e-6, 10.0, shape) == 0.0
    assert selection_epsilon(math.inf, 1e-6, 10.0, shape) == selection_epsilon(0.1, 0.0, 10.0, shape) == math.inf


def law(mean, shape, most):
    """P(K = k) for k = 1..most, from the definition."""
    gamma = math.exp(log_gamma(mean, shape))
    weights = [1.0]
    for k in range(1, most):
        weights.append(weights[-1] * (1 - gamma) * (k + shape) / (k + 1))
    return np.array(weights) / math.fsum(weights)


@pytest.mark.parametrize(("mean", "shape"), [(4.0, 0.0), (4.0, 1.0), (2.5, 0.5)])
def test_the_number_of_runs_has_its_law(mean, shape):
    chances = law(mean, shape, 2000)
    assert chances @ np.arange(1, 2001) == pytest.approx(mean, rel=1e-9)
    edges = np.cumsum(chances)[:12]
    for k, edge in enumerate(edges, start=1):  # the inverse distribution function steps exactly there
        assert draw_runs(mean, shape, int((edge - 1e-12) * 2**128)) == k
        assert draw_runs(mean, shape, int((edge + 1e-12) * 2**128)) == k + 1
    assert draw_runs(mean, shape, 0) == 1


def test_a_candidate_is_drawn_uniformly():
    bits = SeededBits(2)
    counts = np.bincount([one_of(3, bits) for _ in range(6000)], minlength=3)
    assert np.all(np.abs(counts - 2000) < 5 * math.sqrt(6000 * 2 / 9))


# --- the ledger of a selection --------------------------------------------------------------------


def test_the_ledger_recomputes_the_price_from_its_entries():
    run = LedgerEntry("gram", "gaussian", sensitivity=1.0, scale=5.0, share=0.9, coordinates=10)
    choice = Law(mean=10.0, shape=0.0).entry()
    ledger = Ledger((run, run, choice))
    assert ledger.epsilon(1e-6) == pytest.approx(selection_epsilon(0.2 * math.sqrt(2), 1e-6, 10.0, 0.0), rel=1e-12)
    assert ledger.mu == math.inf  # no Gaussian curve bounds the best of several runs
    assert (choice.mu, choice.epsilon) == (0.0, 0.0)
    assert Ledger.from_list(ledger.to_list()) == ledger
    pure = LedgerEntry("count", "laplace", sensitivity=1.0, scale=5.0, share=0.1, coordinates=1)
    assert Ledger((run, pure, choice)).epsilon(1e-6) == math.inf  # nothing is proved for these
    assert Ledger((run, choice, choice)).epsilon(1e-6) == math.inf
    with pytest.raises(ConfigError):
        replace(choice, sensitivity=0.5)


# --- what is held out -----------------------------------------------------------------------------


def test_what_is_held_out_depends_on_her_own_row_alone():
    ratings = random_ratings(users=60, items=12)
    mask = RULE.mask(ratings)
    start, stop = int(ratings.indptr[20]), int(ratings.indptr[41])
    assert np.array_equal(RULE.mask(ratings.rows(20, 41)), mask[start:stop])
    assert not np.array_equal(HoldOut(salt=12, share=0.3).mask(ratings), mask)


def test_users_with_the_same_items_hold_out_different_ones_and_about_the_share():
    users, items = 4000, 20
    values = np.random.default_rng(1).uniform(1, 5, users * items)
    indptr, indices = np.arange(users + 1) * items, np.tile(np.arange(items, dtype=np.int32), users)
    mask = holdout.held_out(indptr, indices, values, 5, 0.25).reshape(users, items)
    sd = math.sqrt(0.25 * 0.75 / users)
    assert np.all(np.abs(mask.mean(axis=0) - 0.25) < 5 * sd)
    together = np.corrcoef(mask.T) - np.eye(items)
    assert np.abs(together).max() < 5.5 / math.sqrt(users)


def test_the_curator_hides_what_is_held_out_and_nothing_else():
    ratings = random_ratings(users=300, items=12)
    curator = Curator(ratings, hr.NonPrivate())
    curator.plan({"whole": 0.1, "rest": 0.1, "again": 0.1})
    whole = count(curator, "whole")
    curator.hold_out(RULE)
    rest = count(curator, "rest")
    curator.hold_out(None)
    assert whole == count(curator, "again") == ratings.n_ratings
    assert rest == ratings.n_ratings - RULE.mask(ratings).sum()


def count(curator, label):
    """How many ratings the curator's queries see, from the diagonal of a Gram of ones."""
    items = curator.shape.items
    gram = curator.release(label, CooccurrenceGram(bound=100.0, item_weights=np.ones(items))).parts[0]
    return round(float(np.trace(gram)))


def test_a_score_is_the_mean_of_the_users_held_out_errors():
    ratings = random_ratings(users=40, items=12, seed=3)
    arrays = {"means": MEANS, "loadings": np.ones((12, 1)), "precision": np.array([4.0]), "noise": np.ones(12)}
    query = HeldOutErrors(
        bound=1e6, hold_out=RULE, kind="gaussian", arrays=arrays, settings={}, unit=0.5, most=3.0, count_weight=0.3
    )
    curator = Curator(ratings, hr.NonPrivate())
    curator.plan({"score": 1.0})
    found = curator.release("score", query).parts[0]
    mask, expected = RULE.mask(ratings), np.zeros(2)
    for i in range(ratings.n_users):  # written out, a user at a time
        span = slice(int(ratings.indptr[i]), int(ratings.indptr[i + 1]))
        items, values, hidden = ratings.indices[span], ratings.values[span].astype(float), mask[span]
        if hidden.sum():
            own = (values - MEANS[items])[~hidden]
            guess = np.clip(MEANS[items[hidden]] + own.sum() / (len(own) + 4), 1, 5)
            weight = min(hidden.sum(), 3)
            expected += weight * np.array([np.mean((guess - values[hidden]) ** 2) / 0.5 - 1, 0.3])
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_errors_are_the_plain_ones():
    ratings = random_ratings(users=9, items=12)
    indptr, _, values = csr(ratings)
    found = holdout.mean_errors(indptr, values.astype(float), 4.0)
    for i in range(9):
        own = values[indptr[i] : indptr[i + 1]]
        weight = min(len(own), 4)
        assert found[i] == pytest.approx([weight * own.mean() if len(own) else 0.0, weight])


# --- tune -----------------------------------------------------------------------------------------


def test_the_release_keeps_the_asked_budget_and_says_how(tmp_path):
    train, _ = planted()
    release = hr.tune(train, [hr.SVD(rank=1), hr.Posterior(rounds=1)], BUDGET, trials_mean=3.0)
    promise = release.guarantee
    assert (promise.epsilon, promise.delta, promise.void) == (6.0, 1e-6, False)
    assert 6.0 * (1 - 1e-6) < promise.spent <= 6.0
    labels = [entry.name for entry in promise.ledger]
    assert labels[-2:] == ["score", "selection"]
    assert labels[0] == "means"
    assert any("Papernot" in claim for claim in promise.claims)
    assert "how long it took" in " ".join(promise.assumptions)
    release.save(tmp_path / "tuned.hush")
    assert hr.Release.load(tmp_path / "tuned.hush").guarantee == promise
    assert "best of runs" in release.card()
    with pytest.raises(ReleaseError):  # without the selection's price it would promise too much
        replace(
            release, guarantee=replace(promise, epsilon=gaussian_epsilon(Ledger(promise.ledger.entries[:-1]).mu, 1e-6))
        )


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_one_run_never_passes_its_own_budget(relation):
    train, _ = planted(users=300)
    each = Law(mean=5.0, shape=1.0).run_budget(hr.Budget(0.02, 1e-3, relation=relation))  # a tiny one too
    _, release = trial(Curator(train, each, seed=1), hr.SVD(), RULE, 0.1, 1)
    assert release.guarantee.ledger.mu <= each.mu * (1 + 1e-11)
    assert [entry.share for entry in release.guarantee.ledger if entry.name == "score"] == [0.1]


def test_the_better_candidate_is_chosen_and_equal_seeds_repeat():
    train, test = planted(users=4000)
    bad, good = hr.SVD(readout="projection", density=0.01), hr.SVD(rank=1)
    settings = {"trials_mean": 8.0, "shape": 1.0}
    chosen = [hr.tune(train, [bad, good], hr.Budget(20.0, 1e-6), seed=seed, **settings) for seed in (2, 3, 2)]
    assert chosen[0].solver["readout"] == chosen[1].solver["readout"] == "ridge"
    assert np.array_equal(chosen[0].arrays["loadings"], chosen[2].arrays["loadings"])
    assert not np.array_equal(chosen[0].arrays["loadings"], chosen[1].arrays["loadings"])
    assert chosen[0].guarantee.void
    free = hr.tune(train, [bad, good], hr.NonPrivate(), seed=2, **settings)
    assert free.guarantee.epsilon == math.inf
    assert hr.evaluate(chosen[0], train, test)["rmse"] < 1.5 * hr.evaluate(free, train, test)["rmse"]


def test_a_noisy_score_is_near_the_exact_one():
    train, _ = planted(users=4000)
    exact, _ = trial(Curator(train, hr.NonPrivate()), hr.SVD(rank=1), RULE, 0.2, None)
    # 2.2 % of noise, as the standard deviation over 30 seeds: a tenth is more than four of these
    noisy = [trial(Curator(train, hr.Budget(60.0, 1e-6), seed=k), hr.SVD(rank=1), RULE, 0.2, k)[0] for k in range(3)]
    assert noisy == pytest.approx([exact] * 3, rel=0.1)
    assert len({exact, *noisy}) == 4


def test_a_ledger_file_counts_a_tuning_once_and_whole(tmp_path):
    """The total is paid before any trial, so what the file says tells nothing of their number."""
    train, _ = planted(users=300)
    ledger = hr.Ledger.open(tmp_path / "ledger", total=hr.Budget(7.0, 1e-6))
    release = hr.tune(train, [hr.SVD(rank=1)], BUDGET, trials_mean=3.0, ledger=ledger)
    book = ledger.read()
    (run,) = book.runs.values()
    assert run.closed
    assert [entry.name for entry in run.spent] == ["selection", "best trial"]
    assert book.epsilon == pytest.approx(6.0, rel=1e-6)
    assert release.guarantee.spent <= book.epsilon
    with pytest.raises(BudgetError, match="pass the total"):
        hr.fit(train, hr.SVD(), hr.Budget(5.0, 1e-6), ledger=ledger)
    hr.fit(train, hr.SVD(), hr.Budget(0.5, 1e-6), ledger=ledger)
    assert not ledger.read().full


def test_the_ledger_is_left_alone_from_the_first_trial_on(tmp_path):
    """The number of trials is secret: no line, no time in the file and not its own may tell how long it took."""
    train, _ = planted(users=50)
    path, seen = tmp_path / "ledger", []

    class Watching:
        def solve(self, curator):
            seen.append((path.read_bytes(), path.stat().st_mtime_ns))
            return hr.SVD(rank=1).solve(curator)

    hr.tune(train, [Watching()], BUDGET, trials_mean=3.0, ledger=path)
    assert set(seen) == {(path.read_bytes(), path.stat().st_mtime_ns)}


def test_a_tuning_that_would_pass_the_total_reads_no_data_and_costs_nothing(tmp_path):
    class Untouchable(hr.LocalEngine):
        def attach(self, ratings):
            raise AssertionError("data was read")

    train, _ = planted(users=50)
    ledger = hr.Ledger.open(tmp_path / "ledger", total=hr.Budget(6.5, 1e-6))
    hr.fit(train, hr.SVD(), hr.Budget(2.0, 1e-6), ledger=ledger)
    before = ledger.read().epsilon
    for budget in (BUDGET, hr.Budget(5.9, 1e-6)):  # refused as a fit, and as a selection that composes worse than one
        with pytest.raises(BudgetError, match="no data was read"):
            hr.tune(train, [hr.SVD()], budget, ledger=ledger, engine=Untouchable())
        assert ledger.read().epsilon == before
    with pytest.raises(ConfigError, match="without a budget"):
        hr.tune(train, [hr.SVD()], hr.NonPrivate(), ledger=ledger, engine=Untouchable())


def test_a_tuning_that_fails_has_cost_the_whole(tmp_path):
    train, _ = planted(users=50)

    class Failing:
        def solve(self, curator):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        hr.tune(train, [Failing()], BUDGET, ledger=tmp_path / "ledger")
    book = hr.Ledger.open(tmp_path / "ledger").read()
    assert book.epsilon == pytest.approx(6.0, rel=1e-6)
    assert all(run.closed for run in book.runs.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidates": []},
        {"candidates": hr.SVD()},
        {"candidates": "svd"},
        {"candidates": [hr.SVD]},
        {"candidates": [hr.SVD(), 3]},
        {"budget": 1.0},
        {"trials_mean": 1.0},
        {"trials_mean": math.nan},
        {"shape": -0.5},
        {"score_share": 0.0},
        {"held_out": 1.0},
        {"budget": hr.Budget(1.0)},
    ],
)
def test_wrong_settings_are_refused(wrong):
    train, _ = planted(users=50)
    settings = {"candidates": [hr.SVD()], "budget": BUDGET, **wrong}
    with pytest.raises(ConfigError):
        hr.tune(train, **settings)
