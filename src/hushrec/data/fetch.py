"""Known datasets from their publishers: download with resume and checksum, and a check of what a path holds.

A download is written to NAME.part and gets its name in one step, after its length and checksum are right: a
file under the final name is whole. A cut leaves the .part, from which the next call goes on.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hushrec.data.archives import Files
from hushrec.data.catalogs import CATALOGS, Catalog, find, load
from hushrec.data.ratings import Ratings
from hushrec.data.readers import read
from hushrec.errors import ConfigError, DataError

Progress = Callable[[int, int | None], None]
"""Called with the bytes so far and, where known, all bytes."""

Checksums = tuple[str, ...]

TIMEOUT = 30.0  # seconds without a byte
SHOWS_WHOSE = ("https",)  # what is at an address of this kind is its owner's
ATTEMPTS = 3  # connections within one call; each goes on where the last one was cut
BLOCK = 2**20
ANY_VALUE = (-1e30, 1e30)  # the report of `check` says what the range is, so it must not presume one


def fetch(
    name: str,
    folder: str | os.PathLike[str],
    *,
    url: str | None = None,
    checksum: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download a known dataset from its publisher into a folder; returns what `hushrec.load` takes as path.

    That is the archive, or the folder where a dataset comes in several archives. A file that is already there
    and whole is not fetched again. url: another address for the same file, such as a mirror, which may send anything:
    the file must have a checksum that is known beforehand. checksum: "md5:..." or "sha256:...", where none is known.

    >>> fetch("netflix", "data")
    Traceback (most recent call last):
    ...
    hushrec.errors.DataError: Netflix Prize needs its licence accepted by hand: get it at \
https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data and give hushrec the path.
    """
    entry = find(name)
    addresses = (url,) if url is not None else entry.downloads
    if not addresses:
        raise DataError(
            f"{entry.title} needs its licence accepted by hand: get it at {entry.url} and give hushrec the path."
        )
    for address in addresses:
        if urlsplit(address).scheme not in ("http", "https"):
            raise ConfigError(f"url must start with http:// or https://, not {address!r}.")
    wanted = _wanted(entry, addresses, url is not None, checksum)
    target = _made_folder(Path(folder).expanduser())
    got = [
        _fetch_file(address, target, known, url is None, progress or _silent)
        for address, known in zip(addresses, wanted, strict=True)
    ]
    return got[0] if len(got) == 1 else target


def _wanted(entry: Catalog, addresses: tuple[str, ...], elsewhere: bool, checksum: str | None) -> list[Checksums]:
    """For each file the checksums that it may have; none where the publisher's own server is believed."""
    if checksum is not None:
        if len(addresses) > 1 or not re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", checksum):
            raise ConfigError("checksum must be md5: or sha256: and that many small hexadecimal digits, of one file.")
        return [(checksum,)]
    if not elsewhere:
        return [tuple(filter(None, [entry.checksums.get(_name(address))])) for address in addresses]
    if not entry.checksums:
        raise ConfigError(
            f"No checksum of {entry.title} is known, so another address could send anything: give its publisher's as "
            "checksum='sha256:...' (or 'md5:...')."
        )
    return [tuple(entry.checksums.values())]


def _name(address: str) -> str:
    """The name of the file at an address."""
    name = Path(unquote(urlsplit(address).path)).name
    if not name:
        raise ConfigError(f"url must end in a file name, unlike {address!r}.")
    return name


def _silent(done: int, total: int | None) -> None:
    """No progress shown."""


def _made_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise DataError(f"The folder {folder} cannot be made.") from None
    return folder


