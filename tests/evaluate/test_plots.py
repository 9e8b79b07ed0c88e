"""Pictures: drawn from tables without global state, and no error where Matplotlib is missing."""

from __future__ import annotations

import itertools
import sys

import pytest

from hushrec.evaluate import plots
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


@pytest.fixture
def pictures(monkeypatch):
    """The figures that get drawn."""
    made, real = [], plots._figure
    monkeypatch.setattr(plots, "_figure", lambda *size: made.append(real(*size)) or made[-1])
    return made


def test_values_of_two_columns_get_panels_of_their_own_with_the_same_colours(tmp_path, pictures):
    rows = [{**row, "link": link, "kind": kind} for row in [*ROWS, LEVEL] for link in "ab" for kind in "xyz"]
    rows = [row for row in rows if (row["method"], row["link"]) != ("means", "a")]
    spec = PlotSpec(x="epsilon", y="rmse", down="kind", across="link")
    assert draw(Table(columns=("method",), rows=rows), spec, "A title of many words " * 8, tmp_path / "a.png")
    (figure,) = pictures
    headings = [axes.get_title(loc="left") for axes in figure.axes[:3]]
    assert headings == ["kind: x, link: a", "kind: x, link: b", "kind: y, link: a"]
    shown = [{box.get_label(): box[0].get_color() for box in axes.containers} for axes in figure.axes]
    assert [set(names) for names in shown] == [{"SVD"}, {"SVD", "means"}] * 3
    assert len({names["SVD"] for names in shown}) == 1
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"SVD", "means", "not private"}


def test_long_titles_stay_inside_the_picture(tmp_path, pictures):
    for methods, words in (
        ("ab", "Eight words that say what is drawn here"),
        ("abcdefgh", "And where the legend is beside"),
    ):
        rows = [{"method": name, "epsilon": 1.0, "rmse": 1.0} for name in methods]
        draw(Table(columns=("method",), rows=rows), SPEC, f"{words}, " * 4, tmp_path / "a.png")
        (axes,) = pictures[-1].axes
        title = next(one for one in (axes._left_title, axes.title) if one.get_text())
        assert title.get_window_extent().x1 < pictures[-1].bbox.x1


def test_only_the_nearest_value_is_drawn_and_what_has_none():
    table = Table(columns=(), rows=[{"epsilon": epsilon} for epsilon in (None, 2.0, 3.5, 8.0)])
    spec = PlotSpec(x="epsilon", y="rmse", nearest=("epsilon", 4.0))
    assert [row["epsilon"] for row in plots._drawn(table, spec)] == [None, 3.5]
    assert plots._drawn(Table(columns=(), rows=table.rows[:1]), spec) == table.rows[:1]


def test_a_logarithmic_axis_with_a_single_power_of_ten_has_more_numbers_than_that(tmp_path, pictures):
    rows = [{"method": "m", "epsilon": e, "rmse": value} for e, value in ((1.0, 7.0), (2.0, 0.3))]
    spec = PlotSpec(x="epsilon", y="rmse", log_y=True, across="link")
    rows = [{**row, "link": link, "rmse": row["rmse"] if link == "a" else 1.0} for row in rows for link in "ab"]
    draw(Table(columns=("method",), rows=rows), spec, "Title", tmp_path / "a.png")
    axes = pictures[0].axes[0]
    labels = {label.get_text() for label in axes.get_yticklabels(which="both")}
    assert {"0.5", "1", "2", "5"} <= labels
    assert "3" not in labels, labels


def test_the_legend_names_every_method_once_in_the_order_of_the_table(tmp_path, pictures):
    """A method's line and its level share a colour, and what levels are is said once."""
    rows = [{"method": name, "epsilon": e, "rmse": e} for name in "abcdef" for e in (1.0, 2.0, None) if e or name < "d"]
    rows = [{**row, "rmse": row["rmse"] or 0.5} for row in [*rows, {"method": "g", "epsilon": None, "rmse": 0.7}]]
    spec = PlotSpec(x="epsilon", y="rmse", level="without privacy", guides=("f",))
    draw(Table(columns=("method",), rows=rows), spec, "Title", tmp_path / "a.png")
    (figure,) = pictures
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == [*"abcdefg", "without privacy"]
    (axes,) = figure.axes
    assert {box.get_label() for box in axes.containers} == set("abcde")  # a guide has no marks
    assert next(line for line in axes.lines if line.get_label() == "f").get_linestyle() == "--"


def test_long_numbers_below_narrow_panels_keep_apart(tmp_path, pictures):
    rows = [{"method": "m", "users": 10_000 * 2**k, "rmse": 1.0, "data": name} for k in range(7) for name in "ab"]
    spec = PlotSpec(x="users", y="rmse", log_x=True, across="data")
    draw(Table(columns=("method",), rows=rows), spec, "Title", tmp_path / "a.png")
    for axes in pictures[0].axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert len(boxes) == 4
        assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


@pytest.mark.parametrize("log_x", [True, False])
def test_whole_numbers_are_marked_where_they_are(log_x, tmp_path, pictures):
    rows = [{"method": "m", "users": m, "rmse": 1.0, "setting": "m = 1, ε = 2"} for m in (3_000, 7_000)]
    spec = PlotSpec(x="users", y="rmse", log_x=log_x, across="setting")
    draw(Table(columns=("method",), rows=rows), spec, "Title", tmp_path / "a.png")
    (axes,) = pictures[0].axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3,000", "7,000"]
    assert axes.get_title(loc="left") == "Title\nm = 1, ε = 2"
