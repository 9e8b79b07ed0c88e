"""How sure a user's device can be of its predictions, and what to ask her next: from her own ratings alone.

Only releases with a posterior (kinds "gaussian" and "refined") know how sure they are. A user's own scale of the
variances is inferred with her coordinates (see `device.uncertainty`), so a rating is Student-t about its prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hushrec.device import uncertainty
from hushrec.device.kinds import KINDS, Entries, Rows, predict, surprises
from hushrec.errors import ConfigError, DataError
from hushrec.release.complete import find_items, own_row

if TYPE_CHECKING:
    from hushrec.release.file import Release

Floats = NDArray[np.float64]
Given = Sequence[Any] | NDArray[Any]

DOUBT = 8.0  # how many ratings the belief is worth that a user's ratings scatter as everybody's do


def deviations_at(release: Release, rows: Rows, wanted: Entries) -> tuple[Floats, Floats]:
    """Scale and degrees of freedom (nnz,) of the Student-t of a rating at every wanted entry, rows of many users."""
    model = _posterior(release)
    indptr, indices, _ = rows
    _, deviations = surprises(release.arrays, release.settings, rows)
    scales = uncertainty.own_scales(indptr, indices, deviations, *model, DOUBT)
    spreads = uncertainty.spreads_at(indptr, indices, *wanted, *model)
    repeats = np.diff(wanted[0])
    variances = np.repeat(scales, repeats) * (spreads + model[2][wanted[1]])
    return np.sqrt(variances), np.repeat(DOUBT + np.diff(indptr), repeats)


def intervals_at(release: Release, rows: Rows, wanted: Entries, level: float) -> tuple[Floats, Floats]:
    """Prediction intervals (low, high) of the ratings at every wanted entry, each user from her own row in `rows`."""
    if not 0 < level < 1:
        raise ConfigError(f"level must be above 0 and below 1, not {level}.")
    scales, freedom = deviations_at(release, rows, wanted)
    middle = predict(KINDS[release.kind], release.arrays, release.settings, rows, wanted)
    reach = stdtrit(freedom, 0.5 + level / 2) * scales
    low, high = release.value_range
    return np.clip(middle - reach, low, high), np.clip(middle + reach, low, high)


def worth_at(release: Release, rows: Rows, wanted: Entries) -> Floats:
    """How much a rating of each wanted entry would lower the summed variance of all the user's predictions, (nnz,)."""
    loadings, precision, noise = _posterior(release)
    gram = loadings.T @ loadings
    return np.asarray(uncertainty.worth_of_asking(*rows[:2], *wanted, loadings, precision, noise, gram))


def chance_to_know(release: Release) -> Floats:
    """How likely a usual user can answer a question about each item, (n,): as likely as that she rated it."""
    if release.kind != "refined":
        return np.ones(release.n_items)
    popularity = np.exp(release.arrays["traits"][:, 1])
    return np.asarray(-np.expm1(-np.exp(release.settings["usual_count"]) * popularity / popularity.sum()))


def deviations(release: Release, items: Given, values: Given, unknown: str) -> Floats:
    """See `Release.uncertainty`."""
    _posterior(release)
    scales, freedom = deviations_at(release, own_row(release, items, values, unknown), _everything(release))
    return np.asarray(scales * np.sqrt(freedom / (freedom - 2)))


def intervals(release: Release, items: Given, values: Given, level: float, unknown: str) -> tuple[Floats, Floats]:
    """See `Release.intervals`."""
    _posterior(release)
    return intervals_at(release, own_row(release, items, values, unknown), _everything(release), level)


def ask_next(
    release: Release,
    items: Given,
    values: Given,
    candidates: Given | None,
    unknown: str,
) -> Any:
    """See `Release.ask_next`."""
    _posterior(release)
    rows = own_row(release, items, values, unknown)
    choices = _choices(release, rows[1], candidates)
    worth = worth_at(release, rows, (np.array([0, len(choices)]), choices))
    if candidates is None:
        worth *= chance_to_know(release)[choices]
    return release.items[choices[np.argmax(worth)]].item()


def _choices(release: Release, rated: NDArray[Any], candidates: Given | None) -> NDArray[np.int64]:
    """The increasing positions of the items that may be asked: those not rated yet."""
    positions = np.arange(release.n_items)
    if candidates is not None:
        positions = np.unique(find_items(release.items, np.atleast_1d(np.asarray(candidates))))
        if len(positions) and positions[0] < 0:
            raise DataError("Some of the candidates are not in the release's item list.")
    choices = np.setdiff1d(positions, rated)
    if len(choices) == 0:
        raise DataError("There is nothing left to ask: every candidate is rated already.")
    return choices


def _everything(release: Release) -> Entries:
    """All items, for one user."""
    return np.array([0, release.n_items]), np.arange(release.n_items)


def _posterior(release: Release) -> tuple[Floats, Floats, Floats]:
    """Loadings, precision and noise of a release that has them."""
    if release.kind not in ("gaussian", "refined"):
        raise ConfigError(
            "Uncertainty needs a release with a posterior (kind 'gaussian', such as the solver Posterior's), "
            f"not one of kind {release.kind!r}."
        )
    return release.arrays["loadings"], release.arrays["precision"], release.arrays["noise"]