def _fetch_file(address: str, folder: Path, known: Checksums, publishers: bool, progress: Progress) -> Path:
    name = _name(address)
    final, part = folder / name, folder / f"{name}.part"
    if final.is_file() and (not known or _has_one_of(final, known)):
        return final
    for _ in range(ATTEMPTS):
        if _transfer(address, part, progress):
            break
    else:
        size = _size(part)
        raise DataError(f"The download of {name} was cut after {size} bytes: run it again to go on from there.")
    if not (_has_one_of(part, known) or (publishers and _is_the_publishers(part, name, address, known))):
        part.unlink()
        raise DataError(f"The download of {name} was removed: its checksum is not the publisher's.")
    os.replace(part, final)
    return final


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _transfer(address: str, part: Path, progress: Progress) -> bool:
    """One connection, appending to the .part; True when the file has its full length."""
    have = _size(part)
    request = urllib.request.Request(address, headers={"User-Agent": "hushrec", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            start = _range_start(answer) if answer.status == 206 else 0
            if start not in (0, have):  # another piece than the one asked for: begin anew
                part.unlink()
                return False
            total = _total(answer, start or 0)
            return _copy(answer, part, start or 0, total, progress) == total or total is None
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing after the .part: it is whole already, or of another file
            return _after_range_refused(error, part, have)
        raise DataError(_status_sentence(address, error.code)) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise DataError(f"{_host(address)} could not be reached ({_reason(error)}): check the network.") from None


def _copy(answer: Any, part: Path, start: int, total: int | None, progress: Progress) -> int:
    done = start
    with _writable(part), part.open("ab" if start else "wb") as stream:
        progress(done, total)
        while True:
            try:
                block = answer.read(BLOCK)
            except (http.client.HTTPException, OSError):
                block = b""  # a cut looks like an early end: the length tells
            if not block:
                return done
            stream.write(block)
            done += len(block)
            progress(done, total)


class _writable:
    """Says in one sentence why the disk refused."""

    def __init__(self, part: Path) -> None:
        self.part = part

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, OSError):
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = "the disk is full" if full else "the folder cannot be written to"
            raise DataError(f"{self.part.name} could not be written: {reason}.") from None


def _after_range_refused(error: urllib.error.HTTPError, part: Path, start: int) -> bool:
    size = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
    if size is not None and int(size.group(1)) == start:
        return True
    part.write_bytes(b"")
    raise DataError(f"{part.name} did not belong to the publisher's file and was emptied: run it again.")


def _range_start(answer: Any) -> int | None:
    found = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return int(found.group(1)) if found else None


def _total(answer: Any, start: int) -> int | None:
    length = answer.headers.get("Content-Length", "")
    return start + int(length) if length.isdigit() else None


def _host(address: str) -> str:
    return urlsplit(address).hostname or address


def _status_sentence(address: str, code: int) -> str:
    if code == 404:
        return f"The publisher has no file at {address} (404): look at the dataset's page for a new address."
    return f"The publisher refused {address} (HTTP status {code})."


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    return "no answer in time" if isinstance(reason, TimeoutError) else type(reason).__name__


# --- checksums -------------------------------------------------------------------------------------


def _has_one_of(path: Path, known: Checksums) -> bool:
    return any(_digest(path, one) == one for one in known)


def _is_the_publishers(part: Path, name: str, address: str, known: Checksums) -> bool:
    """Whether a file of the publisher's own server is the one that its NAME.md5 there describes today.

    Publishers do replace archives; their .md5 file then says so. Without any checksum a zip archive is at
    least tested against the checksums inside it.
    """
    published = _published_md5(address)
    if published is not None:
        return _digest(part, "md5:") == published
    return not known and (not name.lower().endswith(".zip") or _zip_is_sound(part))


def _digest(path: Path, like: str) -> str:
    kind = like.partition(":")[0]
    with path.open("rb") as stream:
        return f"{kind}:{hashlib.file_digest(stream, kind).hexdigest()}"


def _published_md5(address: str) -> str | None:
    """What the NAME.md5 beside a file says, if it comes over a connection that shows whose it is."""
    request = urllib.request.Request(f"{address}.md5", headers={"User-Agent": "hushrec"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            if urlsplit(answer.url).scheme not in SHOWS_WHOSE or _host(answer.url) != _host(address):
                return None
            text = answer.read(1000).decode("ascii", "replace")
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None
    found = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    return f"md5:{found.group().lower()}" if found else None


def _zip_is_sound(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError):
        return False


# --- what does this path hold? ---------------------------------------------------------------------


def check(path: str | os.PathLike[str], name: str | None = None) -> dict[str, Any]:
    """What a file, folder or archive holds: dataset, users, items, ratings, range, and a list of problems.

    name: the dataset it should be; without it, it is recognised by its files, or read as a table of three
    columns. The counts are exact: they are for the holder of the data, and covered by no guarantee.
    """
    place = Path(path).expanduser()
    report: dict[str, Any] = {"path": str(place), "name": name, "title": None}
    report |= {"users": None, "items": None, "ratings": None, "range": None, "problems": []}
    try:
        entry = find(name) if name is not None else identify(place)
        ratings = _read_table(place) if entry is None else load(entry.name, place)
    except DataError as error:
        report["problems"].append(str(error))
        return report
    report |= {"users": ratings.n_users, "items": ratings.n_items, "ratings": ratings.n_ratings}
    report["range"] = [float(ratings.values.min()), float(ratings.values.max())]
    if entry is not None:
        report |= {"name": entry.name, "title": entry.title, "problems": _differences(entry, ratings, place)}
    return report


def identify(path: str | os.PathLike[str]) -> Catalog | None:
    """The known dataset whose files lie at the path, or None; `DataError` where several have such files."""
    place = Path(path).expanduser()
    with Files(place) as files:
        names = [files.single.name] if files.single is not None else [m.name for m in files.members]
    inside = [name.lower().removesuffix(".gz") for name in names]
    alone = len(names) == 1
    fits = [entry for entry in CATALOGS.values() if _has_files(entry, inside, alone)]
    if len(fits) > 1:  # the whole of Jester has the files of its parts as well
        most = max(len(entry.files) for entry in fits)
        fits = [entry for entry in fits if len(entry.files) == most]
    named = [entry for entry in fits if _has_folder(entry, inside)]
    chosen = named or fits
    if len(chosen) > 1:
        known = ", ".join(entry.name for entry in chosen)
        raise DataError(f"{place} has the files of {known}: say which by name.")
    return chosen[0] if chosen else None


def _has_files(entry: Catalog, names: list[str], alone: bool) -> bool:
    bases = [name.rsplit("/", 1)[-1] for name in names]
    has_item_list = entry.titles is not None  # then a single file is the ratings, which stand first
    wanted = entry.files[:1] if alone and has_item_list else entry.files
    return all(
        any(fnmatch(base, pattern) for base in bases for pattern in alternatives.split("|")) for alternatives in wanted
    )


def _has_folder(entry: Catalog, names: list[str]) -> bool:
    folder = entry.folder.lower()
    return bool(folder) and any(folder in name.split("/")[:-1] for name in names)


def _read_table(path: Path) -> Ratings:
    try:
        return read(path, value_range=ANY_VALUE)
    except DataError:
        pass
    try:
        return read(path, user=0, item=1, value=2, value_range=ANY_VALUE)
    except DataError:
        return read(path, user=0, item=1, value=2, value_range=ANY_VALUE, has_header=False)


def _differences(entry: Catalog, ratings: Ratings, path: Path) -> list[str]:
    problems = []
    counts = (
        ("users", ratings.n_users, entry.users),
        ("items", ratings.n_items, entry.items),
        ("ratings", ratings.n_ratings, entry.ratings),
    )
    for what, found, published in counts:
        if published is not None and found != published:
            problems.append(f"{found} {what}, where the complete set has {published}.")
    known = entry.checksums.get(path.name)
    if known is not None and path.is_file() and _digest(path, known) != known:
        problems.append(f"The checksum of {path.name} is not the one known for it: another edition, or damage.")
    return problems


def catalog_table() -> list[dict[str, Any]]:
    """One row for each known dataset, for `hushrec data list`.

    >>> [row["users"] for row in catalog_table() if row["name"] == "ml-1m"]
    [6040]
    """
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "users": entry.users,
            "items": entry.items,
            "ratings": entry.ratings,
            "value_range": list(entry.value_range),
            "download": "automatic" if entry.downloads else "by hand, after accepting a licence",
            "url": entry.url,
            "licence": entry.licence,
            "citation": entry.citation,
        }
        for entry in CATALOGS.values()
    ]
