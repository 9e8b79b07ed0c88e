"""The user half of tuning: which of her own ratings a user holds out, and how well a model foretells them.

A salted hash of her whole row, and then of each item, decides; so it is a function of her own row and of a
public salt alone, the same wherever and whenever it is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def held_out(indptr: Any, indices: Any, values: Any, salt: int, share: float) -> Any:
    """Which ratings are held out (nnz,): about `share` of every user's own."""
    words = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return _held_out(indptr, indices, words, np.uint64(salt), np.uint64(share * 2.0**53))


@njit(nogil=True, cache=True)
def _mixed(word: Any) -> Any:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of the word."""
    word = word + _GOLDEN
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))


@njit(nogil=True, cache=True)
def _held_out(indptr: Any, indices: Any, words: Any, salt: Any, threshold: Any) -> Any:
    out = np.zeros(len(indices), dtype=np.bool_)
    for i in range(len(indptr) - 1):
        own = _mixed(salt)
        for p in range(indptr[i], indptr[i + 1]):
            own = _mixed(own ^ ((np.uint64(indices[p]) << np.uint64(32)) | np.uint64(words[p])))
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = (_mixed(own ^ np.uint64(indices[p])) >> np.uint64(11)) < threshold
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def mean_errors(indptr: Any, errors: Any, most: Any) -> Any:
    """(weight · mean of her errors, weight) for each user (m, 2), weight her number of errors, at most `most`."""
    out = np.zeros((len(indptr) - 1, 2))
    for i in range(len(indptr) - 1):
        count = indptr[i + 1] - indptr[i]
        if count == 0:
            continue
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += errors[p]
        weight = min(float(count), most)
        out[i, 0] = weight * total / count
        out[i, 1] = weight
    return out
