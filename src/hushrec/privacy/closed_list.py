"""The closed list of questions, enforced: what is not on it is refused before a rating is read or a budget is spent.

A question is answered only if its exact type is one that this folder itself defines: a type made elsewhere, derived
from one of these or not, could bring code of its own to the ratings, or leave the noise out. For the same reason its
arguments must be values: numbers, words, plain arrays, and records of them whose types the trusted folders define.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import numpy as np

from hushrec.errors import ConfigError
from hushrec.privacy import queries, signs
from hushrec.privacy.forms import Query
from hushrec.privacy.signs import RatingQuery


def questions(module: ModuleType) -> frozenset[type]:
    """The types of question that can be asked, of those that a module itself defines."""
    kinds = (kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Query | RatingQuery))
    return frozenset(kind for kind in kinds if kind.__module__ == module.__name__ and not inspect.isabstract(kind))


QUERIES = questions(queries) | questions(signs)
"""Every type of question, those of `fits.py` apart, which needs the one-bit numerics and joins on first use."""

PLAIN = frozenset({bool, int, float, str, type(None), *np.sctypeDict.values()}) - {np.object_, np.void}
TRUSTED = ("hushrec.privacy.", "hushrec.device.", "hushrec.onebit.")


def require_listed(query: Any) -> None:
    """Refuse a question that is not on the list, or whose arguments are anything but values."""
    if type(query) not in QUERIES and not (isinstance(query, RatingQuery) and type(query) in _fits()):
        raise ConfigError(
            f"{type(query).__name__} is not on the closed list of questions, and only these are answered; no data was "
            "read."
        )
    if not all(is_value(argument) for argument in vars(query).values()):
        raise ConfigError(f"An argument of {type(query).__name__} is not a plain value; no data was read.")


def _fits() -> frozenset[type]:
    from hushrec.privacy import fits

    return questions(fits)


def is_value(thing: Any) -> bool:
    """Whether this is a plain value, through and through: nothing that could run code of its own."""
    kind = type(thing)
    if kind in PLAIN:
        return True
    if kind is np.ndarray:
        return thing.dtype.kind in "biuf"
    if kind is dict:
        return all(map(is_value, thing)) and all(map(is_value, thing.values()))
    if kind is tuple or (_is_trusted(kind) and isinstance(thing, tuple)):
        return all(map(is_value, thing))
    return _is_trusted(kind) and all(map(is_value, vars(thing).values()))


def _is_trusted(kind: type) -> bool:
    """Whether a type is one that a module of the trusted folders defines, and does not only say so."""
    home = sys.modules.get(kind.__module__)
    return kind.__module__.startswith(TRUSTED) and getattr(home, kind.__qualname__, None) is kind
