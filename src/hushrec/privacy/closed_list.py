"""The closed list of questions, enforced: what is not on it is refused before a rating is read or a budget is spent.

A question is answered only if its exact type is one that this folder itself defines: a type made elsewhere, derived
from one of these or not, could bring code of its own to the ratings, or leave the noise out. For the same reason its
arguments must be values: numbers, words, plain arrays, and records of them whose types the trusted folders define.

They must be what the question declares, too, and nothing beside it. An attribute of its own could stand in front of
a constant of its type, such as its sensitivity; an array in a number's place could have a rating answer many times
for the price of one; and compiled loops check no index, so of a short array they would read what lies behind it.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from hushrec.device.kinds import KINDS
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

TRUSTED = ("hushrec.privacy.", "hushrec.device.", "hushrec.onebit.")
WHOLE = frozenset({int, *(kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer))})
REAL = WHOLE | {float, *(kind for kind in np.sctypeDict.values() if issubclass(kind, np.floating))}

SHAPES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("means", "item_weights", "priority", "noise"), ("n",)),
    **dict.fromkeys(("steps", "gains"), ("t",)),
    **dict.fromkeys(("no", "yes"), ("ratings",)),
    **dict.fromkeys(("loadings", "start"), ("n", "r")),
    "precision": ("r",),
    "prior": ("r", "r"),
    "leanings": ("n", "features"),
    "head": ("head",),
    "vectors": ("t", "n"),
    "path": ("t", "n", "r"),
    "balances": ("t", "r", "r"),
}
"""The shape of an argument that is an array, by its name: n items, and sizes that agree throughout a question."""


def require_listed(query: Any, n_items: int) -> None:
    """Refuse a question that is not on the list, or whose arguments are not what it declares."""
    name = type(query).__name__
    if type(query) not in QUERIES and not (isinstance(query, RatingQuery) and type(query) in _fits()):
        raise ConfigError(f"{name} is not on the closed list of questions, and only these are answered; no data was "
                          "read.")  # fmt: skip
    if not is_record(query):
        raise ConfigError(f"{name} has an argument that is not a plain value of its type; no data was read.")
    agrees = shapes_agree(_arrays(query), SHAPES, n_items)
    if agrees and isinstance(query, queries.HeldOutErrors | queries.CorrectionRegression):
        kind = KINDS.get(query.kind)
        agrees = kind is not None and query.arrays.keys() == kind.shapes.keys()
        agrees = agrees and shapes_agree(
            query.arrays.items(), KINDS[query.kind].shapes, n_items, KINDS[query.kind].sizes
        )
    if not agrees:
        raise ConfigError(f"{name} has an array of another shape than it declares; no data was read.")


def _fits() -> frozenset[type]:
    from hushrec.privacy import fits

    return questions(fits)


def is_record(thing: Any) -> bool:
    """Whether a record has exactly the fields of its type, with plain values of their types, through and through."""
    kind: Any = type(thing)
    declared = _declared(kind)
    if isinstance(thing, tuple):
        return len(thing) == len(declared) and all(map(_is_value, thing, declared.values()))
    known = vars(thing)
    kept = {name for name in known.keys() - declared.keys() if _is_kept(thing, name)}
    return known.keys() - kept == declared.keys() and all(_is_value(known[name], declared[name]) for name in declared)


def _is_kept(thing: Any, name: str) -> bool:
    """Whether an attribute is what a property of the type keeps: the key of a path."""
    return (
        isinstance(inspect.getattr_static(type(thing), name, None), cached_property) and type(vars(thing)[name]) is str
    )


@lru_cache(maxsize=256)
def _declared(kind: type) -> Mapping[str, Any]:
    names = [item.name for item in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", ())
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}


def _is_value(thing: Any, declared: Any) -> bool:
    """Whether this is a plain value of the declared type: nothing that could run code of its own."""
    kind, origin = type(thing), get_origin(declared)
    if origin in (Union, types.UnionType):
        return any(_is_value(thing, one) for one in get_args(declared))
    if origin is np.ndarray:
        return kind is np.ndarray and thing.dtype.kind in "biuf"
    if origin is Mapping:
        key, value = get_args(declared)
        return kind is dict and all(_is_value(k, key) and _is_value(v, value) for k, v in thing.items())
    if origin is Literal:
        return kind is str and thing in get_args(declared)
    if declared is float:
        return kind in REAL
    if declared is int:
        return kind in WHOLE and 0 <= thing < 2**64
    if declared in (bool, str, type(None)):
        return kind is declared
    return isinstance(declared, type) and issubclass(kind, declared) and _is_trusted(kind) and is_record(thing)


def _is_trusted(kind: type) -> bool:
    """Whether a type is one that a module of the trusted folders defines, and does not only say so."""
    home = sys.modules.get(kind.__module__)
    return kind.__module__.startswith(TRUSTED) and getattr(home, kind.__qualname__, None) is kind


def _arrays(record: Any) -> Iterator[tuple[str, Any]]:
    """The arrays among a record's fields, and among those of the records in it, by their names."""
    for name, value in vars(record).items():
        if isinstance(value, np.ndarray):
            yield name, value
        elif is_dataclass(value):
            yield from _arrays(value)


def shapes_agree(
    arrays: Iterable[tuple[str, Any]],
    shapes: Mapping[str, tuple[str, ...]],
    n_items: int,
    fixed: Mapping[str, int] = types.MappingProxyType({}),
) -> bool:
    """Whether each array has the shape of its name, the same size wherever an axis has the same name."""
    sizes = {"n": n_items, **fixed}
    return all(
        name in shapes
        and array.ndim == len(shapes[name])
        and all(sizes.setdefault(axis, size) == size for axis, size in zip(shapes[name], array.shape, strict=True))
        for name, array in arrays
    )
