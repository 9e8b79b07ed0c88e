"""The user half of Frank-Wolfe: a user replays the public updates on her own row.

A user's score of item j is x_j = means_j + offset + Y_j. Every update (v, step, gain) turns her row of Y into

    Y ← Π((1 − step) Y − gain (g · v) v),        g = the loss's gradient at her observed entries,

where Π scales the row down to norm `limit` on her observed entries. Training keeps Y at the observed entries
alone; on the device the same updates give her coordinates, so that Y is known at every item.
Rules are public. Everything is computed user by user, from her own row.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hushrec.device import kernels

Floats = NDArray[np.float64]

SQUARED, LOGISTIC, PROBIT = 0, 1, 2
NO_OFFSET, ONCE, PROFILED = 0, 1, 2


class Rules(NamedTuple):
    """Public rules of a user's row: which loss, what her offset is, and what is cut.

    offset: none, the own mean taken out once, or refitted after every update (squared loss). prior: how many
    ratings of doubt shrink it. limit: bound on the norms of her row of values and of Y (0: none). most: how
    many of her ratings are used, chosen by a hash of `seed` and her items (0: all). low, high: value range.
    """

    loss: int
    offset: int
    prior: float
    limit: float
    most: int
    seed: int
    low: float
    high: float


@njit(nogil=True, cache=True, error_model="numpy")
def to_values(scores: Any, loss: int, low: float, high: float) -> Any:
    """Values at scores: the scores themselves under the squared loss, else the link's share of the value range."""
    out = np.empty(len(scores))
    for p in range(len(scores)):
        x = scores[p]
        if loss == SQUARED:
            out[p] = x
        elif loss == LOGISTIC:
            out[p] = low + (high - low) * 0.5 * (1.0 + math.tanh(0.5 * x))
        else:
            out[p] = low + (high - low) * 0.5 * math.erfc(-x / math.sqrt(2.0))
    return out


@njit(nogil=True, cache=True)
def _mixed(value: Any) -> Any:
    """A 64-bit hash (the finaliser of SplitMix64)."""
    value = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(nogil=True, cache=True)
def _choose(indices: Any, most: int, seed: int, kept: Any) -> None:
    """kept: 1 at `most` of the user's ratings, 0 at the others; which ones depends on her item set and the seed."""
    kept[:] = 1.0
    if most == 0 or len(indices) <= most:
        return
    own = np.uint64(seed)
    for j in indices:
        own ^= _mixed(np.uint64(j))
    keys = np.empty(len(indices), dtype=np.uint64)
    for p in range(len(indices)):
        keys[p] = _mixed(own ^ _mixed(np.uint64(indices[p])))
    chosen = np.argsort(keys)
    for p in chosen[most:]:
        kept[p] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _slope(x: float, y: float, rules: Any) -> float:
    """The loss's derivative at score x for the value y."""
    if rules.loss == SQUARED:
        return x - y
    share = (y - rules.low) / (rules.high - rules.low)
    if rules.loss == LOGISTIC:
        return 1.0 / (1.0 + math.exp(-x)) - share
    return (1.0 - share) * _hazard(x) - share * _hazard(-x)


@njit(nogil=True, cache=True, error_model="numpy")
def _hazard(x: float) -> float:
    """φ(x)/Φ(−x), without underflow."""
    if x > 25.0:
        return x + 1.0 / x
    return math.exp(-0.5 * x * x) / (math.sqrt(2.0 * math.pi) * 0.5 * math.erfc(x / math.sqrt(2.0)))


@njit(nogil=True, cache=True, error_model="numpy")
def _loss(x: float, y: float, rules: Any) -> float:
    if rules.loss == SQUARED:
        return 0.5 * (x - y) ** 2
    share = (y - rules.low) / (rules.high - rules.low)
    if rules.loss == LOGISTIC:
        return math.log1p(math.exp(-abs(x))) + max(x, 0.0) - share * x
    yes, no = 0.5 * math.erfc(-x / math.sqrt(2.0)), 0.5 * math.erfc(x / math.sqrt(2.0))
    return -share * math.log(max(yes, 1e-300)) - (1.0 - share) * math.log(max(no, 1e-300))


