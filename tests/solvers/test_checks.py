"""Settings of every registered solver: a value of the wrong type is one clear sentence, never a raw error."""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import hushrec as hr
from hushrec.solvers import checks
from hushrec.solvers.registry import SOLVERS, solver_class

VALUES = (None, True, 1, 2.5, math.nan, math.inf, 10**400, "x", "no", [1], [True], 1j)


def fits(value, hint):
    """Whether a value is of a setting's type; a number must also be finite."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(fits(value, kind) for kind in get_args(hint))
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is float:
        return type(value) in (int, float) and abs(value) < 1e300
    return type(value) is hint


CASES = [
    (name, field.name, value)
    for name in SOLVERS
    for field in dataclasses.fields(solver_class(name))
    for value in VALUES
    if not fits(value, get_type_hints(solver_class(name))[field.name])
]


@pytest.mark.parametrize(("solver", "setting"), sorted({case[:2] for case in CASES}))
def test_a_value_of_the_wrong_type_is_refused_by_name(solver, setting):
    for value in [case[2] for case in CASES if case[:2] == (solver, setting)]:
        with pytest.raises(hr.ConfigError, match=rf"^{setting}\b.* not "):
            solver_class(solver)(**{setting: value})


def test_every_solver_and_every_setting_takes_part():
    fields = {(name, field.name) for name in SOLVERS for field in dataclasses.fields(solver_class(name))}
    assert {case[:2] for case in CASES} == fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy:
    rank: int | None = 3
    bound: float = 1.0
    part: float = 0.5
    kind: Literal["a", "b"] = "a"
    centre: bool = True

    def __post_init__(self) -> None:
        checks.choices(self)
        checks.whole(self, rank=2)
        checks.number(self, "bound", most=4.0)
        checks.share(self, "part", below=0.9)


@pytest.mark.parametrize(
    "right",
    [{"rank": None}, {"rank": np.int64(2)}, {"bound": 4}, {"bound": np.float32(0.5)}, {"part": np.float64(0.1)}],
)
def test_numbers_of_every_library_and_none_are_taken_where_they_fit(right):
    Toy(**right)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"rank": 1}, "rank must be a whole number of at least 2, not 1."),
        ({"bound": 4.5}, "bound must be a number above 0 and at most 4, not 4.5."),
        ({"bound": None}, "bound must be a number above 0 and at most 4, not None."),
        ({"bound": 10**400}, "bound must be a number above 0 and at most 4, not 1"),
        ({"part": 0.9}, "part must be between 0 and 0.9, not 0.9."),
        ({"part": 0}, "part must be between 0 and 0.9, not 0."),
        ({"kind": "c"}, "kind must be one of 'a', 'b', not 'c'."),
        ({"centre": 0}, "centre must be one of True, False, not 0."),
    ],
)
def test_the_sentence_names_setting_rule_and_value(wrong, sentence):
    with pytest.raises(hr.ConfigError) as caught:
        Toy(**wrong)
    assert str(caught.value).startswith(sentence)
