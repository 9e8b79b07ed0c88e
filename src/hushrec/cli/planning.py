"""The command `plan`: is the data big enough?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hushrec.cli import inputs
from hushrec.cli.terminal import counted, example, print_json, print_table, remark
from hushrec.errors import ConfigError
from hushrec.solvers.registry import USER_SOLVERS, make_solver, unit_of


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(
        epilog=example(
            "hushrec plan --users 6040 --items 3706 --ratings-per-user 166 --value-range 1 5 --epsilon 1 --delta 1e-6"
        )
    )(plan)


def plan(
    users: Annotated[int, typer.Option(help="How many users.", show_default=False)],
    items: Annotated[int, typer.Option(help="How many items.", show_default=False)],
    ratings_per_user: Annotated[float, typer.Option(help="How many ratings a user has on average.")],
    value_range: inputs.Range = None,
    levels: Annotated[
        int | None, typer.Option(help="How many equally spaced values: 5 for stars.", show_default="all in between")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The privacy budget ε.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The privacy budget δ.")] = 1e-6,
    relation: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    at: Annotated[
        list[float] | None,
        typer.Option(metavar="ε", help="Forecast at this ε too; may be repeated.", show_default="0.5 to 20"),
    ] = None,
    solver: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"One of {', '.join(USER_SOLVERS)}.", show_default="chosen")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the solver; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the generated ratings.")] = 0,
    most_ratings: Annotated[int, typer.Option(help="Simulate fewer users where there are more ratings.")] = 1_000_000,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Draw it (.png, .pdf or .svg).")] = None,
    json: inputs.Json = False,
) -> None:
    """What error to expect at several ε, from generated ratings of this shape; reads no data, costs no privacy."""
    from hushrec.evaluate import planning, plots
    from hushrec.privacy.accounting import Budget

    if value_range is None:
        raise ConfigError("plan needs --value-range LOW HIGH.")
    if settings and solver is None:
        raise ConfigError("--set needs --solver NAME: settings belong to a solver.")
    if solver is not None and unit_of(solver) == "rating":
        raise ConfigError(f"plan forecasts solvers that protect users; {solver} protects single ratings.")
    if plot is not None:
        plots.check_picture(plot)
    kinds: Any = {"relation": relation}
    with counted("Simulating") as progress:
        found = planning.plan(
            users=users,
            items=items,
            ratings_per_user=ratings_per_user,
            value_range=value_range,
            budget=Budget(epsilon, delta, **kinds),
            epsilons=tuple(at) if at else planning.EPSILONS,
            levels=levels,
            solver=None if solver is None else make_solver(solver, settings or ()),
            seed=seed,
            most_ratings=most_ratings,
            progress=progress,
        )
    if json:
        print_json(found.to_dict())
    else:
        table = found.table()
        print_table(("ε", "RMSE", *table.columns[2:]), [[row[name] for name in table.columns] for row in table.rows])
        chosen = ", ".join(f"{key}={value}" for key, value in found.to_dict()["solver"].items() if key != "name")
        typer.echo(f"Solver: {type(found.solver).__name__}({chosen})")
        typer.echo(found.advice)
    if plot is not None:
        remark(f"Wrote {plot}." if found.plot(plot) else "No picture was drawn: that needs the extra 'plot'.")
