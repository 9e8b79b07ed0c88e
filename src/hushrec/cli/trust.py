"""The command `audit`: tries to break the guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hushrec.cli import inputs
from hushrec.cli.terminal import counted, example, print_json, remark
from hushrec.errors import ConfigError
from hushrec.solvers.registry import SOLVERS, make_solver, unit_of


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(
        epilog=example(
            "hushrec audit --solver svd --epsilon 1 --delta 1e-6", "hushrec audit --epsilon 8 --check neighbours"
        )
    )(audit)


def audit(
    epsilon: Annotated[float, typer.Option(help="The claimed ε.", show_default=False)],
    delta: Annotated[float, typer.Option(help="The claimed δ.")] = 1e-6,
    relation: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    solver: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"One of {', '.join(SOLVERS)}.", show_default="the best")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the solver; may be repeated.")
    ] = None,
    users: Annotated[int, typer.Option(help="Users of the generated data; few, so that one weighs much.")] = 30,
    items: Annotated[int, typer.Option(help="Items of the generated data.")] = 8,
    value_range: inputs.Range = None,
    ratings_per_user: Annotated[
        float | None, typer.Option(help="Ratings of a user on average.", show_default="a third of the items")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Keep the N items with the largest noisy counts, as in fit.")] = None,
    check: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this check; may be repeated.", show_default="all")
    ] = None,
    trainings: Annotated[int, typer.Option(help="Trainings of the black-box attack, for each of two worlds.")] = 1000,
    canaries: Annotated[int, typer.Option(help="Users whose rows are guessed in the one-run attack.")] = 500,
    search: Annotated[int, typer.Option(help="Steps of the search for worse neighbours.")] = 40,
    confidence: Annotated[float, typer.Option(help="Of the lower bounds.")] = 0.95,
    seed: Annotated[int | None, typer.Option(help="Repeatable noise.", show_default="real noise")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the attackers' curves (.png, .pdf or .svg).")
    ] = None,
    json: inputs.Json = False,
) -> None:
    """Try to break the guarantee, on generated data: prints the lower bound reached; exit code 1 where it is broken."""
    from hushrec.evaluate.audit import audit as attack
    from hushrec.evaluate.plots import check_picture
    from hushrec.privacy.accounting import Budget

    if settings and solver is None:
        raise ConfigError("--set needs --solver NAME: settings belong to a solver.")
    if plot is not None:
        check_picture(plot)
    chosen = None if solver is None else make_solver(solver, settings or ())
    kinds: Any = {"relation": relation, "unit": unit_of(solver)}
    with counted("Attacking") as progress:
        report = attack(
            chosen,
            Budget(epsilon, delta, **kinds),
            users=users,
            items=items,
            value_range=value_range,
            ratings_per_user=ratings_per_user,
            top=top,
            checks=tuple(check) if check else None,
            trainings=trainings,
            canaries=canaries,
            search=search,
            confidence=confidence,
            seed=seed,
            progress=progress,
        )
    if json:
        print_json(report.to_dict())
    else:
        typer.echo(report.to_text())
    if plot is not None:
        drawn = report.draw(plot)
        remark(f"Wrote {plot}." if drawn else "No picture was drawn: that needs the extra 'plot'.")
    if not report.passed:
        raise typer.Exit(1)
