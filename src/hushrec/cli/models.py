"""The commands about models: demo, fit, recommend, evaluate, explain."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushrec.cli import inputs
from hushrec.cli.terminal import busy, example, print_json, print_table, remark
from hushrec.errors import ConfigError, DataError
from hushrec.solvers.registry import SOLVERS, make_solver, unit_of

if TYPE_CHECKING:
    from hushrec.data.ratings import Ratings
    from hushrec.privacy.accounting import Budget, NonPrivate
    from hushrec.release.file import Release

ReleaseFile = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.", show_default=False)]
Epsilon = Annotated[float | None, typer.Option(help="The privacy budget ε.", show_default=False)]
Delta = Annotated[float, typer.Option(help="The privacy budget δ; 0 allows pure ε-DP noise only.")]
Relation = Annotated[str, typer.Option(help="Which data sets are neighbours: replace-one or add-remove.")]
Unit = Annotated[str, typer.Option(help="What is protected: user or rating.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(epilog=example("hushrec demo --out hushrec-demo"))(demo)
    app.command(
        epilog=example(
            "hushrec fit ratings.csv --value-range 1 5 --epsilon 1 --delta 1e-6 -o model.hush",
            "hushrec fit ml-1m.zip --solver svd --set rank=8 --top 400 --epsilon 1 --delta 1e-6",
            "hushrec fit votes.csv --value-range 0 1 --solver onebit --mechanism objective --epsilon 2",
        )
    )(fit)
    app.command(epilog=example("hushrec recommend model.hush my-ratings.csv --top 10"))(recommend)
    app.command(epilog=example("hushrec evaluate model.hush --train train.csv --test test.csv --json"))(evaluate)
    app.command(epilog=example("hushrec explain model.hush"))(explain)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the release file and the picture.")] = Path("hushrec-demo"),
    json: inputs.Json = False,
) -> None:
    """Fit, complete and explain on generated data, in under a minute."""
    from hushrec.evaluate.demo import run_demo

    with busy("Generating ratings, and fitting with and without privacy"):
        shown = run_demo(out)
    if json:
        print_json(shown.to_dict())
        return
    typer.echo(f"{shown.about}\n")
    typer.echo("Error on ratings that were held back (root mean square, in stars):")
    print_table(("model", "RMSE"), [[name, f"{error:.3f}"] for name, error in shown.errors.items()])
    typer.echo("One user, on her own device: ratings that were held back, and what is predicted for them.")
    print_table(("item", "she gave", "predicted"), [[i, f"{r:.0f}", f"{p:.1f}"] for i, r, p in shown.one_user])
    best = ", ".join(f"{item} ({score:.1f})" for item, score in shown.recommended)
    typer.echo(f"Recommended to her, of the items that she has not rated: {best}\n")
    typer.echo(f"{shown.release.card()}\n")
    for path in shown.files:
        typer.echo(f"Wrote {path}")
    if shown.remark:
        remark(shown.remark)


def fit(
    ratings: Annotated[Path, typer.Argument(metavar="RATINGS", help="A file, folder or archive.", show_default=False)],
    solver: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"How to learn: {', '.join(SOLVERS)}.", show_default="the best")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    relation: Relation = "replace-one",
    unit: Annotated[
        str | None, typer.Option(help="What is protected: user or rating.", show_default="rating for onebit, else user")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of onebit: input, objective, gradient, output or none.")
    ] = None,
    already_randomized: Annotated[
        bool, typer.Option("--already-randomized", help="RATINGS come from 'hushrec randomize' (onebit, input).")
    ] = False,
    non_private: Annotated[bool, typer.Option("--non-private", help="No noise and no protection at all.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="The release file to write.")] = Path("model.hush"),
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the solver; may be repeated.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            help="Keep the N items with the largest noisy counts, charged to the budget (onebit: exact, free)."
        ),
    ] = None,
    fixed_top: Annotated[
        int | None, typer.Option(help="Keep the N most rated items, declared as fixed beforehand; the card says so.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The data set's ledger: a fit that would pass its total is refused. One with --already-randomized "
            "costs nothing and is not charged.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Lets an interrupted fit go on, called again with the same options."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeatable, for experiments; the guarantee is then void.")] = None,
    value_range: inputs.Range = None,
    user: inputs.UserColumn = "user",
    item: inputs.ItemColumn = "item",
    value: inputs.ValueColumn = "value",
    separator: inputs.Separator = None,
    no_header: inputs.NoHeader = False,
    format: inputs.Format = None,
    items: inputs.ItemList = "rated",
    duplicates: inputs.Duplicates = "error",
    json: inputs.Json = False,
) -> None:
    """Learn from everybody's ratings, and write one file that is safe to publish.

    RATINGS is a table of user, item and value (.csv, .tsv, .txt, .parquet), or a known data set as it was published.
    """
    from hushrec.fit import fit as learn
    from hushrec.fit import require_startable, require_usable
    from hushrec.privacy.durable import LedgerFile
    from hushrec.privacy.journal import answers_in, run_in

    settings = [*(settings or ()), *_onebit_settings(solver, mechanism, already_randomized)]
    chosen = None if solver is None else make_solver(solver, settings)
    if settings and solver is None:
        raise ConfigError("--set needs --solver NAME: settings belong to a solver.")
    _require_writable(output)
    _require_spare(output)
    table = inputs.Table(
        user=user,
        item=item,
        value=value,
        separator=separator,
        no_header=no_header,
        duplicates=duplicates,
        value_range=value_range,
        format=format,
        items=items,
    )
    loaded = _randomized(ratings, table, non_private) if already_randomized else None
    if loaded is not None:
        epsilon = loaded.randomized if epsilon is None else epsilon
        if ledger is not None:
            remark(f"Nothing is charged to {ledger}: a fit of what users' devices randomized costs nothing more.")
        ledger = None
    budget = _budget(epsilon, delta, relation, unit or unit_of(solver), non_private)
    require_usable(budget, chosen, seed)
    _require_whole(top=top, fixed_top=fixed_top)
    book: LedgerFile | Path | None = ledger
    if ledger is not None and not ledger.exists():  # started once the ratings are read: its total is for good
        require_startable(ledger, budget, seeded=seed is not None)
        _require_writable(ledger)
    elif ledger is not None:
        book = opened = LedgerFile(ledger)
        if resume is None or run_in(resume) not in opened.read().runs:  # else it has its place in the ledger already
            opened.check(budget, seeded=seed is not None)
    with busy("Reading"):
        loaded = inputs.load_ratings(ratings, table) if loaded is None else loaded
        _require_whole(loaded.n_items, top=top, fixed_top=fixed_top)
        loaded = loaded if fixed_top is None else loaded.restrict(fixed_top)
    before = set() if resume is None else answers_in(resume)
    with busy("Fitting"):
        release = learn(loaded, chosen, budget, seed=seed, top=top, ledger=book, resume=resume)
    if resume is not None and before:
        told = "All" if before == answers_in(resume) else f"{len(before)} of the"
        remark(f"{told} answers come from {resume}, as they left before: the ratings were not used for them.")
    _save(release, output, resume)
    if json:
        from hushrec.release.card import describe

        print_json({"path": str(output)} | describe(release))
    else:
        typer.echo(f"Wrote {output}: {_in_short(release)}")


def recommend(
    release: ReleaseFile,
    my_ratings: Annotated[
        Path,
        typer.Argument(
            metavar="MY_RATINGS",
            help="Own ratings: columns item and value, or item alone where the release was learnt from clicks.",
            show_default=False,
        ),
    ],
    top: Annotated[int, typer.Option(help="How many.")] = 10,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Leave out ratings of items that the release does not list.")
    ] = False,
    json: inputs.Json = False,
) -> None:
    """Recommendations for one user from her own ratings; nothing leaves this machine."""
    from hushrec.data.own import read_own, read_own_items
    from hushrec.device.kinds import KINDS
    from hushrec.release.file import Release

    model = Release.load(release)
    items: Any
    values: Any
    if KINDS[model.kind].predicts == "scores":  # the fold-in asks what she used, whatever the values
        items = read_own_items(my_ratings)
        values = [model.value_range[1]] * len(items)
    else:
        items, values = read_own(my_ratings, value_range=model.value_range)
    best = model.recommend(items, values, top, unknown="ignore" if ignore_unknown else "error")
    if json:
        print_json([{"item": item, "score": score} for item, score in best])
    else:
        print_table(("item", "predicted"), [[str(item), f"{score:.2f}"] for item, score in best])


def evaluate(
    release: ReleaseFile,
    train: Annotated[Path, typer.Option(help="The ratings that users have at hand.", show_default=False)],
    test: Annotated[Path, typer.Option(help="The ratings to predict.", show_default=False)],
    value_range: inputs.Range = None,
    user: inputs.UserColumn = "user",
    item: inputs.ItemColumn = "item",
    value: inputs.ValueColumn = "value",
    separator: inputs.Separator = None,
    no_header: inputs.NoHeader = False,
    format: inputs.Format = None,
    duplicates: inputs.Duplicates = "error",
    at: Annotated[
        list[int] | None,
        typer.Option(metavar="K", help="Recall@K and NDCG@K too; may be repeated.", show_default="none"),
    ] = None,
    json: inputs.Json = False,
) -> None:
    """How well a release predicts held-out ratings: a simulation, whose figures are not private.

    Users are matched by their ids; the value range is the release's own unless another one is given.
    """
    from hushrec.evaluate.match import match_users
    from hushrec.evaluate.metrics import evaluate as measure
    from hushrec.release.file import Release

    model = Release.load(release)
    table = inputs.Table(
        user=user,
        item=item,
        value=value,
        separator=separator,
        no_header=no_header,
        duplicates=duplicates,
        value_range=None if format else value_range or model.value_range,
        format=format,
    )
    with busy("Reading"):
        known, wanted, unknown = match_users(inputs.load_ratings(train, table), inputs.load_ratings(test, table))
    with busy("Predicting"):
        figures = measure(model, known, wanted, ks=at or None)
    if unknown:
        remark(f"{unknown} users of the test ratings have no training ratings; they are predicted from nothing.")
    if json:
        print_json(figures)
    else:
        print_table(("figure", "value"), figures.items())
        remark("These figures were computed from private ratings without noise: do not publish them as private.")


def explain(release: ReleaseFile, json: inputs.Json = False) -> None:
    """The privacy card: what is promised, to whom, at what price, in words and numbers."""
    from hushrec.release.card import describe
    from hushrec.release.file import Release

    model = Release.load(release)
    if json:
        print_json(describe(model))
    else:
        typer.echo(model.card())


def _budget(epsilon: float | None, delta: float, relation: str, unit: str, non_private: bool) -> Budget | NonPrivate:
    from hushrec.privacy.accounting import Budget, NonPrivate

    if non_private:
        if epsilon is not None:
            raise ConfigError("--non-private and --epsilon exclude each other.")
        return NonPrivate()
    if epsilon is None:
        raise ConfigError("--epsilon is required, with --delta, such as --epsilon 1 --delta 1e-6 (or --non-private).")
    kinds: Any = {"relation": relation, "unit": unit}
    return Budget(epsilon, delta, **kinds)


def _onebit_settings(solver: str | None, mechanism: str | None, already_randomized: bool) -> list[str]:
    """The options that are settings of one solver, as such."""
    if (mechanism is not None or already_randomized) and solver != "onebit":
        raise ConfigError("--mechanism and --already-randomized are options of --solver onebit.")
    chosen = [] if mechanism is None else [f"mechanism={mechanism}"]
    return [*chosen, *(["already_randomized=true"] if already_randomized else [])]


def _randomized(path: Path, table: inputs.Table, non_private: bool) -> Ratings:
    """Signs that carry their own noise already, so reading them needs no budget."""
    from hushrec.data.randomized import find_files, read_randomized

    if non_private:
        raise ConfigError("--non-private and --already-randomized exclude each other: the answers are private already.")
    inputs.refuse_layout(table)
    with busy("Reading"):
        ratings = read_randomized(
            path,
            user=inputs.column(table.user),
            item=inputs.column(table.item),
            items=inputs.item_list(table.items),
            value_range=table.value_range or (0.0, 1.0),
            duplicates=table.duplicates,  # type: ignore[arg-type]  # checked by the reader
        )
    if path.is_dir():
        found = find_files(path)
        skipped = f", skipped {found.skipped} that are not .csv files" if found.skipped else ""
        remark(f"Read {len(found.files)} files of {path}{skipped}.")
    if table.items == "rated":
        remark("The item list is what the files name, so whoever sends one can add to it: --items FILE declares it.")
    return ratings


def _require_whole(most: int = 2**32, **options: int | None) -> None:
    """Refuse options that do not count items, by their own names."""
    from hushrec import require

    for name, value in options.items():
        if value is not None:
            require.whole(f"--{name.replace('_', '-')}", value, 1, most)


def _require_writable(path: Path) -> None:
    """Refuse a place where no file can be written before any budget is spent for it."""
    folder = path.expanduser().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or path.is_dir():
        raise DataError(f"No file can be written at {path}.")


def _require_spare(output: Path) -> None:
    """Refuse a place where something else stands than a release, such as the ratings, or their ledger."""
    from hushrec.release.file import is_release

    if output.exists() and not is_release(output) and not (output.is_file() and output.stat().st_size == 0):
        raise DataError(f"{output} exists and is no release file: it is not overwritten.")


def _save(release: Release, output: Path, resume: Path | None) -> None:
    """Write the release, or say where it is instead: its budget is spent, and a disk may have become full meanwhile."""
    try:
        release.save(output)
    except DataError as problem:
        refused = str(problem).removesuffix(".")
        if resume is not None:
            raise DataError(f"{refused}; nothing is lost: the same command goes on from {resume}.") from None
        try:
            spare = Path(mkdtemp(prefix="hushrec-"), output.name)
            release.save(spare)
        except (DataError, OSError):
            raise problem from None
        raise DataError(f"{refused}; the release is at {spare} instead.") from None


def _in_short(release: Release) -> str:
    promise = release.guarantee
    what = f"{release.solver.get('name', release.kind)}, {release.n_items} items, "
    if promise.void:
        return f"{what}VOID: seeded, no guarantee."
    if promise.epsilon is None:
        return f"{what}nothing is proved for the release as a whole."
    if promise.epsilon == float("inf"):
        return f"{what}NOT PRIVATE: do not publish."
    return f"{what}ε = {promise.epsilon:g}, δ = {promise.delta:g}, {promise.relation}, for each {promise.unit}."
