"""The kinds of model a release can hold: which public arrays, and how a user's own row turns into predictions.

All kinds share one form: score_j = means_j + loadings_j · u, where u is the user's coordinates, computed from her own
row by the kind's *fold-in*; some kinds correct the score, or link it to values. All of it is user half: training,
evaluation and the user's device call the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hushrec.device import clicks, corrections, factored, frank_wolfe, kernels, posterior, uncertainty

Arrays = Mapping[str, NDArray[np.float64]]
Settings = Mapping[str, float]
Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]  # indptr, indices, values
Entries = tuple[NDArray[Any], NDArray[Any]]  # indptr, indices


@dataclass(frozen=True)
class Kind:
    """One kind of model: array names with their shapes in n (items) and named sizes, settings, and the fold-in.

    correct: what is added to means_j + loadings_j · u, given the users' rows, the entries wanted, and these scores.
    link: predicted values from the scores, where the two differ. sizes: of named axes that have a fixed one.
    predicts: "values" of the value range; "scores" of implicit feedback, to rank items by; or "chances" of a value
    above the setting `threshold`.
    """

    shapes: Mapping[str, tuple[str, ...]]
    fold_in: Callable[[Arrays, Settings, Rows], NDArray[np.float64]]
    settings: tuple[str, ...] = ()
    positive: tuple[str, ...] = field(default=())
    correct: Callable[[Arrays, Settings, Rows, Entries, NDArray[np.float64]], NDArray[np.float64]] | None = None
    link: Callable[[Settings, NDArray[np.float64]], NDArray[np.float64]] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    predicts: Literal["values", "scores", "chances"] = "values"


def predict(kind: Kind, arrays: Arrays, settings: Settings, rows: Rows, wanted: Entries) -> NDArray[np.float64]:
    """Predictions (nnz,) for many users at the wanted entries, each user from her own row in `rows`."""
    users = kind.fold_in(arrays, settings, rows)
    scores = kernels.predict_at(*wanted, arrays["means"], arrays["loadings"], users)
    if kind.correct is not None:
        scores = scores + kind.correct(arrays, settings, rows, wanted, scores)
    return np.asarray(scores if kind.link is None else kind.link(settings, scores))


def prior_means(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """Where a user's coordinates are expected before her values are seen, (m, r): which items she rated tells."""
    indptr, indices, _ = rows
    if "choices" not in arrays:
        return np.zeros((len(indptr) - 1, arrays["loadings"].shape[1]))
    features = posterior.choice_features(indptr, indices, arrays["choices"], settings["usual_count"])
    return np.asarray(features[:, 2:] + features[:, :1] * arrays["start"] + features[:, 1:2] * arrays["activity"])


