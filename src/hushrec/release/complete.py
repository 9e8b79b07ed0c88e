"""The user half for one user: her own ratings in, predictions for every item out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushrec import require
from hushrec.device.kinds import KINDS, Rows, predict
from hushrec.errors import ConfigError, DataError, ReleaseError

if TYPE_CHECKING:
    from hushrec.release.file import Release


def coordinates(release: Release, rows: Rows) -> NDArray[np.float64]:
    """The coordinates (m, r) of users from their own rows: the fold-in of the release's kind."""
    return KINDS[release.kind].fold_in(release.arrays, release.settings, rows)


def complete(
    release: Release,
    items: Sequence[Any] | NDArray[Any],
    values: Sequence[float] | NDArray[Any],
    *,
    unknown: str,
) -> NDArray[np.float64]:
    """Predictions (n,) for one user: values inside the public range, or the kind's scores or chances."""
    row = own_row(release, items, values, unknown)
    everything = np.array([0, release.n_items]), np.arange(release.n_items)
    with np.errstate(all="ignore"):  # a hostile file may hold numbers whose products overflow
        predictions = predict_at(release, row, everything)
    if not bool(np.isfinite(predictions).all()):
        raise ReleaseError("The release's numbers are too extreme to compute with.")
    return predictions


def recommend(
    release: Release,
    items: Sequence[Any] | NDArray[Any],
    values: Sequence[float] | NDArray[Any],
    top: int,
    *,
    unknown: str,
) -> list[tuple[Any, float]]:
    """The `top` best items that are not among the rated ones; ties go to the earlier item."""
    require.whole("top", top, 1)
    scores = complete(release, items, values, unknown=unknown)
    scores[own_row(release, items, values, unknown)[1]] = -np.inf
    best = np.argsort(-scores, kind="stable")[:top]
    return [(release.items[j].item(), float(scores[j])) for j in best if np.isfinite(scores[j])]


def predict_at(release: Release, rows: Rows, wanted: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.float64]:
    """Predictions for many users at the entries (indptr, indices), each user from her own row in `rows`."""
    kind = KINDS[release.kind]
    found = predict(kind, release.arrays, release.settings, rows, wanted)
    return np.clip(found, *release.value_range) if kind.predicts == "values" else found


def own_row(
    release: Release,
    items: Sequence[Any] | NDArray[Any],
    values: Sequence[float] | NDArray[Any],
    unknown: str,
) -> Rows:
    """One user's ratings as a checked CSR row over the release's items."""
    if unknown not in ("error", "ignore"):
        raise ConfigError(f"unknown must be 'error' or 'ignore', not {unknown!r}.")
    ids = np.atleast_1d(np.asarray(items))
    ratings = _numbers(values)
    if ids.ndim != 1 or ids.shape != ratings.shape:
        raise DataError("items and values must be two lists of the same length.")
    positions = find_items(release.items, ids)
    missing = positions < 0
    if missing.any() and unknown == "error":
        raise DataError(
            f"{int(missing.sum())} of the items are not in the release's item list; unknown='ignore' leaves them out."
        )
    positions, ratings = positions[~missing], ratings[~missing]
    _check_own(positions, ratings, release.value_range)
    order = np.argsort(positions)
    indptr = np.array([0, len(order)], dtype=np.int64)
    return indptr, positions[order].astype(np.int32), ratings[order]


def find_items(catalogue: NDArray[Any], ids: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each id in the catalogue, -1 where it is not there."""
    if len(ids) == 0:
        return np.empty(0, dtype=np.int64)
    if catalogue.dtype.kind != ids.dtype.kind:
        ids = _as_kind(ids, catalogue)
    order = np.argsort(catalogue, kind="stable")
    slots = np.minimum(np.searchsorted(catalogue, ids, sorter=order), len(catalogue) - 1)
    found = order[slots]
    return np.where(catalogue[found] == ids, found, -1)


def _as_kind(ids: NDArray[Any], catalogue: NDArray[Any]) -> NDArray[Any]:
    """Ids in the catalogue's own type: 7 finds "7", and "7" finds 7."""
    if catalogue.dtype.kind in "US":
        return ids.astype(str)
    try:
        numbers = ids.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        raise DataError("The item ids of this release are whole numbers, and some of the given ones are not.") from None
    if ids.dtype.kind == "f" and not bool((numbers == ids).all()):
        raise DataError("The item ids of this release are whole numbers, and some of the given ones are not.")
    return numbers


def _numbers(values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    try:
        # Ratings are kept as 32-bit floats: a user's own row is read the same way as in training.
        return np.atleast_1d(np.asarray(values, dtype=np.float32)).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError("The values must be numbers.") from None


def _check_own(positions: NDArray[Any], ratings: NDArray[np.float64], value_range: tuple[float, float]) -> None:
    if len(np.unique(positions)) != len(positions):
        raise DataError("An item is rated more than once.")
    if not bool(np.isfinite(ratings).all()):
        raise DataError("Some of the values are not finite numbers.")
    low, high = value_range
    slack = 1e-6 * (high - low)
    outside = int(np.count_nonzero((ratings < low - slack) | (ratings > high + slack)))
    if outside:
        raise DataError(f"{outside} of the values lie outside the value range ({low:g}, {high:g}).")
