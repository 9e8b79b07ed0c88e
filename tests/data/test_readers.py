"""Readers: the same ratings come back from every source, and no error quotes a cell."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hushrec.data.own import read_own
from hushrec.data.ratings import Ratings
from hushrec.data.readers import declared_items, ratings_from_arrays, read
from hushrec.errors import ConfigError, DataError

ROWS = [(7, "b", 4.5), (7, "a", 1.0), (3, "b", 5.0)]
RANGE = (1, 5)
SECRET = "31337"  # a user id or a value that no message may repeat


def table(rows: list[tuple[Any, ...]], separator: str = ",", header: str = "user,item,value") -> str:
    lines = [separator.join(str(cell) for cell in row) for row in rows]
    return "\n".join(([header.replace(",", separator)] if header else []) + lines) + "\n"


def frame() -> pl.DataFrame:
    return pl.DataFrame(ROWS, schema=["user", "item", "value"], orient="row")


def as_dict(ratings: Ratings) -> dict[tuple[Any, Any], float]:
    assert ratings.users is not None
    users = np.repeat(ratings.users, np.diff(ratings.indptr)).tolist()
    return dict(
        zip(
            zip(users, ratings.items[ratings.indices].tolist(), strict=True),
            ratings.values.tolist(),
            strict=True,
        )
    )


EXPECTED = {(user, item): value for user, item, value in ROWS}


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


# --- sources ---


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("r.csv", table(ROWS), {}),
        ("r.csv.gz", table(ROWS), {}),
        ("R.CSV", table(ROWS), {}),
        ("r.tsv", table(ROWS, "\t"), {}),
        ("r.tsv.gz", table(ROWS, "\t"), {}),
        ("r.txt", table(ROWS, "\t"), {}),
        ("r.txt", table(ROWS, "::"), {}),
        ("r.txt.gz", table(ROWS, "::"), {}),
        ("r.txt", table(ROWS, ";"), {}),
        ("r.txt", table(ROWS, " "), {}),
        ("r.csv", table(ROWS, ";"), {}),
        ("r.csv", table(ROWS, "|"), {"separator": "|"}),
        ("r.csv", table(ROWS).replace("\n", "\r\n"), {}),
        ("r.csv", "\ufeff" + table(ROWS), {}),
        ("r.csv", table(ROWS, ", "), {"separator": ","}),
        ("r.csv", table(ROWS, header=""), {"has_header": False}),
        ("r.csv", table(ROWS, header=""), {"has_header": False, "user": 0, "item": 1, "value": 2}),
        ("r.csv", table(ROWS, header="u,i,v"), {"user": "u", "item": "i", "value": "v"}),
        ("r.csv", table([(v, i, u) for u, i, v in ROWS], header="v,i,u"), {"user": 2, "item": 1, "value": 0}),
        ("r.csv", table([(*row, "née, x") for row in ROWS], ";", "user,item,value,note"), {"separator": ";"}),
    ],
)  # fmt: skip
def test_text_files(tmp_path: Path, name: str, content: str, options: dict[str, Any]) -> None:
    path = written(tmp_path, name, content)
    for source in (path, str(path)):
        ratings = read(source, value_range=RANGE, **options)
        assert as_dict(ratings) == EXPECTED
        assert ratings.users is not None
        assert (ratings.users.tolist(), ratings.items.tolist()) == ([3, 7], ["a", "b"])
        assert ratings.catalogue == "observed"


@pytest.mark.parametrize("name", ["r.parquet", "r.parquet.gz"])
def test_parquet(tmp_path: Path, name: str) -> None:
    plain = tmp_path / "plain"
    frame().write_parquet(plain)
    path = written(tmp_path, name, plain.read_bytes())
    assert as_dict(read(path, value_range=RANGE)) == EXPECTED


class ArrowOnly:
    """Anything with the Arrow stream interface, such as a PyArrow table."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return frame().__arrow_c_stream__(requested_schema)


