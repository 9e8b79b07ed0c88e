"""Whether prediction intervals keep what they promise on held-out ratings. A simulation: it is not private."""

from __future__ import annotations

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.errors import DataError
from hushrec.evaluate.metrics import aligned_pair
from hushrec.release.file import Release
from hushrec.release.uncertainty import intervals_at


def coverage(release: Release, train: Ratings, test: Ratings, level: float = 0.9) -> dict[str, float]:
    """The part of the test ratings inside their `level` intervals, each user's made from her own training row.

    Returns coverage, the intervals' mean width in native units, and the number of test ratings that were judged.
    **Guarantee**: none; the figures are computed from private ratings without noise. Do not publish them as private.

    >>> import hushrec as hr
    >>> train, test = hr.synthetic(users=500, items=20, per_user=8, test_per_user=2)
    >>> release = hr.fit(train, hr.Posterior(), hr.NonPrivate())
    >>> coverage(release, train, test)["ratings"]
    1000
    """
    known, wanted = aligned_pair(release, train, test)
    if wanted.n_ratings == 0:
        raise DataError("No test rating falls on an item that the release lists.")
    rows = (known.indptr, known.indices, known.values.astype(np.float64))
    low, high = intervals_at(release, rows, (wanted.indptr, wanted.indices), level)
    slack = 1e-6 * (release.value_range[1] - release.value_range[0])  # ratings are kept as 32-bit floats
    inside = (wanted.values >= low - slack) & (wanted.values <= high + slack)
    return {"coverage": float(inside.mean()), "width": float((high - low).mean()), "ratings": wanted.n_ratings}
