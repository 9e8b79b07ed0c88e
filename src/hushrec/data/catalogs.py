"""Known datasets in the formats of their publishers: one `Catalog` entry each, native values and ids.

A reader takes the opened files and returns three parallel arrays; everything after that is shared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hushrec.data.archives import Files
from hushrec.data.columns import factorise, positions_in
from hushrec.data.formats import (
    jester_all,
    jester_part,
    movielens_100k,
    movielens_csv,
    movielens_dat,
    netflix,
    netflix_titles,
    restaurant,
    title_lines,
    title_table,
    yahoo_music,
    yahoo_songs,
    yahoo_study,
)
from hushrec.data.layouts import Triples, delimited
from hushrec.data.ratings import Ratings
from hushrec.errors import ConfigError, DataError

ItemList = Literal["rated", "published"]


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """One known dataset: where it comes from, how to recognise it and how to read it.

    files: patterns of the file names to recognise it by, the ratings first ("a|b": either); folder: the
    folder name that tells sets with equal file names apart. users, items, ratings: the counts of the complete
    set, None where they vary.
    downloads: addresses of the publisher's files, empty where a licence must be accepted first.
    """

    name: str
    title: str
    url: str
    value_range: tuple[float, float]
    files: tuple[str, ...]
    citation: str
    licence: str
    reader: Callable[[Files], Triples]
    titles: Callable[[Files], dict[Any, str]] | None = None
    folder: str = ""
    users: int | None = None
    items: int | None = None
    ratings: int | None = None
    downloads: tuple[str, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)  # file name -> "md5:..." or "sha256:..."


def load(name: str, path: str | os.PathLike[str], *, catalogue: ItemList = "rated") -> Ratings:
    """A known dataset as `Ratings`, with the publisher's own values and ids.

    path: the publisher's archive, the folder it unpacks to, or the file of ratings.
    catalogue: "rated": the item list is the items that occur ("observed"); "published": the publisher's own
    list, items without a rating included ("declared").

    >>> load("ml-1m", "nowhere.zip")
    Traceback (most recent call last):
    ...
    hushrec.errors.DataError: There is no file or folder nowhere.zip.
    """
    if catalogue not in ("rated", "published"):
        raise ConfigError(f"catalogue must be 'rated' or 'published', not {catalogue!r}.")
    entry = find(name)
    with Files(path) as files:
        users, items, values = entry.reader(files)
        published = None if catalogue == "rated" else _published_items(entry, files)
    return _assemble([users, items, values], entry, published)


def load_split(
    name: str, path: str | os.PathLike[str], split: str, *, catalogue: ItemList = "rated"
) -> tuple[Ratings, Ratings]:
    """The publisher's own (train, test) split of MovieLens 100K: "u1" to "u5", "ua" or "ub".

    Both parts have the same users and the same items, in the same order.
    """
    entry = find(name)
    if entry.name != "ml-100k":
        raise ConfigError(f"Only ml-100k comes with splits of its own, not {name!r}: use hushrec.split.")
    if split not in ML_100K_SPLITS:
        raise ConfigError(f"split must be one of {', '.join(ML_100K_SPLITS)}, not {split!r}.")
    with Files(path) as files:
        parts = [delimited(files.one(f"{split}.{part}"), "\t") for part in ("base", "test")]
        published = None if catalogue == "rated" else _published_items(entry, files)
    both = [np.concatenate([part[column] for part in parts]) for column in range(3)]
    whole = _assemble(list(both), entry, published)
    train_size = len(parts[0][0])
    train, test = (
        Ratings.from_codes(
            np.searchsorted(cast(Any, whole.users), users).astype(np.int32),
            positions_in(whole.items, pl.Series(items)),
            values,
            items=whole.items,
            value_range=whole.value_range,
            users=whole.users,
            catalogue=whole.catalogue,
        )
        for users, items, values in (
            [column[:train_size] for column in both],
            [column[train_size:] for column in both],
        )
    )
    return train, test


def titles(name: str, path: str | os.PathLike[str]) -> dict[Any, str]:
    """The published title of every item, by item id."""
    entry = find(name)
    if entry.titles is None:
        raise DataError(f"{entry.title} comes without item titles.")
    with Files(path) as files:
        return entry.titles(files)


def find(name: str) -> Catalog:
    """The registered dataset of that name.

    >>> find("ml-1m").value_range
    (1.0, 5.0)
    """
    if name not in CATALOGS:
        raise ConfigError(f"There is no dataset {name!r}; known are {', '.join(CATALOGS)}.")
    return CATALOGS[name]


def _assemble(columns: list[Any], entry: Catalog, published: NDArray[Any] | None) -> Ratings:
    """Ratings from the three columns; each is dropped as soon as it is coded, to keep the peak low."""
    if len(columns[2]) == 0:
        raise DataError(f"The file of {entry.title} holds no rating.")
    items = published
    if items is None:
        items, item_codes = factorise(pl.Series(columns[1]), "item")
    else:
        item_codes = positions_in(items, pl.Series(columns[1]))
    columns[1] = None
    users, user_codes = factorise(pl.Series(columns[0]), "user")
    columns[0] = None
    missing = int(np.count_nonzero(item_codes < 0))
    if missing:
        raise DataError(f"{missing} ratings are of items that the published list of {entry.title} does not have.")
    return Ratings.from_codes(
        user_codes,
        item_codes,
        columns[2],
        items=items,
        value_range=entry.value_range,
        users=users,
        catalogue="observed" if published is None else "declared",
    )


def _published_items(entry: Catalog, files: Files) -> NDArray[Any]:
    if entry.name.startswith("jester"):
        return np.arange(1, 101)
    if entry.titles is None:
        raise DataError(f"{entry.title} comes without a published item list: use catalogue='rated'.")
    ids = sorted(entry.titles(files))
    if not ids:
        raise DataError(f"The published item list of {entry.title} is empty.")
    return np.asarray(ids)


# --- the registry: one entry is one dataset --------------------------------------------------------

ML_100K_SPLITS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")
_HARPER = "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015."
_GOLDBERG = (
    "K. Goldberg, T. Roeder, D. Gupta and C. Perkins. Eigentaste: A Constant Time Collaborative Filtering "
    "Algorithm. Information Retrieval 4(2), 2001."
)
_GROUPLENS = "Research use with acknowledgement; no redistribution and no commercial use without permission."
_GROUPLENS_FILES = "https://files.grouplens.org/datasets/movielens/"
_WEBSCOPE = "https://webscope.sandbox.yahoo.com/catalog.php?datatype=r"
_WEBSCOPE_LICENCE = "Research only, under a data sharing agreement with Yahoo!; no redistribution."
_JESTER_FILES = "https://eigentaste.berkeley.edu/dataset/"


def _movielens(
    size: str, md5: str, counts: tuple[int, int, int], reader: Callable[[Files], Triples], **more: Any
) -> Catalog:
    archive = f"ml-{size}.zip"
    return Catalog(
        name=f"ml-{size}",
        title=f"MovieLens {size.upper()}",
        url=f"https://grouplens.org/datasets/movielens/{size}/",
        citation=_HARPER,
        licence=_GROUPLENS,
        reader=reader,
        users=counts[0],
        items=counts[1],
        ratings=counts[2],
        downloads=(_GROUPLENS_FILES + archive,),
        checksums={archive: f"md5:{md5}"},
        **more,
    )


def _movielens_dat_set(size: str, md5: str, counts: tuple[int, int, int], low: float, folder: str) -> Catalog:
    return _movielens(
        size,
        md5,
        counts,
        movielens_dat,
        value_range=(low, 5.0),
        files=("ratings.dat", "movies.dat"),
        titles=title_lines("movies.dat", separator="::"),
        folder=folder,
    )


def _movielens_csv_set(size: str, md5: str, counts: tuple[int, int, int]) -> Catalog:
    return _movielens(
        size,
        md5,
        counts,
        movielens_csv,
        value_range=(0.5, 5.0),
        files=("ratings.csv", "movies.csv"),
        titles=title_table("movies.csv", "movieId", "title"),
        folder=f"ml-{size}",
    )


def _jester(
    name: str, title: str, parts: tuple[int, ...], counts: tuple[int, int], reader: Callable[[Files], Triples]
) -> Catalog:
    return Catalog(
        name=name,
        title=title,
        url=_JESTER_FILES,
        value_range=(-10.0, 10.0),
        files=tuple(f"jester-data-{part}.*" for part in parts),
        citation=_GOLDBERG,
        licence="Research use with acknowledgement; no redistribution.",
        reader=reader,
        users=counts[0],
        items=100,
        ratings=counts[1],
        downloads=tuple(f"{_JESTER_FILES}jester_dataset_1_{part}.zip" for part in parts),
    )


_ENTRIES = (
    _movielens(
        "100k",
        "0e33842e24a9c977be4e0107933c0723",
        (943, 1_682, 100_000),
        movielens_100k,
        value_range=(1.0, 5.0),
        files=("u.data", "u.item"),
        titles=title_lines("u.item", separator="|"),
        folder="ml-100k",
    ),
    _movielens_dat_set("1m", "c4d9eecfca2ab87c1945afe126590906", (6_040, 3_706, 1_000_209), 1.0, "ml-1m"),
    _movielens_dat_set("10m", "ce571fd55effeba0271552578f2648bd", (69_878, 10_677, 10_000_054), 0.5, "ml-10M100K"),
    _movielens_csv_set("20m", "cd245b17a1ae2cc31bb14903e1204af3", (138_493, 26_744, 20_000_263)),
    _movielens_csv_set("25m", "6b51fb2759a8657d3bfcbfc42b592ada", (162_541, 59_047, 25_000_095)),
    _movielens_csv_set("32m", "d472be332d4daa821edc399621853b57", (200_948, 84_432, 32_000_204)),
    _jester("jester-1", "Jester dataset 1, part 1", (1,), (24_983, 1_810_455), lambda f: jester_part(f, 1)),
    _jester("jester-2", "Jester dataset 1, part 2", (2,), (23_500, 1_708_993), lambda f: jester_part(f, 2)),
    _jester("jester-3", "Jester dataset 1, part 3", (3,), (24_938, 616_912), lambda f: jester_part(f, 3)),
    _jester("jester", "Jester dataset 1", (1, 2, 3), (73_421, 4_136_360), jester_all),
    Catalog(
        name="netflix",
        title="Netflix Prize",
        url="https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
        value_range=(1.0, 5.0),
        files=("mv_*.txt|combined_data_*.txt",),
        citation="J. Bennett and S. Lanning. The Netflix Prize. KDD Cup and Workshop, 2007.",
        licence="Withdrawn by Netflix in 2010; the terms of the copy you use apply.",
        reader=netflix,
        titles=netflix_titles,
        users=480_189,
        items=17_770,
        ratings=100_480_507,
    ),
    Catalog(
        name="yahoo-music",
        title="Yahoo! Music, artists (R1) or KDD Cup 2011",
        url=_WEBSCOPE,
        value_range=(0.0, 100.0),
        files=("ydata-ymusic-*artist-ratings*.txt|train*idx1*.txt|train*idx2*.txt",),
        citation="G. Dror, N. Koenigstein, Y. Koren and M. Weimer. The Yahoo! Music Dataset and KDD-Cup'11. "
        "JMLR W&CP 18, 2012.",
        licence=_WEBSCOPE_LICENCE,
        reader=yahoo_music,
        titles=title_lines("ydata-ymusic-*names*.txt", separator="\t"),
    ),
    Catalog(
        name="yahoo-music-r2",
        title="Yahoo! Music, songs (R2)",
        url=_WEBSCOPE,
        value_range=(1.0, 5.0),
        files=("train_[0-9].txt",),
        citation="Yahoo! Webscope dataset ydata-ymusic-user-song-ratings-meta-v1_0.",
        licence=_WEBSCOPE_LICENCE,
        reader=yahoo_songs,
        users=1_823_179,
        items=136_736,
        ratings=699_640_226,
    ),
    Catalog(
        name="yahoo-music-r3",
        title="Yahoo! Music, rating study (R3)",
        url=_WEBSCOPE,
        value_range=(1.0, 5.0),
        files=("ydata-ymusic-rating-study-*train*.txt",),
        citation="B. M. Marlin and R. S. Zemel. Collaborative prediction and ranking with non-random missing data. "
        "RecSys 2009.",
        licence=_WEBSCOPE_LICENCE,
        reader=yahoo_study,
        users=15_400,
        items=1_000,
        ratings=311_704,
    ),
    Catalog(
        name="restaurant",
        title="Restaurant & consumer data",
        url="https://archive.ics.uci.edu/dataset/232/restaurant+consumer+data",
        value_range=(0.0, 2.0),
        files=("rating_final.csv",),
        citation="B. Vargas-Govea, G. González-Serna and R. Ponce-Medellín. Effects of relevant contextual "
        "features in the performance of a restaurant recommender system. CARS, RecSys 2011.",
        licence="Creative Commons Attribution 4.0.",
        reader=restaurant,
        titles=title_table("geoplaces2.csv", "placeID", "name"),
        users=138,
        items=130,
        ratings=1_161,
        downloads=("https://archive.ics.uci.edu/static/public/232/restaurant+consumer+data.zip",),
    ),
)

CATALOGS: Mapping[str, Catalog] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every known dataset by name; a new one is one more entry above."""
