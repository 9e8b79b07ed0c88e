"""Equal answers, equal release: whether anything about the data gets past the one door.

The sums of one training are written down. Then the solver is trained on other data while every query is answered
with these same sums and the same noise: with a neighbour's data, with everybody's rows replaced, under add-remove
with another number of users. If all that leaves comes through the curator, the release, the plan, the questions and
the errors must be the same to the last bit; whatever differs was read past the noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.engines.base import Sums, Work
from hushrec.evaluate.audit.neighbours import adversaries
from hushrec.evaluate.audit.report import Finding
from hushrec.evaluate.audit.subject import InlineEngine, Subject, Training, World


class Recorder(InlineEngine):
    """Keeps the sums of every read."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Sums] = []

    def total(self, work: Work) -> Sums:
        """The true sums, and a copy kept."""
        sums = super().total(work)
        self.kept.append(tuple(part.copy() for part in sums))
        return sums


class Player(InlineEngine):
    """Answers every read with the sums of the recording, whatever the data are."""

    def __init__(self, kept: list[Sums]) -> None:
        super().__init__()
        self.kept = kept

    def total(self, work: Work) -> Sums:
        """The recorded sums, or zeros where the question has another shape."""
        sums = work.zeros()
        if self.reads < len(self.kept):
            for total, old in zip(sums, self.kept[self.reads], strict=False):
                if total.shape == old.shape:
                    total[...] = old
        self.reads += 1
        return sums


def check(subject: Subject, world: World) -> list[Finding]:
    """Train on other data with the same answers; name what came out differently."""
    recorder = Recorder()
    start = world.with_target(*world.nobody)
    subject.train(start, seed=1, engine=recorder)
    expected = _outcome(subject, start, recorder.kept)
    different: dict[str, str] = {}
    tried = dict(_others(world, start.n_users))
    for name, ratings in tried.items():
        found = _outcome(subject, ratings, recorder.kept)
        for key in expected.keys() | found.keys():
            if expected.get(key) != found.get(key):
                different.setdefault(key, name)
    said = ", ".join(f"{key} (with {name})" for key, name in sorted(different.items()))
    return [
        Finding(
            check="replay",
            name="everything that leaves",
            passed=not different,
            says=f"depends on the data past the noise: {said}" if said else f"the same on {len(tried)} other data sets",
            figures={"different": sorted(different), "data_sets": len(tried)},
        )
    ]


def _others(world: World, users: int) -> Iterator[tuple[str, Ratings]]:
    """Neighbours, and data sets of the same public shape where nobody's row is what it was."""
    for name, row in adversaries(world.n_items, world.value_range).items():
        yield f"one user: {name}", world.with_target(row)
        yield f"every user: {name}", replace(world, others=(row,) * users).with_target()
    rows = (*world.others, *world.nobody)
    turned = tuple((world.n_items - 1 - np.asarray(items)[::-1], np.asarray(values)[::-1]) for items, values in rows)
    yield "items in the other order", replace(world, others=turned).with_target()
    low, high = world.value_range
    mirrored = tuple((items, low + high - np.asarray(values)) for items, values in rows)
    yield "likes and dislikes exchanged", replace(world, others=mirrored).with_target()
    if world.relation == "add-remove":
        yield "half the users", replace(world, others=world.others[: len(world.others) // 2]).with_target()


def _outcome(subject: Subject, ratings: Ratings, kept: list[Sums]) -> dict[str, str]:
    """Digests of all that leaves a training, by name."""
    try:
        training = subject.train(ratings, seed=1, engine=Player(kept))
    except Exception as problem:  # that it fails, and how, is something that leaves
        return {"an error": f"{type(problem).__name__}: {problem}"}
    return _leaves(training)


def _leaves(training: Training) -> dict[str, str]:
    release = training.release
    named: dict[str, Any] = {f"array {name}": array for name, array in release.arrays.items()}
    named |= {f"setting {name}": value for name, value in release.settings.items()}
    named |= {"items": release.items, "kind": release.kind, "notes": release.notes}
    named |= {"guarantee": release.guarantee.to_dict(), "shape": training.curator.shape}
    named["plan"] = [(answer.label, answer.share) for answer in training.answers]
    named |= {f"question {answer.label}": answer.query for answer in training.answers}
    named |= {f"answer {answer.label}": answer.noisy for answer in training.answers}
    return {name: _digest(value) for name, value in named.items()}


def _digest(value: Any) -> str:
    state = hashlib.sha256()
    _feed(state, value)
    return state.hexdigest()


def _feed(state: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        state.update(f"{value.dtype}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes() if value.dtype != object else repr(value.tolist()).encode())
    elif is_dataclass(value) and not isinstance(value, type):
        state.update(type(value).__name__.encode())
        for item in fields(value):
            _feed(state, getattr(value, item.name))
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            state.update(str(key).encode())
            _feed(state, value[key])
    elif isinstance(value, (list, tuple)):
        state.update(f"{len(value)}".encode())
        for inner in value:
            _feed(state, inner)
    else:
        state.update(repr(value).encode())
