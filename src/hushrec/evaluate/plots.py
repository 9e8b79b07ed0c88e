"""Plots of tables, in one house style: one line a method, spread as error bars, levels dashed.

Needs the extra `plot` (Matplotlib); without it there is no picture, and the functions say so by returning False.
"""

from __future__ import annotations

import itertools
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushrec.errors import ConfigError, DataError
from hushrec.evaluate.tables import Row, Table

# Told apart by people who do not see all colours (Okabe, Ito 2008), and by their marks in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = (0, (5.0, 2.0, 5.0, 2.0))
INK, FAINT = "#333333", "#DDDDDD"
MOST_TICKS = 8
MOST_LETTERS = 36  # of the numbers below one of several panels
MOST_INSIDE = 4  # methods whose legend fits into the picture
ENDINGS = (".png", ".pdf", ".svg")


@dataclass(frozen=True, kw_only=True)
class PlotSpec:
    """Which columns of a table are drawn: y against x, one line for each value of `series`.

    A row without an x (None) becomes a level line. The column "y sd", where there is one, becomes error bars.
    only: draw only the rows whose columns have these values. nearest: of the values that this column has, draw only
    the one nearest to this number, and the rows without any. down, across: columns whose values get a panel each,
    one below the other and side by side. guides: lines to compare with, such as bounds: thin, dashed, without marks.
    level: what the levels are of lines that have one, in the legend.
    """

    x: str
    y: str
    series: str = "method"
    x_label: str | None = None
    y_label: str | None = None
    log_x: bool = False
    log_y: bool = False
    only: tuple[tuple[str, Any], ...] = ()
    nearest: tuple[str, float] | None = None
    down: str | None = None
    across: str | None = None
    guides: tuple[str, ...] = ()
    level: str = "level"


def draw(table: Table, spec: PlotSpec, title: str, path: Path) -> bool:
    """Write the plot as PNG; returns whether it could (Matplotlib may not be installed)."""
    rows = _drawn(table, spec)
    names = list(dict.fromkeys(str(row.get(spec.series)) for row in rows))
    downs, acrosses = _values(rows, spec.down), _values(rows, spec.across)
    several = len(downs) * len(acrosses) > 1
    figure = _figure(*_size(len(downs), len(acrosses), beside=len(names) > MOST_INSIDE))
    if figure is None:
        return False
    grid = figure.subplots(len(downs), len(acrosses), squeeze=False, sharex=several, sharey=several)
    for axes, (below, beside) in zip(grid.flat, itertools.product(downs, acrosses), strict=True):
        shown = {name: value for name, value in ((spec.down, below), (spec.across, beside)) if name and value}
        _panel(axes, [row for row in rows if shown.items() <= row.items()], names, spec)
        heading = ", ".join(_heading(name, value) for name, value in shown.items())
        words = heading if several else f"{_folded(title, figure)}\n{heading}".rstrip()
        style(axes, words, spec.x_label or spec.x, spec.y_label or spec.y)
        axes.label_outer()
    for axes in grid.flat if spec.log_y else ():  # once all panels have the limits that they share
        _log_y(axes)
    if several:
        figure.suptitle(_folded(title, figure), x=0.01, ha="left", fontsize="medium", color=INK)
    if several or len(names) > MOST_INSIDE:
        _legend_beside(figure, names)
    elif names:
        grid[0][0].legend(fontsize="small", edgecolor="none", framealpha=0.8)
    figure.savefig(path, dpi=150)
    return True


def _drawn(table: Table, spec: PlotSpec) -> list[Row]:
    """The rows of the picture."""
    rows = [row for row in table.rows if all(row.get(column) == value for column, value in spec.only)]
    if spec.nearest is None:
        return rows
    column, wanted = spec.nearest
    there = [float(row[column]) for row in rows if row.get(column) is not None]
    kept = (None, min(there, key=lambda value: abs(value - wanted)) if there else None)
    return [row for row in rows if row.get(column) in kept]


def _values(rows: list[Row], column: str | None) -> list[Any]:
    """The values of a column in the order of the table; one panel for all where there is no column."""
    found = list(dict.fromkeys(row.get(column) for row in rows)) if column is not None else []
    return found or [None]


def _heading(column: str, value: Any) -> str:
    """What stands over a panel; text that has its own "=" says all by itself."""
    if isinstance(value, str):
        return value if "=" in value else f"{column}: {value}"
    return f"{column}: {value:,g}"


def _size(down: int, across: int, *, beside: bool) -> tuple[float, float]:
    if down * across == 1:
        return (9.5 if beside else 7.0), 4.6
    return 3.4 * across + 2.7, 2.5 * down + 1.0


def _folded(title: str, figure: Any) -> str:
    """On as many lines as it needs, beside a legend too."""
    return textwrap.fill(title, int(8.5 * figure.get_figwidth()))


