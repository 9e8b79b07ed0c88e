"""Each planted bug is caught by the check that docs/audit.md names, or refused by construction; sound twins pass."""

from pathlib import Path

import numpy as np
import pytest

import hushrec as hr
from enlisting import enlist
from evaluate.planted_bugs import BUGS, QUESTIONS, Eavesdropper, Sketch, estimate, paper_output_mechanism
from hushrec.evaluate.audit import audit
from hushrec.evaluate.audit.black_box import check_mechanism

CHEAP = ("neighbours", "noise", "replay")
BUDGET = {relation: hr.Budget(4.0, 1e-6, relation=relation) for relation in ("replace-one", "add-remove")}


@pytest.fixture(autouse=True)
def broken_questions_are_answered(monkeypatch):
    enlist(monkeypatch, *QUESTIONS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug):
    def run():
        return audit(bug.solver, BUDGET[bug.relation], curator=bug.curator, checks=CHEAP, search=5, seed=1)

    if bug.refused is not None:
        with pytest.raises(bug.refused):
            run()
    else:
        report = run()
        assert bug.caught_by in {finding.check for finding in report.broken}, str(report)
    assert Eavesdropper.heard == []


def statistical(bug, trainings, checks):
    return audit(bug.solver, BUDGET[bug.relation], curator=bug.curator, checks=checks, trainings=trainings, seed=1)


def named(name):
    return next(bug for bug in BUGS if bug.name == name)


@pytest.mark.parametrize(
    "name", ["noise skipped when a setting is unset", "no noise on the diagonal", "seeded noise", "clip off, Gram"]
)
def test_the_black_box_alone_catches_what_makes_noise_too_small(name):
    report = statistical(named(name), 40, ("black-box",))
    assert "black box" in {finding.check for finding in report.broken}, str(report)


def test_one_answer_without_noise_is_not_drowned_by_the_others():
    """Weighted by the noise that was declared, the Gram without any tells no more than the other answers let it."""
    report = statistical(named("noise skipped when a setting is unset"), 40, ("black-box",))
    (whole,) = [finding for finding in report.findings if finding.name == "whole transcript"]
    assert whole.figures["auc"] == 1.0


def test_one_training_shows_that_noise_is_missing():
    bug = named("noise skipped when a setting is unset")
    for solver, broken in ((bug.solver, True), (Sketch(), False)):
        report = audit(solver, hr.Budget(1.0, 1e-6), checks=("one-run",), canaries=300, seed=1)
        assert report.passed is not broken, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.also], ids=lambda bug: bug.name)
def test_the_statistical_checks_catch_what_the_table_says(bug):
    checks = tuple(check.replace(" ", "-") for check in bug.also)
    report = statistical(bug, 350, checks)
    assert {finding.check for finding in report.broken} == set(bug.also), str(report)


@pytest.mark.parametrize("relation", sorted(BUDGET))
def test_the_sound_twin_passes(relation):
    report = audit(Sketch(), BUDGET[relation], checks=CHEAP, search=20, seed=1)
    assert report.passed, str(report)


@pytest.mark.slow
def test_sound_twins_raise_no_alarm_in_20_runs():
    alarms = []
    for run in range(20):
        relation = sorted(BUDGET)[run % 2]
        report = audit(Sketch(), BUDGET[relation], trainings=300)  # real noise: another run each time
        alarms += [str(finding) for finding in report.broken]
    assert alarms == []


def test_the_list_is_long_enough_and_documented():
    assert len(BUGS) >= 14
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    table = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:4]]
        for line in page.splitlines()
        if line.count("|") > 4
    }
    for bug in BUGS:
        assert table[bug.name.replace("|", "")] == [bug.caught_by, ", ".join(bug.also)]


def test_the_output_mechanism_of_the_one_bit_paper_is_caught():
    """One flipped sign moves all entries of the estimate: noise for one entry does not cover them together."""
    generator = np.random.default_rng(0)
    truth = np.sign(generator.standard_normal((30, 1)) @ generator.standard_normal((1, 30)))
    signs = np.where(generator.random((30, 30)) < 0.15, truth, 0.0)
    flipped = signs.copy()
    flipped[tuple(np.argwhere(signs != 0)[0])] *= -1
    there, instead = estimate(signs), estimate(flipped)
    moved = float(np.abs(there - instead).sum())
    assert moved > 2 * 2.0  # the paper's bound on it is 2α = 2

    def likelihood_ratio(seen):
        return float(np.abs(seen - instead).sum() - np.abs(seen - there).sum())

    epsilon = 1.0
    report = check_mechanism(
        paper_output_mechanism(epsilon, generator),
        signs,
        flipped,
        likelihood_ratio,
        hr.Budget(epsilon, unit="rating"),
        trainings=4000,
    )
    assert not report.passed, report.says

    def sound(seen_signs):  # the same estimate with noise for what really moves
        return (there if seen_signs is signs else instead) + generator.laplace(scale=moved / epsilon, size=there.shape)

    twin = check_mechanism(sound, signs, flipped, likelihood_ratio, hr.Budget(epsilon, unit="rating"), trainings=4000)
    assert twin.passed, twin.says
