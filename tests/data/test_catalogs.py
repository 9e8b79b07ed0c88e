"""Known datasets, on small files that the tests write in each published format.

The last section reads the real files where they lie beside a checkout; it is skipped elsewhere, and proves
nothing that the generated files do not, except the published counts.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushrec.data import archives, layouts
from hushrec.data.catalogs import CATALOGS, Catalog, find, load, load_split, titles
from hushrec.data.fetch import identify
from hushrec.data.ratings import Ratings
from hushrec.errors import ConfigError, DataError

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
SECRET = "31337"

DAT = "1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n"
MOVIES_DAT = "661::James (1996)::Animation\n914::My Fair Lady (1964)::Musical\n1193::Café (1975)::Drama\n"
CSV = "userId,movieId,rating,timestamp\n1,1193,5.0,978300760\n1,661,3.5,978302109\n2,1193,0.5,978298413\n"
MOVIES_CSV = 'movieId,title,genres\n661,"James, the (1996)",A\n914,My Fair Lady (1964),M\n1193,Café (1975),D\n'
U_DATA = "2\t1193\t4\t978298413\n1\t1193\t5\t978300760\n1\t661\t3\t978302109\n"
U_ITEM = "661|James (1996)|01-Jan-1995||x|0\n914|My Fair Lady (1964)|||y|1\n1193|Café (1975)|||z|0\n"
RESTAURANT = (
    "userID,placeID,rating,food_rating,service_rating\nU1077,135038,2,2,1\nU1077,132825,0,2,2\nU1068,135038,1,1,1\n"
)
PLACES = "placeID,latitude,name\n135038,22.1,Luna Café\n132825,22.2,Tacos\n"
MV_1 = "1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n"
MV_2 = "2:\n822109,1,2005-05-14\n"
KDD = "0|2\n507696\t90\t5662\t16:56:00\n137915\t0\t5662\t23:48:00\n7|1\n507696\t100\t4000\t00:00:00\n"
R1_FILE = "ydata-ymusic-user-artist-ratings-v1_0.txt"
R1 = "1\t1000125\t90\n1\t1006373\t255\n5\t1000125\t0\n"
R2 = {"train_0.txt": "0\t12\t5\n0\t9\t1\n", "train_1.txt": "1\t12\t3\n", "train_2.txt": "2\t7\t4\n",
      "test_0.txt": "0\t7\t2\n"}  # fmt: skip
R3_FILE = "ydata-ymusic-rating-study-v1_0-train.txt"
R3 = "1\t14\t5\n1\t35\t1\n3\t14\t4\n"


def jester(rows: list[list[float]]) -> str:
    """A row a user: the number rated, then 100 jokes, 99 where not rated."""
    lines = []
    for row in rows:
        full = row + [99] * (100 - len(row))
        lines.append(",".join(f"{x:g}" for x in [sum(x != 99 for x in full), *full]))
    return "\n".join(lines) + "\n"


JESTER = jester([[-7.82, 8.79, 99, 10], [99, -10], [0, 99, 1.5]])


def folder_of(place: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def zip_of(path: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tar_bytes(files: dict[str, str | bytes], mode: Any = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            raw = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))
    return buffer.getvalue()


def xlsx_of(path: Path, rows: list[list[str]]) -> Path:
    """The smallest spreadsheet that holds a table of numbers."""
    cells = "".join("<row>" + "".join(f"<c><v>{x}</v></c>" for x in row) + "</row>" for row in rows)
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = "http://schemas.openxmlformats.org/package/2006/relationships"
    kinds = "http://schemas.openxmlformats.org/package/2006/content-types"
    ooxml = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return zip_of(
        path,
        {
            "[Content_Types].xml": f'{head}<Types xmlns="{kinds}"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{ooxml}.sheet.main+xml"/>'
            '<Override PartName="/xl/worksheets/sheet1.xml" '
            f'ContentType="{ooxml}.worksheet+xml"/></Types>',
            "_rels/.rels": f'{head}<Relationships xmlns="{links}"><Relationship Id="r1" Type="{office}/office'
            'Document" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'{head}<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="s" '
            'sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'{head}<Relationships xmlns="{links}"><Relationship Id="r1" Type="'
            f'{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/worksheets/sheet1.xml": f'{head}<worksheet xmlns="{main}"><sheetData>{cells}</sheetData>'
            "</worksheet>",
        },
    )  # fmt: skip


def triples(ratings: Ratings) -> set[tuple[Any, Any, float]]:
    assert ratings.users is not None
    users = np.repeat(ratings.users, np.diff(ratings.indptr)).tolist()
    items = ratings.items[ratings.indices].tolist()
    return set(zip(users, items, np.round(ratings.values.astype(float), 4).tolist(), strict=True))


STARS = {(1, 1193, 5.0), (1, 661, 3.0), (2, 1193, 4.0)}
HALF_STARS = {(1, 1193, 5.0), (1, 661, 3.5), (2, 1193, 0.5)}
JOKES = {(1, 1, -7.82), (1, 2, 8.79), (1, 4, 10.0), (2, 2, -10.0), (3, 1, 0.0), (3, 3, 1.5)}
MEALS = {("U1077", 135038, 2.0), ("U1077", 132825, 0.0), ("U1068", 135038, 1.0)}
FILMS = {(1488844, 1, 3.0), (822109, 1, 5.0), (822109, 2, 1.0)}
SONGS = {(0, 507696, 90.0), (0, 137915, 0.0), (7, 507696, 100.0)}
ARTISTS = {(1, 1000125, 90.0), (1, 1006373, 0.0), (5, 1000125, 0.0)}

FORMATS: list[tuple[str, dict[str, str | bytes], str, set[Any]]] = [
    ("ml-100k", {"u.data": U_DATA, "u.item": U_ITEM.encode("latin-1")}, "u.data", STARS),
    ("ml-1m", {"ratings.dat": DAT, "movies.dat": MOVIES_DAT.encode("latin-1")}, "ratings.dat", STARS),
    ("ml-10m", {"ratings.dat": DAT.replace("5::9", "3.5::9"), "movies.dat": MOVIES_DAT}, "ratings.dat",
     {(1, 1193, 3.5), (1, 661, 3.0), (2, 1193, 4.0)}),
    ("ml-20m", {"ratings.csv": CSV, "movies.csv": MOVIES_CSV}, "ratings.csv", HALF_STARS),
    ("ml-25m", {"ratings.csv": CSV.replace("\n", "\r\n"), "movies.csv": MOVIES_CSV}, "ratings.csv",
     HALF_STARS),
    ("ml-32m", {"ratings.csv": "\ufeff" + CSV, "movies.csv": MOVIES_CSV}, "ratings.csv", HALF_STARS),
    ("jester-1", {"jester-data-1.csv": JESTER}, "jester-data-1.csv", JOKES),
    ("jester-2", {"jester-data-2.csv": JESTER}, "jester-data-2.csv", JOKES),
    ("jester-3", {"jester-data-3.csv": JESTER}, "jester-data-3.csv", JOKES),
    ("restaurant", {"rating_final.csv": RESTAURANT, "geoplaces2.csv": PLACES}, "rating_final.csv", MEALS),
    ("netflix", {"combined_data_1.txt": MV_1 + MV_2, "movie_titles.csv": "1,2003,A, b\n2,NULL,C\n"},
     "combined_data_1.txt", FILMS),
    ("yahoo-music", {"trainIdx1.txt": KDD}, "trainIdx1.txt", SONGS),
    ("yahoo-music", {R1_FILE: R1}, R1_FILE, ARTISTS),
    ("yahoo-music", {"trainIdx2.txt": KDD}, "trainIdx2.txt", SONGS),
    ("yahoo-music-r2", {"train_0.txt": R2["train_0.txt"], "test_0.txt": R2["test_0.txt"]}, "train_0.txt",
     {(0, 12, 5.0), (0, 9, 1.0)}),
    ("yahoo-music-r3", {R3_FILE: R3, R3_FILE.replace("train", "test"): "1\t99\t1\n"}, R3_FILE,
     {(1, 14, 5.0), (1, 35, 1.0), (3, 14, 4.0)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "main", "expected"), FORMATS)
def test_every_format_from_file_folder_and_archives(
    tmp_path: Path, name: str, files: dict[str, str | bytes], main: str, expected: set[Any]
) -> None:
    inside = {f"some/{name}/{file}": content for file, content in files.items()}
    folder = folder_of(tmp_path / "unpacked", inside)
    places = [
        folder,
        folder / "some" / name / main,
        zip_of(tmp_path / "a.zip", inside),
        folder_of(tmp_path / "tars", {"a.tar.gz": tar_bytes(inside)}) / "a.tar.gz",
        folder_of(tmp_path / "nested", {"a.zip": (tmp_path / "a.zip").read_bytes()}),
        folder_of(tmp_path / "plain tar", {"b.tar": tar_bytes(inside, "w")}),
    ]
    raw = files[main]
    packed = gzip.compress(raw if isinstance(raw, bytes) else raw.encode())
    places.append(folder_of(tmp_path / "packed", {f"{main}.gz": packed}) / f"{main}.gz")
    for place in places:
        ratings = load(name, place)
        assert triples(ratings) == expected
        assert ratings.value_range == find(name).value_range
        assert ratings.catalogue == "observed"
        assert sorted(ratings.items.tolist()) == ratings.items.tolist()


def test_small_pieces_give_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratings are parsed in pieces; pieces of 20 bytes cut every line and every block of a movie."""
    places = {
        "netflix": folder_of(tmp_path / "n", {"mv_0000001.txt": MV_1, "mv_0000002.txt": MV_2[:-1]}),
        "yahoo-music": folder_of(tmp_path / "y", {"trainIdx1.txt": KDD}),
        "ml-1m": folder_of(tmp_path / "m", {"ratings.dat": DAT.rstrip("\n")}),
        "ml-20m": folder_of(tmp_path / "c", {"ratings.csv": CSV}),
    }
    whole = {name: triples(load(name, place)) for name, place in places.items()}
    monkeypatch.setattr(layouts, "CHUNK", 20)
    assert {name: triples(load(name, place)) for name, place in places.items()} == whole
    assert whole["netflix"] == FILMS


