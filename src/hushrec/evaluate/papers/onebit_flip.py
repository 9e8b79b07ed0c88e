"""What one flipped rating does to the one-bit paper's output mechanism (Algorithm 4), and what an attacker learns.

The paper adds Laplace noise of scale 2α/ε to every entry of M̂ and calls 2α the L1 sensitivity of the matrix. Here M̂
is fitted, by the library's own release without its noise, before and after one rating is flipped:

    moved       ‖M̂ − M̂'‖₁, which the paper's proof takes to be at most 2α; largest: its largest entry, at most 2α
    ε spent     ε ‖M̂ − M̂'‖₁/(2α): the largest log-ratio of the two densities, what this pair alone costs exactly
    attack      a lower bound on ε at 95 % confidence from the likelihood-ratio test on noisy matrices, and how often
                that test is right; the same for the one entry that moves most, where the bound must stay below ε
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings
from hushrec.evaluate.audit.bounds import lower_bounds
from hushrec.evaluate.audit.flips import flipped
from hushrec.evaluate.experiments import Cell, Experiment, Options
from hushrec.evaluate.papers.onebit import LINKS, PAPER, SHARE, planted
from hushrec.evaluate.plots import PlotSpec
from hushrec.evaluate.tables import Row, Table
from hushrec.onebit.solver import OneBit
from hushrec.privacy.accounting import NonPrivate
from hushrec.privacy.curator import Curator

Floats = NDArray[np.float64]
SIZES, EPSILON = (60, 100), 1.0
SEEDS, FLIPS = 5, 10
TRIALS, CONFIDENCE = 2000, 0.95
FINE, FINER = 1e-7, 1e-8
MOST_ITERATIONS = 2000
PAPERS_BOUND = 2.0 * PAPER["alpha"]


@dataclass(frozen=True)
class Attack:
    """A lower bound on ε, and the share of right answers of the test behind it."""

    epsilon: float
    right: float


def fitted(ratings: Ratings, link: Any, tolerance: float) -> Floats:
    """M̂ (d, d) of the paper's output mechanism without its noise, certified to this share of f(0)."""
    solver = OneBit(
        mechanism="output", form="paper", link=link, tolerance=tolerance, iterations=MOST_ITERATIONS, **PAPER
    )
    return solver.complete(Curator(ratings, NonPrivate(unit="rating")))[1].matrix.toarray()


def attacked(one: Floats, two: Floats, epsilon: float, trials: int, seed: int) -> Attack:
    """The likelihood-ratio test between two exact answers with Laplace noise of scale 2α/ε on each of their numbers."""
    scale, rng = PAPERS_BOUND / epsilon, np.random.default_rng(seed)
    pair = np.ravel(one), np.ravel(two)
    scores = np.empty((2, trials))
    for number in range(trials):
        for which, exact in enumerate(pair):
            seen = exact + rng.laplace(scale=scale, size=len(exact))
            scores[which, number] = np.sum(np.abs(seen - pair[1]) - np.abs(seen - pair[0])) / scale
    # scores of a single entry pile up at ± their limit: rounding errors there must not look like knowledge
    scores = np.round(scores, 9)
    right = 0.5 + 0.25 * float(np.mean(np.sign(scores[0])) - np.mean(np.sign(scores[1])))
    return Attack(lower_bounds(scores[0], scores[1], 0.0, CONFIDENCE).epsilon, right)


# --- the experiment -------------------------------------------------------------------------------


def _cells(options: Options) -> list[Cell]:
    seeds = options.runs or (1 if options.quick else SEEDS)
    return [
        {"link": link, "size": size, "epsilon": epsilon, "flip": flip, "seed": options.seed + run}
        for link in LINKS
        for size in SIZES
        for epsilon in options.epsilons or (EPSILON,)
        for run in range(seeds)
        for flip in range(2 if options.quick else FLIPS)
    ]