def _panel(axes: Any, rows: list[Row], names: list[str], spec: PlotSpec) -> None:
    for number, name in enumerate(names):
        _line(axes, [row for row in rows if str(row.get(spec.series)) == name], spec, name, number)
    places = sorted({float(row[spec.x]) for row in rows if row.get(spec.x) is not None})
    if spec.log_x:
        _log_x(axes, places)
    elif places and len(places) <= MOST_TICKS and all(place.is_integer() for place in places):
        _mark(axes, places)
    if spec.log_y:
        axes.set_yscale("log")


def check_picture(path: str | Path) -> Path:
    """The path, where a picture can be written; refused before the work that it is to show.

    >>> check_picture("plan.txt")
    Traceback (most recent call last):
    hushrec.errors.ConfigError: A picture's name must end in .png, .pdf or .svg, unlike plan.txt.
    """
    place = Path(path).expanduser()
    if place.suffix.lower() not in ENDINGS:
        raise ConfigError(f"A picture's name must end in .png, .pdf or .svg, unlike {place.name}.")
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK) or place.is_dir():
        raise DataError(f"No picture can be written at {place}.")
    return place


def draw_demo(rmse: Mapping[float, float], levels: Mapping[str, float], mu: float, path: Path) -> bool:
    """The picture of `hushrec demo`: error against ε beside the twins, and the best attacker's chances at one μ."""
    from hushrec.privacy.meaning import roc

    figure = _figure(10.5, 4.4)
    if figure is None:
        return False
    left, right = figure.subplots(1, 2)
    left.plot(list(rmse), list(rmse.values()), color=COLOURS[0], marker=MARKS[0], markersize=5, label="private")
    for number, (name, level) in enumerate(levels.items(), start=1):
        _level(left, level, name, number)
    style(left, "What everybody learns", "ε (less private to the right)", "RMSE on held-back ratings, stars")
    _log_x(left, list(rmse))
    left.legend(fontsize="small", frameon=False, loc="best")
    false_positive, true_positive = roc(mu, points=201)
    right.plot([0, 1], [0, 1], color=COLOURS[6], linestyle="--", linewidth=1.2, label="blind guessing")
    right.plot(false_positive, true_positive, color=COLOURS[1], label="best possible attacker")
    right.fill_between(false_positive, false_positive, true_positive, color=COLOURS[1], alpha=0.15, linewidth=0)
    style(right, "What an attacker learns about one user, at ε = 1", "false positives", "true positives")
    right.set_aspect("equal")
    right.set_xlim(0, 1)
    right.set_ylim(0, 1)
    right.legend(fontsize="small", frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)
    return True


def draw_curves(
    curves: Mapping[str, Any], bounds: Mapping[str, Any], title: str, path: Path, *, trials: int = 0
) -> bool:
    """Attackers' success, from curves of an audit; those without privacy dashed, and bounds in ink.

    bounds: (false-positive rates, true-positive rates), with a band of what luck adds to them in so many trials.
    """
    figure = _figure(9.0, 5.2)
    if figure is None:
        return False
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=COLOURS[6], linestyle=":", linewidth=1.2, label="blind guessing")
    for name, (false, true) in bounds.items():
        axes.plot(false, true, color=INK, linewidth=2.2, label=name)
        if trials:
            luck = f"as far as luck lifts 95 % of its points at n = {trials}"
            axes.fill_between(false, true, by_luck(false, true, trials), color=INK, alpha=0.12, linewidth=0, label=luck)
    attacks = list(dict.fromkeys(_attack_of(name) for name in curves))
    bare = [name for name, one in curves.items() if not one.private]
    for name, one in curves.items():
        number = attacks.index(_attack_of(name))
        # Without noise several may be perfect: dashes that begin apart show all of them along the frame.
        dashes = "-" if one.private else (3.0 * bare.index(name), (3.0, 6.0))
        colour, label = COLOURS[number % len(COLOURS)], f"{name} (n = {one.trials})"
        axes.plot(one.false, one.true, color=colour, linestyle=dashes, linewidth=1.4, label=label, clip_on=False)
    style(axes, title, "false positives", "true positives")
    axes.set_aspect("equal")
    axes.set_xlim(-0.01, 1)
    axes.set_ylim(0, 1.01)
    _legend_beside(figure)
    figure.savefig(path, dpi=150)
    return True


def _attack_of(name: str) -> str:
    """What is attacked, with or without privacy: both have one colour."""
    return name.removesuffix(", private").removesuffix(", without privacy")


