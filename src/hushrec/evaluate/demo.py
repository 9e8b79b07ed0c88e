"""The demonstration: fit, complete and explain on generated data, with a release file and a picture to look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.data.split import split
from hushrec.data.synthetic import surrogate
from hushrec.errors import DataError
from hushrec.evaluate.metrics import evaluate
from hushrec.evaluate.plots import draw_demo
from hushrec.fit import fit
from hushrec.privacy.accounting import Budget, NonPrivate
from hushrec.release.card import describe
from hushrec.release.file import Release

USERS, ITEMS, RATINGS_PER_USER = 30_000, 200, 30
EPSILON, DELTA = 1.0, 1e-6
EPSILONS = (0.1, 0.3, EPSILON, 3.0, 10.0)
HELD_BACK = 5
NO_PICTURE = "No picture was drawn: that needs Matplotlib, which the extra 'plot' brings: pip install 'hushrec[plot]'."


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the demonstration came to: errors by model, one user's (item, rating, prediction), files, a remark."""

    about: str
    release: Release
    errors: dict[str, float]
    one_user: list[tuple[str, float, float]]
    recommended: list[tuple[str, float]]
    files: list[Path]
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, with the privacy card as a dict."""
        return {
            "about": self.about,
            "rmse": self.errors,
            "one_user": [dict(zip(("item", "rating", "predicted"), row, strict=True)) for row in self.one_user],
            "recommended": [{"item": item, "score": score} for item, score in self.recommended],
            "card": describe(self.release),
            "files": [str(path) for path in self.files],
            "remark": self.remark,
        }


def run_demo(folder: Path) -> Shown:
    """Fit the default solver on generated ratings with and without privacy, and write release file and picture.

    The data are generated, the same every time; the noise is real, so the guarantee holds and figures vary a little.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise DataError(f"The folder {folder} cannot be made.") from None
    ratings = surrogate(USERS, ITEMS, RATINGS_PER_USER, levels=5, rank=4, popularity=1.0, activity=0.7, seed=1)
    train, test = split(ratings, test=0.1, seed=1)
    fits = {epsilon: fit(train, budget=Budget(epsilon, DELTA)) for epsilon in EPSILONS}
    twin = fit(train, budget=NonPrivate())
    rmse = {epsilon: evaluate(release, train, test)["rmse"] for epsilon, release in fits.items()}
    levels = {"not private": evaluate(twin, train, test)["rmse"], "item means only": _error_of_means(train, test)}
    release, path, picture = fits[EPSILON], folder / "model.hush", folder / "demo.png"
    release.save(path)
    drawn = draw_demo(rmse, levels, release.guarantee.ledger.mu, picture)
    row = int(np.flatnonzero(np.diff(test.indptr) == HELD_BACK)[0])
    return Shown(
        about=f"Generated ratings, 1 to 5 stars: {USERS:,} users, {ITEMS} items, some {RATINGS_PER_USER} ratings each.",
        release=release,
        errors={f"private, ε = {EPSILON:g}, δ = {DELTA:g}": rmse[EPSILON], **levels},
        one_user=_held_back(release, train, test, row),
        recommended=[(str(item), score) for item, score in release.recommend(*train.user(row), top=HELD_BACK)],
        files=[path, picture] if drawn else [path],
        remark="" if drawn else NO_PICTURE,
    )


def _error_of_means(train: Ratings, test: Ratings) -> float:
    """The error of exact item means: what a shop without a recommender could show."""
    counts = np.bincount(train.indices, minlength=train.n_items)
    sums = np.bincount(train.indices, train.values, minlength=train.n_items)
    overall = float(train.values.mean())
    means = np.where(counts > 0, sums / np.maximum(counts, 1), overall)
    return float(np.sqrt(np.mean((means[test.indices] - test.values) ** 2)))


def _held_back(release: Release, train: Ratings, test: Ratings, row: int) -> list[tuple[str, float, float]]:
    """One user's held-back (item, rating, prediction), the prediction from her other ratings."""
    predictions = release.complete(*train.user(row))
    span = slice(int(test.indptr[row]), int(test.indptr[row + 1]))
    positions = test.indices[span]
    triples = zip(test.items[positions], test.values[span], predictions[positions], strict=True)
    return [(str(item), float(rating), float(prediction)) for item, rating, prediction in triples]