@functools.lru_cache(maxsize=2)
def _before(link: str, size: int, seed: int) -> tuple[Ratings, Floats, float]:
    """The ratings, M̂, and how far a coarser fit of the same lies from it in L1."""
    ratings = planted(link, SHARE, seed, size).ratings
    known = fitted(ratings, link, FINER)
    return ratings, known, float(np.abs(fitted(ratings, link, FINE) - known).sum())


def _run(cell: Cell, options: Options) -> dict[str, Any]:
    link, epsilon, seed = cell["link"], cell["epsilon"], cell["seed"]
    ratings, before, solver_part = _before(link, cell["size"], seed)
    places = np.random.default_rng(seed).permutation(ratings.n_ratings)
    after = fitted(flipped(ratings, int(places[cell["flip"]])), link, FINER)
    moved = np.abs(after - before)
    most = np.unravel_index(moved.argmax(), moved.shape)
    matrix = attacked(before, after, epsilon, TRIALS, seed)
    entry = attacked(before[most], after[most], epsilon, 10 * TRIALS, seed)
    return {
        "moved": float(moved.sum()),
        "solver's part": solver_part,
        "largest": float(moved.max()),
        "attack, matrix": matrix.epsilon,
        "right, matrix": matrix.right,
        "attack, entry": entry.epsilon,
    }


def _summary(records: list[dict[str, Any]]) -> Table:
    """Over all seeds and flips of a link and a size; what the paper's proof assumes is a line of its own."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["link"], record["size"], record["epsilon"]), []).append(record)
    rows = [_row(group) for group in groups.values()]
    return Table(columns=tuple(rows[0]), rows=[*rows, {"link": "the paper's 2α", "moved": PAPERS_BOUND}])


def _row(group: list[dict[str, Any]]) -> Row:
    moved, matrix, right, entry = (
        [one[name] for one in group] for name in ("moved", "attack, matrix", "right, matrix", "attack, entry")
    )
    largest, epsilon = max(one["largest"] for one in group), group[0]["epsilon"]
    return {
        **{name: group[0][name] for name in ("link", "size", "epsilon")},
        "moved": fmean(moved),
        "moved sd": stdev(moved) if len(moved) > 1 else None,
        "least": min(moved),
        "most": max(moved),
        "solver's part": max(one["solver's part"] for one in group),
        "ε spent, most": epsilon * max(moved) / PAPERS_BOUND,
        "attack on the matrix": median(matrix),
        "most of it": max(matrix),
        "right": median(right),
        "most often": max(right),
        "largest entry": largest,
        "ε of an entry, most": epsilon * largest / PAPERS_BOUND,
        "attack on an entry, most": max(entry),
        "flips": len(group),
    }


EXPERIMENTS = (
    Experiment(
        name="onebit-flip",
        title="How far one flipped rating moves the estimate of one-bit output perturbation, in L1",
        about=(
            "The paper's synthetic data (rank 1, largest entry 1, 15 % observed) and settings (α = 1, τ = √(d1 d2)), "
            "d by d; the table says how many ratings were flipped, each by itself. 'moved': ‖M̂ − M̂'‖₁, its mean, "
            "deviation and range; the paper's proof needs it to be at most 2α. 'solver's part': how far fits of two "
            "tolerances are apart. 'ε spent': what the pair costs exactly, ε moved/(2α). 'attack': lower bounds on ε "
            f"at {CONFIDENCE:.0%} confidence from {TRIALS} noisy matrices of each kind (middle, and most, of all "
            "flips), 'right' how often the attacker guesses right, who at this ε should not pass e^ε/(1 + e^ε). "
            "'entry': the same against the one entry that moves most, for which the paper's ε holds."
        ),
        cells=_cells,
        run=_run,
        summary=_summary,
        plot=PlotSpec(
            x="size",
            y="moved",
            series="link",
            x_label="d (matrix d by d)",
            y_label="L1 distance after one flip",
            log_y=True,
        ),
    ),
)
