"""Downloads from a server on this machine: whole, cut, resumed, wrong, refused; and the check of a path."""

from __future__ import annotations

import errno
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hushrec.data import fetch as fetch_module
from hushrec.data.catalogs import CATALOGS, load
from hushrec.data.fetch import catalog_table, check, fetch, identify
from hushrec.errors import ConfigError, DataError

JOKES = "\n".join(",".join(["2", "1.5", "-3"] + ["99"] * 98) for _ in range(2000)) + "\n"


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("jester-data-1.csv", JOKES)
    return buffer.getvalue()


ARCHIVE = archive()
SUM = f"sha256:{hashlib.sha256(ARCHIVE).hexdigest()}"
OWN: dict[str, Any] = {}
NAME = "jester_dataset_1_1.zip"


@dataclass
class Publisher:
    """What the server does; `asked` records the Range of every request for the archive."""

    content: bytes = ARCHIVE
    md5: str | None = None
    ranges: bool = True
    cut_after: list[int] = field(default_factory=list)  # bytes sent before the connection closes, per request
    status: int = 200
    wrong_piece: bool = False
    asked: list[str | None] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    state = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            if self.path.endswith(".md5"):
                self.answer(200 if state.md5 else 404, (state.md5 or "none").encode(), {})
                return
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            if state.status != 200:
                self.answer(state.status, b"sorry", {})
            elif start >= len(state.content):
                self.answer(416, b"", {"Content-Range": f"bytes */{len(state.content)}"})
            elif start:
                at = start + 1 if state.wrong_piece else start
                span = f"bytes {at}-{len(state.content) - 1}/{len(state.content)}"
                self.answer(206, state.content[start:], {"Content-Range": span})
            else:
                self.answer(200, state.content, {})

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            is_file = status in (200, 206) and not self.path.endswith(".md5")
            sent = state.cut_after.pop(0) if is_file and state.cut_after else len(body)
            self.wfile.write(body[:sent])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.address = f"http://127.0.0.1:{server.server_address[1]}/data/{NAME}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def fetched(folder: Path, publisher: Publisher, **more: Any) -> Path:
    return fetch("jester-1", folder, url=publisher.address, checksum=SUM, **more)


