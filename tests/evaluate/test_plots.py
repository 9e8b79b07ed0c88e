"""Pictures: drawn from tables without global state, and no error where Matplotlib is missing."""

from __future__ import annotations

import sys

import pytest

from hushrec.evaluate.plots import PlotSpec, draw, draw_demo
from hushrec.evaluate.tables import Table

ROWS = [
    {"method": method, "epsilon": epsilon, "rmse": 1 / epsilon + number, "rmse sd": 0.1}
    for number, method in enumerate(("SVD", "means"))
    for epsilon in (0.5, 1.0, 5.0)
]
LEVEL = {"method": "not private", "epsilon": None, "rmse": 0.1, "rmse sd": None}
SPEC = PlotSpec(x="epsilon", y="rmse", log_x=True, log_y=True)


@pytest.mark.parametrize(
    "rows", [ROWS, [*ROWS, LEVEL], [LEVEL], []], ids=["lines", "lines and level", "level", "nothing"]
)
def test_tables_become_pictures(tmp_path, rows):
    table = Table(columns=("method", "epsilon", "rmse"), rows=rows)
    assert draw(table, SPEC, "A title", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_many_methods_have_their_legend_beside_the_picture(tmp_path):
    rows = [{"method": f"m{i}", "epsilon": e, "rmse": i + e} for i in range(12) for e in (1.0, 2.0)]
    assert draw(Table(columns=("method",), rows=rows), SPEC, "Many", tmp_path / "a.png")


def test_the_demo_picture(tmp_path):
    assert draw_demo({0.1: 1.0, 1.0: 0.9}, {"not private": 0.8}, 0.2367, tmp_path / "demo.png")


def test_without_matplotlib_nothing_is_drawn(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not draw(Table(columns=("method",), rows=ROWS), SPEC, "A title", tmp_path / "a.png")
    assert not draw_demo({1.0: 0.9}, {}, 0.2367, tmp_path / "demo.png")
    assert list(tmp_path.iterdir()) == []
