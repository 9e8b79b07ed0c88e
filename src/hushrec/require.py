"""Checks that all layers share: a value that breaks a rule is refused by its name and the rule, with what it was."""

from __future__ import annotations

import reprlib
from dataclasses import fields
from typing import Any

import numpy as np

from hushrec.errors import ConfigError, HushrecError


def is_number(value: object) -> bool:
    """Whether it is a plain or a NumPy number, and no bool."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def number(
    name: str, value: Any, low: float, high: float, *, above_low: bool = False, below_high: bool = False
) -> float:
    """The value as a float of [low, high], with either end left out on request; NaN is refused.

    >>> number("share", 0.5, 0.0, 1.0)
    0.5
    """
    inside = is_number(value) and low <= value <= high
    if not inside or (above_low and value == low) or (below_high and value == high):
        opening, closing = "(" if above_low else "[", ")" if below_high else "]"
        raise ConfigError(f"{name} is {show(value)}, but it must be a number in {opening}{low}, {high}{closing}.")
    try:
        return float(value)
    except OverflowError:
        raise ConfigError(f"{name} is a whole number too large to use.") from None


def whole(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """The value as an int of [least, most]; 2.0 is no whole number here, and neither is True.

    >>> whole("top", 10, 1)
    10
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        rule = f"of at least {least}" if most == 2**63 - 1 else f"from {least} to {most}"
        raise ConfigError(f"{name} is {show(value)}, but it must be a whole number {rule}.")
    return int(value)


def choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name} is {show(value)}, but it must be one of {', '.join(choices)}.")


def text(name: str, value: Any) -> None:
    """Text."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {show(value)}, but it must be text.")


def show(value: object) -> str:
    """A short repr: the value may come from a hostile file."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print a whole number of thousands of digits
        return "a huge whole number"


def record(kind: type, plain: Any, what: str, refusal: type[HushrecError]) -> Any:
    """Build a dataclass from an untrusted plain dict that has exactly its fields, all of them valid."""
    if not isinstance(plain, dict) or plain.keys() != {item.name for item in fields(kind)}:
        raise refusal(f"A {what} does not have exactly the fields that it should have.")
    try:
        return kind(**plain)
    except ConfigError as error:
        raise refusal(f"A {what} is not valid: {error}") from error
