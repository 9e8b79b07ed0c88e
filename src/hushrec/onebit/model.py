"""From the completed matrix to what a user's own device needs: the rows of M̂ as draws of one Gaussian.

M̂ has a row for every user of the fit, and a release has none. What its rows have in common is enough: their mean
and their leading directions, as a prior for anyone's row. On her device a user's coordinates are the most likely
ones given her own, exact answers, which costs no privacy, and works for users who took no part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hushrec.device.frank_wolfe import LOGISTIC, PROBIT
from hushrec.onebit.completion import Completion
from hushrec.onebit.lowrank import Array, LowRank
from hushrec.privacy.curator import Curator
from hushrec.solvers.base import Model

if TYPE_CHECKING:
    from hushrec.onebit.solver import OneBit
    from hushrec.onebit.spg import Certificate

DIRECTIONS = 32
USUAL_SPREAD = 0.5
"""Of users' own offsets, on the scale of the link: where nothing was learnt of it."""
PUBLIC_PATTERN = "Which items each user rated is public. Only how she rated them is protected, one rating at a time."
ALTERNATIVE = (
    "To protect which items were rated, and all ratings of a user at once, fit FrankWolfe(loss=...), ALS or Posterior "
    'with a budget of unit="user".'
)


def released(solver: OneBit, completion: Completion, threshold: float, curator: Curator) -> Model:
    """The model of kind "one-bit"."""
    effects = completion.effects
    mean, directions = spread(completion.factors)
    offset = np.full((len(effects.items), 1), effects.spread or USUAL_SPREAD * solver.sigma)
    proof = () if completion.certificate is None else (certified(completion.certificate),)
    notes = (*completion.notes, ALTERNATIVE, *proof)
    return Model(
        kind="one-bit",
        arrays={
            "means": (effects.overall + effects.items + mean) / solver.sigma,
            "loadings": np.hstack((offset, directions)) / solver.sigma,
            "precision": np.ones(1 + directions.shape[1]),
        },
        settings={"loss": float(LOGISTIC if solver.link == "logistic" else PROBIT), "threshold": threshold},
        notes=notes,
        assumptions=(PUBLIC_PATTERN, *completion.assumptions) if curator.budget.private else (),
        claims=completion.claims,
    )


def spread(factors: LowRank) -> tuple[Array, Array]:
    """The mean (n,) of the rows of left · rightᵀ, and their principal directions times deviations, (n, at most 32)."""
    centre = factors.left.mean(axis=0)
    root = np.linalg.qr(factors.left - centre)[1] / np.sqrt(max(len(factors.left), 1))
    if factors.rank == 0:
        return np.zeros(len(factors.right)), np.zeros((len(factors.right), 0))
    left, singular, _ = np.linalg.svd(factors.right @ root.T, full_matrices=False)
    kept = np.flatnonzero(singular > 1e-9 * max(singular[0], 1e-300))[:DIRECTIONS]
    return factors.right @ centre, left[:, kept] * singular[kept]


def certified(proof: Certificate) -> str:
    """What is proved of the fit's optimality, of which the ratings know nothing more than its noisy input."""
    gap = "not convex, no gap" if np.isnan(proof.gap) else f"objective within {proof.gap:.3g} of its minimum"
    return (
        f"Fit of the noisy answers: {gap}, gradient mapping {proof.gradient_mapping:.3g}, "
        f"{proof.iterations} iterations."
    )
