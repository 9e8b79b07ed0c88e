"""Generated ratings: planted low-rank matrices with a known answer, and surrogates of a given public shape.

Users are made in blocks of a few million table cells, all of a block at once, so time is linear in
``users * items`` (few items) or in the number of ratings (many items), and memory in the number of ratings.
Matrix, choice of entries and noise come from separate random streams: with the same seed, the same matrix and
the same observed entries stand under every noise level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.data.ratings import Ratings, check_range
from hushrec.errors import ConfigError

BLOCK = 2**22  # table cells of one block of users: 16 MB of keys
FEW_ITEMS = 2048  # up to here a key for every cell is faster than drawing items one by one

Generator = np.random.Generator
Floats = NDArray[np.float32]


def synthetic(
    users: int = 10_000,
    items: int = 400,
    rank: int = 1,
    per_user: int | None = 80,
    noise: float = 0.0,
    seed: int = 0,
    *,
    test_per_user: int = 10,
    popularity: float = 0.0,
    activity: float = 0.0,
    value_range: tuple[float, float] | None = None,
    levels: int | None = None,
    row_norm: float | None = None,
) -> tuple[Ratings, Ratings]:
    """(train, test) from a planted matrix: train holds the observed ratings, test the truth of other entries.

    The matrix is a sum of `rank` products of vectors uniform on [-1, 1], scaled to largest entry 1: range
    (-1, 1). row_norm: instead, Gaussian factors U and V, each scaled so that its longest row has this norm;
    its range is (-row_norm², row_norm²). value_range: maps that range onto this one.
    per_user: items that each user rates; None: every entry with equal probability, rank * users * log(users)
    ratings expected. test_per_user: at most so many of a user's other entries, drawn like the observed ones.
    noise: standard deviation of Gaussian noise on train, in units of the values; clipped to the value range.
    levels: train is rounded to so many equally spaced values (5 for stars in (1, 5)); test never is.
    popularity: items are drawn with weight rank^-popularity, in a random ranking (0: uniform); activity: the
    standard deviation of the logarithm of a user's number of ratings (0: all alike).

    >>> train, test = synthetic(users=30, items=20, per_user=5, test_per_user=2)
    >>> train.n_ratings, test.n_ratings, train.value_range
    (150, 60, (-1.0, 1.0))
    """
    _check_sizes(users=users, items=items, rank=rank, levels=levels, test_per_user=test_per_user)
    _check_not_negative(noise=noise, popularity=popularity, activity=activity)
    streams = _streams(seed, 4)
    matrix = _planted(users, items, rank, row_norm, streams[0])
    low, high = check_range(value_range) if value_range is not None else (-matrix.bound, matrix.bound)
    matrix.onto(low, high)
    counts = _counts(users, items, rank, per_user, activity, streams[1])
    tests = np.minimum(test_per_user, items - counts)
    weights = None if popularity == 0.0 else _zipf(items, popularity, streams[1])
    chosen = _choose(counts, tests, items, weights, streams[2])
    train, test = (_Table(counts, items), _Table(tests, items))
    for start, stop, observed, held_out in chosen:
        truth = matrix.entries(start, stop, counts, observed)
        if noise:
            truth += np.float32(noise) * streams[3].standard_normal(len(truth), dtype=np.float32)
        train.add(observed, _on_grid(truth, low, high, levels))
        test.add(held_out, _on_grid(matrix.entries(start, stop, tests, held_out), low, high, None))
    return train.ratings((low, high)), test.ratings((low, high))


def surrogate(
    users: int,
    items: int,
    ratings_per_user: float,
    value_range: tuple[float, float] = (1.0, 5.0),
    seed: int = 0,
    *,
    levels: int | None = None,
    rank: int = 8,
    popularity: float = 1.4,
    activity: float = 1.0,
) -> Ratings:
    """Generated ratings of a given public shape, for planning and demos before anyone's ratings are touched.

    Item popularity and user activity are log-normal with these standard deviations of the logarithm;
    `ratings_per_user` is the mean. A value is an item mean (popular items are liked a little more), a user's
    offset, a part of low rank and noise, in proportions usual for stars; levels: rounded to so many values.

    >>> ratings = surrogate(users=50, items=30, ratings_per_user=6, levels=5)
    >>> ratings.n_users, ratings.n_items, sorted(set(ratings.values.tolist())) <= [1.0, 2.0, 3.0, 4.0, 5.0]
    (50, 30, True)
    """
    _check_sizes(users=users, items=items, rank=rank, levels=levels)
    _check_not_negative(popularity=popularity, activity=activity)
    if not 0 < ratings_per_user <= items:
        raise ConfigError(f"ratings_per_user must be above 0 and at most items={items}, not {ratings_per_user}.")
    low, high = check_range(value_range)
    streams = _streams(seed, 4)
    log_weight = popularity * streams[0].standard_normal(items)
    matrix = _opinions(users, items, rank, log_weight, streams[0])
    counts = _log_normal_counts(users, items, ratings_per_user, activity, streams[1])
    table = _Table(counts, items)
    weights = np.exp(log_weight - log_weight.max())
    for start, stop, observed, _ in _choose(counts, np.zeros_like(counts), items, weights, streams[2]):
        share = matrix.entries(start, stop, counts, observed)
        share += np.float32(0.2) * streams[3].standard_normal(len(share), dtype=np.float32)
        table.add(observed, _on_grid(low + (high - low) * share, low, high, levels))
    return table.ratings((low, high))


# --- the matrix ------------------------------------------------------------------------------------


@dataclass
class _Matrix:
    """scale * U Vᵀ + shift, never held as a whole; bound: its largest possible size before `onto`."""

    left: Floats
    right: Floats
    bound: float
    shift: float = 0.0

    def onto(self, low: float, high: float) -> None:
        """Map [-bound, bound] onto [low, high]."""
        self.left *= np.float32((high - low) / (2.0 * self.bound))
        self.shift = (low + high) / 2.0

    def entries(self, start: int, stop: int, counts: NDArray[np.int64], columns: NDArray[np.int32]) -> Floats:
        """The entries of rows start..stop-1 at the given columns, counts[row] of them in each row."""
        rows = np.repeat(np.arange(start, stop), counts[start:stop])
        total = np.full(len(columns), self.shift, dtype=np.float32)
        for k in range(self.left.shape[1]):
            total += self.left[rows, k] * self.right[columns, k]
        return total


def _planted(users: int, items: int, rank: int, row_norm: float | None, stream: Generator) -> _Matrix:
    if row_norm is None:
        left = stream.uniform(-1.0, 1.0, (users, rank)).astype(np.float32)
        right = stream.uniform(-1.0, 1.0, (items, rank)).astype(np.float32)
        left /= np.float32(_largest_entry(left, right))
        return _Matrix(left, right, 1.0)
    if not (np.isfinite(row_norm) and row_norm > 0):
        raise ConfigError(f"row_norm must be above 0, not {row_norm!r}.")
    left, right = (stream.standard_normal((size, rank), dtype=np.float32) for size in (users, items))
    for factor in (left, right):
        factor *= np.float32(row_norm / np.sqrt((factor.astype(np.float64) ** 2).sum(axis=1).max()))
    return _Matrix(left, right, float(row_norm) ** 2)


def _largest_entry(left: Floats, right: Floats) -> float:
    if left.shape[1] == 1:
        return float(np.abs(left).max()) * float(np.abs(right).max())
    step = max(BLOCK // len(right), 1)
    return max(float(np.abs(left[at : at + step] @ right.T).max()) for at in range(0, len(left), step))


def _opinions(users: int, items: int, rank: int, log_weight: NDArray[np.float64], stream: Generator) -> _Matrix:
    """Shares of the value range around 0.6; the last two columns are item means and user offsets."""
    taste = 0.1 / np.sqrt(rank)
    left, right = np.ones((users, rank + 2), dtype=np.float32), np.ones((items, rank + 2), dtype=np.float32)
    left[:, :rank] = taste * stream.standard_normal((users, rank))
    right[:, :rank] = stream.standard_normal((items, rank))
    right[:, rank] = 0.11 * stream.standard_normal(items) + 0.03 * log_weight
    left[:, rank + 1] = 0.1 * stream.standard_normal(users)
    return _Matrix(left, right, 1.0, shift=0.6)


def _on_grid(values: Floats, low: float, high: float, levels: int | None) -> Floats:
    clipped = np.clip(values, np.float32(low), np.float32(high))
    if levels is None:
        return clipped
    step = (high - low) / (levels - 1)
    return (low + step * np.rint((clipped - low) / step)).astype(np.float32)


# --- who rates what --------------------------------------------------------------------------------


def _counts(
    users: int, items: int, rank: int, per_user: int | None, activity: float, stream: Generator
) -> NDArray[np.int64]:
    if per_user is None:
        share = rank * np.log(users) / items
        if not 0.0 < share <= 1.0:
            raise ConfigError(
                f"per_user=None observes rank * log(users) = {share * items:.1f} items per user on average, "
                f"which must be above 0 and at most items={items}."
            )
        return stream.binomial(items, share, size=users).astype(np.int64)
    if isinstance(per_user, bool) or not 1 <= per_user <= items:
        raise ConfigError(f"per_user must be from 1 to items={items}, not {per_user!r}.")
    return _log_normal_counts(users, items, per_user, activity, stream)


def _log_normal_counts(users: int, items: int, mean: float, activity: float, stream: Generator) -> NDArray[np.int64]:
    if activity == 0.0 and float(mean).is_integer():
        return np.full(users, int(mean), dtype=np.int64)
    raw = mean * np.exp(activity * stream.standard_normal(users) - activity**2 / 2.0)
    whole = np.floor(raw + stream.random(users)).astype(np.int64)  # keeps the mean, where rounding would not
    return np.clip(whole, 1, items)


def _zipf(items: int, popularity: float, stream: Generator) -> NDArray[np.float64]:
    weights = np.arange(1, items + 1, dtype=np.float64) ** -popularity
    return stream.permutation(weights)  # the first item is not the most popular one


Choice = tuple[int, int, NDArray[np.int32], NDArray[np.int32]]


def _choose(
    counts: NDArray[np.int64],
    tests: NDArray[np.int64],
    items: int,
    weights: NDArray[np.float64] | None,
    stream: Generator,
) -> Iterator[Choice]:
    """Blocks (start, stop, observed items, held-out items), user by user, increasing within each user.

    Items are drawn one after the other without repetition, each with probability in proportion to its weight
    among those left; the first counts[i] are observed, the next tests[i] held out.
    """
    per_row = items if items <= FEW_ITEMS else 4 * int(counts.mean() + tests.mean()) + 64
    step = max(BLOCK // per_row, 1)
    for start in range(0, len(counts), step):
        stop = min(start + step, len(counts))
        first, second = counts[start:stop], tests[start:stop]
        if items <= FEW_ITEMS:
            yield (start, stop, *_choose_by_keys(first, second, items, weights, stream))
        else:
            yield (start, stop, *_choose_by_draws(first, second, items, weights, stream))


def _choose_by_keys(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    items: int,
    weights: NDArray[np.float64] | None,
    stream: Generator,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """A random key for every cell; a user's smallest keys are her items, in the order of the keys."""
    keys = _keys(len(first), items, weights, stream)
    ends = np.stack((first, first + second))
    same = bool(np.all(ends == ends[:, :1]))
    if same:
        places = np.unique(np.maximum(ends[:, 0] - 1, 0))
        ordered = np.partition(keys, places, axis=1)
    else:
        ordered = np.sort(keys, axis=1)
    last = np.take_along_axis(ordered, np.maximum(ends - 1, 0).T, axis=1)
    observed = (keys <= last[:, :1]) & (first > 0)[:, None]
    held_out = (keys <= last[:, 1:]) & ~observed & (second > 0)[:, None]
    return np.nonzero(observed)[1].astype(np.int32), np.nonzero(held_out)[1].astype(np.int32)


