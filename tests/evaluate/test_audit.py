"""The audit itself: its bounds are right, its attacks are strong, and sound solvers pass."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import hushrec as hr
from hushrec.evaluate import plots
from hushrec.evaluate.audit import CHECKS, audit, one_run
from hushrec.evaluate.audit.attacks import drawn
from hushrec.evaluate.audit.black_box import asks, weighted
from hushrec.evaluate.audit.bounds import auc, curve, lower_bounds
from hushrec.evaluate.audit.one_run import ceiling, epsilon_lower, p_value
from hushrec.evaluate.audit.report import TITLES
from hushrec.evaluate.audit.subject import Shape, Subject, isometric
from hushrec.privacy import queries
from hushrec.privacy.meaning import gaussian_tradeoff
from hushrec.solvers.base import Model
from hushrec.solvers.registry import USER_SOLVERS, solver_class

# --- bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_bounds_hold_at_their_confidence_and_are_close(mu):
    """Against the Gaussian mechanism itself: 200 audits, at most 5 % wrong (and a little luck), most of μ found."""
    generator = np.random.default_rng(int(mu * 10))
    budget = hr.Budget(hr.privacy.accounting.gaussian_epsilon(mu, 1e-5), 1e-5)
    bounds = [lower_bounds(generator.normal(mu, 1, 4000), generator.normal(0, 1, 4000), 1e-5, 0.95) for _ in range(200)]
    assert sum(bound.mu > mu for bound in bounds) <= 10
    assert sum(bound.epsilon > budget.epsilon for bound in bounds) == 0
    assert np.mean([bound.mu for bound in bounds]) > 0.6 * mu


def test_thresholds_are_not_picked_by_luck():
    """The threshold that did best in the pilot is often an extreme one; then the rest of the trials proves little."""
    generator, mu = np.random.default_rng(11), 0.2367
    found = [
        lower_bounds(generator.normal(mu, 1, 10_000), generator.normal(0, 1, 10_000), 1e-6, 0.95).mu for _ in range(60)
    ]
    assert np.quantile(found, 0.05) > 0.55 * mu


def test_bounds_on_pure_randomized_response():
    generator = np.random.default_rng(3)
    keep = 1 / (1 + math.exp(-2.0))
    bounds = []
    for _ in range(100):
        answers = generator.random((2, 3000)) < np.array([[keep], [1 - keep]])
        bounds.append(lower_bounds(*answers.astype(float), 0.0, 0.95).epsilon)
    assert sum(bound > 2.0 for bound in bounds) <= 6
    assert np.mean(bounds) > 1.6


def test_bounds_of_blind_guessing_are_nothing():
    generator = np.random.default_rng(4)
    bound = lower_bounds(generator.normal(0, 1, 2000), generator.normal(0, 1, 2000), 1e-6, 0.999)
    assert bound.epsilon < 0.2
    assert bound.mu < 0.05


def test_a_system_without_noise_has_no_finite_claim():
    bound = lower_bounds(np.ones(2000), np.zeros(2000), 1e-6, 0.95)
    assert bound.epsilon > 5
    assert bound.mu > 4


def test_curve_and_auc_of_gaussians():
    generator = np.random.default_rng(5)
    scores, null = generator.normal(1, 1, 20_000), generator.normal(0, 1, 20_000)
    false, true, trials, private = curve(scores, null)
    assert (trials, private) == (20_000, True)
    np.testing.assert_allclose(true[1:-1], 1 - gaussian_tradeoff(false[1:-1], 1.0), atol=0.03)
    assert auc(scores, null) == pytest.approx(ndtr(1 / math.sqrt(2)), abs=0.01)
    assert auc(np.ones(3), np.ones(5)) == 0.5


@pytest.mark.parametrize(("canaries", "guesses", "right"), [(100, 100, 60), (300, 60, 45), (10, 5, 5), (8, 4, 0)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_p_value_against_the_theorem_term_by_term(canaries, guesses, right, delta, epsilon):
    q = math.exp(epsilon) / (1 + math.exp(epsilon))

    def f(v):
        return float(binom.pmf(np.arange(v, guesses + 1), guesses, q).sum())

    steepest = max(((f(right - i) - f(right)) / i for i in range(1, right + 1)), default=0.0)
    expected = min(1.0, f(right) + 2 * canaries * delta * steepest)
    assert p_value(canaries, guesses, right, epsilon, delta) == pytest.approx(expected, abs=1e-9)


def test_one_run_bound_holds_for_randomized_response():
    """Every canary answers by a coin of bias e^ε/(1 + e^ε): the hardest ε-DP system."""
    generator = np.random.default_rng(6)
    right = generator.binomial(400, 1 / (1 + math.exp(-1.5)), 400)
    bound_of = {v: epsilon_lower(400, 400, int(v), 0.0, 0.05) for v in set(right)}
    bounds = np.array([bound_of[v] for v in right])
    assert np.mean(bounds > 1.5) <= 0.06
    assert np.mean(bounds) > 1.1


# --- strength --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneQuery:
    """A solver of a single query with the whole budget."""

    form: str

    def solve(self, curator):
        n = curator.shape.items
        if self.form == "Gram":
            query = queries.ResidualGram(bound=2.0, means=np.full(n, 3.0), item_weights=np.ones(n))
        else:
            query = queries.ItemMoments(
                bound=0.3, centre=3.0, half_width=2.0, count_weight=0.3, mean_weight=0.2, offset_prior=1.0
            )
        curator.plan({"all": 1.0})
        noisy = curator.release("all", query)
        means = 3.0 + 0.0 * isometric(query, noisy.parts)[:n]
        arrays = {"means": means, "loadings": np.ones((n, 1)), "precision": np.ones(1), "noise": np.ones(n)}
        return Model(kind="gaussian", arrays=arrays)


def reached(solver, epsilon, trainings, relation="replace-one", **shape):
    """The share of μ that the black box proves, by question asked alone, or by whole transcripts."""
    budget = hr.Budget(epsilon, 1e-6, relation=relation)
    report = audit(solver, budget, checks=("black-box",), trainings=trainings, seed=2, **shape)
    assert report.passed
    assert report.epsilon_lower <= epsilon
    return {finding.name: finding.figures["mu_lower"] / budget.mu for finding in report.findings}


@pytest.mark.parametrize("form", ["Gram", "sum"])
def test_the_black_box_proves_half_of_mu(form):
    for share in reached(OneQuery(form=form), 8.0, 600, users=5, items=4).values():
        assert 0.5 <= share <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_every_question_of_the_default_solver_gives_half_of_mu_by_default(epsilon, relation):
    found = reached(None, epsilon, 1000, relation)
    alone = {name: share for name, share in found.items() if "alone" in name}
    assert len(alone) >= 3
    assert all(0.5 <= share <= 1.0 for share in alone.values()), alone


def test_an_answer_counts_by_the_noise_that_it_has():
    """Two answers of equal declared noise, one of which has none: together they tell as much as that one."""
    generator = np.random.default_rng(7)
    worlds = []
    for side in (0.5, -0.5):
        noisy = side * 0.04 + generator.normal(0.0, 0.2, 1000)
        worlds.append([{"noisy": (float(one), 0.04), "bare": (side * 0.04, 0.04)} for one in noisy])
    assert auc(*weighted(*worlds)) == 1.0
    plain = [np.array([one["noisy"][0] + one["bare"][0] for one in world]) for world in worlds]
    assert auc(*plain) < 0.65


def test_twins_draw_a_line_from_few_shadows():
    """Paired by their noise, 40 shadows of 80 numbers show the direction; unpaired ones leave it in the noise."""
    generator = np.random.default_rng(8)
    effect = np.zeros(80)
    effect[:8] = 0.35
    mixing = np.eye(80) + 0.3 * generator.normal(size=(80, 80)) / np.sqrt(80)

    def releases(count):
        return generator.normal(size=(count, 80)) @ mixing

    fresh = releases(2000), releases(2000)
    best = ndtr(np.sqrt(effect @ np.linalg.solve(mixing.T @ mixing, effect)) / np.sqrt(2))
    noise = releases(40)
    paired, unpaired = drawn(noise + effect, noise), drawn(releases(40) + effect, releases(40))
    found = [auc((fresh[0] + effect) @ line, fresh[1] @ line) for line in (paired, unpaired)]
    assert found[0] > 0.9 * best > found[1]
    leak = np.zeros((40, 80))
    leak[:, 79] = 1e-6  # a number without noise, however small
    still = noise.copy()
    still[:, 79] = 3.0
    line = drawn(still + leak + effect, still)
    there, instead = (np.column_stack((world[:, :79], np.full(2000, 3.0))) for world in fresh)
    assert auc((there + leak[0] + effect) @ line, instead @ line) == 1.0


@pytest.mark.slow
def test_with_little_privacy_the_release_gives_a_person_away():
    report = audit(hr.SVD(), hr.Budget(50.0, 1e-6), checks=("attacks",), trainings=600, seed=3)
    known = next(finding for finding in report.findings if "others known" in finding.name)
    assert known.figures["auc"] > 0.62  # what the solver does with its answers decides how much of them is left
    assert known.figures["auc_answers"] > 0.99


def test_one_run_comes_near_what_its_canaries_can_show():
    report = audit(hr.SVD(), hr.Budget(50.0, 1e-6), checks=("one-run",), canaries=150, seed=1)
    (found,) = report.findings
    assert 0.75 * found.figures["ceiling"] < found.figures["epsilon_lower"] <= found.figures["ceiling"]


def test_canaries_that_overlap_are_told_apart_together():
    """60 canaries on 13 items: each by itself is drowned by the others, as their coins are noise to it."""
    budget = hr.Budget(50.0, 1e-6)
    world = Shape(30, 13, (1.0, 5.0), 4.0).world("replace-one")
    generator = np.random.default_rng(0)
    pairs = [one_run._pair(world, generator) for _ in range(60)]
    coins = generator.integers(0, 2, 60).astype(bool)
    rows = [pair[0 if coin else 1][0] for pair, coin in zip(pairs, coins, strict=True)]
    subject = Subject(solver=hr.SVD(), budget=budget)
    found = one_run.estimated(subject.train(world.with_target(*rows), seed=1), subject, world, pairs)
    assert np.mean((found > 0) == coins) > 0.93


@pytest.mark.parametrize("canaries", [10, 300])
def test_the_ceiling_is_what_guessing_all_right_proves(canaries):
    right = [max(1, int(share * canaries)) for share in (0.1, 0.25, 0.5, 1.0)]
    assert ceiling(canaries, 1e-6, 0.05) == max(epsilon_lower(canaries, r, r, 1e-6, 0.05 / 4) for r in right)
    assert ceiling(canaries, 0.0, 0.05) == pytest.approx(-math.log((0.05 / 4) ** (-1 / canaries) - 1), rel=1e-9)


# --- reports ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report():
    return audit(hr.SVD(), hr.Budget(8.0, 1e-6), trainings=40, canaries=20, search=5, seed=0)


def test_an_audit_of_the_shipped_solver(report, tmp_path):
    assert report.passed, str(report)
    assert report.epsilon_lower <= 8.0
    assert {finding.check for finding in report.findings} == set(TITLES)
    text = report.to_text()
    assert all(title in text for title in TITLES.values())
    assert "no proof" in text
    plain = json.loads(report.to_json())
    assert plain["passed"] is True
    assert len(plain["findings"]) == len(report.findings)
    assert report.draw(tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes()[:4] == b"\x89PNG"


def test_without_privacy_the_same_attacks_succeed(report):
    known = [f for f in report.findings if f.check == "attacks" and "others known" in f.name]
    assert len(known) == 2
    for finding in known:
        assert finding.figures["auc_non_private"] > 0.99
        for name in ("auc", "auc_answers"):
            assert finding.figures[name] < finding.figures["auc_at_most"] + 0.2  # 20 trials: 0.2 is luck


def test_the_picture_tells_privacy_from_none_and_luck_from_success(report, tmp_path, monkeypatch):
    axes = []
    monkeypatch.setattr(plots, "style", lambda *given, style=plots.style: (axes.append(given[0]), style(*given))[1])
    assert report.draw(tmp_path / "audit.svg")
    lines = {line.get_label(): line for line in axes[0].get_lines()}
    dashed = {name for name, line in lines.items() if line.get_linestyle() == "--"}
    assert {name for name in lines if "without privacy" in name} == dashed
    assert len(dashed) == 3
    assert all("(n = " in name for name in lines if "private" in name or "alone" in name)
    assert len(axes[0].collections) == 1  # the band of luck above the best possible curve


def test_the_band_holds_the_luck_of_the_best_attacker():
    generator = np.random.default_rng(9)
    at, outside = np.linspace(0.05, 0.95, 19), []
    best = 1 - gaussian_tradeoff(at, 1.0)
    for _ in range(200):
        found = curve(generator.normal(1, 1, 250), generator.normal(0, 1, 250), points=21)
        outside.append(np.mean(found.true[1:-1] > plots.by_luck(at, best, 250)))
    assert 0.02 < np.mean(outside) < 0.08


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"checks": ("nonsense",)}, "checks has"),
        ({"trainings": 3}, "trainings"),
        ({"users": 1}, "users"),
        ({"items": 10**6}, "items"),
        ({"confidence": 1.0}, "confidence"),
        ({"canaries": 10**6}, "canaries"),
        ({"search": -1}, "search"),
        ({"ratings_per_user": math.nan}, "ratings_per_user"),
        ({"ratings_per_user": 9.0}, "ratings_per_user"),
        ({"value_range": (5.0, 1.0)}, "value_range"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(hr.ConfigError, match=sentence):
        audit(hr.SVD(), hr.Budget(1.0, 1e-6), **options)


@pytest.mark.parametrize("checks", [(name,) for name in CHECKS])
def test_a_noisy_choice_of_items_is_audited_too(checks):
    settings = {"top": 4, "value_range": (0.0, 10.0), "ratings_per_user": 5.0, "trainings": 20, "canaries": 10}
    report = audit(hr.SVD(), hr.Budget(8.0, 1e-6), checks=checks, search=2, seed=0, **settings)
    assert report.passed, str(report)
    assert checks != ("noise",) or any("top items" in finding.name for finding in report.findings)


def test_an_audit_of_single_ratings_makes_the_checks_that_are_asked_for():
    budget, small = hr.Budget(1.0, 1e-6, unit="rating"), {"users": 12, "items": 8, "trainings": 20, "seed": 0}
    solver = hr.OneBit(mechanism="input")
    report = audit(solver, budget, checks=("neighbours",), **small)
    assert {finding.check for finding in report.findings} == {"neighbours"}
    for wrong in (("nonsense",), ("noise",)):
        with pytest.raises(hr.ConfigError, match=f"checks has '{wrong[0]}'"):
            audit(solver, budget, checks=wrong, **small)
    with pytest.raises(hr.ConfigError, match="trainings"):
        audit(solver, budget, **{**small, "trainings": 3})


def test_the_report_holds_against_what_is_claimed():
    """Flipped signs keep a pure ε: the δ that was asked for stands in no claim, and no μ beside it."""
    budget, small = hr.Budget(1.0, 1e-6, unit="rating"), {"users": 12, "items": 8, "trainings": 20, "seed": 0}
    report = audit(hr.OneBit(mechanism="input"), budget, **small)
    assert (report.claimed, report.epsilon, report.delta, report.mu) == (True, 1.0, 0.0, math.inf)
    assert "μ" not in report.to_text()
    unclaimed = audit(hr.OneBit(mechanism="output", form="paper", rank=1), budget, **small)
    assert unclaimed.claimed is False
    assert "nothing is claimed of the release as a whole" in unclaimed.to_text()


def test_an_audit_needs_a_claim():
    with pytest.raises(hr.ConfigError, match="claim"):
        audit(hr.SVD(), hr.NonPrivate())


# --- every shipped solver --------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(USER_SOLVERS))
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_every_solver_keeps_to_its_books_and_its_door(name, relation):
    checks = ("neighbours", "noise", "replay")
    found = audit(solver_class(name)(), hr.Budget(8.0, 1e-6, relation=relation), checks=checks, search=0, seed=3)
    assert found.passed, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(USER_SOLVERS))
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_no_attack_on_any_solver_proves_more_than_it_claims(name, epsilon):
    found = audit(solver_class(name)(), hr.Budget(epsilon, 1e-6), checks=CHECKS, trainings=500, search=30, seed=4)
    assert found.passed, str(found)
    assert found.epsilon_lower <= epsilon


@pytest.mark.parametrize(("reached", "times"), [(2.0, 1000), (1.0, 1000), (0.5, 4000), (0.01, 4000)])
def test_a_question_that_no_row_moves_far_is_asked_more_often(reached, times):
    assert asks(hr.Budget(8.0, 1e-6), 1000, 100, reached) == times