def by_luck(false: Any, true: Any, trials: int) -> Any:
    """How high a point of an attacker's curve comes in 95 of 100 times, of so many trials in each world."""
    false, true = np.asarray(false, dtype=float), np.asarray(true, dtype=float)
    slope = np.gradient(true, false)
    variance = (true * (1.0 - true) + slope**2 * false * (1.0 - false)) / trials
    return np.minimum(true + 1.645 * np.sqrt(variance), 1.0)


def style(axes: Any, title: str, x_label: str, y_label: str) -> None:
    """The house style: title on the left, no box, a faint grid behind the lines."""
    axes.set_title(title, loc="left", fontsize="medium", color=INK)
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.grid(color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize="small", length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)


def _figure(width: float, height: float) -> Any:
    """An empty figure of this size in inches, made without any global state; None without Matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _legend_beside(figure: Any, order: Sequence[str] = ()) -> None:
    """The legend right of the picture, long names on several lines; those in `order` first, in that order."""
    known: dict[str, Any] = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        known |= dict(zip(names, handles, strict=True))
    names = sorted(known, key=lambda name: order.index(name) if name in order else len(order))
    handles, words = [known[name] for name in names], [textwrap.fill(name, 34) for name in names]
    figure.legend(handles, words, fontsize="small", frameon=False, loc="outside right upper")


def _line(axes: Any, rows: list[Row], spec: PlotSpec, name: str, number: int) -> None:
    drawn = [row for row in rows if row.get(spec.y) is not None]
    points = sorted((row for row in drawn if row.get(spec.x) is not None), key=lambda row: float(row[spec.x]))
    if name in spec.guides:
        line = [row[spec.x] for row in points], [row[spec.y] for row in points]
        axes.plot(*line, label=name, color=COLOURS[number % len(COLOURS)], linestyle="--", linewidth=1.0)
    elif points:
        spread = [row.get(f"{spec.y} sd") or 0.0 for row in points]
        axes.errorbar(
            [row[spec.x] for row in points],
            [row[spec.y] for row in points],
            yerr=spread if any(spread) else None,
            label=name,
            color=COLOURS[number % len(COLOURS)],
            # Past the last colour they begin again, with the next mark, dotted.
            marker=MARKS[(number + number // len(COLOURS)) % len(MARKS)],
            linestyle="-" if number < len(COLOURS) else ":",
            markersize=4,
            linewidth=1.4,
            capsize=2.5,
        )
    levels = [row[spec.y] for row in drawn if row.get(spec.x) is None]
    for height in levels:
        _level(axes, height, None if points else name, number)
    if points and levels and spec.level not in axes.get_legend_handles_labels()[1]:
        axes.plot([], [], color=INK, linestyle=DASHES, linewidth=1.2, label=spec.level)  # one for all in the legend


def _level(axes: Any, height: float, name: str | None, number: int) -> None:
    colour, dashes = COLOURS[number % len(COLOURS)], DASHES
    if number >= len(COLOURS):  # no line's colour a second time
        colour, dashes = INK, (0, (1.0, 1.5, 1.0, 1.5) if number % 2 else (3.0, 1.0, 1.0, 1.0))
    axes.axhline(height, label=name, color=colour, linestyle=dashes, linewidth=1.2)


def _log_x(axes: Any, places: Sequence[float]) -> None:
    """A logarithmic axis, labelled with plain numbers at the points themselves where they are few."""
    axes.set_xscale("log")
    if 0 < len(places) <= MOST_TICKS:
        _mark(axes, places)
        axes.set_xticks([], minor=True)


def _mark(axes: Any, places: Sequence[float]) -> None:
    """Ticks at these places with their numbers; with every other one, from the last on, where a panel is too narrow."""
    words = [f"{place:,g}" for place in places]
    columns = axes.get_subplotspec().get_gridspec().ncols
    if columns > 1 and sum(map(len, words)) > MOST_LETTERS:
        words = [word if (len(words) - number) % 2 else "" for number, word in enumerate(words)]
    axes.set_xticks(places, words)


def _log_y(axes: Any) -> None:
    """A logarithmic axis with plain numbers; between the powers of ten where there are hardly any of these."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    powers = math.floor(math.log10(high)) - math.ceil(math.log10(low)) + 1
    axes.yaxis.set_major_formatter("{x:g}")
    if powers > 1 and high >= 20 * low:
        axes.yaxis.set_minor_formatter("")
        return
    axes.yaxis.set_minor_formatter("{x:g}" if high < 20 * low else _two_and_five)
    axes.tick_params(axis="y", which="minor", colors=INK, labelsize="small", length=2)
    axes.grid(axis="y", which="minor", color=FAINT, linewidth=0.7)


def _two_and_five(value: float, _: Any) -> str:
    """The number where it is twice or five times a power of ten, else nothing."""
    return f"{value:g}" if round(value / 10.0 ** math.floor(math.log10(value))) in (2, 5) else ""
