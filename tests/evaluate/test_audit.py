"""The audit itself: its bounds are right, its attacks are strong, and sound solvers pass."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import hushrec as hr
from hushrec.evaluate.audit import CHECKS, audit
from hushrec.evaluate.audit.black_box import auc, curve, lower_bounds
from hushrec.evaluate.audit.one_run import epsilon_lower, p_value
from hushrec.evaluate.audit.report import TITLES
from hushrec.evaluate.audit.subject import isometric
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
    false, true = curve(scores, null)
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


def reached(form, epsilon, trainings, relation="replace-one"):
    """The share of μ that the black box proves at the worst canary."""
    budget = hr.Budget(epsilon, 1e-6, relation=relation)
    report = audit(OneQuery(form=form), budget, checks=("black-box",), trainings=trainings, users=5, items=4, seed=2)
    assert report.passed
    assert report.epsilon_lower <= epsilon
    return report.mu_lower / budget.mu


@pytest.mark.parametrize("form", ["Gram", "sum"])
def test_the_black_box_proves_half_of_mu(form):
    assert 0.5 <= reached(form, 8.0, 600) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["Gram", "sum"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("epsilon", "trainings"), [(1.0, 20_000), (8.0, 2_000)])
def test_the_black_box_proves_half_of_mu_at_every_claim(form, epsilon, trainings, relation):
    assert 0.5 <= reached(form, epsilon, trainings, relation) <= 1.0


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
        assert finding.figures["auc"] < finding.figures["auc_at_most"] + 0.15  # 40 trainings: 0.15 is luck


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"checks": ("nonsense",)}, "checks has"),
        ({"trainings": 3}, "trainings"),
        ({"users": 1}, "users"),
        ({"items": 10**6}, "items"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(hr.ConfigError, match=sentence):
        audit(hr.SVD(), hr.Budget(1.0, 1e-6), **options)


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