@njit(nogil=True, cache=True, error_model="numpy")
def _start(values: Any, base: Any, kept: Any, rules: Any) -> Any:
    """(offset, factor): the own mean taken out once, and what brings the values left to norm `limit`."""
    offset, count, norm = 0.0, 0.0, 0.0
    if rules.offset != NO_OFFSET:
        for p in range(len(values)):
            count += kept[p]
            if rules.loss == SQUARED:
                offset += kept[p] * (values[p] - base[p])
            else:
                offset -= kept[p] * _slope(base[p], values[p], rules)
        # With a link, one Newton step from 0, with a curvature of 1/4 (logistic) or 2/π (probit).
        curvature = 1.0 if rules.loss == SQUARED else (0.25 if rules.loss == LOGISTIC else 0.6366)
        offset = offset / (curvature * (count + rules.prior)) if count > 0.0 else 0.0
    if rules.limit > 0.0:
        for p in range(len(values)):
            norm += kept[p] * (values[p] - base[p] - offset) ** 2
        norm = math.sqrt(norm)
    return offset, (rules.limit / norm if norm > rules.limit else 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _gradient(values: Any, base: Any, kept: Any, scores: Any, start: Any, rules: Any, out: Any) -> float:
    """Write the gradient at the user's entries; returns the offset that it was taken at."""
    offset, factor = start
    if rules.offset == PROFILED and rules.loss == SQUARED:
        total, count = 0.0, 0.0
        for p in range(len(values)):
            total += kept[p] * (values[p] - base[p] - scores[p])
            count += kept[p]
        offset = total / (count + rules.prior) if count > 0.0 else 0.0
    for p in range(len(values)):
        if kept[p] == 0.0:
            out[p] = 0.0
        elif factor != 1.0:
            out[p] = scores[p] - factor * (values[p] - base[p] - offset)
        else:
            out[p] = _slope(base[p] + offset + scores[p], values[p], rules)
    return offset


@njit(nogil=True, cache=True, error_model="numpy")
def _update(
    indices: Any, gradient: Any, kept: Any, vector: Any, step: float, gain: float, limit: float, scores: Any
) -> Any:
    """Make one step on the user's scores; returns (coordinate of the vector, factor on all earlier ones)."""
    along = 0.0
    for p in range(len(indices)):
        along += gradient[p] * vector[indices[p]]
    move = -gain * along
    norm = 0.0
    for p in range(len(indices)):
        scores[p] = (1.0 - step) * scores[p] + move * vector[indices[p]]
        norm += kept[p] * scores[p] * scores[p]
    if limit > 0.0 and norm > limit * limit:
        factor = limit / math.sqrt(norm)
        scores[:] *= factor
        return move * factor, (1.0 - step) * factor
    return move, 1.0 - step


@njit(nogil=True, cache=True, error_model="numpy")
def gradients(
    indptr: Any,
    indices: Any,
    values: Any,
    means: Any,
    vectors: Any,
    steps: Any,
    gains: Any,
    first: int,
    scores: Any,
    rules: Any,
) -> Any:
    """The gradient (nnz,) at every user's entries after all updates; `scores` (nnz,) hold Y after the first `first`.

    means: (n,); vectors: (t, n); steps, gains: (t,). The updates first..t-1 are made here, in place in `scores`.
    """
    out = np.empty(len(values))
    longest = np.max(indptr[1:] - indptr[:-1])
    base, kept = np.empty(longest), np.empty(longest)
    for i in range(len(indptr) - 1):
        own = slice(indptr[i], indptr[i + 1])
        items, row, y, g = indices[own], values[own], scores[own], out[own]
        weights, centre = kept[: len(items)], base[: len(items)]
        _choose(items, rules.most, rules.seed, weights)
        for p in range(len(items)):
            centre[p] = means[items[p]]
        start = _start(row, centre, weights, rules)
        _gradient(row, centre, weights, y, start, rules, g)
        for t in range(first, len(steps)):
            _update(items, g, weights, vectors[t], steps[t], gains[t], rules.limit, y)
            _gradient(row, centre, weights, y, start, rules, g)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def gap_terms(indptr: Any, indices: Any, values: Any, means: Any, scores: Any, rules: Any) -> Any:
    """Every user's share (m, 3) of a duality gap: ⟨Y, gradient⟩, her loss, and how many of her ratings are used."""
    users = len(indptr) - 1
    out = np.zeros((users, 3))
    longest = np.max(indptr[1:] - indptr[:-1])
    base, kept, gradient = np.empty(longest), np.empty(longest), np.empty(longest)
    for i in range(users):
        own = slice(indptr[i], indptr[i + 1])
        items, row, y = indices[own], values[own], scores[own]
        centre, weights, g = base[: len(items)], kept[: len(items)], gradient[: len(items)]
        _choose(items, rules.most, rules.seed, weights)
        for p in range(len(items)):
            centre[p] = means[items[p]]
        offset = _gradient(row, centre, weights, y, _start(row, centre, weights, rules), rules, g)
        if rules.offset == PROFILED:
            out[i, 1] = 0.5 * rules.prior * offset * offset
        for p in range(len(items)):
            out[i, 0] += y[p] * g[p]
            out[i, 1] += weights[p] * _loss(centre[p] + offset + y[p], row[p], rules)
            out[i, 2] += weights[p]
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def replay(indptr: Any, indices: Any, values: Any, means: Any, vectors: Any, steps: Any, gains: Any, rules: Any) -> Any:
    """Every user's coordinates (m, 1 + t) after all updates: her offset, then those of the vectors (t, n)."""
    users, rounds = len(indptr) - 1, len(steps)
    out = np.zeros((users, 1 + rounds))
    longest = np.max(indptr[1:] - indptr[:-1])
    base, kept, scores, gradient = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    for i in range(users):
        own = slice(indptr[i], indptr[i + 1])
        items, row = indices[own], values[own]
        centre, weights, y, g = base[: len(items)], kept[: len(items)], scores[: len(items)], gradient[: len(items)]
        _choose(items, rules.most, rules.seed, weights)
        y[:] = 0.0
        for p in range(len(items)):
            centre[p] = means[items[p]]
        start = _start(row, centre, weights, rules)
        offset = _gradient(row, centre, weights, y, start, rules, g)
        for t in range(rounds):
            move, factor = _update(items, g, weights, vectors[t], steps[t], gains[t], rules.limit, y)
            out[i, 1 : 1 + t] *= factor
            out[i, 1 + t] = move
            offset = _gradient(row, centre, weights, y, start, rules, g)
        out[i, 0] = offset
    return out


@njit(nogil=True, cache=True)
def sample(indptr: Any, indices: Any, most: int, seed: int) -> Any:
    """1 at the ratings (nnz,) that a limit of `most` ratings a user keeps, 0 at the others."""
    out = np.empty(len(indices))
    for i in range(len(indptr) - 1):
        own = slice(indptr[i], indptr[i + 1])
        _choose(indices[own], most, seed, out[own])
    return out


solve_in_place = kernels._solve_in_place  # Numba wants it as a global

ROUNDS = 25  # of the bounded Newton steps below; each one only ever improves


@njit(nogil=True, cache=True, error_model="numpy")
def linked_means(indptr: Any, indices: Any, values: Any, means: Any, loadings: Any, precision: Any, rules: Any) -> Any:
    """Each user's most likely u (m, r) under the link: score_j = means_j + loadings_j · u, u ~ N(0, 1/precision).

    Newton steps with the largest curvature that the loss can have, so that every step improves the likelihood.
    """
    users, rank = len(indptr) - 1, loadings.shape[1]
    most = 0.25 if rules.loss == LOGISTIC else 1.0
    out = np.zeros((users, rank))
    normal, work, right = np.empty((rank, rank)), np.empty((rank, rank)), np.empty(rank)
    for i in range(users):
        normal[:] = 0.0
        for a in range(rank):
            normal[a, a] = precision[a]
        for p in range(indptr[i], indptr[i + 1]):
            vector = loadings[indices[p]]
            for a in range(rank):
                for b in range(a + 1):
                    normal[a, b] += most * vector[a] * vector[b]
        own = out[i]
        for _ in range(ROUNDS):
            for a in range(rank):
                right[a] = -precision[a] * own[a]
            for p in range(indptr[i], indptr[i + 1]):
                vector = loadings[indices[p]]
                score = means[indices[p]]
                for a in range(rank):
                    score += vector[a] * own[a]
                slope = _slope(score, values[p], rules)
                for a in range(rank):
                    right[a] -= slope * vector[a]
            work[:] = normal
            solve_in_place(work, right)
            own += right
    return out


def unexplained(
    csr: tuple[Any, Any, Any], means: Floats, loadings: Floats, precision: Floats, noise: Floats, rules: Rules
) -> Floats:
    """What every user's own fold-in leaves unexplained at her entries, (nnz,); 0 beyond the rules' `most` ratings.

    That is minus the gradient of the loss at her posterior mean (squared loss) or her most likely u (links).
    """
    indptr, indices, values = csr
    if rules.loss == SQUARED:
        deviations = values - means[indices]
        users = kernels.posterior_means(indptr, indices, deviations, loadings, precision, noise)
        left = values - kernels.predict_at(indptr, indices, means, loadings, users)
    else:
        users = linked_means(*csr, means, loadings, precision, rules)
        left = -linked_gradients(*csr, means, loadings, users, rules)
    return np.asarray(left * sample(indptr, indices, rules.most, rules.seed) if rules.most else left)


@njit(nogil=True, cache=True, error_model="numpy")
def linked_gradients(indptr: Any, indices: Any, values: Any, means: Any, loadings: Any, users: Any, rules: Any) -> Any:
    """The loss's gradient (nnz,) at every user's entries, under coordinates (m, r)."""
    out = np.empty(len(values))
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            score = means[indices[p]]
            for a in range(loadings.shape[1]):
                score += loadings[indices[p], a] * users[i, a]
            out[p] = _slope(score, values[p], rules)
    return out
