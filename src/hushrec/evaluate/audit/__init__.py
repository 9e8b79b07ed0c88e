"""The audit: every attack that we know, run against the user's own solver, settings and data shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hushrec.data.synthetic import surrogate
from hushrec.errors import ConfigError
from hushrec.evaluate.audit import attacks, black_box, flips, neighbours, noise, one_run, replay
from hushrec.evaluate.audit.report import AuditReport, Curve, Finding
from hushrec.evaluate.audit.subject import Row, Subject, World, require_small, rows_of
from hushrec.privacy.accounting import Budget
from hushrec.privacy.curator import Curator

__all__ = ["CHECKS", "AuditReport", "audit"]

CHECKS = ("neighbours", "noise", "replay", "black-box", "one-run", "attacks")


def audit(
    solver: Any = None,
    budget: Budget | None = None,
    *,
    users: int = 30,
    items: int = 8,
    value_range: tuple[float, float] = (1.0, 5.0),
    checks: tuple[str, ...] = CHECKS,
    trainings: int = 1000,
    canaries: int = 60,
    search: int = 40,
    confidence: float = 0.95,
    seed: int | None = None,
    curator: type[Curator] = Curator,
    top: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Try to break the guarantee of a solver at a budget, on generated data of this shape.

    solver: any solver with its settings (None: the default one); budget: its Budget. users, items: keep them
    small, since a user weighs most among few. checks: which of `CHECKS`. trainings: of the black box, with and
    without the target each; the attacks make a fifth of that. canaries: users of the one-run check whose rows are
    guessed. search: steps of the search for worse neighbours. seed: repeatable noise; by default the noise is real.

    With a budget for single ratings (unit="rating") the checks are those of `flips`: one rating is flipped.

    **Guarantee**: none; an audit can show that a system is broken, and that it finds nothing is no proof.

    >>> import hushrec as hr
    >>> report = audit(hr.SVD(), hr.Budget(1.0, 1e-6), checks=("neighbours", "noise", "replay"))
    >>> report.passed
    True
    """
    if isinstance(budget, Budget) and budget.unit == "rating":
        return _of_ratings(solver, budget, users, items, trainings, confidence, seed, progress)
    subject, world = _laid_out(solver, budget, users, items, value_range, curator, top)
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        raise ConfigError(f"checks has {unknown[0]!r}; known are {', '.join(CHECKS)}.")
    if trainings < 20 or canaries < 4 or search < 0:
        raise ConfigError("trainings must be at least 20, canaries at least 4 and search at least 0.")
    if not 0.5 <= confidence < 1.0:
        raise ConfigError(f"confidence must be at least 0.5 and below 1, not {confidence}.")
    step = _counter(checks, trainings, progress)
    findings: list[Finding] = []
    curves: dict[str, Curve] = {}
    data = world.with_target(*world.nobody)
    training = subject.train(data, seed=seed)
    if "neighbours" in checks:
        findings += neighbours.check(subject, training, world, steps=search, seed=seed or 0)
    if "noise" in checks:
        findings += noise.check(subject, training, data, seed=seed)
        findings += noise.books(subject, training)
    if "replay" in checks:
        findings += replay.check(subject, world)
    options: dict[str, Any] = {"confidence": confidence, "seed": seed}
    if "black-box" in checks:
        found, drawn = black_box.check(subject, world, trainings=trainings, progress=step, **options)
        findings, curves = findings + found, curves | drawn
    if "one-run" in checks:
        findings += one_run.check(subject, world, canaries=canaries, **options)
    if "attacks" in checks:
        fewer = max(20, trainings // 10)
        people = _population(users, items, value_range)
        found, drawn = attacks.check(subject, world, people, trainings=fewer, progress=step, **options)
        findings, curves = findings + found, curves | drawn
    return AuditReport(
        solver=type(subject.solver).__name__,
        epsilon=subject.budget.epsilon,
        delta=subject.budget.delta,
        relation=subject.budget.relation,
        mu=subject.budget.mu if subject.budget.delta else math.inf,
        confidence=confidence,
        findings=tuple(findings),
        curves=curves,
    )


def _of_ratings(
    solver: Any, budget: Budget, users: int, items: int, trainings: int, confidence: float, seed: int | None,
    progress: Callable[[int, int], None] | None,
) -> AuditReport:  # fmt: skip
    """The audit of a solver that protects single ratings, whose positions are public."""
    if not hasattr(solver, "complete"):
        raise ConfigError('A budget with unit="rating" belongs to a solver for single ratings, such as OneBit().')
    people = surrogate(users, items, max(1.0, items / 3), (0.0, 1.0), seed=0, rank=1)
    step = _counter(("black-box",), trainings, progress)
    findings, curves = flips.check(
        solver, budget, people, trials=trainings, confidence=confidence, seed=seed, progress=step
    )
    return AuditReport(
        solver=type(solver).__name__,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        mu=budget.mu if budget.delta else math.inf,
        confidence=confidence,
        findings=tuple(findings),
        curves=curves,
    )


def _laid_out(
    solver: Any,
    budget: Budget | None,
    users: int,
    items: int,
    value_range: tuple[float, float],
    curator: type[Curator],
    top: int | None,
) -> tuple[Subject, World]:
    if not isinstance(budget, Budget):
        raise ConfigError("An audit needs the claim that it attacks: a Budget(epsilon, delta).")
    require_small(users, items)
    if solver is None:
        from hushrec.fit import default_solver

        solver = default_solver()
    others = _population(users, items, value_range)(0)
    world = World(others=others, n_items=items, value_range=value_range, relation=budget.relation)
    return Subject(solver=solver, budget=budget, curator=curator, top=top), world


def _population(users: int, items: int, value_range: tuple[float, float]) -> Callable[[int], tuple[Row, ...]]:
    """The other users, drawn anew for every number."""

    def drawn(number: int) -> tuple[Row, ...]:
        people = surrogate(users - 1, items, max(1.0, items / 3), value_range, seed=number, rank=2)
        return tuple(rows_of(people))

    return drawn


def _counter(
    checks: tuple[str, ...], trainings: int, progress: Callable[[int, int], None] | None
) -> Callable[[], None]:
    done, total = 0, 2 * trainings * ("black-box" in checks) + 24 * max(20, trainings // 10) * ("attacks" in checks)

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return step
