"""The command line: argument parsing and printing only. Everything heavy is imported inside the commands."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from hushrec.cli.data import app as data_commands
from hushrec.cli.figures import register as add_figures
from hushrec.cli.ledger import app as ledger_commands
from hushrec.cli.models import register as add_models
from hushrec.cli.own import register as add_own
from hushrec.cli.planning import register as add_planning
from hushrec.cli.terminal import OneSentence, example
from hushrec.cli.trust import register as add_trust

app = typer.Typer(
    cls=OneSentence,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("hushrec fit ratings.csv --value-range 1 5 --epsilon 1 --delta 1e-6 -o model.hush"),
)


@app.callback()
def hushrec(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Recommenders that learn from everybody's ratings and keep all the ratings of every single user private."""
    if version:
        from hushrec import __version__

        typer.echo(f"hushrec {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


add_models(app)
add_own(app)
add_figures(app)
add_trust(app)
add_planning(app)
app.add_typer(data_commands, name="data")
app.add_typer(ledger_commands, name="ledger")


def main() -> None:
    """The program `hushrec`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open as long as it runs)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters still gets the figures
    app(prog_name="hushrec")
