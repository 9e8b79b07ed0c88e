"""`hushrec ledger`: the total budget of a data set, over all fits on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hushrec.cli.inputs import Json
from hushrec.cli.terminal import example, print_json, print_table
from hushrec.errors import ConfigError

app = typer.Typer(
    help="The total budget of a data set, over all fits on it, in a file that survives crashes.",
    epilog=example(
        "hushrec ledger start ratings.ledger --epsilon 4 --delta 1e-6", "hushrec ledger show ratings.ledger"
    ),
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A ledger file.", show_default=False)]


@app.command(epilog=example("hushrec ledger start ratings.ledger --epsilon 4 --delta 1e-6"))
def start(
    file: File,
    epsilon: Annotated[float, typer.Option(help="The total ε.", show_default=False)],
    delta: Annotated[float, typer.Option(help="The total δ; above 0 for --unit user.")] = 0.0,
    relation: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    unit: Annotated[str, typer.Option(help="user or rating.")] = "user",
    simulation: Annotated[
        bool, typer.Option("--simulation", help="For seeded runs, which protect nobody; it takes no others.")
    ] = False,
) -> None:
    """Start a ledger with a total, which cannot be changed afterwards; fits name it with --ledger."""
    from hushrec.privacy.accounting import Budget
    from hushrec.privacy.durable import LedgerFile

    kinds: Any = {"relation": relation, "unit": unit}
    total = Budget(epsilon, delta, **kinds)
    if total.unit == "user" and total.delta == 0.0:
        raise ConfigError(
            "--delta must be above 0, for example 1e-6: what protects users is Gaussian noise, and a total with δ = 0 "
            "has no room for it."
        )
    done = "Found" if file.exists() else "Started"
    LedgerFile(file, total, simulation=simulation)
    what = "simulation, " if simulation else ""
    typer.echo(f"{done} {file}: {what}ε = {epsilon:g}, δ = {delta:g} in total.")


@app.command(epilog=example("hushrec ledger show ratings.ledger --json"))
def show(file: File, json: Json = False) -> None:
    """What has been spent of the total, and by which fits."""
    from hushrec.privacy.durable import LedgerFile

    book = LedgerFile(file).read()
    runs = [
        {
            "run": run.name,
            "opened": run.opened,
            "solver": run.solver,
            "epsilon": run.budget.epsilon,
            "delta": run.budget.delta,
            "releases": len(run.spent),
            "spent": run.spent.epsilon(book.total.delta),
            "state": "closed" if run.closed else "open",
            "seeded": run.seeded,
        }
        for run in book.runs.values()
    ]
    if json:
        total = {"epsilon": book.total.epsilon, "delta": book.total.delta, "relation": book.total.relation}
        figures = {"total": total | {"unit": book.total.unit}, "spent": book.epsilon, "simulation": book.simulation}
        print_json(figures | {"runs": runs})
        return
    if book.simulation:
        typer.echo("SIMULATION: these runs are seeded and protect nobody; the figures are what they would have cost.")
    typer.echo(
        f"ε = {book.epsilon:.6g} of {book.total.epsilon:g} is spent or set aside, at δ = {book.total.delta:g} "
        f"({book.total.relation}, for each {book.total.unit})."
    )
    if runs:
        print_table(runs[0], [run.values() for run in runs])


@app.command(epilog=example("hushrec ledger close ratings.ledger 3f2a9c0b1d4e"))
def close(
    file: File,
    run: Annotated[str, typer.Argument(metavar="RUN", help="An open run, as 'show' names it.", show_default=False)],
) -> None:
    """End a fit that was cut off for good: what it set aside and did not spend is free again.

    It can then spend no more, not even if it is still running or is resumed.
    """
    from hushrec.privacy.durable import LedgerFile

    LedgerFile(file).close_run(run)
    typer.echo(f"Closed {run}.")