class PandasColumn:
    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def isna(self) -> np.ndarray:
        return np.array([value is None for value in self.values])

    def to_numpy(self) -> np.ndarray:
        return np.array(self.values, dtype=object if isinstance(self.values[0], str) else None)


class FrameLike:
    """As much of pandas and its relatives as the reader uses; pandas itself is no dependency of the tests."""

    columns = ("user", "item", "value")

    def __dataframe__(self) -> None:
        raise NotImplementedError

    def __getitem__(self, name: str) -> PandasColumn:
        return PandasColumn([row[self.columns.index(name)] for row in ROWS])


class PandasLike(FrameLike):
    """pandas comes first through its columns, because its Arrow interface needs PyArrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ImportError


PandasLike.__module__ = "pandas.core.frame"


@pytest.mark.parametrize(
    "source",
    [
        frame(),
        frame().lazy(),
        frame().with_columns(pl.col("item").cast(pl.Categorical)),
        frame().with_columns(pl.col("user").cast(pl.Int16), pl.col("value").cast(pl.String)),
        frame().with_columns(pl.col("user").cast(pl.Float64)),
        ArrowOnly(),
        FrameLike(),
        PandasLike(),
        {"user": [7, 7, 3], "item": ["b", "a", "b"], "value": [4.5, 1, 5]},
        {"user": np.array([7, 7, 3]), "item": np.array(["b", "a", "b"]), "value": np.array([4.5, 1, 5])},
        {"user": np.array([7, 7, 3], "O"), "item": np.array(["b", "a", "b"], object), "value": [4.5, 1, 5]},
        {"user": [7, 7, 3], "item": pl.Series(["b", "a", "b"]), "value": pl.Series([4.5, 1, 5])},
        ([7, 7, 3], ["b", "a", "b"], [4.5, 1, 5]),
    ],
    ids=str,
)  # fmt: skip
def test_frames_and_arrays(source: Any) -> None:
    assert as_dict(read(source, value_range=RANGE)) == EXPECTED


def test_ratings_from_arrays_and_implicit_ratings() -> None:
    users, items, values = ([row[k] for row in ROWS] for k in range(3))
    assert as_dict(ratings_from_arrays(users, items, values, value_range=RANGE)) == EXPECTED
    implicit = ratings_from_arrays(users, items)
    assert (set(implicit.values.tolist()), implicit.value_range) == ({1.0}, (0.0, 1.0))
    assert read(frame(), value=None).n_ratings == 3
    declared = ratings_from_arrays(users, items, values, value_range=RANGE, item_list=["b", "z", "a"])
    assert (declared.items.tolist(), declared.catalogue) == (["b", "z", "a"], "declared")


# --- ids ---


def test_whole_numbers_become_numbers_and_padded_ones_stay_text() -> None:
    ratings = read({"user": ["10", "9"], "item": ["007", "7"], "value": ["1", " 5 "]}, value_range=RANGE)
    assert ratings.users is not None
    assert ratings.users.tolist() == [9, 10]
    assert ratings.items.tolist() == ["007", "7"]


def test_large_and_negative_ids() -> None:
    ids = [-(2**62), 2**62, 5]
    ratings = ratings_from_arrays(ids, ids, [1, 2, 3], value_range=RANGE)
    assert ratings.items.tolist() == sorted(ids)
    assert as_dict(ratings)[(5, 5)] == 3.0


@pytest.mark.parametrize(
    ("listed", "found"), [(["10", "x"], [10]), ([10, 11], ["10"]), ([10, 11], [10]), (["10", "x"], ["10"])]
)
def test_a_declared_list_keeps_its_order_and_kind(listed: list[Any], found: list[Any]) -> None:
    ratings = read({"user": [1], "item": found, "value": [2]}, value_range=RANGE, items=listed)
    assert ratings.items.tolist() == listed
    assert ratings.indices.tolist() == [0]


def test_unknown_items_are_an_error_or_dropped() -> None:
    with pytest.raises(DataError, match="2 ratings are of items that are not in the item list"):
        read(frame(), value_range=RANGE, items=["a"])
    ratings = read(frame(), value_range=RANGE, items=["a"], unknown_items="drop")
    assert (ratings.n_ratings, ratings.n_users) == (1, 2)
    with pytest.raises(ConfigError, match="unknown_items"):
        read(frame(), value_range=RANGE, items=["a"], unknown_items="keep")  # type: ignore[arg-type]


@pytest.mark.parametrize("items", [[], [1, 1], [[1]], ["a", 1], [None], [1.5]])
def test_a_bad_item_list_is_refused(items: Any) -> None:
    with pytest.raises((ConfigError, DataError), match="item"):
        declared_items(items)


def test_settings_are_refused_before_a_file_is_looked_for() -> None:
    with pytest.raises(ConfigError, match="duplicates"):
        read("there-is-none.csv", value_range=RANGE, duplicates="best")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="value_range"):
        read("there-is-none.csv", value_range="15")  # type: ignore[arg-type]


def test_duplicates_rules_follow_the_order_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "r.csv", table([(1, 1, 2), (2, 1, 1), (1, 1, 4)]))
    with pytest.raises(DataError, match="1 ratings repeat"):
        read(path, value_range=RANGE)
    for rule, value in (("first", 2.0), ("last", 4.0), ("mean", 3.0)):
        assert as_dict(read(path, value_range=RANGE, duplicates=rule))[(1, 1)] == value  # type: ignore[arg-type]


# --- errors ---


def test_the_range_must_be_given_and_the_message_says_why() -> None:
    with pytest.raises(ConfigError, match=r"public knowledge.*would reveal the most extreme"):
        read(frame())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("user,item,value\n", "no rating"),
        (f"User_ID,i,v\n{SECRET},1,3\n", "no column 'user'.*'User_ID', 'i', 'v'"),
        (f"ann{SECRET},i,v\n{SECRET},1,3\n", "no column 'user'.*name the columns"),
        (f"{SECRET},1,3\n4,1,{SECRET}\n", "does not look like column names"),
        (f"user,item,value\n{SECRET},1,\n", "1 rows have nothing .* value column"),
        (f"user,item,value\n{SECRET},,3\n4,,3\n", "2 rows have nothing .* item column"),
        (f"user,item,value\n,{SECRET},3\n", "1 rows have nothing .* user column"),
        (f"user,item,value\n1,1,x{SECRET}\n2,1,y\n", "2 entries of the value column are not numbers"),
        (f"user,item,value\n1,1,{SECRET}\n", "1 ratings lie outside"),
        (f"user,item,value\n{SECRET},1,NaN\n", "1 ratings are not finite"),
        (f"user,item,value\n{SECRET},1,inf\n", "1 ratings are not finite"),
        (f"user,item,value\n{SECRET},1,3\n{SECRET},1,4\n", "1 ratings repeat"),
        (f"user,item,value\n{SECRET},1,3,9\n", "more fields"),
        (f'user,item,value\n"{SECRET},1,3\n', "could not be read"),
        (b"user,item,value\n\xff\xfe" + SECRET.encode() + b",1,3\n", "not UTF-8"),
        (f"user,item,value\n{SECRET}\n", "rows have nothing"),
        (f"user,item,value\n{SECRET * 300},x,3\n", "longer than"),
        (f"user,item,value\na\0{SECRET},x,3\n", "zero byte"),
    ],
)
def test_bad_text_is_refused_without_quoting_it(tmp_path: Path, content: str | bytes, message: str) -> None:
    for name in ("r.csv", "r.csv.gz"):
        with pytest.raises(DataError, match=message) as caught:
            read(written(tmp_path, name, content), value_range=RANGE)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_header_taken_for_data_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path, "r.csv", f"{SECRET},1,3\n4,1,2\n")
    with pytest.raises(DataError, match="has_header=False") as caught:
        read(path, user=0, item=1, value=2, value_range=RANGE)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.parquet", b"PAR1 this is no parquet file"),
        ("r.parquet", b""),
        ("r.csv.gz", b"no gzip"),
        ("r.csv.gz", gzip.compress(table(ROWS * 1000).encode())[:-20]),
        ("r.csv", b"\x00\x01\x02\x03"),
        ("r.csv", table(ROWS).encode("utf-16")),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError):
        read(path, value_range=RANGE)


def test_a_truncated_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    frame().write_parquet(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"r\.parquet"):
        read(path, value_range=RANGE)


def test_missing_files_folders_and_other_formats(tmp_path: Path) -> None:
    for source, message in (
        (tmp_path / "none.csv", "no file"),
        (tmp_path, "is a folder"),
        (written(tmp_path, "r.docx", "x"), "must end in"),
        (written(tmp_path, "noend", "x"), "must end in"),
        (42, "source must be"),
        (frame().rename({"user": "u"}), "no column 'user'"),
        ({"user": [1], "item": [1, 2], "value": [1]}, "same length"),
        ({"user": [1], "item": [[1]], "value": [1]}, "one-dimensional"),
        ({"user": [1.5], "item": [1], "value": [1]}, "not whole numbers"),
        ({"user": [True], "item": [1], "value": [1]}, "integers or text"),
        ({"user": [float("nan")], "item": [1], "value": [1]}, "rows have nothing"),
        ({"user": [1, "a"], "item": [1, 2], "value": [1, 2]}, "mixture"),
        (([1], [2]), "must hold 3 arrays"),
        ({"user": [], "item": [], "value": []}, "no rating"),
        ({"user": np.ma.array([1], mask=[True]), "item": [1], "value": [1]}, "rows have nothing"),
        (frame().with_columns(pl.lit(None).alias("value")), "rows have nothing"),
        (frame().with_columns(pl.lit(None).alias("user")), "rows have nothing"),
        (frame().with_columns(pl.date(2020, 1, 1).alias("value")), "must hold numbers"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            read(source, value_range=RANGE)


def test_bad_column_settings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="position 9"):
        read(frame(), user=9, value_range=RANGE)
    with pytest.raises(ConfigError, match="column name or a position"):
        read(frame(), user=1.5, value_range=RANGE)  # type: ignore[arg-type]


# --- round trip ---

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
    lambda text: text == text.strip()
)
ids = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8, unique=True),
    st.lists(texts, min_size=1, max_size=8, unique=True),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(users=ids, items=ids, data=st.data())
def test_round_trip(tmp_path: Path, users: list[Any], items: list[Any], data: st.DataObject) -> None:
    positions = st.tuples(st.integers(0, len(users) - 1), st.integers(0, len(items) - 1))
    pairs = data.draw(st.lists(positions, min_size=1, unique=True))
    stars = data.draw(st.lists(st.integers(2, 10), min_size=len(pairs), max_size=len(pairs)))
    rows = [(users[u], items[i], star / 2) for (u, i), star in zip(pairs, stars, strict=True)]
    expected = {(str(user), str(item)): value for user, item, value in rows}
    path = tmp_path / "r.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerow(("user", "item", "value"))
        writer.writerows(rows)
    columns = {name: [row[k] for row in rows] for k, name in enumerate(("user", "item", "value"))}
    parquet = tmp_path / "r.parquet"
    pl.DataFrame(columns).write_parquet(parquet)
    for source in (path, parquet, columns):
        ratings = read(source, value_range=(1, 5))
        assert {(str(u), str(i)): v for (u, i), v in as_dict(ratings).items()} == expected
        assert ratings.items.tolist() == sorted(ratings.items.tolist())


# --- one user's own file ---


def own_cases() -> list[tuple[str, str]]:
    return [
        ("m.csv", "item,value\n12,4.5\n7,1\n"),
        ("m.csv", "12,4.5\n7,1\n"),
        ("m.csv", "Item,Value\r\n12,4.5\r\n7,1\r\n"),
        ("m.csv", "value,item,note\n4.5,12,x\n1,7,y\n"),
        ("m.csv", "movie,stars\n12,4.5\n7,1\n"),
        ("m.csv", "\ufeffitem,value\n\n12,4.5\n7,1"),
        ("m.tsv", "item\tvalue\n12\t4.5\n7\t1\n"),
        ("m.txt", "12::4.5\n7::1\n"),
        ("m.json", '{"12": 4.5, "7": 1}'),
        ("m.json", "[[12, 4.5], [7, 1]]"),
        ("m.json", '[{"item": 12, "value": 4.5}, {"item": "7", "value": 1}]'),
    ]


@pytest.mark.parametrize(("name", "content"), own_cases())
def test_own_ratings(tmp_path: Path, name: str, content: str) -> None:
    items, values = read_own(written(tmp_path, name, content), value_range=RANGE)
    assert (items.tolist(), values.tolist(), values.dtype) == ([12, 7], [4.5, 1.0], np.float32)


def test_own_text_ids(tmp_path: Path) -> None:
    items, _ = read_own(written(tmp_path, "m.json", json.dumps({"a b": 1, "7": 2})))
    assert items.tolist() == ["a b", "7"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", "", "no rating"),
        ("m.csv", "item,value\n", "no rating"),
        ("m.csv", f"item,value\n1,x{SECRET}\n", "1 values"),
        ("m.csv", f"item,value\n1,{SECRET}\n", "outside"),
        ("m.csv", "item,value\n1,nan\n", "finite"),
        ("m.csv", f"item,value\n{SECRET},2\n{SECRET},3\n", "more than once"),
        ("m.csv", f"item,value\n{SECRET}\n", "two columns"),
        ("m.csv", "item\n1\n", "two columns"),
        ("m.csv", "a,b,c\n1,2,3\n", "columns item and value"),
        ("m.csv", f"1,2,{SECRET}\n", "two columns"),
        ("m.csv", ",3\n", "item ids"),
        ("m.csv", b"\xff\xff,1\n", "UTF-8"),
        ("m.json", f"[{SECRET}", "JSON"),
        ("m.json", f"{SECRET}", "JSON"),
        ("m.json", "[[1]]", "JSON"),
        ("m.json", f'[[1, "{SECRET}x"]]', "finite"),
        ("m.json", "[[1, true]]", "finite"),
        ("m.json", "[[null, 1]]", "item ids"),
        ("m.json", "[[1, 1e400]]", "finite"),
        ("m.json", "[" * 20_000, "JSON"),
    ],
)
def test_bad_own_ratings(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_own(written(tmp_path, name, content), value_range=RANGE)
    assert SECRET not in str(caught.value)


def test_own_file_must_exist_and_be_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="no file"):
        read_own(tmp_path / "none.csv")
    monkeypatch.setattr("hushrec.data.own.LARGEST_OWN_FILE", 3)
    with pytest.raises(DataError, match="too large"):
        read_own(written(tmp_path, "m.csv", "1,2\n3,4\n"))


def test_reading_is_a_pure_function_of_the_content(tmp_path: Path) -> None:
    """Row order changes nothing where no pair is repeated."""
    rows = [(user, item, 1 + (user * item) % 5) for user in range(30) for item in range(20)]
    shuffled = [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]
    one = read(written(tmp_path, "a.csv", table(rows)), value_range=RANGE)
    two = read(written(tmp_path, "b.csv", table(shuffled)), value_range=RANGE)
    assert np.array_equal(one.indptr, two.indptr)
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.values, two.values)
