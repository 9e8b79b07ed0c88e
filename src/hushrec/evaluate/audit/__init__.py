"""The audit: every attack that we know, run against the user's own solver, settings and data shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hushrec.data.synthetic import surrogate
from hushrec.errors import ConfigError
from hushrec.evaluate.audit import attacks, black_box, flips, neighbours, noise, one_run, replay
from hushrec.evaluate.audit.report import AuditReport, Curve, Finding
from hushrec.evaluate.audit.subject import Shape, Subject
from hushrec.privacy.accounting import Budget
from hushrec.privacy.curator import Curator

__all__ = ["CHECKS", "AuditReport", "audit"]

CHECKS = ("neighbours", "noise", "replay", "black-box", "one-run", "attacks")
RATING_CHECKS = ("neighbours", "black-box")
"""Those that there are where single ratings are protected."""
LEAST_TRAININGS, MOST_CANARIES = 20, 5000


def audit(
    solver: Any = None,
    budget: Budget | None = None,
    *,
    users: int = 30,
    items: int = 8,
    value_range: tuple[float, float] | None = None,
    ratings_per_user: float | None = None,
    checks: tuple[str, ...] | None = None,
    trainings: int = 1000,
    canaries: int = 500,
    search: int = 40,
    confidence: float = 0.95,
    seed: int | None = None,
    curator: type[Curator] = Curator,
    top: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Try to break the guarantee of a solver at a budget, on generated data of this shape.

    solver: any solver with its settings (None: the default one); budget: its Budget. users, items: keep them
    small, since a user weighs most among few. value_range: None for (1, 5), and for (0, 1) where single ratings are
    protected. ratings_per_user: of the others, on average (None: a third of the
    items). checks: which of `CHECKS` (None: all). trainings: of the black box in each of two worlds; a single question
    is asked up to ten times as often, and an attack trains half as often. canaries: users of the one-run check whose
    rows are guessed. search: steps of the search for worse neighbours. top: as in `fit`. seed: repeatable noise; by
    default the noise is real.

    With a budget for single ratings (unit="rating") one rating is flipped; the checks are `RATING_CHECKS`.

    **Guarantee**: none; an audit can show that a system is broken, and that it finds nothing is no proof.

    >>> import hushrec as hr
    >>> report = audit(hr.SVD(), hr.Budget(1.0, 1e-6), checks=("neighbours", "noise", "replay"))
    >>> report.passed
    True
    """
    if not isinstance(budget, Budget):
        raise ConfigError("An audit needs the claim that it attacks: a Budget(epsilon, delta).")
    of_ratings = budget.unit == "rating"
    bounds = value_range or ((0.0, 1.0) if of_ratings else (1.0, 5.0))
    per_user = max(items / 3, 1.0) if ratings_per_user is None else ratings_per_user
    request = _Request(
        checks=_known(checks, RATING_CHECKS if of_ratings else CHECKS),
        shape=Shape(users, items, bounds, per_user),
        trainings=trainings,
        canaries=canaries,
        search=search,
        confidence=confidence,
        seed=seed,
        progress=progress,
    )
    if of_ratings and top is not None:
        raise ConfigError("top is for audits of users: where single ratings are protected, it is chosen for nothing.")
    if of_ratings:
        return _of_ratings(solver, budget, request)
    if solver is None:
        from hushrec.fit import default_solver

        solver = default_solver()
    return _of_users(Subject(solver=solver, budget=budget, curator=curator, top=top), budget, request)


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What is to be tried, and how hard."""

    checks: tuple[str, ...]
    shape: Shape
    trainings: int
    canaries: int
    search: int
    confidence: float
    seed: int | None
    progress: Callable[[int, int], None] | None

    def __post_init__(self) -> None:
        if self.trainings < LEAST_TRAININGS or not 4 <= self.canaries <= MOST_CANARIES or self.search < 0:
            raise ConfigError(
                f"trainings must be at least {LEAST_TRAININGS}, canaries from 4 to {MOST_CANARIES}, and search at "
                f"least 0."
            )
        if not 0.5 <= self.confidence < 1.0:
            raise ConfigError(f"confidence must be at least 0.5 and below 1, not {self.confidence}.")


def _known(checks: tuple[str, ...] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    for name in checks or ():
        if name not in known:
            where = " where single ratings are protected" if known == RATING_CHECKS and name in CHECKS else ""
            raise ConfigError(f"checks has {name!r}; known{where} are {', '.join(known)}.")
    return known if checks is None else checks


def _of_users(subject: Subject, budget: Budget, request: _Request) -> AuditReport:
    """The audit of a solver that protects users."""
    checks, shape, seed = request.checks, request.shape, request.seed
    world = shape.world(budget.relation)
    step = _counter(request)
    findings: list[Finding] = []
    curves: dict[str, Curve] = {}
    data = world.with_target(*world.nobody)
    training = subject.train(data, seed=seed)
    if "neighbours" in checks:
        findings += neighbours.check(subject, training, world, steps=request.search, seed=seed or 0)
    if "noise" in checks:
        findings += noise.check(subject, training, data, seed=seed)
        findings += noise.books(subject, training)
    if "replay" in checks:
        findings += replay.check(subject, world)
    how: dict[str, Any] = {"confidence": request.confidence, "seed": seed}
    many: dict[str, Any] = {**how, "trainings": request.trainings, "progress": step}
    if "black-box" in checks:
        found, drawn = black_box.check(subject, world, **many)
        findings, curves = findings + found, curves | drawn
    if "one-run" in checks:
        wide = shape.with_items(one_run.items_for(request.canaries, shape.items)).world(budget.relation)
        findings += one_run.check(subject, wide, canaries=request.canaries, **how)
    if "attacks" in checks:
        found, drawn = attacks.check(subject, world, shape.others, **many)
        findings, curves = findings + found, curves | drawn
    return _report(subject.solver, budget, request, findings, curves)


def _of_ratings(solver: Any, budget: Budget, request: _Request) -> AuditReport:
    """The audit of a solver that protects single ratings, whose positions are public."""
    if not hasattr(solver, "complete"):
        raise ConfigError('A budget with unit="rating" belongs to a solver for single ratings, such as OneBit().')
    shape, boxed = request.shape, "black-box" in request.checks
    people = surrogate(shape.users, shape.items, shape.per_user, shape.value_range, seed=0, rank=1)
    findings, curves, claim = flips.check(
        solver,
        budget,
        people,
        trials=request.trainings if boxed else LEAST_TRAININGS,
        confidence=request.confidence,
        seed=request.seed,
        progress=_counter(request),
    )
    chosen = [finding for finding in findings if finding.check.replace(" ", "-") in request.checks]
    report = _report(solver, claim or budget, request, chosen, curves if boxed else {})
    return replace(report, claimed=claim is not None)


def _report(
    solver: Any, claim: Budget, request: _Request, findings: list[Finding], curves: dict[str, Curve]
) -> AuditReport:
    return AuditReport(
        solver=type(solver).__name__,
        epsilon=claim.epsilon,
        delta=claim.delta,
        relation=claim.relation,
        mu=claim.mu if claim.delta else math.inf,
        confidence=request.confidence,
        findings=tuple(findings),
        curves=curves,
    )


def _counter(request: _Request) -> Callable[[], None]:
    """Counts the trainings of the black box and of the attacks."""
    done, total = 0, 2 * request.trainings * ("black-box" in request.checks)
    total += attacks.how_many(request.trainings) * ("attacks" in request.checks)

    def step() -> None:
        nonlocal done
        done += 1
        if request.progress is not None:
            request.progress(done, max(done, total))

    return step
