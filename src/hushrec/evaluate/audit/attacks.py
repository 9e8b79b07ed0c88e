"""The attacks that people fear, on what anyone has: the release file, and what colluding users see on their devices.

*Membership*: was this person's row in the data, or somebody else's? *Reconstruction*: all her ratings but one are
known; was that one high or low? The attacker trains on shadow releases of both worlds and draws the best line
between them; fresh releases judge him. The same attack on the same solver without privacy stands beside it. The
other users are known to him (the strongest attacker), or drawn anew each time (he knows only the population).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrec.errors import HushrecError
from hushrec.evaluate.audit.black_box import auc, curve, finding
from hushrec.evaluate.audit.report import Curve, Finding
from hushrec.evaluate.audit.subject import Row, Subject, World
from hushrec.privacy.accounting import NonPrivate
from hushrec.release.file import Release

Floats = NDArray[np.float64]
COLLUDING = 4


@dataclass(frozen=True)
class Attack:
    """Two worlds that differ in one person's row, and whether the attacker knows everybody else's."""

    name: str
    there: tuple[Row, ...]
    instead: tuple[Row, ...]
    knows_others: bool


def plans(world: World) -> list[Attack]:
    """Membership and reconstruction, the latter of the rating of one item among all items."""
    low, high = world.value_range
    every = np.arange(world.n_items)
    swing = np.where(every % 2 == 0, low, high)
    first = np.concatenate(([low], swing[1:]))
    second = np.concatenate(([high], swing[1:]))
    target = (every, swing)
    return [
        Attack("membership, the others known", (target,), world.nobody, True),
        Attack("membership, the population known", (target,), world.nobody, False),
        Attack("reconstruction of one rating, the others known", ((every, first),), ((every, second),), True),
    ]


def check(
    subject: Subject,
    world: World,
    population: Callable[[int], tuple[Row, ...]],
    *,
    trainings: int,
    confidence: float,
    seed: int | None,
    progress: Callable[[], None],
) -> tuple[list[Finding], dict[str, Curve]]:
    """Each attack on the private solver and on its non-private twin."""
    twin = replace(subject, budget=NonPrivate(relation=subject.budget.relation))
    best = 0.5 + 0.5 * math.erf(subject.budget.mu / 2.0) if subject.budget.delta else 1.0
    findings, curves = [], {}
    for attack in plans(world):
        aucs = {}
        for who, audited in (("private", subject), ("without privacy", twin)):
            scores, null = _scores(attack, audited, world, population, trainings, seed, progress)
            aucs[who] = auc(scores, null)
            curves[f"{attack.name}, {who}"] = curve(scores, null)
            if audited is subject:
                report = finding(
                    "attacks", attack.name, scores, null, subject.budget, confidence, "release, colluding users"
                )
        says = (
            f"AUC {aucs['private']:.3f} (at most {best:.3f} for anyone), without privacy {aucs['without privacy']:.3f}"
        )
        figures = {**report.figures, "auc_non_private": aucs["without privacy"], "auc_at_most": best}
        findings.append(replace(report, says=f"{says}; {report.says}", figures=figures))
    return findings, curves


def _scores(
    attack: Attack,
    subject: Subject,
    world: World,
    population: Callable[[int], tuple[Row, ...]],
    trainings: int,
    seed: int | None,
    progress: Callable[[], None],
) -> tuple[Floats, Floats]:
    """Scores of fresh releases in the two worlds, by a line that was drawn on as many shadow releases."""
    features: list[Floats] = []
    for which, rows in enumerate((attack.there, attack.instead)):
        seen = []
        for number in range(2 * trainings):
            others = world.others if attack.knows_others else population(2 * number + which)
            data = replace(world, others=others).with_target(*rows)
            noise = None if seed is None else (2 * number + which) * 65_537 + seed + 1
            seen.append(visible(subject.train(data, seed=noise).release))
            progress()
        features.append(np.array(seen))
    there, instead = features
    line = _line(there[:trainings], instead[:trainings])
    return there[trainings:] @ line, instead[trainings:] @ line


def visible(release: Release) -> Floats:
    """What an attacker has: the public arrays (up to rotations) and the predictions on colluding users' devices."""
    low, high = release.value_range
    seen = [release.arrays["means"]] if "means" in release.arrays else []
    if "loadings" in release.arrays:
        loadings = release.arrays["loadings"]
        seen.append((loadings @ loadings.T)[np.tril_indices(len(loadings))])
    for user in range(COLLUDING):
        rated = np.arange(user % 2, release.n_items, 2)
        values = np.where((rated // 2 + user // 2) % 2 == 0, low, high)
        try:
            seen.append(release.complete(release.items[rated], values))
        except HushrecError:
            continue
    return np.concatenate(seen)


def _line(there: Floats, instead: Floats) -> Floats:
    """Fisher's linear discriminant, with as much ridge as makes few shadows enough."""
    both = np.concatenate((there - there.mean(axis=0), instead - instead.mean(axis=0)))
    spread = both.std(axis=0)
    scale = np.where(spread > 1e-12, spread, 1.0)
    distance = (there.mean(axis=0) - instead.mean(axis=0)) / scale
    _left, sizes, right = np.linalg.svd(both / scale, full_matrices=False)
    ridge = 0.1 * float(np.mean(sizes**2)) + 1e-12
    inside = right @ distance
    solved = right.T @ (inside / (sizes**2 + ridge)) + (distance - right.T @ inside) / ridge
    return np.asarray(solved / scale)
