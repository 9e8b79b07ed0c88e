"""The options by which commands take ratings, and how those become `Ratings`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushrec.errors import ConfigError, DataError

if TYPE_CHECKING:
    from hushrec.data.ratings import Ratings

Range = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--value-range", "--range", metavar="LOW HIGH", help="The public lowest and highest value.", show_default=False
    ),
]
UserColumn = Annotated[str, typer.Option("--user", help="The column of user ids: a name, or a position from 0.")]
ItemColumn = Annotated[str, typer.Option("--item", help="The column of item ids.")]
ValueColumn = Annotated[str, typer.Option("--value", help="The column of values; 'none': every row counts as 1.")]
Separator = Annotated[str | None, typer.Option(help="Between the columns of a text file.", show_default="guessed")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is a rating, not column names.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="A known data set, as in 'hushrec data list'.", show_default="guessed"
    ),
]
Duplicates = Annotated[
    str, typer.Option(help="Where a user rated an item twice: error, first, last or mean.", metavar="RULE")
]
ItemList = Annotated[
    str,
    typer.Option(
        "--items",
        metavar="LIST",
        help="The public item list: 'rated' (those that occur), 'published' (a known data set's own), or a file with "
        "one item id a line.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, kw_only=True)
class Table:
    """How a file of ratings is laid out."""

    user: str = "user"
    item: str = "item"
    value: str = "value"
    separator: str | None = None
    no_header: bool = False
    duplicates: str = "error"
    value_range: tuple[float, float] | None = None
    format: str | None = None
    items: str = "rated"

    def __post_init__(self) -> None:
        """Refuse what no file can make good, before one is read: whether it is refused tells nothing of the ratings."""
        from hushrec import require
        from hushrec.data.ratings import DUPLICATES, check_range

        require.choice("--duplicates", self.duplicates, DUPLICATES)
        if self.value_range is not None:
            check_range(self.value_range)


def load_ratings(path: Path, table: Table) -> Ratings:
    """Ratings from a file of three columns, or from a known data set (named, or recognised by its files)."""
    name = table.format or (_recognised(path) if table.value_range is None else None)
    if name is not None:
        return _known(name, path, table)
    implicit = table.value.lower() == "none"
    if table.value_range is None and not implicit:
        raise ConfigError(
            "--value-range LOW HIGH is required, such as 1 5 for stars: it must be public knowledge, because a range "
            "taken from the ratings would reveal the most extreme of them."
        )
    from hushrec.data.readers import read

    return read(
        path,
        user=column(table.user),
        item=column(table.item),
        value=None if implicit else column(table.value),
        value_range=table.value_range,
        items=item_list(table.items),
        duplicates=table.duplicates,  # type: ignore[arg-type]  # checked by the reader
        separator=table.separator,
        has_header=not table.no_header,
    )


def refuse_layout(table: Table) -> None:
    """Refuse what says how a table is laid out where 'hushrec randomize' laid it out."""
    usual = Table()
    for name in ("value", "separator", "no_header", "format"):
        if getattr(table, name) != getattr(usual, name):
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} does not go with --already-randomized: those files say it themselves.")


def _recognised(path: Path) -> str | None:
    from hushrec.data.fetch import identify

    entry = identify(path)
    if entry is None and path.is_dir():
        raise DataError(f"{path} holds none of the known data sets; give one file of ratings.")
    return None if entry is None else entry.name


def _known(name: str, path: Path, table: Table) -> Ratings:
    from hushrec.data.catalogs import load

    if table.items not in ("rated", "published"):
        raise ConfigError(f"--items must be 'rated' or 'published' for a known data set, not {table.items!r}.")
    ratings = load(name, path, catalogue="published" if table.items == "published" else "rated")
    if table.value_range not in (None, ratings.value_range):
        low, high = ratings.value_range
        raise ConfigError(f"--value-range is not needed: the values of {name} go from {low:g} to {high:g}.")
    return ratings


def column(name: str) -> str | int:
    return int(name) if name.isdecimal() else name


def item_list(items: str) -> list[Any] | None:
    if items == "rated":
        return None
    if items == "published":
        raise ConfigError("--items published is for known data sets: give a file with one item id a line.")
    path = Path(items).expanduser()
    try:
        if not path.is_file():
            raise OSError
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError):
        raise DataError(f"There is no readable file of item ids at {items}.") from None
    ids = [line.strip() for line in lines if line.strip()]
    return [int(one) for one in ids] if all(one.isascii() and one.isdecimal() for one in ids) else ids