def _keys(rows: int, items: int, weights: NDArray[np.float64] | None, stream: Generator) -> NDArray[np.uint32]:
    """Random (rows, items) keys; the lowest bits hold the item, so that no two keys of a row are equal."""
    if weights is None:
        keys = stream.integers(0, 2**32, size=(rows, items), dtype=np.uint32)
    else:  # the item with the smallest Exponential(1) / weight is a draw in proportion to the weights
        race = stream.standard_exponential((rows, items), dtype=np.float32)
        race /= (weights / weights.max()).astype(np.float32)
        keys = race.view(np.uint32)  # floats above 0 sort like their bits
    low_bits = np.uint32((1 << max(items - 1, 1).bit_length()) - 1)
    return (keys & ~low_bits) | np.arange(items, dtype=np.uint32)


def _choose_by_draws(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    items: int,
    weights: NDArray[np.float64] | None,
    stream: Generator,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draws with repetition, of which each user's first distinct ones count: the same law, for many items."""
    total = first + second
    rows, columns, ranks = _distinct_draws(total, items, weights, stream)
    short = np.flatnonzero(np.bincount(rows, minlength=len(total)) < total)
    step = max(BLOCK // items, 1)
    parts = [(rows, columns, ranks < first[rows], ~np.isin(rows, short))]
    for at in range(0, len(short), step):  # who drew too many repeats starts anew, with a key for every item
        users = short[at : at + step]
        one, two = _choose_by_keys(first[users], second[users], items, weights, stream)
        for chosen, sizes, is_first in ((one, first, True), (two, second, False)):
            flags = np.full(len(chosen), is_first)
            parts.append((np.repeat(users, sizes[users]), chosen, flags, np.ones(len(chosen), dtype=bool)))
    rows, columns, flags, keep = (np.concatenate([part[k] for part in parts]) for k in range(4))
    order = np.argsort(rows[keep] * items + columns[keep], kind="stable")
    columns, flags = columns[keep][order], flags[keep][order]
    return columns[flags].astype(np.int32), columns[~flags].astype(np.int32)


def _distinct_draws(
    total: NDArray[np.int64], items: int, weights: NDArray[np.float64] | None, stream: Generator
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(row, item, rank of the draw among the row's distinct ones), at most total[row] for each row."""
    widths = total + total // 2 + 16
    owners = np.repeat(np.arange(len(total)), widths)
    if weights is None:
        drawn = stream.integers(0, items, size=len(owners))
    else:
        edges = np.cumsum(weights) / weights.sum()
        drawn = np.minimum(np.searchsorted(edges, stream.random(len(owners)), side="right"), items - 1)
    _, seen_first = np.unique(owners * items + drawn, return_index=True)
    seen_first.sort()
    rows, columns = owners[seen_first], drawn[seen_first]
    starts = np.searchsorted(rows, np.arange(len(total)))
    ranks = np.arange(len(rows)) - starts[rows]
    keep = ranks < total[rows]
    return rows[keep], columns[keep], ranks[keep]


class _Table:
    """Collects blocks of users into Ratings."""

    def __init__(self, counts: NDArray[np.int64], items: int) -> None:
        self.indptr = np.concatenate(([0], np.cumsum(counts)))
        self.indices = np.empty(self.indptr[-1], dtype=np.int32)
        self.values = np.empty(self.indptr[-1], dtype=np.float32)
        self.items, self.filled = items, 0

    def add(self, indices: NDArray[np.int32], values: Floats) -> None:
        end = self.filled + len(indices)
        self.indices[self.filled : end] = indices
        self.values[self.filled : end] = values
        self.filled = end

    def ratings(self, value_range: tuple[float, float]) -> Ratings:
        return Ratings(self.indptr, self.indices, self.values, np.arange(self.items), value_range, catalogue="declared")


# --- checks ----------------------------------------------------------------------------------------


def _check_sizes(**sizes: int | None) -> None:
    smallest = {"levels": 2, "test_per_user": 0}
    for name, size in sizes.items():
        least = smallest.get(name, 1)
        if size is None and name == "levels":
            continue
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, not {size!r}.")


def _check_not_negative(**settings: float) -> None:
    for name, setting in settings.items():
        if not (isinstance(setting, (int, float, np.number)) and np.isfinite(setting) and setting >= 0):
            raise ConfigError(f"{name} must be a finite number of at least 0, not {setting!r}.")


def _streams(seed: int, count: int) -> list[Generator]:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, not {seed!r}.")
    return [np.random.default_rng(child) for child in np.random.SeedSequence(int(seed)).spawn(count)]
