"""Private alternating least squares for implicit feedback: clicks, plays, purchases; every entry is one use.

Hu, Koren, Volinsky (2008) with the weight α on what was not used (Rendle et al. 2021), under joint privacy:

    u_i = (Σ_{j used} v_j v_jᵀ + α Σ_j v_j v_jᵀ + λI)⁻¹ Σ_{j used} v_j                 by the user herself
    A_j = Σ_{i used j} w_ij u_i u_iᵀ,  b_j = Σ_{i used j} w_ij u_i,  G = Σ_i s_i u_i u_iᵀ    one noisy release
    v_j = (A_j + α c_j G + Λ_j)⁻¹ b_j                                                post-processing

w_ij = c_j s_i: item weights c, scaled to unit norm over each user's items by s_i. A user's contributions to all
sums are stacked and clipped once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hushrec.privacy.curator import Curator, Noisy
from hushrec.privacy.queries import CooccurrenceGram, ImplicitEquations
from hushrec.solvers.again import LEAST_SHARE, together
from hushrec.solvers.base import Floats, Model
from hushrec.solvers.beginnings import COUNTS_SHARE, USERS_SHARE, ask_counts, counts_from
from hushrec.solvers.normal_equations import Equations, posterior, regularised, solve, square
from hushrec.solvers.spectrum import Sampling, denoise
from hushrec.solvers.svd import most_popular, spread_out

if TYPE_CHECKING:
    from hushrec.solvers.als import ALS

USER_RIDGE = 1.0
MOMENT_WEIGHT, GRAM_WEIGHT = 0.2, 1.0
ROW_BOUND = 0.1  # below any real row
ERROR_PART = 0.5
MOST_FACTORS, RANDOM_FACTORS = 32, 8
ROUNDS = 3
POPULARITY = "No structure stood out of the noise: scores are popularity alone."


def solve_implicit(solver: ALS, curator: Curator) -> Model:
    """Noisy counts, a start, then rounds of noisy normal equations with the global Gram."""
    users = curator.count_users(USERS_SHARE)
    answer = ask_counts(curator, "counts", solver.means_share or COUNTS_SHARE)
    counts = counts_from(answer, curator, users)
    loadings = _after_gram(solver, curator, counts, users) if solver.start == "gram" else _at_random(solver, curator)
    if loadings.shape[1] == 0:
        return _popularity(solver, curator, answer, users)
    spread = np.full(loadings.shape[1], 1.0 / loadings.shape[1])
    rounds = solver.rounds or ROUNDS
    share = curator.left() / rounds
    for number in range(1, rounds + 1):
        curator.plan({f"round {number}": share})
        loadings, spread = _round(solver, curator, f"round {number}", loadings, spread, counts, users)
    return _model(solver, loadings, np.zeros(len(counts)), ())


def _popularity(solver: ALS, curator: Curator, answer: Noisy, users: float) -> Model:
    """Scores by popularity alone; what is left of the budget sharpens the counts."""
    if curator.budget.private and curator.left() > LEAST_SHARE:
        answer = together(answer, ask_counts(curator, "more counts", curator.left()))
    counts = counts_from(answer, curator, users)
    return _model(solver, np.zeros((len(counts), 1)), counts / counts.max(), (POPULARITY,))


def _model(solver: ALS, loadings: Floats, means: Floats, notes: tuple[str, ...]) -> Model:
    arrays = {"means": means, "loadings": loadings, "prior": _prior(solver, loadings)}
    assumptions = ("Every entry counts as one use of an item: values are ignored.",)
    return Model(kind="implicit", arrays=arrays, notes=notes, assumptions=assumptions)


def _prior(solver: ALS, loadings: Floats) -> Floats:
    return np.asarray(solver.unobserved * loadings.T @ loadings + USER_RIDGE * np.eye(loadings.shape[1]))


def _at_random(solver: ALS, curator: Curator) -> Floats:
    rank = min(solver.rank or RANDOM_FACTORS, curator.shape.items)
    start = np.random.default_rng(solver.start_seed).normal(size=(curator.shape.items, rank))
    return np.asarray(start / math.sqrt(rank))


def _after_gram(solver: ALS, curator: Curator, counts: Floats, users: float) -> Floats:
    """Top eigenvectors of the noisy co-occurrences, in rows of mean square 1.

    Rows without a negative number have popularity for their first direction: where it stands alone there is no taste.
    """
    head = most_popular(counts, solver.head)
    weights = np.sqrt(counts[head].mean() / counts)
    curator.plan({"gram": curator.left() * solver.start_share})
    query = CooccurrenceGram(bound=ROW_BOUND, item_weights=weights, head=head, diagonal=False)
    gram = curator.release("gram", query)
    part = counts[head] / counts[head].sum()
    unit, sampling = ROW_BOUND**2, Sampling(users, 1 / float(part @ part))  # in rows of norm 1
    spectrum = denoise(gram.parts[0] / unit, gram.sigma / unit / math.sqrt(2), solver.rank or MOST_FACTORS, sampling)
    if solver.rank is None and len(spectrum.values) == 1:
        return np.zeros((len(counts), 0))
    loadings = spectrum.vectors * np.sqrt(spectrum.values) / weights[head][:, None]
    size = math.sqrt(max(float(np.square(loadings).sum()) / len(head), np.finfo(float).tiny))
    return spread_out(loadings / size, head, len(counts))


def _round(
    solver: ALS, curator: Curator, label: str, loadings: Floats, spread: Floats, counts: Floats, users: float
) -> tuple[Floats, Floats]:
    weights, most = solver.item_weights(counts)
    answer = curator.release(
        label,
        ImplicitEquations(
            bound=solver.bound,
            loadings=loadings,
            prior=_prior(solver, loadings),
            item_weights=weights,
            priority=-counts,
            moment_weight=MOMENT_WEIGHT,
            gram_weight=GRAM_WEIGHT,
            most=most,
        ),
    )
    moments, right, gram = answer.parts
    expected = counts * weights
    normal = square(moments) / MOMENT_WEIGHT
    equations = regularised(Equations(normal, right, answer.sigma / MOMENT_WEIGHT, answer.sigma), expected)
    error = users * solver.bound**2 * ERROR_PART / float(np.trace(equations.normal, axis1=1, axis2=2).sum())
    unused = solver.unobserved * weights[:, None, None] * (square(gram) / GRAM_WEIGHT)
    equations = equations.plus(unused)
    if solver.ridge is not None:
        return solve(equations, solver.ridge), spread
    loadings, variances = posterior(equations, spread, error)
    return loadings, expected @ (np.square(loadings) + variances) / expected.sum()
