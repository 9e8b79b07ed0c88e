"""The noise that is added against the noise that is declared, and the books: all that left was paid for.

Each query of the plan is asked again and again on the same data. What remains when the exact sums are taken off
must be Gaussian noise of the declared size in every isometric coordinate, new each time.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.stats import chi2

from hushrec.data.ratings import Ratings
from hushrec.errors import BudgetError
from hushrec.evaluate.audit.report import Finding
from hushrec.evaluate.audit.subject import Answer, Floats, Subject, Training, exact, isometric, scale_of
from hushrec.privacy.accounting import Budget, gaussian_epsilon
from hushrec.privacy.forms import GramQuery, Query, SumQuery

ALARM = 1e-7
"""How seldom each single test of a sound system may fail by chance."""

SAMPLES = 400
MOST_ASKED = 400


def check(subject: Subject, training: Training, ratings: Ratings, *, seed: int | None) -> list[Finding]:
    """The noise of every query of a training."""
    return [_noise(subject, answer, ratings, seed) for answer in training.answers]


def _noise(subject: Subject, answer: Answer, ratings: Ratings, seed: int | None) -> Finding:
    scale = scale_of(answer, subject.budget)
    truth = isometric(answer.query, [part * scale.unit for part in exact(answer, scale, ratings)])
    groups = _groups(answer.query, len(answer.kept))
    smallest = min(part.stop - part.start for part in groups.values())
    times = min(max(4, -(-SAMPLES // max(smallest, 1))), MOST_ASKED)
    asked = [
        _ask(subject, answer, ratings, None if seed is None else seed * 1_000_003 + number) for number in range(times)
    ]
    noise = np.array([(found - truth) / (scale.sigma * scale.unit) for found in asked])
    problem = _problem(noise, groups)
    size = float(np.sqrt(np.mean(noise**2)))
    return Finding(
        check="noise",
        name=f"{answer.label} ({answer.query.name})",
        passed=problem == "",
        says=problem or f"{size:.3f} of the declared deviation over {noise.size} numbers, new each time",
        figures={"deviation": size, "samples": noise.size},
    )


def _ask(subject: Subject, answer: Answer, ratings: Ratings, seed: int | None) -> Floats:
    return isometric(answer.query, subject.ask(answer, ratings, share=answer.share, seed=seed).parts)


def _problem(noise: Floats, groups: dict[str, slice]) -> str:
    if not np.isfinite(noise).all():
        return "the answer is not finite"
    if any(np.array_equal(a, b) for a, b in itertools.pairwise(noise)):
        return "the same noise came twice, or there is none"
    for name, where in groups.items():
        squares, count = float(np.sum(noise[:, where] ** 2)), noise[:, where].size
        low, high = chi2.ppf((ALARM / 2, 1.0 - ALARM / 2), count)
        if not low <= squares <= high:
            return f"{name} has {math.sqrt(squares / count):.3f} of the declared deviation"
    pairs = noise[:-1] * noise[1:]
    if abs(float(pairs.sum())) > 6.0 * math.sqrt(pairs.size):  # 6 standard deviations of independent noise
        return "the noise of one answer tells about that of the next"
    return ""


def _groups(query: Query, n_items: int) -> dict[str, slice]:
    """Parts of the coordinates that a mistake would treat apart: a block of a sum, the diagonal of a Gram."""
    if isinstance(query, SumQuery):
        sizes = [math.prod(shape) for shape in query.shapes(n_items)]
        parts = {f"block {number}": size for number, size in enumerate(sizes, 1)}
    else:
        size = query.size(n_items) if isinstance(query, GramQuery) and query.diagonal else 0
        parts = {"the diagonal": size, "what is off the diagonal": query.coordinates(n_items) - size}
    edges = np.cumsum([0, *parts.values()]).tolist()
    cuts = itertools.starmap(slice, itertools.pairwise(edges))
    apart = {name: cut for name, cut in zip(parts, cuts, strict=True) if cut.stop > cut.start}
    return {"the noise": slice(0, edges[-1])} | (apart if len(apart) > 1 else {})


def books(subject: Subject, training: Training) -> list[Finding]:
    """Every answer stands in the ledger, at its own cost, and the total is the budget at most."""
    budget = subject.budget
    if not isinstance(budget, Budget):
        return []
    ledger = training.release.guarantee.ledger
    labels = [entry.name for entry in ledger]
    problems = []
    if len(training.answers) != len(labels) or training.reads != len(labels):
        problems.append(
            f"{len(training.answers)} answers left and the data were read {training.reads} times for "
            f"{len(labels)} entries in the ledger"
        )
    costs = [_cost(answer, subject) for answer in training.answers]
    total = math.hypot(*costs)
    reached = gaussian_epsilon(total, budget.delta) if budget.delta else math.inf * bool(total)
    if not reached <= budget.epsilon * (1.0 + 1e-9):
        problems.append(f"the answers together cost ε = {reached:.4g}")
    if not training.release.guarantee.spent <= budget.epsilon * (1.0 + 1e-12):
        problems.append(f"the ledger shows ε = {training.release.guarantee.spent:.4g}")
    return [
        Finding(
            check="books",
            name="all answers",
            passed=not problems,
            says="; ".join(problems) or f"{len(labels)} answers, ε = {reached:.6g} of {budget.epsilon:g}",
            figures={"answers": len(training.answers), "entries": len(labels), "epsilon": reached},
        ),
        _over_plan(subject, training),
    ]


def _cost(answer: Answer, subject: Subject) -> float:
    """μ of an answer: the query's sensitivity in the unit of the values over the noise that it came with."""
    if answer.noisy.sigma == 0.0:
        return math.inf
    return answer.query.sensitivity(subject.budget.relation) / answer.noisy.sigma


def _over_plan(subject: Subject, training: Training) -> Finding:
    """What was not planned, or was answered already, must be refused."""
    curator, answers = training.curator, training.answers
    allowed = []
    for label in (*[answer.label for answer in answers[-1:]], "never planned"):
        try:
            curator.release(label, answers[-1].query)
            allowed.append(label)
        except BudgetError:
            continue
    return Finding(
        check="books",
        name="more than the plan",
        passed=not allowed,
        says=f"{' and '.join(map(repr, allowed))} was answered" if allowed else "refused before any rating is read",
    )