def test_every_part_of_yahoo_songs_is_read_or_missed(tmp_path: Path) -> None:
    everything = {(0, 12, 5.0), (0, 9, 1.0), (1, 12, 3.0), (2, 7, 4.0)}
    folder = folder_of(tmp_path / "whole", dict(R2))
    for place in (folder, zip_of(tmp_path / "r2.zip", dict(reversed(R2.items())))):
        ratings = load("yahoo-music-r2", place)
        assert triples(ratings) == everything
        assert ratings.value_range == (1.0, 5.0)
    assert triples(load("yahoo-music-r2", folder / "train_1.txt")) == {(1, 12, 3.0)}
    found = identify(folder)
    assert found is not None
    assert found.name == "yahoo-music-r2"
    gap = {name: content for name, content in R2.items() if name != "train_1.txt"}
    twice = {**R2, "again/train_1.txt": R2["train_1.txt"]}
    for number, files in enumerate((gap, twice)):
        with pytest.raises(DataError, match=r"each part from train_0\.txt to train_2\.txt once"):
            load("yahoo-music-r2", folder_of(tmp_path / str(number), files))
    with pytest.raises(DataError, match="holds no file"):
        load("yahoo-music", folder)  # these values have another range
    with pytest.raises(DataError, match="holds no file train_0"):
        load("yahoo-music-r2", folder_of(tmp_path / "kdd", {"trainIdx1.txt": KDD}))
    with pytest.raises(DataError, match="1 ratings lie outside"):
        load("yahoo-music-r3", folder_of(tmp_path / "r3", {R3_FILE: R3 + "4\t14\t90\n"}))


