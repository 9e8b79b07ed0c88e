"""The command on a user's own device before anything leaves it: randomize."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushrec.cli.terminal import example, remark


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(
        epilog=example(
            "hushrec randomize my-ratings.csv --epsilon 2 --threshold 3.5 -o to-send.csv",
            "hushrec fit collected/ --solver onebit --mechanism input --already-randomized --value-range 1 5 "
            "--set threshold=3.5 -o model.hush",
        )
    )(randomize)


def randomize(
    my_ratings: Annotated[
        Path, typer.Argument(metavar="MY_RATINGS", help="Own ratings: columns item and value.", show_default=False)
    ],
    epsilon: Annotated[float, typer.Option(help="The privacy of each single rating.", show_default=False)],
    threshold: Annotated[
        float, typer.Option(help="Public: a value above it is a yes; the same for everybody.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file that may be sent.")] = Path("randomized.csv"),
) -> None:
    """Turn own ratings into yes and no, and flip each by chance, before they leave this device.

    Whoever gets the file learns which items are in it, and of each single answer almost nothing: it was flipped with
    probability 1/(1 + e^ε). Do this once for the same ratings: a second file spends the same again.
    """
    from hushrec.data.own import read_own
    from hushrec.data.randomized import randomized_text
    from hushrec.privacy.accounting import Budget
    from hushrec.privacy.noise import SystemBits, randomized_response
    from hushrec.release.file import write_whole

    price = Budget(epsilon, unit="rating").epsilon
    items, values = read_own(my_ratings)
    signs = randomized_response((values > threshold).astype("uint8"), price, SystemBits())
    write_whole(output, randomized_text(items.tolist(), signs, price).encode())
    remark(
        f"Wrote {output}: {len(signs)} answers, each ε = {price:g} on its own; which items they are about is visible."
    )
