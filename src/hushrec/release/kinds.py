"""The kinds of model a release can hold: which public arrays, and how a user's own row turns into predictions.

All kinds share one form: prediction_j = means_j + loadings_j · u, where u is the user's coordinates, computed
from her own row by the kind's *fold-in*. The fold-in is a user-half function: training, evaluation and the
user's device call the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.device import kernels

Arrays = Mapping[str, NDArray[np.float64]]
Settings = Mapping[str, float]
Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]  # indptr, indices, values


@dataclass(frozen=True)
class Kind:
    """One kind of model: array names with their shapes in n (items) and named sizes, settings, and the fold-in."""

    shapes: Mapping[str, tuple[str, ...]]
    fold_in: Callable[[Arrays, Settings, Rows], NDArray[np.float64]]
    settings: tuple[str, ...] = ()
    positive: tuple[str, ...] = field(default=())


def _posterior(arrays: Arrays, settings: Settings, rows: Rows) -> NDArray[np.float64]:
    """The posterior mean of a Gaussian model: ridge regression of the user's own deviations from the means."""
    indptr, indices, values = rows
    deviations = values - arrays["means"][indices]
    return np.asarray(
        kernels.posterior_means(indptr, indices, deviations, arrays["loadings"], arrays["precision"], arrays["noise"])
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


KINDS: dict[str, Kind] = {
    "gaussian": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r"), "precision": ("r",), "noise": ("n",)},
        fold_in=_posterior,
        positive=("precision", "noise"),
    ),
    "projection": Kind(
        shapes={"means": ("n",), "loadings": ("n", "r")},
        fold_in=_projection,
        settings=("offset_prior", "density"),
    ),
}
