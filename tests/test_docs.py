"""The documents: links lead somewhere, code runs, names that they use exist, and every public name has an example."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import re
import textwrap
import warnings
from pathlib import Path

import pytest

import hushrec as hr

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCE = Path(hr.__file__).parent
MODULES = sorted(
    ".".join(("hushrec", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if path.name != "__main__.py"
)
# Extras that may not be installed, and what needs them.
OPTIONAL = ("hushrec.engines.dask", "hushrec.engines.gpu")


def by_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=by_name)
def test_links_lead_somewhere(document):
    text = without_code(document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (document.parent / path).resolve() if path else document
        assert place.exists(), f"{target} in {document.name}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", place.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{target} in {document.name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=by_name)
def test_files_and_tests_that_are_named_exist(document):
    """Paths in code marks exist, and so does every test that a document points to."""
    text = without_code(document.read_text(encoding="utf-8"))
    for path in re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), f"{path} in {document.name}"
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in tests, f"{name} in {document.name}"


def python_blocks() -> list[tuple[str, str]]:
    blocks = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        found = re.findall(r"^ *```python\n(.*?)```", text, flags=re.DOTALL | re.MULTILINE)
        blocks += [(f"{by_name(document)} {number}", textwrap.dedent(block)) for number, block in enumerate(found)]
    return blocks


@pytest.mark.parametrize("block", [block for _, block in python_blocks()], ids=[name for name, _ in python_blocks()])
def test_python_in_the_documents_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, "document", "exec", dont_inherit=True), {"__name__": "document"})


def test_commands_in_the_readme_exist():
    from typer.main import get_command

    from hushrec.cli import app

    known = get_command(app).commands
    shell = re.findall(r"^hushrec (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert shell
    assert set(shell) <= set(known)


def test_make_targets_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert {"demo", "test", "test-all", "bench", "docs", "fuzz", "lint"} <= known
    for document in DOCUMENTS:
        named = re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert set(named) <= known, document


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    if module.startswith(OPTIONAL):
        pytest.importorskip(module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = doctest.testmod(
            importlib.import_module(module), optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
        )
    assert result.failed == 0


PUBLIC = [name for name in hr.__all__ if not name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    thing = getattr(hr, name)
    first = (inspect.getdoc(thing) or "").partition("\n")[0]
    assert len(first) > 10, name
    # A dataclass without words of its own shows its signature instead.
    assert not first.startswith(f"{name}("), name


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_have_an_example(name):
    """What holds data, or is made by others, needs no example of its own; what people call does."""
    thing = getattr(hr, name)
    assert not inspect.isfunction(thing) or ">>>" in (inspect.getdoc(thing) or "")


def test_the_project_speaks_of_itself_alone():
    """No machine paths, and no names of package registry hosts, in what is published."""
    forbidden = re.compile(r"/(?:work|tmp|home|root)/|pypi\.org|files\.pythonhosted")
    for path in [*DOCUMENTS, *SOURCE.rglob("*.py"), ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "CITATION.cff"]:
        assert not forbidden.search(path.read_text(encoding="utf-8")), path
