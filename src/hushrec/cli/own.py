"""The command on a user's own device before anything leaves it: randomize."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from hushrec.cli.terminal import example, remark
from hushrec.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(
        epilog=example(
            "hushrec randomize my-ratings.csv --epsilon 2 --threshold 3.5 -o to-send.csv",
            "hushrec fit collected/ --solver onebit --mechanism input --already-randomized --value-range 1 5 "
            "--items films.txt -o model.hush",
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
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the file that was made before: sending both spends twice.")
    ] = False,
) -> None:
    """Turn own ratings into yes and no, and flip each by chance, before they leave this device.

    Whoever gets the file learns which items are in it, and of each single answer almost nothing: it was flipped with
    probability 1/(1 + e^ε). Do this once for the same ratings: a second file spends the same again.
    """
    import numpy as np

    from hushrec.data.own import read_own
    from hushrec.data.randomized import randomized_text
    from hushrec.privacy.accounting import Budget
    from hushrec.privacy.coins import randomized_response
    from hushrec.privacy.noise import SystemBits
    from hushrec.release.file import write_whole

    price = Budget(epsilon, unit="rating").epsilon
    if not math.isfinite(threshold):
        raise ConfigError(f"--threshold must be a finite number, not {threshold}.")
    _require_new(output, my_ratings, price, force)
    items, values = read_own(my_ratings)
    signs = randomized_response((values > np.float32(threshold)).astype("uint8"), price, SystemBits())
    write_whole(output, randomized_text(items.tolist(), signs, price, threshold).encode())
    remark(
        f"Wrote {output}: {len(signs)} answers, each ε = {price:g} on its own; which items they are about is visible."
    )
    if force:
        remark(f"If a file of these ratings was sent before, sending this one too spends ε = {price:g} more on each.")


def _require_new(output: Path, my_ratings: Path, price: float, force: bool) -> None:
    """Refuse to overwrite the ratings themselves, ever, and any other file without being told to."""
    output, my_ratings = output.expanduser(), my_ratings.expanduser()
    if output.exists() and my_ratings.exists() and output.samefile(my_ratings):
        raise ConfigError(f"{output} holds the ratings themselves: give another --output.")
    if output.exists() and not force:
        raise ConfigError(
            f"{output} exists already: if it was made of these ratings, send it as it is, for a second file spends "
            f"ε = {price:g} again on each of them; --force overwrites it."
        )
