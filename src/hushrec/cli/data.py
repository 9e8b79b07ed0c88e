"""`hushrec data`: known data sets, from their publishers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushrec.cli.inputs import Json
from hushrec.cli.terminal import counted, example, print_json, print_table

app = typer.Typer(
    help="Known data sets: list them, fetch them from their publishers, check what a path holds.",
    no_args_is_help=False,
    epilog=example("hushrec data fetch ml-1m --folder data", "hushrec data check data/ml-1m.zip"),
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from 'hushrec data list'.", show_default=False)]


@app.command("list", epilog=example("hushrec data list --json"))
def list_known(json: Json = False) -> None:
    """The data sets that Hushrec reads in their own formats."""
    from hushrec.data.fetch import catalog_table

    rows = catalog_table()
    if json:
        print_json(rows)
        return
    columns = ("name", "title", "users", "items", "ratings", "download")
    print_table(columns, [[row[column] for column in columns] for row in rows])


@app.command(epilog=example("hushrec data fetch ml-1m --folder data"))
def fetch(
    name: Name,
    folder: Annotated[Path, typer.Option(help="Where to put it.")] = Path("data"),
    url: Annotated[str | None, typer.Option(help="Another address of the same file, such as a mirror.")] = None,
    checksum: Annotated[
        str | None, typer.Option(metavar="md5:...", help="For --url: the publisher's checksum, where none is known.")
    ] = None,
) -> None:
    """Download a data set from its publisher: goes on where it was cut, and checks what came."""
    from hushrec.data.fetch import fetch as download

    with counted(f"Fetching {name}") as progress:
        path = download(name, folder, url=url, checksum=checksum, progress=progress)
    typer.echo(path)


@app.command(epilog=example("hushrec data check data/ml-1m.zip"))
def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, folder or archive.", show_default=False)],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What it should be.", show_default="guessed")] = None,
    json: Json = False,
) -> None:
    """What a path holds, with exact counts for the holder of the data; exit code 1 where something is missing."""
    from hushrec.data.fetch import check as inspect
    from hushrec.errors import DataError

    report = inspect(path, name)
    if report["users"] is None:
        raise DataError(report["problems"][0])
    if json:
        print_json(report)
    else:
        labels = ("path", "name", "title", "users", "items", "ratings")
        rows = [[label, report[label]] for label in labels]
        rows.append(["range", " to ".join(f"{end:g}" for end in report["range"])])
        print_table(("", ""), [*rows, *(["problem", problem] for problem in report["problems"])])
    if report["problems"]:
        raise typer.Exit(1)
