"""Contract: who imports whom, read off the source. The privacy of the whole stands on this staying true."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import hushrec

SOURCE = Path(hushrec.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
PURE = ("privacy/accounting", "privacy/noise", "privacy/meaning", "privacy/selection")
RUNTIME = {"numpy", "scipy", "numba", "polars", "safetensors", "typer", "rich", "threadpoolctl"}
EXTRAS = ("engines/dask", "engines/gpu", "serve/")  # files that are imported on request only

# First match counts. A path without a slash at its end is one module; None: anything.
ALLOWED: list[tuple[tuple[str, ...], tuple[str, ...] | None]] = [
    (PURE, (*PURE, "errors")),
    # a fit to the exact signs is made inside the curator, by one-bit completion's numerics
    (("privacy/fits",), ("privacy/", "data/ratings", "onebit/", "engines/base", "errors")),
    (("privacy/",), ("privacy/", "data/ratings", "engines/", "device/", "errors")),
    (("device/",), ("device/", "errors")),
    (("data/",), ("data/", "errors")),
    (("engines/",), ("engines/", "data/ratings", "device/", "errors")),
    (("release/",), ("release/", "device/", "privacy/accounting", "privacy/meaning", "errors")),
    (("solvers/", "onebit/"), ("solvers/", "onebit/", "privacy/", "device/", "release/", "errors")),
    (("errors",), ()),
    (("evaluate/", "cli/", "serve/", "fit", "tune", "__init__", "__main__"), None),
]

# Ledger.open is the public door to the file behind a ledger; it imports it when called.
# A held-out score is that of what a user's device would do: the fold-in of the release's kind.
EXCEPTIONS = {("privacy/accounting", "privacy/durable"), ("privacy/queries", "release/kinds")}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__")


def matches(module: str, patterns: tuple[str, ...]) -> bool:
    return any(f"{module}/".startswith(one) if one.endswith("/") else module == one for one in patterns)


def imports(tree: ast.AST) -> set[str]:
    """All absolute module names that are imported anywhere in the file; of a `from` import, the names too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own_modules(tree: ast.AST) -> set[str]:
    """The modules of Hushrec that a file imports, as paths."""
    known = {name_of(path) for path in FILES}
    found = set()
    for name in imports(tree):
        if name.partition(".")[0] != "hushrec":
            continue
        path = "/".join(name.split(".")[1:])
        while path and path not in known:
            path = path.rpartition("/")[0]
        found.add(path)
    return found - {""}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_layer_imports_only_what_it_may(path):
    module = name_of(path)
    if module == ".":
        return
    allowed = next((allowed for patterns, allowed in ALLOWED if matches(module, patterns)), ())
    if allowed is None:
        return
    used = {one for one in own_modules(parsed(path)) if (module, one) not in EXCEPTIONS}
    strangers = {one for one in used if not matches(one, allowed)}
    # A package's own __init__ is empty, so to name the package is no import of anything.
    assert not {one for one in strangers if not (SOURCE / one / "__init__.py").is_file()}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_declared_dependencies_are_imported_on_loading(path):
    if matches(name_of(path), EXTRAS):
        return
    loaded = [node for node in parsed(path).body if isinstance(node, (ast.Import, ast.ImportFrom, ast.Try))]
    top = {name.partition(".")[0] for node in loaded for name in imports(node)}
    assert top - set(sys.stdlib_module_names) - {"hushrec"} <= RUNTIME


@pytest.mark.parametrize(
    ("layer", "allowed"), [(PURE, {"numpy", "scipy"}), (("device/",), {"numpy", "numba"})], ids=["privacy", "device"]
)
def test_what_is_audited_and_what_runs_on_a_device_needs_little(layer, allowed):
    for path in FILES:
        if matches(name_of(path), layer):
            foreign = {name.partition(".")[0] for name in imports(parsed(path))}
            assert foreign - set(sys.stdlib_module_names) - {"hushrec"} <= allowed, path


@pytest.mark.parametrize(
    "path", [path for path in FILES if matches(name_of(path), ("solvers/", "onebit/"))], ids=name_of
)
def test_a_solver_touches_nothing_private(path):
    """No attribute with a leading underscore of anything but itself, and none of the ways around that."""
    for node in ast.walk(parsed(path)):
        private = isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
        if private and node.attr not in ("_asdict", "_replace", "_fields"):  # the public interface of named tuples
            assert isinstance(node.value, ast.Name), ast.unparse(node)
            assert node.value.id in ("self", "cls"), ast.unparse(node)
        if isinstance(node, ast.Name):
            assert node.id not in ("eval", "exec", "globals"), node.id
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("__dict__", "__getattribute__"), ast.unparse(node)


def test_package_files_of_layers_are_empty():
    for folder in ("data", "privacy", "device", "solvers", "onebit", "release", "engines", "evaluate"):
        assert (SOURCE / folder / "__init__.py").read_text().strip() == "", folder


def test_the_guard_itself_sees_a_forbidden_import():
    tree = ast.parse("from hushrec.data.ratings import Ratings\nfrom hushrec.engines import local\nimport hushrec.fit")
    assert own_modules(tree) == {"data/ratings", "engines/local", "fit"}
    solver_may = next(allowed for patterns, allowed in ALLOWED if "solvers/" in patterns)
    assert solver_may is not None
    assert not any(matches(module, solver_may) for module in own_modules(tree))
