"""The attacks that people fear, on what anyone has: the release file, and what colluding users see on their devices.

*Membership*: was this person's row in the data, or somebody else's? *Reconstruction*: all her ratings but one are
known; was that one high or low? The other users are known to the attacker (the strongest one), or drawn anew each
time (he knows only the population).

He trains twins: pairs of shadow releases of both worlds with the same noise and the same other users, so that what
tells them apart is her row and nothing else. Their mean difference, divided by how the numbers of a release vary and
vary together, is the line that he draws; fresh releases judge him. Beside him stand the same attack on the same
solver without privacy, the likelihood ratio of all noisy answers (more than any release shows), and the most that
anyone can do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hushrec.data.ratings import Ratings
from hushrec.errors import HushrecError
from hushrec.evaluate.audit.black_box import Seeds, answer_ratio, profile, repeatable, worst_pair
from hushrec.evaluate.audit.bounds import auc, curve, finding
from hushrec.evaluate.audit.report import Curve, Finding
from hushrec.evaluate.audit.subject import Row, Subject, World
from hushrec.privacy.accounting import NonPrivate
from hushrec.release.file import Release

Floats = NDArray[np.float64]
Population = Callable[[int], tuple[Row, ...]]
COLLUDING = 4
LEAST = 20
FEW = 64
"""Items whose factors are compared pair by pair: of many items, all pairs would not fit into memory."""
RIDGE = 0.3
"""Of a unit variance: how far the covariance of the shadows is drawn towards independence. From 200 shadows on little
changes between 0.03 and 3, and no curve that was tried in place of the line told more."""


@dataclass(frozen=True)
class Attack:
    """Two worlds that differ in one person's row, and whether the attacker knows everybody else's."""

    name: str
    there: tuple[Row, ...]
    instead: tuple[Row, ...]
    knows_others: bool


class Sizes(NamedTuple):
    """Of an attack: pairs of shadow trainings, and trainings in each world that judge it."""

    shadows: int
    judged: int


def sizes(trainings: int) -> Sizes:
    """What an attack gets of the trainings that were asked for."""
    return Sizes(max(LEAST, trainings // 3), max(LEAST, trainings // 5))


def how_many(trainings: int) -> int:
    """Trainings of all attacks together, for the progress."""
    pairs, judged = sizes(trainings)
    return 2 * (4 * (pairs + judged) + 2)  # three attacks with privacy, one without, and two that need one pair


def plans(subject: Subject, world: World) -> list[Attack]:
    """Membership and reconstruction, of the rows that the answers tell apart best."""
    (there, instead), _ = worst_pair(subject, world)
    high, low = one_rating(subject, world)
    return [
        Attack("membership, the others known", there, instead, True),
        Attack("membership, the population known", there, instead, False),
        Attack("reconstruction of one rating, the others known", (high,), (low,), True),
    ]


def one_rating(subject: Subject, world: World) -> tuple[Row, Row]:
    """Two rows that differ in the first rating alone, beside as many others as let the answers tell it best."""
    low, high = world.value_range
    every = np.arange(world.n_items)
    swing = np.where(every % 2 == 0, low, high)
    sizes = sorted({min(size, world.n_items) for size in (1, 2, 4, world.n_items // 2, world.n_items)} - {0})
    pairs = [tuple((every[:size], np.concatenate(([value], swing[1:size]))) for value in (high, low)) for size in sizes]
    training = subject.train(world.with_target(*world.nobody), seed=0)

    def apart(pair: tuple[Row, ...]) -> float:
        one, two = (profile(training, subject, world, row) for row in pair)
        return float(np.linalg.norm(one - two))

    one, other = max(pairs, key=apart)
    return one, other


def check(
    subject: Subject,
    world: World,
    population: Population,
    *,
    trainings: int,
    confidence: float,
    seed: int | None,
    progress: Callable[[], None],
) -> tuple[list[Finding], dict[str, Curve]]:
    """Each attack on the private solver and on its non-private twin."""
    twin = replace(subject, budget=NonPrivate(relation=subject.budget.relation))
    best = float(ndtr(subject.mu / math.sqrt(2.0))) if subject.budget.delta else 1.0
    findings, curves = [], {}
    for attack in plans(subject, world):
        tried = _Trial(attack, world, population, sizes(trainings), repeatable(seed), progress)
        scores, null, exact = tried.run(subject)
        bare, bare_null, _ = tried.run(twin)
        aucs = {"auc_answers": exact, "auc_non_private": auc(bare, bare_null), "auc_at_most": best}
        report = finding("attacks", attack.name, scores, null, subject.budget, confidence, "release, colluding users")
        more = "" if exact is None else f", from all noisy answers {_give_or_take(exact, len(scores))}"
        says = (
            f"AUC {_give_or_take(report.figures['auc'], len(scores))}{more} (at most {best:.3f} for anyone), without "
            f"privacy {aucs['auc_non_private']:.3f}; {report.says}"
        )
        findings.append(replace(report, says=says, figures={**report.figures, **aucs}))
        curves[f"{attack.name}, private"] = curve(scores, null)
        curves[f"{attack.name}, without privacy"] = curve(bare, bare_null, private=False)
    return findings, curves


def _give_or_take(area: float, trials: int) -> str:
    """An area under a curve with two deviations, at most, of what luck does to it in so many trials in each world."""
    return f"{area:.3f} ± {2.0 * math.sqrt(area * (1.0 - area) / trials):.2f}"


@dataclass(frozen=True)
class _Trial:
    """One attack: its shadows, its line, and the fresh releases that judge it."""

    attack: Attack
    world: World
    population: Population
    sizes: Sizes
    seeds: Seeds
    progress: Callable[[], None]

    def run(self, subject: Subject) -> tuple[Floats, Floats, float | None]:
        """Scores of fresh releases in the two worlds, and the AUC of the likelihood ratio of all answers (if known)."""
        if not subject.budget.private and self.attack.knows_others:
            return self._without_noise(subject)
        shadows = [
            [self._release(subject, which, number, number) for number in range(self.sizes.shadows)] for which in (0, 1)
        ]
        seen: list[list[dict[str, Floats]]] = [[], []]
        ratios: list[list[float]] = [[], []]
        for which in (0, 1):
            for number in range(self.sizes.judged):
                worlds = self._worlds(self.sizes.shadows + 2 * number + which)
                training = subject.train(worlds[which], seed=self.seeds())
                seen[which].append(visible(training.release))
                if self.attack.knows_others:
                    ratios[which].append(sum(answer_ratio(answer, subject, *worlds)[0] for answer in training.answers))
                self.progress()
        names = _common([*shadows[0], *shadows[1], *seen[0], *seen[1]])
        line = drawn(_stacked(shadows[0], names), _stacked(shadows[1], names))
        scores = [_stacked(part, names) @ line for part in seen]
        return scores[0], scores[1], auc(np.array(ratios[0]), np.array(ratios[1])) if ratios[0] else None

    def _without_noise(self, subject: Subject) -> tuple[Floats, Floats, None]:
        """Every release of a world is the same one."""
        releases = [self._release(subject, which, 0, None) for which in (0, 1)]
        there, instead = _stacked(releases, _common(releases))
        apart = float(not np.array_equal(there, instead))
        return np.full(self.sizes.judged, apart), np.zeros(self.sizes.judged), None

    def _worlds(self, number: int) -> list[Ratings]:
        """Both worlds, among the same other users."""
        others = self.world.others if self.attack.knows_others else self.population(number)
        world = replace(self.world, others=others)
        return [world.with_target(*rows) for rows in (self.attack.there, self.attack.instead)]

    def _release(self, subject: Subject, which: int, number: int, seed: int | None) -> dict[str, Floats]:
        training = subject.train(self._worlds(number)[which], seed=seed)
        self.progress()
        return visible(training.release)


def visible(release: Release) -> dict[str, Floats]:
    """What an attacker has: the public arrays (factors up to rotations), and what colluding users' devices show."""
    low, high = release.value_range
    seen = {name: array.ravel() for name, array in release.arrays.items() if name != "loadings"}
    if "loadings" in release.arrays:
        loadings = release.arrays["loadings"][:FEW]
        seen["loadings"] = (loadings @ loadings.T)[np.tril_indices(len(loadings))]
    for user in range(COLLUDING):
        rated = np.arange(user % 2, release.n_items, 2)
        values = np.where((rated // 2 + user // 2) % 2 == 0, low, high)
        try:
            seen[f"colluding user {user}"] = release.complete(release.items[rated], values)
        except HushrecError:
            continue
    return seen


def _common(releases: list[dict[str, Floats]]) -> list[str]:
    """What all of them show, with as many numbers."""
    return [name for name in releases[0] if len({len(one.get(name, ())) for one in releases}) == 1]


def _stacked(releases: list[dict[str, Floats]], names: list[str]) -> Floats:
    return np.array([np.concatenate([one[name] for name in names]) for one in releases])


def drawn(there: Floats, instead: Floats) -> Floats:
    """The line that tells paired shadows apart: their mean difference over their covariance, drawn to independence."""
    both = np.concatenate((there - there.mean(axis=0), instead - instead.mean(axis=0)))
    distance = there.mean(axis=0) - instead.mean(axis=0)
    # A number that noise never moves, and her row does, tells everything: it gets all the weight but no division by 0.
    scale = np.maximum(both.std(axis=0), 1e-9 * np.abs(there).max(axis=0) + 1e-12)
    _, sizes, right = np.linalg.svd(both / scale, full_matrices=False)
    variances, apart = sizes**2 / len(both), distance / scale
    inside = right @ apart
    solved = right.T @ (inside / (variances + RIDGE)) + (apart - right.T @ inside) / RIDGE
    return np.asarray(solved / scale)
