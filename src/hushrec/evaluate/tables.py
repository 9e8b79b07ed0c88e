"""Tables of figures: mean and spread over repeated runs, as Markdown."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows with the same columns; a value is text, a number, or None for "not there"."""

    columns: tuple[str, ...]
    rows: list[Row]

    def markdown(self) -> str:
        """The table in Markdown, numbers with four significant digits.

        >>> print(Table(columns=("method", "rmse"), rows=[{"method": "SVD", "rmse": 0.90417}]).markdown())
        | method | rmse |
        | --- | --- |
        | SVD | 0.9042 |
        """
        lines = [self.columns, ("---",) * len(self.columns)]
        lines += [tuple(_text(row.get(column)) for column in self.columns) for row in self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summarise(records: list[Record], settings: tuple[str, ...], spread: tuple[str, ...] = ("rmse",)) -> Table:
    """One row for every combination of `settings`: the mean of each numeric figure, its deviation where in `spread`.

    Runs of one combination differ in their "seed"; a figure that is missing from a run is left out of the mean.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(json.dumps([record.get(key) for key in settings]), []).append(record)
    figures = [name for name in dict.fromkeys(key for record in records for key in record) if name != "seed"]
    figures = [name for name in figures if name not in settings]
    rows = [_row(group, settings, figures, spread) for group in groups.values()]
    columns = list(settings)
    for name in figures:
        columns += [name, f"{name} sd"] if name in spread else [name]
    return Table(columns=(*columns, "runs"), rows=rows)


def _row(group: list[Record], settings: tuple[str, ...], figures: list[str], spread: tuple[str, ...]) -> Row:
    row: Row = {key: group[0].get(key) for key in settings}
    for name in figures:
        values = [record[name] for record in group if isinstance(record.get(name), int | float)]
        row[name] = sum(values) / len(values) if values else group[0].get(name)
        if name in spread:
            row[f"{name} sd"] = _deviation(values)
    return {**row, "runs": len(group)}


def _deviation(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