def test_netflix_archive_inside_the_archive(tmp_path: Path) -> None:
    inner = tar_bytes({"training_set/mv_0000001.txt": MV_1, "training_set/mv_0000002.txt": MV_2}, "w")
    names = "1,2003,Dinosaur Planet\n2,2004,Isle of Man, the\n3,1997,Never rated\n".encode("latin-1")
    outer = tar_bytes({"download/training_set.tar": inner, "download/movie_titles.txt": names})
    path = folder_of(tmp_path, {"nf_prize_dataset.tar.gz": outer}) / "nf_prize_dataset.tar.gz"
    assert triples(load("netflix", path)) == FILMS
    assert titles("netflix", path)[2] == "Isle of Man, the"
    assert load("netflix", path, catalogue="published").items.tolist() == [1, 2, 3]


def test_jester_spreadsheet_and_all_three_parts(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    rows = [line.split(",") for line in JESTER.splitlines()]
    sheet = xlsx_of(tmp_path / "jester-data-1.xlsx", rows)
    assert triples(load("jester-1", sheet)) == JOKES
    zip_of(tmp_path / "jester_dataset_1_2.zip", {"jester-data-2.csv": JESTER})
    zip_of(tmp_path / "jester_dataset_1_3.zip", {"jester-data-3.csv": JESTER})
    ratings = load("jester", tmp_path)
    assert (ratings.n_users, ratings.n_ratings) == (9, 18)
    assert {(user - 3, item, value) for user, item, value in triples(ratings) if 3 < user <= 6} == JOKES
    assert load("jester", tmp_path, catalogue="published").n_items == 100
    with pytest.raises(DataError, match="all three parts"):
        load("jester", tmp_path / "jester-data-1.xlsx")


def test_a_spreadsheet_without_the_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    path = folder_of(tmp_path, {"jester-data-1.xls": b"\xd0\xcf\x11\xe0"}) / "jester-data-1.xls"
    with pytest.raises(DataError, match=r"hushrec\[excel\]"):
        load("jester-1", path)


def test_published_lists_and_titles(tmp_path: Path) -> None:
    for name, files, _, _ in FORMATS[:6]:
        place = folder_of(tmp_path / name, files)
        ratings = load(name, place, catalogue="published")
        assert (ratings.items.tolist(), ratings.catalogue) == ([661, 914, 1193], "declared")
        names = titles(name, place)
        assert names[914] == "My Fair Lady (1964)"
        assert names[1193] == "Café (1975)"
    assert titles("ml-20m", tmp_path / "ml-20m")[661] == "James, the (1996)"
    assert titles("ml-1m", tmp_path / "ml-1m" / "ratings.dat")[661] == "James (1996)"
    assert titles("restaurant", folder_of(tmp_path / "r", {"geoplaces2.csv": PLACES}))[132825] == "Tacos"
    artists = {"ydata-ymusic-artist-names-v1_0.txt": "-100\tNot Applicable\n1000001\tBobby\n"}
    assert titles("yahoo-music", folder_of(tmp_path / "y", artists))[1000001] == "Bobby"
    with pytest.raises(DataError, match="without item titles"):
        titles("jester-1", tmp_path)


def test_splits_share_users_and_items(tmp_path: Path) -> None:
    place = folder_of(tmp_path, {"u1.base": U_DATA, "u1.test": "3\t914\t1\t0\n", "u.item": U_ITEM})
    train, test = load_split("ml-100k", place, "u1")
    assert triples(train) == STARS
    assert triples(test) == {(3, 914, 1.0)}
    for part in (train, test):
        assert part.users is not None
        assert (part.users.tolist(), part.items.tolist()) == ([1, 2, 3], [661, 914, 1193])
    assert load_split("ml-100k", place, "u1", catalogue="published")[0].catalogue == "declared"
    with pytest.raises(ConfigError, match="u1, u2"):
        load_split("ml-100k", place, "u9")
    with pytest.raises(ConfigError, match="Only ml-100k"):
        load_split("ml-1m", place, "u1")
    with pytest.raises(DataError, match=r"u2\.base"):
        load_split("ml-100k", place, "u2")


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("ml-1m", "ratings.dat", "", "holds no rating"),
        ("ml-1m", "ratings.dat", f"1::1::{SECRET}::1\n", "outside"),
        ("ml-1m", "ratings.dat", f"1::x{SECRET}::3::1\n", "published format"),
        ("ml-1m", "ratings.dat", f"1::::{SECRET}::1\n", "1 fields .* are empty"),
        ("ml-1m", "ratings.dat", f"{SECRET},1,3\n", "only 1 fields"),
        ("ml-1m", "ratings.dat", f"{SECRET}::1::3::1\n{SECRET}::1::3::1\n", "1 ratings repeat"),
        ("ml-20m", "ratings.csv", f"{SECRET},1,3,1\n", "does not start with the line userId,movieId,rating"),
        ("jester-1", "jester-data-1.csv", f"1,{SECRET}\n", "101 columns"),
        ("jester-1", "jester-data-1.csv", JESTER.replace("3,-7.82", "4,-7.82"), "1 rows do not have as many"),
        ("jester-1", "jester-data-1.csv", JESTER.replace("-7.82", SECRET), "outside"),
        ("jester-1", "jester-data-1.csv", JESTER.replace("-7.82", f"x{SECRET}"), "published format"),
        ("jester-1", "jester-data-1.csv", JESTER.replace("-7.82", ""), "empty cells"),
        ("jester-1", "jester-data-1.xls", SECRET, "spreadsheet could not be read"),
        ("netflix", "mv_0000001.txt", f"{SECRET},3,2005-09-06\n", "a line of the form id:"),
        ("netflix", "mv_0000001.txt", f"1:\n{SECRET}\n", "without a value"),
        ("netflix", "mv_0000001.txt", f"1:\nx{SECRET},3,2005\n", "published format"),
        ("netflix", "mv_0000001.txt", "1:\n", "holds no rating"),
        ("yahoo-music", "trainIdx1.txt", f"0|1\n{SECRET}\tx\n", "published format"),
        ("restaurant", "rating_final.csv", RESTAURANT.replace(",2,2,1", f",{SECRET},2,1"), "outside"),
        ("ml-1m", "ratings.csv", DAT, r"holds no file ratings\.dat"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused_without_quoting_them(
    tmp_path: Path, name: str, file: str, content: str, message: str
) -> None:
    for place in (folder_of(tmp_path / "f", {file: content}), zip_of(tmp_path / "z.zip", {file: content})):
        with pytest.raises(DataError, match=message) as caught:
            load(name, place)
        assert SECRET not in str(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    good = zip_of(tmp_path / "good.zip", {"ratings.dat": DAT * 500}).read_bytes()
    middle = len(good) // 2
    damaged = {
        "cut.zip": good[:middle],
        "flipped.zip": good[:60] + bytes([good[60] ^ 255]) + good[61:],
        "cut.tar.gz": tar_bytes({"ratings.dat": DAT * 500})[:-40],
        "ratings.dat.gz": gzip.compress(DAT.encode())[:-9],
    }
    for name, content in damaged.items():
        with pytest.raises(DataError):
            load("ml-1m", folder_of(tmp_path / "bad", {name: content}) / name)


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no dataset 'ml-1'; known are ml-100k, ml-1m"):
        load("ml-1", tmp_path)
    with pytest.raises(ConfigError, match="catalogue"):
        load("ml-1m", tmp_path, catalogue="all")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no file or folder"):
        load("ml-1m", tmp_path / "none")
    with pytest.raises(DataError, match="2 ratings are of items that the published list"):
        load(
            "ml-1m",
            folder_of(tmp_path, {"ratings.dat": DAT, "movies.dat": "661::James::x\n"}),
            catalogue="published",
        )
    with pytest.raises(DataError, match="holds no file"):
        load("yahoo-music", folder_of(tmp_path / "y", {"trainIdx1.txt": KDD}), catalogue="published")


@pytest.mark.parametrize("entry", CATALOGS.values(), ids=lambda entry: entry.name)
def test_every_entry_is_complete(entry: Catalog) -> None:
    assert entry.title
    assert entry.url.startswith("https://")
    assert entry.citation.endswith(".")
    assert entry.licence.endswith(".")
    assert entry.files
    assert entry.value_range[0] < entry.value_range[1]
    for checksum in entry.checksums.values():
        kind, digest = checksum.split(":")
        assert len(digest) == {"md5": 32, "sha256": 64}[kind]


# --- the real files, where a checkout has them beside it (skipped elsewhere) ---


@pytest.mark.parametrize(
    ("name", "file", "users", "items", "ratings", "published"),
    [
        ("ml-100k", "ml-100k.zip", 943, 1682, 100_000, 1682),
        ("ml-1m", "ml-1m.zip", 6040, 3706, 1_000_209, 3883),
        ("jester-1", "jester-data-1.zip", 24_983, 100, 1_810_455, 100),
        ("restaurant", "restaurant/rating_final.csv", 138, 130, 1161, None),
    ],
)
def test_real_counts(name: str, file: str, users: int, items: int, ratings: int, published: int | None) -> None:
    if not (REAL / file).exists():
        pytest.skip("the real file is not beside this checkout")
    found = load(name, REAL / file)
    assert (found.n_users, found.n_items, found.n_ratings) == (users, items, ratings)
    assert (float(found.values.min()) >= found.value_range[0], float(found.values.max())) == (
        True,
        found.value_range[1],
    )
    if published is not None:
        assert load(name, REAL / file, catalogue="published").n_items == published


@pytest.mark.parametrize(("split", "sizes"), [("u1", (80_000, 20_000)), ("ua", (90_570, 9_430))])
def test_real_splits(split: str, sizes: tuple[int, int]) -> None:
    if not (REAL / "ml-100k.zip").exists():
        pytest.skip("the real file is not beside this checkout")
    train, test = load_split("ml-100k", REAL / "ml-100k.zip", split)
    assert (train.n_ratings, test.n_ratings) == sizes
    assert (train.n_users, train.n_items) == (943, 1682)
    assert np.array_equal(train.items, test.items)


# --- traps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trap.zip", "trap.tar.gz", "trap.tar"])
def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch, name):
    many = {f"x{k}.dat": "1::1::5::1\n" * 9 for k in range(9)}  # each is small enough, all together are not
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for inside, content in many.items():
                archive.writestr(inside, content)
    else:
        path.write_bytes(tar_bytes(many, "w:gz" if name.endswith("gz") else "w"))
    monkeypatch.setattr(archives, "_room", lambda packed: 800)
    with pytest.raises(DataError, match=f"^{name} unpacks to more than 200 times its size"):
        load("ml-1m", path)


def test_a_pipe_among_the_files_of_a_folder_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "ratings.dat")
    (tmp_path / "users.dat").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="holds no file"):
        load("ml-1m", tmp_path)


def test_a_name_in_an_archive_does_not_break_the_sentence(tmp_path):
    path = tmp_path / "netflix.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("combined_data_\n\x1b[2J.txt", b"no ratings")
    with pytest.raises(DataError) as refusal:
        load("netflix", path)
    assert str(refusal.value).isprintable()


def test_a_file_that_could_be_the_start_of_anything_takes_no_memory(tmp_path):
    """As the header of an old LZMA stream, these bytes ask for 4 GB."""
    path = tmp_path / "ydata-ymusic-rating-study-v1_0-train.txt"
    path.write_bytes(b"1" + b"\xff" * 45)
    tracemalloc.start()
    with pytest.raises(DataError):
        load("yahoo-music-r3", path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**28
