"""Every solver by its name on the command line: where it lives, loaded on first use.

A new solver is one more line in `SOLVERS`; the command line, the contract tests and the experiments that compare
all solvers find it there.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from hushrec.errors import ConfigError

if TYPE_CHECKING:
    from hushrec.solvers.base import Solver

SOLVERS: Mapping[str, str] = types.MappingProxyType(
    {
        "posterior": "hushrec.solvers.posterior:Posterior",
        "implicit-posterior": "hushrec.solvers.implicit:ImplicitPosterior",
        "svd": "hushrec.solvers.svd:SVD",
        "als": "hushrec.solvers.als:ALS",
        "factored-gradient": "hushrec.solvers.factored_gradient:FactoredGradient",
        "frank-wolfe": "hushrec.solvers.frank_wolfe:FrankWolfe",
        "cleansed-svd": "hushrec.solvers.cleansed_svd:CleansedSVD",
        "onebit": "hushrec.onebit.solver:OneBit",
    }
)
RATING_SOLVERS = frozenset({"onebit"})
"""Those that protect single ratings, whose positions are public; all others protect all ratings of a user."""
USER_SOLVERS = tuple(name for name in SOLVERS if name not in RATING_SOLVERS)


def unit_of(name: str | None) -> str:
    """What the budget of this solver protects: "user" or "rating"."""
    return "rating" if name in RATING_SOLVERS else "user"


def solver_class(name: str) -> Any:
    """The solver class of this name.

    >>> solver_class("svd").__name__
    'SVD'
    """
    if name not in SOLVERS:
        raise ConfigError(f"There is no solver {name!r}; known are {', '.join(SOLVERS)}.")
    module, _, attribute = SOLVERS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def make_solver(name: str, assignments: Iterable[str] = ()) -> Solver:
    """The solver of this name, with settings from texts "key=value".

    >>> make_solver("svd", ["rank=5", "readout=projection"]).rank
    5
    """
    solver = solver_class(name)
    hints = get_type_hints(solver)
    known = {item.name: hints[item.name] for item in fields(solver) if item.init}
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        key = key.strip().replace("-", "_")
        if not equals:
            raise ConfigError(f"A setting is given as key=value, not {assignment!r}.")
        if key not in known:
            raise ConfigError(f"The solver {name} has no setting {key!r}; it has {', '.join(known)}.")
        if key in settings:
            raise ConfigError(f"The setting {key!r} is given twice.")
        settings[key] = from_text(value.strip(), known[key], key)
    made: Solver = solver(**settings)
    return made


def from_text(value: str, hint: Any, key: str) -> Any:
    """A setting's text as the type that the solver declares for it.

    >>> from_text("none", int | None, "rank"), from_text("0.5", float, "share"), from_text("3,5", tuple[int, ...], "ks")
    (None, 0.5, (3, 5))
    """
    for kind in _alternatives(hint):
        try:
            return _parsed(value, kind)
        except ValueError:
            continue
    raise ConfigError(f"{key} must be {_described(hint)}, not {value!r}.")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _parsed(value: str, kind: Any) -> Any:
    """The value as one plain type; ValueError where it is none."""
    if kind is type(None):
        return _one_of(value.lower(), {"none": None})
    if kind is bool:
        return _one_of(value.lower(), {"true": True, "yes": True, "false": False, "no": False})
    if kind in (int, float, str):
        return kind(value)
    if get_origin(kind) is Literal:
        return _one_of(value, {str(choice): choice for choice in get_args(kind)})
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        parts = [part.strip() for part in value.split(",")]
        kinds = [inner[0]] * len(parts) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) != len(parts):
            raise ValueError
        return tuple(_parsed(part, one) for part, one in zip(parts, kinds, strict=True))
    raise ValueError


def _one_of(value: str, choices: Mapping[str, Any]) -> Any:
    if value not in choices:
        raise ValueError
    return choices[value]


def _described(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "none"}
    words = []
    for kind in _alternatives(hint):
        if get_origin(kind) is Literal:
            words += [repr(choice) for choice in get_args(kind)]
        elif get_origin(kind) is tuple:
            words.append("values with commas between them")
        else:
            words.append(names.get(kind, "something that cannot be given here"))
    return " or ".join(words)