@pytest.fixture
def own(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """The server as the publisher's own of jester-1 and ml-1m, over a connection that shows whose it is."""
    for name in ("jester-1", "ml-1m"):
        entry = CATALOGS[name]
        address = publisher.address.replace(NAME, Path(entry.downloads[0]).name)
        monkeypatch.setitem(OWN, name, replace(entry, downloads=(address,)))
    monkeypatch.setattr(fetch_module, "find", OWN.__getitem__)
    monkeypatch.setattr(fetch_module, "SHOWS_WHOSE", ("http",))
    return publisher


def test_a_whole_download_gets_its_name_and_loads(tmp_path: Path, publisher: Publisher) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetched(tmp_path / "new", publisher, progress=lambda *step: seen.append(step))
    assert path == tmp_path / "new" / NAME
    assert path.read_bytes() == ARCHIVE
    assert list(path.parent.iterdir()) == [path]
    assert load("jester-1", path).n_ratings == 4000
    assert (seen[0], seen[-1]) == ((0, len(ARCHIVE)), (len(ARCHIVE), len(ARCHIVE)))
    fetched(tmp_path / "new", publisher)
    assert publisher.asked == [None]  # what is there and whole is not fetched again


def test_a_cut_is_resumed_within_one_call(tmp_path: Path, publisher: Publisher) -> None:
    publisher.cut_after = [1000, 500]
    path = fetched(tmp_path, publisher)
    assert path.read_bytes() == ARCHIVE
    assert publisher.asked == [None, "bytes=1000-", "bytes=1500-"]


def test_a_cut_leaves_a_part_from_which_the_next_call_goes_on(tmp_path: Path, publisher: Publisher) -> None:
    publisher.cut_after = [1000, 500, 250]
    with pytest.raises(DataError, match="cut after 1750 bytes: run it again"):
        fetched(tmp_path, publisher)
    assert [path.name for path in tmp_path.iterdir()] == [f"{NAME}.part"]
    assert fetched(tmp_path, publisher).read_bytes() == ARCHIVE
    assert publisher.asked[-1] == "bytes=1750-"
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_server_without_ranges_starts_over(tmp_path: Path, publisher: Publisher) -> None:
    publisher.ranges = False
    publisher.cut_after = [1000]
    assert fetched(tmp_path, publisher).read_bytes() == ARCHIVE
    assert publisher.asked == [None, "bytes=1000-"]


def test_another_piece_than_asked_for_is_not_appended(tmp_path: Path, publisher: Publisher) -> None:
    publisher.cut_after = [1000]
    publisher.wrong_piece = True
    assert fetched(tmp_path, publisher).read_bytes() == ARCHIVE
    assert publisher.asked == [None, "bytes=1000-", None]


def test_a_part_that_is_whole_already_only_gets_its_name(tmp_path: Path, publisher: Publisher) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(ARCHIVE)
    assert fetched(tmp_path, publisher).read_bytes() == ARCHIVE


def test_a_part_of_another_file_is_emptied(tmp_path: Path, publisher: Publisher) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(ARCHIVE + b"more")
    with pytest.raises(DataError, match="run it again"):
        fetched(tmp_path, publisher)
    assert fetched(tmp_path, publisher).read_bytes() == ARCHIVE


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, own: Publisher) -> None:
    own.md5 = "0" * 32 + f"  {NAME}"
    with pytest.raises(DataError, match="checksum is not the publisher's"):
        fetch("jester-1", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_zip_without_any_checksum_leaves_nothing(tmp_path: Path, own: Publisher) -> None:
    own.content = ARCHIVE[:500] + bytes([ARCHIVE[500] ^ 1]) + ARCHIVE[501:]
    with pytest.raises(DataError, match="checksum"):
        fetch("jester-1", tmp_path)
    assert list(tmp_path.iterdir()) == []
    own.content = ARCHIVE
    assert fetch("jester-1", tmp_path).read_bytes() == ARCHIVE


def test_the_known_checksum_counts_and_so_does_the_publishers_newer_one(tmp_path: Path, own: Publisher) -> None:
    with pytest.raises(DataError, match="checksum"):
        fetch("ml-1m", tmp_path)
    assert list(tmp_path.iterdir()) == []
    own.md5 = f"MD5 (ml-1m.zip) = {hashlib.md5(ARCHIVE).hexdigest()}\n"
    assert fetch("ml-1m", tmp_path).read_bytes() == ARCHIVE


def test_no_server_but_the_publishers_vouches_for_its_own_files(
    tmp_path: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror's .md5 says nothing, however it comes: the file must be the known one."""
    monkeypatch.setattr(fetch_module, "SHOWS_WHOSE", ("http",))
    publisher.md5 = hashlib.md5(ARCHIVE).hexdigest()
    for name in ("ml-1m.zip", "other-name.zip"):
        with pytest.raises(DataError, match="checksum is not the publisher's"):
            fetch("ml-1m", tmp_path, url=publisher.address.replace(NAME, name))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="No checksum of Jester"):
        fetch("jester-1", tmp_path, url=publisher.address)
    assert publisher.asked == [None, None]


def test_what_anybody_could_have_put_there_vouches_for_nothing(
    tmp_path: Path, own: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "SHOWS_WHOSE", ("https",))
    own.md5 = hashlib.md5(ARCHIVE).hexdigest()
    with pytest.raises(DataError, match="checksum is not the publisher's"):
        fetch("ml-1m", tmp_path)


@pytest.mark.parametrize("wrong", ["", "md5:123", SUM.upper(), SUM[7:], "crc:" + SUM[7:]])
def test_a_checksum_is_written_one_way(tmp_path: Path, publisher: Publisher, wrong: str) -> None:
    with pytest.raises(ConfigError, match="checksum must be"):
        fetch("jester-1", tmp_path, url=publisher.address, checksum=wrong)
    with pytest.raises(ConfigError, match="of one file"):
        fetch("jester", tmp_path, checksum=SUM)
    assert publisher.asked == []


def test_a_file_that_is_there_is_checked_as_well(tmp_path: Path, publisher: Publisher) -> None:
    (tmp_path / NAME).write_bytes(b"something else")
    assert fetched(tmp_path, publisher).read_bytes() == ARCHIVE
    assert publisher.asked == [None]


@pytest.mark.parametrize(("status", "message"), [(404, "no file at .*404"), (503, "HTTP status 503")])
def test_refusals_are_told(tmp_path: Path, publisher: Publisher, status: int, message: str) -> None:
    publisher.status = status
    with pytest.raises(DataError, match=message):
        fetched(tmp_path, publisher)
    assert list(tmp_path.iterdir()) == []


def test_no_network_is_told(tmp_path: Path, publisher: Publisher) -> None:
    nobody = publisher.address.replace("127.0.0.1", "no-such-host.invalid")
    with pytest.raises(DataError, match=r"no-such-host\.invalid could not be reached"):
        fetch("jester-1", tmp_path, url=nobody, checksum=SUM)


def test_a_full_disk_is_told(tmp_path: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    real_open = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode="r": Full() if mode in ("ab", "wb") else real_open(self, mode))
    with pytest.raises(DataError, match="the disk is full"):
        fetched(tmp_path, publisher)


def test_what_cannot_be_downloaded_says_where_to_get_it(tmp_path: Path) -> None:
    for name in ("netflix", "yahoo-music"):
        with pytest.raises(DataError, match=r"licence .* https://"):
            fetch(name, tmp_path)
    for url in ("file:///etc/passwd", "ftp://example.org/x.zip", "x.zip"):
        with pytest.raises(ConfigError, match="http://"):
            fetch("ml-1m", tmp_path, url=url)
    with pytest.raises(ConfigError, match="file name"):
        fetch("ml-1m", tmp_path, url="http://127.0.0.1/")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be made"):
        fetch("ml-1m", tmp_path / "file", url="http://127.0.0.1/ml-1m.zip")


def test_several_archives_give_the_folder(
    tmp_path: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = tuple(publisher.address.replace("_1.zip", f"_{part}.zip") for part in (1, 2, 3))
    entry = replace(CATALOGS["jester"], downloads=addresses)
    monkeypatch.setattr(fetch_module, "find", lambda _: entry)
    assert fetch("jester", tmp_path) == tmp_path
    assert len(list(tmp_path.iterdir())) == 3


# --- check ---


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


MOVIES = {"movies.dat": "1::A::x\n"}


def test_check_recognises_and_counts(tmp_path: Path) -> None:
    place = write(tmp_path / "ml-1m", {"ratings.dat": "1::1::5::0\n2::1::3::0\n", **MOVIES})
    report = check(tmp_path)
    assert (report["name"], report["users"], report["items"], report["ratings"]) == ("ml-1m", 2, 1, 2)
    assert report["range"] == [3.0, 5.0]
    assert report["problems"] == [
        "2 users, where the complete set has 6040.",
        "1 items, where the complete set has 3706.",
        "2 ratings, where the complete set has 1000209.",
    ]
    assert check(place / "ratings.dat", "ml-10m")["name"] == "ml-10m"


def test_check_reports_problems_in_place_of_failing(tmp_path: Path) -> None:
    write(tmp_path, {"any/ratings.dat": "1::1::5::0\n", "any/movies.dat": "1::A::x\n"})
    assert check(tmp_path)["problems"] == [f"{tmp_path} has the files of ml-1m, ml-10m: say which by name."]
    assert "no file or folder" in check(tmp_path / "none")["problems"][0]
    assert "holds no file" in check(tmp_path, "netflix")["problems"][0]
    assert "is a folder" in check(write(tmp_path / "odd", {"x.bin": "1"}))["problems"][0]
    with pytest.raises(ConfigError):
        check(tmp_path, "unknown")
    (tmp_path / NAME).write_bytes(ARCHIVE)
    assert check(tmp_path / NAME)["name"] == "jester-1"
    known = tmp_path / "ml-1m.zip"
    with zipfile.ZipFile(known, "w") as packed:
        packed.writestr("ml-1m/ratings.dat", "1::1::5::0\n")
        packed.writestr("ml-1m/movies.dat", "1::A::x\n")
    assert "checksum of ml-1m.zip" in check(known)["problems"][-1]


@pytest.mark.parametrize(
    "content", ["user,item,value\n1,a,-40\n2,a,7\n", "u,i,v\n1,a,-40\n2,a,7\n", "1,a,-40\n2,a,7\n"]
)
def test_check_reads_any_table(tmp_path: Path, content: str) -> None:
    report = check(write(tmp_path, {"mine.csv": content}) / "mine.csv")
    assert (report["name"], report["users"], report["range"]) == (None, 2, [-40.0, 7.0])
    assert identify(tmp_path / "mine.csv") is None


def test_catalog_table_lists_everything() -> None:
    rows = catalog_table()
    assert [row["name"] for row in rows] == list(CATALOGS)
    assert {row["name"] for row in rows if row["download"] != "automatic"} == {
        "netflix",
        "yahoo-music",
        "yahoo-music-r2",
        "yahoo-music-r3",
    }
