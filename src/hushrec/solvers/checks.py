"""Checks of a solver's settings: what breaks a rule is refused with the setting's name, the rule and the value.

A setting may be None where its type says so. A solver calls these in `__post_init__`; `choices` covers all of its
settings that are one of a few words, or yes or no.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from hushrec.errors import ConfigError
from hushrec.require import is_number, show


def whole(settings: Any, **least: int) -> None:
    """Whole numbers, each at least as large as given.

    >>> from hushrec import SVD
    >>> SVD(rank=0)
    Traceback (most recent call last):
    ...
    hushrec.errors.ConfigError: rank must be a whole number of at least 1, not 0.
    """
    for name, smallest in least.items():
        value = getattr(settings, name)
        _require(_is_whole(value) and value >= smallest, settings, name, f"a whole number of at least {smallest}")


def number(settings: Any, *names: str, most: float = math.inf) -> None:
    """Finite numbers above 0 and, where given, at most `most`."""
    rule = "a positive number" if math.isinf(most) else f"a number above 0 and at most {most:g}"
    for name in names:
        value = getattr(settings, name)
        _require(is_finite(value) and 0 < value <= most, settings, name, rule)


def share(settings: Any, *names: str, below: float = 1.0) -> None:
    """Numbers strictly between 0 and `below`."""
    for name in names:
        value = getattr(settings, name)
        _require(is_number(value) and 0 < value < below, settings, name, f"between 0 and {below:g}")


def choices(settings: Any) -> None:
    """Every setting whose type is one of a few words, or yes or no, is one of these."""
    for name, hint in _hints(settings).items():
        few = [_choices(kind) for kind in _alternatives(hint) if kind is not type(None)]
        if all(few):
            allowed = [choice for choices in few for choice in choices]
            chosen = any(_same(getattr(settings, name), choice) for choice in allowed)
            _require(chosen, settings, name, f"one of {', '.join(repr(choice) for choice in allowed)}")


def is_finite(value: Any) -> bool:
    """Whether it is a number, and neither infinite nor NaN."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _require(holds: bool, settings: Any, name: str, rule: str) -> None:
    value = getattr(settings, name)
    may_be_none = value is None and type(None) in _alternatives(_hints(settings)[name])
    if not (holds or may_be_none):
        raise ConfigError(f"{name} must be {rule}, not {show(value)}.")


def _is_whole(value: Any) -> bool:
    return is_number(value) and isinstance(value, int | np.integer)


def _same(value: Any, choice: Any) -> bool:
    return type(value) is type(choice) and bool(value == choice)


@functools.cache
def _hints_of(solver: Any) -> Mapping[str, Any]:
    return get_type_hints(solver)


def _hints(settings: Any) -> Mapping[str, Any]:
    return _hints_of(settings.__class__)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _choices(kind: Any) -> tuple[Any, ...]:
    """The values of a type that has only a few, () of any other."""
    if kind is bool:
        return (True, False)
    return get_args(kind) if get_origin(kind) is Literal else ()
