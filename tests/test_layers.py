"""Contract: who imports whom, read off the source. The privacy of the whole stands on this staying true."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import hushrec

SOURCE = Path(hushrec.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
PURE = (
    "privacy/accounting",
    "privacy/noise",
    "privacy/coins",
    "privacy/meaning",
    "privacy/selection",
    "privacy/guarantee",
)
RUNTIME = {"numpy", "scipy", "numba", "polars", "safetensors", "typer", "rich", "threadpoolctl"}
EXTRAS = ("engines/dask", "engines/gpu")  # files that are imported on request only

# First match counts. A path without a slash at its end is one module; None: anything.
ALLOWED: list[tuple[tuple[str, ...], tuple[str, ...] | None]] = [
    (PURE, (*PURE, "errors", "require")),
    # a fit to the exact signs is made inside the curator, by one-bit completion's numerics
    (("privacy/fits",), ("privacy/", "data/ratings", "onebit/", "engines/base", "errors", "require")),
    (("privacy/",), ("privacy/", "data/ratings", "engines/", "device/", "errors", "require")),
    (("device/",), ("device/", "errors", "require")),
    (("data/",), ("data/", "errors", "require")),
    (("engines/",), ("engines/", "data/ratings", "device/", "errors", "require")),
    (
        ("release/",),
        ("release/", "device/", "privacy/accounting", "privacy/guarantee", "privacy/meaning", "errors", "require"),
    ),
    (("solvers/", "onebit/"), ("solvers/", "onebit/", "privacy/", "device/", "release/", "errors", "require")),
    (("errors",), ()),
    (("require",), ("errors",)),
    (("evaluate/", "cli/", "fit", "tune", "__init__", "__main__"), None),
]

# Ledger.open is the public door to the file behind a ledger; it imports it when called.
EXCEPTIONS = {("privacy/accounting", "privacy/durable")}


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


def privacy_names(tree: ast.AST) -> set[str]:
    """What a file calls the things that it imports from the trusted core."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    whole = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {
        alias.asname or alias.name
        for node in froms
        for alias in node.names
        if f"{node.module}.{alias.name}".startswith("hushrec.privacy")
    } | {alias.asname or "hushrec" for alias in whole if alias.name.startswith("hushrec.privacy")}


def derived(tree: ast.AST) -> list[str]:
    """The classes of a file that are made from something of the trusted core, by a class statement or by `type`."""
    names = privacy_names(tree)
    made = [
        (node.name, node.bases + [keyword.value for keyword in node.keywords])
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ] + [
        (ast.unparse(node), node.args)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "type"
        and len(node.args) > 1
    ]
    return [
        name
        for name, parts in made
        if names & {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}
    ]


@pytest.mark.parametrize(
    "path", [path for path in FILES if matches(name_of(path), ("solvers/", "onebit/"))], ids=name_of
)
def test_a_solver_makes_no_question_of_its_own(path):
    assert derived(parsed(path)) == []


@pytest.mark.parametrize(
    "source",
    [
        "from hushrec.privacy.queries import ItemCounts\nclass Mine(ItemCounts):\n    pass",
        "from hushrec.privacy import forms as f\nclass Mine(f.SumQuery):\n    pass",
        "import hushrec.privacy.signs\nclass Mine(hushrec.privacy.signs.TwoValued):\n    pass",
        "from hushrec.privacy.forms import GramQuery\nMine = type('Mine', (GramQuery,), {})",
    ],
)
def test_the_guard_itself_sees_a_question_of_a_solver_s_own(source):
    assert derived(ast.parse(source))


CORE = ("accounting", "noise", "contributions", "forms", "closed_list", "curator")


def lines_of_code(module: str) -> int:
    """Lines that are neither blank, nor comments, nor docstrings (also those below a constant)."""
    text = (SOURCE / f"{module}.py").read_text(encoding="utf-8")
    words = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    words = [node for node in words if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)]
    left_out = {line for node in words for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if n not in left_out and line.strip() and not line.strip().startswith("#"))


def test_the_audited_core_is_as_short_as_it_says():
    page = (SOURCE.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    core, named = re.search(r"at most ([\d,]+) lines of code.*?at most (\d+) more", page, flags=re.DOTALL).groups()
    for most, modules in ((core, CORE), (named, ("queries",))):
        found = sum(lines_of_code(f"privacy/{module}") for module in modules)
        assert 0 <= int(most.replace(",", "")) - found < 30, found


def test_package_files_of_layers_are_empty():
    for folder in ("data", "privacy", "device", "solvers", "onebit", "release", "engines", "evaluate"):
        assert (SOURCE / folder / "__init__.py").read_text().strip() == "", folder


def test_the_guard_itself_sees_a_forbidden_import():
    tree = ast.parse("from hushrec.data.ratings import Ratings\nfrom hushrec.engines import local\nimport hushrec.fit")
    assert own_modules(tree) == {"data/ratings", "engines/local", "fit"}
    solver_may = next(allowed for patterns, allowed in ALLOWED if "solvers/" in patterns)
    assert solver_may is not None
    assert not any(matches(module, solver_may) for module in own_modules(tree))
