"""The ratings table: its invariants are checked on construction, and every method keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrec.data.ratings import Ratings
from hushrec.errors import ConfigError, DataError


def small(**changes: Any) -> Ratings:
    """Three users, three items: user 0 rated items a and c, user 1 nothing, user 2 item b."""
    settings: dict[str, Any] = {
        "indptr": np.array([0, 2, 2, 3]),
        "indices": np.array([0, 2, 1]),
        "values": np.array([1.0, 5.0, 3.0]),
        "items": np.array(["a", "b", "c"]),
        "value_range": (1, 5),
        "users": np.array([10, 20, 30]),
    }
    return Ratings(**(settings | changes))


def test_construction_fixes_the_dtypes() -> None:
    ratings = small()
    assert (ratings.indptr.dtype, ratings.indices.dtype, ratings.values.dtype) == (
        np.int64,
        np.int32,
        np.float32,
    )
    assert (ratings.n_users, ratings.n_items, ratings.n_ratings) == (3, 3, 3)
    assert ratings.value_range == (1.0, 5.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": np.array([0, 2, 1, 3])}, "never fall"),
        ({"indptr": np.array([0])}, "no user"),
        ({"indptr": np.array([0, 1, 1, 2])}, "end at the number"),
        ({"indices": np.array([2, 0, 1])}, "increasing order"),
        ({"indices": np.array([0, 0, 1])}, "without duplicates"),
        ({"indices": np.array([0, 3, 1])}, "not in the item list"),
        ({"indices": np.array([0, -1, 1])}, "not in the item list"),
        ({"values": np.array([1.0, 5.0])}, "same length"),
        ({"values": np.array([1.0, np.nan, 3.0])}, "1 ratings are not finite"),
        ({"values": np.array([1.0, np.inf, 3.0])}, "1 ratings are not finite"),
        ({"values": np.array([1.0, 5.5, 3.0])}, "1 ratings lie outside"),
        ({"items": np.array(["a", "a", "c"])}, "twice"),
        ({"items": np.array([], dtype=str)}, "empty"),
        ({"users": np.array([1, 2])}, "one id per row"),
    ],
)
def test_broken_tables_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        small(**changes)


@pytest.mark.parametrize("value_range", [(5, 1), (1, 1), (0, np.inf), (np.nan, 1), (1,), "ab", "15", b"15", None])
def test_a_bad_range_is_a_setting_error(value_range: Any) -> None:
    with pytest.raises(ConfigError, match="value_range"):
        small(value_range=value_range)


def test_the_repr_shows_public_facts_only() -> None:
    text = repr(small())
    assert "3" in text
    for private in ("10", "20", "30", "users"):
        assert private not in text


def test_rows_user_keep_and_select() -> None:
    ratings = small()
    part = ratings.rows(1, 3)
    assert part.indptr.tolist() == [0, 0, 1]
    assert part.users is not None
    assert part.users.tolist() == [20, 30]
    assert np.shares_memory(part.values, ratings.values)
    items, values = ratings.user(0)
    assert (items.tolist(), values.tolist()) == (["a", "c"], [1.0, 5.0])
    kept = ratings.keep(np.array([False, True, True]))
    assert (kept.indptr.tolist(), kept.indices.tolist()) == ([0, 1, 1, 2], [2, 1])
    chosen = ratings.select(np.array([1, 2]))
    assert (chosen.items.tolist(), chosen.indices.tolist(), chosen.n_users) == (["b", "c"], [1, 0], 3)
    assert chosen.catalogue == "observed"


def test_restrict_keeps_the_most_rated_items_in_item_order() -> None:
    ratings = Ratings.from_codes(
        np.array([0, 0, 1, 1, 2]),
        np.array([0, 2, 1, 2, 2]),
        np.ones(5),
        items=np.array([5, 6, 7]),
        value_range=(0, 1),
    )
    top = ratings.restrict(top=2)
    assert (top.items.tolist(), top.catalogue, top.n_ratings, top.n_users) == ([5, 7], "fixed", 4, 3)
    for wrong in (0, 4, 2.5, 2.0, True, "2"):
        with pytest.raises(ConfigError, match=r"top is .* whole number from 1 to 3"):
            ratings.restrict(top=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rule", "expected"), [("first", [4.0, 1.0]), ("last", [2.0, 1.0]), ("mean", [3.0, 1.0])])
def test_duplicates_follow_the_rule(rule: Any, expected: list[float]) -> None:
    ratings = Ratings.from_codes(
        np.array([1, 0, 1]),
        np.array([0, 0, 0]),
        np.array([4.0, 1.0, 2.0]),
        items=np.array([7]),
        value_range=(1, 5),
        duplicates=rule,
    )
    assert ratings.values.tolist() == expected[::-1]


def test_duplicates_are_counted_in_the_error_and_unknown_rules_refused() -> None:
    codes: dict[str, Any] = {"items": np.array([7]), "value_range": (1, 5)}
    with pytest.raises(DataError, match="2 ratings repeat"):
        Ratings.from_codes(np.zeros(3, int), np.zeros(3, int), np.ones(3), **codes)
    for many in (3, 1):  # whether any pair repeats decides nothing
        with pytest.raises(ConfigError, match="duplicates"):
            Ratings.from_codes(np.zeros(many, int), np.zeros(many, int), np.ones(many), duplicates="best", **codes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("users", "items"), [([0, 3], [0, 0]), ([0, -1], [0, 0]), ([0, 1], [0, 1])])
def test_positions_outside_the_lists_are_refused(users: list[int], items: list[int]) -> None:
    with pytest.raises(DataError, match="position outside"):
        Ratings.from_codes(
            np.array(users), np.array(items), np.ones(2), items=np.array([7]), value_range=(0, 1), n_users=3
        )


@given(st.data())
def test_from_codes_agrees_with_a_dictionary(data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, unique=True))
    values = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=len(pairs), max_size=len(pairs)))
    users, items = (np.array(column) for column in zip(*pairs, strict=True))
    ratings = Ratings.from_codes(users, items, np.array(values), items=np.arange(4), value_range=(0, 1), n_users=5)
    rows = np.repeat(np.arange(5), np.diff(ratings.indptr))
    found = dict(zip(zip(rows.tolist(), ratings.indices.tolist(), strict=True), ratings.values, strict=True))
    assert found == dict(zip(pairs, values, strict=True))  # zeros are ratings too
