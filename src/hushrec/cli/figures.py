"""The commands about figures: budget, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hushrec.cli import inputs
from hushrec.cli.models import Delta, Relation, Unit
from hushrec.cli.terminal import counted, example, print_json, print_table, remark
from hushrec.errors import ConfigError

MEANINGS = {
    "epsilon": "ε, the budget",
    "delta": "δ, the budget",
    "relation": "neighbours",
    "unit": "what is protected",
    "mu": "μ, the same as one Gaussian release",
    "advantage": "best attacker: true minus false positives, at most",
    "tpr_at_1pct_fpr": "best attacker: true positives at 1 % false ones",
    "tpr_at_01pct_fpr": "best attacker: true positives at 0.1 % false ones",
    "noise_multiplier": "σ/sensitivity of one release that gets it all",
    "users": "users",
    "items": "items",
    "users_needed": "users until a model tells more than item means",
    "worth_training": "worth training",
    "users_by_table_1": "users by the Frank-Wolfe paper's Table 1, as published",
    "rounds_by_theorem_3_2": "Frank-Wolfe rounds by its Theorem 3.2, as published",
    "privacy_error_by_corollary_3_1": "price of privacy by its Corollary 3.1, as published, up to constants",
    "completion_error_by_corollary_3_1": "error of completion by it, as published, up to constants",
}


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(
        epilog=example(
            "hushrec budget --epsilon 1 --delta 1e-6",
            "hushrec budget --epsilon 1 --delta 1e-6 --users 6040 --items 400",
        )
    )(budget)
    app.command(epilog=example("hushrec reproduce", "hushrec reproduce fw-synthetic --quick --out results"))(reproduce)


def budget(
    epsilon: Annotated[float, typer.Option(help="The privacy budget ε.", show_default=False)],
    delta: Delta = 0.0,
    relation: Relation = "replace-one",
    unit: Unit = "user",
    users: Annotated[int | None, typer.Option(help="How many users; with --items: what it buys.")] = None,
    items: Annotated[int | None, typer.Option(help="How many items.")] = None,
    json: inputs.Json = False,
) -> None:
    """What a budget means: how well the best attacker can do, and what it buys."""
    from hushrec.privacy.accounting import Budget
    from hushrec.privacy.meaning import explain_budget

    if (users is None) != (items is None):
        raise ConfigError("--users and --items belong together.")
    if not all(1 <= count <= 2**32 for count in (users or 1, items or 1)):
        raise ConfigError("--users and --items must be between 1 and 2^32.")
    kinds: Any = {"relation": relation, "unit": unit}
    spent = Budget(epsilon, delta, **kinds)
    figures: dict[str, Any] = explain_budget(spent)
    if figures["mu"]:
        figures["noise_multiplier"] = 1.0 / figures["mu"]
    if users is not None and items is not None:
        from hushrec.solvers.theory import budget_report

        figures |= budget_report(users, items, spent)
    if json:
        print_json(figures)
        return
    remarks = figures.pop("remark", None)
    print_table(("", ""), [(MEANINGS.get(name, name), value) for name, value in figures.items()])
    if remarks:
        typer.echo(remarks)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An experiment; without it, the list.", show_default=False)
    ] = None,
    data: Annotated[
        list[Path] | None, typer.Option(help="Your own copy of the data; may be repeated.", show_default=False)
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Repetitions of each setting.", show_default="its own")] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Only this ε; may be repeated.", show_default="its own")
    ] = None,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="The paper's grids, where it has any; the choice is not charged.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, under a minute.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results; an interrupted run goes on there.")] = Path(
        "results"
    ),
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    json: inputs.Json = False,
) -> None:
    """A figure of a paper: JSON lines, a table and a PNG."""
    from hushrec.evaluate import experiments

    if name is None:
        known = sorted(experiments.EXPERIMENTS.values(), key=lambda one: str(one.name))
        if json:
            listed = [
                {"name": one.name, "title": one.title, "about": one.about, "tunable": one.tunable} for one in known
            ]
            print_json(listed)
        else:
            print_table(("name", "title"), [(one.name, one.title) for one in known])
        return
    options = experiments.Options(
        data=tuple(data or ()),
        runs=runs,
        epsilons=tuple(epsilon) if epsilon else None,
        tuned=tuned,
        quick=quick,
        out=out,
        seed=seed,
    )
    experiment = experiments.find_experiment(name)
    with counted(name) as progress:
        outcome = experiments.run_experiment(experiment, options, progress)
    if json:
        print_json(
            {
                "name": name,
                "tuned": tuned,
                "remarks": list(outcome.remarks),
                "rows": outcome.table.rows,
                "files": [str(path) for path in outcome.files],
            }
        )
        return
    typer.echo("\n".join((experiment.title, experiment.about, *outcome.remarks)))
    print_table(
        outcome.table.columns, [[row.get(column) for column in outcome.table.columns] for row in outcome.table.rows]
    )
    remark(f"Wrote {', '.join(str(path) for path in outcome.files)}.")