def surprises(arrays: Arrays, settings: Settings, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The prior means (m, r) of the rows, and by how much each rating (nnz,) differs from what they predict."""
    indptr, indices, values = rows
    expected = prior_means(arrays, settings, rows)
    return expected, values - kernels.predict_at(indptr, indices, arrays["means"], arrays["loadings"], expected)


def _posterior(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """The posterior mean of a Gaussian model: ridge regression of the user's own deviations from the means."""
    expected, deviations = surprises(arrays, settings, rows)
    model = arrays["loadings"], arrays["precision"], arrays["noise"]
    return np.asarray(expected + kernels.posterior_means(rows[0], rows[1], deviations, *model))


def _correction(
    arrays: Arrays, settings: Settings, rows: Rows, wanted: Entries, scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What predictions like these have in common wrong."""
    model = arrays["loadings"], arrays["precision"], arrays["noise"]
    spreads = uncertainty.spreads_at(*rows[:2], *wanted, *model)
    gauge = corrections.Gauge(**{name: settings[name] for name in corrections.Gauge._fields})
    counts = np.diff(rows[0])
    return np.asarray(
        corrections.corrections_at(counts, *wanted, scores, spreads, arrays["traits"], gauge, arrays["correction"])
    )


def _projection(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """Her offset, then (1/p) of the residual row's coordinates in the subspace: Algorithm 3 of the SVD paper."""
    indptr, indices, values = rows
    return np.asarray(
        kernels.projections(
            indptr,
            indices,
            values - arrays["means"][indices],
            arrays["loadings"],
            settings["offset_prior"],
            1.0 / settings["density"],
        )
    )


def _preference(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """Her factors from the items that she used, whatever the values: implicit feedback."""
    indptr, indices, _ = rows
    return np.asarray(factored.preferences(indptr, indices, arrays["loadings"], arrays["prior"]))


def _tastes(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """Her tastes from the items that she used, whatever the values; means are popularities, and sum to 1."""
    indptr, indices, _ = rows
    leanings = arrays["loadings"] / arrays["means"][:, None]
    gram = arrays["loadings"].T @ leanings
    return np.asarray(clicks.tastes(indptr, indices, leanings, gram, arrays["loadings"].sum(axis=0)))


def _replayed(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """Her offset, then the factors that the public path of gradient rounds gives on her row: Algorithm 1 of DPLMC."""
    indptr, indices, values = rows
    path, unit = arrays["path"], settings["unit"]
    deviations = kernels.residuals(indptr, indices, values, arrays["means"], settings["offset_prior"])
    offsets = kernels.row_means(indptr, indices, values - deviations, arrays["means"])
    users = factored.replay(
        indptr,
        indices,
        deviations / unit,
        arrays["start"],
        path,
        arrays["balances"],
        arrays["steps"],
        settings["density"],
        settings["catalogue"],
        settings["longest"],
    )
    return np.column_stack((offsets, users * unit))


def _rules(settings: Settings) -> frank_wolfe.Rules:
    whole = {name: int(np.clip(settings[name], 0, 2**31)) for name in ("loss", "offset", "most", "seed")}
    return frank_wolfe.Rules(**{**settings, **whole})  # type: ignore[arg-type]


def _updates(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """The user's own replay of all Frank-Wolfe updates; the first loading, step and gain are those of her offset."""
    vectors = np.ascontiguousarray(arrays["loadings"].T[1:])
    steps, gains = arrays["steps"][1:], arrays["gains"][1:]
    return np.asarray(frank_wolfe.replay(*rows, arrays["means"], vectors, steps, gains, _rules(settings)))


def _linked(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """The most likely coordinates under a logistic or probit link."""
    rules = _rules(settings)
    return np.asarray(frank_wolfe.linked_means(*rows, arrays["means"], arrays["loadings"], arrays["precision"], rules))


def _answers(settings: Settings) -> frank_wolfe.Rules:
    """The rules of a row of answers: 0 for no, 1 for yes."""
    loss = frank_wolfe.PROBIT if settings["loss"] == frank_wolfe.PROBIT else frank_wolfe.LOGISTIC
    return frank_wolfe.Rules(loss, frank_wolfe.NO_OFFSET, prior=0.0, limit=0.0, most=0, seed=0, low=0.0, high=1.0)


def _answered(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """The most likely coordinates given which of her ratings are above the threshold: one-bit completion."""
    indptr, indices, values = rows
    # as 32-bit numbers, like the ratings of training: else a rating at the threshold may lie on either side of it
    yes = (np.asarray(values, np.float32) > np.float32(settings["threshold"])).astype(np.float64)
    model = arrays["means"], arrays["loadings"], arrays["precision"]
    return np.asarray(frank_wolfe.linked_means(indptr, indices, yes, *model, _answers(settings)))


def _chances(settings: Settings, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return frank_wolfe.to_values(scores, _answers(settings).loss, 0.0, 1.0)


def _to_values(settings: Settings, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return frank_wolfe.to_values(scores, int(settings["loss"]), settings["low"], settings["high"])


KINDS: dict[str, Kind] = {
    "gaussian": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r"), "precision": ("r",), "noise": ("n",)},
        fold_in=_posterior,
        positive=("precision", "noise"),
    ),
    "refined": Kind(
        shapes={
            "means": ("n",),
            "loadings": ("n", "r"),
            "precision": ("r",),
            "noise": ("n",),
            "start": ("r",),
            "activity": ("r",),
            "choices": ("n", "r"),
            "traits": ("n", "t"),
            "correction": ("c",),
        },
        fold_in=_posterior,
        settings=corrections.Gauge._fields,
        positive=("precision", "noise"),
        correct=_correction,
        sizes={"t": 2, "c": corrections.FEATURES},
    ),
    "projection": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r")},
        fold_in=_projection,
        settings=("offset_prior", "density"),
    ),
    "implicit": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r"), "prior": ("r", "r")},
        fold_in=_preference,
        predicts="scores",
    ),
    "clicks": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r")},
        fold_in=_tastes,
        positive=("means",),
        predicts="scores",
    ),
    "factors": Kind(
        shapes={
            "means": ("n",),
            "loadings": ("n", "c"),
            "start": ("n", "r"),
            "path": ("t", "n", "r"),
            "balances": ("t", "r", "r"),
            "steps": ("t",),
        },
        fold_in=_replayed,
        settings=("unit", "offset_prior", "density", "catalogue", "longest"),
    ),
    "frank-wolfe": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r"), "steps": ("r",), "gains": ("r",)},
        fold_in=_updates,
        settings=frank_wolfe.Rules._fields,
        link=_to_values,
    ),
    "linked": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r"), "precision": ("r",)},
        fold_in=_linked,
        settings=frank_wolfe.Rules._fields,
        positive=("precision",),
        link=_to_values,
    ),
    "one-bit": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r"), "precision": ("r",)},
        fold_in=_answered,
        settings=("loss", "threshold"),
        positive=("precision",),
        link=_chances,
        predicts="chances",
    ),
}
