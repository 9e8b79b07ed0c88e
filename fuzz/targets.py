"""What is fuzzed: one target for each kind of input that a stranger may hand over.

A target makes an input, hands it to Hushrec, and lets through what is allowed: an answer, or a `HushrecError` with
one sentence. Everything else (another exception, a sentence with a line break, more time or memory than stated) is
a finding.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
from mutate import cells, damaged, dumped, hostile_json

import hushrec as hr
from hushrec.data import sources, trial
from hushrec.data.catalogs import CATALOGS
from hushrec.data.own import read_own
from hushrec.errors import HushrecError
from hushrec.privacy.book import Damaged, chained, parse
from hushrec.privacy.durable import LedgerFile
from hushrec.release.file import FORMAT

SECONDS = 5.0
"""No input may take longer."""

MEMORY = (64, 40 * 2**20)
"""Peak memory of an input: at most this many times its size, and this many bytes on top."""

LONGEST_SENTENCE = 600


@dataclass(frozen=True)
class Target:
    """make: an input from a generator; run: hand it over. `weight`: of the counts of a full run."""

    name: str
    make: Callable[[random.Random], Any]
    run: Callable[[Any], None]
    full: int = 200_000


class Finding(Exception):
    """An input that was answered in a way that is not allowed."""


def allowed(run: Callable[[], Any]) -> Any:
    """The answer, or None after a proper refusal."""
    try:
        return run()
    except HushrecError as refusal:
        sentence = str(refusal)
        if not sentence or "\n" in sentence or len(sentence) > LONGEST_SENTENCE:
            raise Finding(f"not one clear sentence: {sentence[:200]!r}") from refusal
        return None


def targets(folder: Path) -> list[Target]:
    """All targets; `folder` is where their files go."""
    return [
        _release(folder),
        _ledger(folder),
        *_tables(folder),
        *_own(folder),
        *_catalogs(folder),
        _command_line(folder),
    ]


# --- release files ----------------------------------------------------------------------------------


def _release(folder: Path) -> Target:
    from hushrec.solvers.registry import SOLVERS, make_solver

    train, _ = hr.synthetic(users=60, items=5, rank=1, per_user=3, seed=0, value_range=(1.0, 5.0))
    seeds = []
    for name in SOLVERS:
        try:
            hr.fit(train, make_solver(name), hr.Budget(50.0, 1e-6), seed=1).save(folder / "seed.hush")
        except HushrecError:
            continue
        seeds.append((folder / "seed.hush").read_bytes())
    path = folder / "fuzzed.hush"

    def make(draw: random.Random) -> bytes:
        content = draw.choice(seeds)
        if draw.random() < 0.4:
            return damaged(content, seeds, draw)
        size = struct.unpack("<Q", content[:8])[0]
        head, body = json.loads(content[8 : 8 + size]), content[8 + size :]
        if draw.random() < 0.7:
            inner = hostile_json(json.loads(head["__metadata__"][FORMAT]), draw)
            head["__metadata__"][FORMAT] = dumped(inner, draw).decode("utf-8", "replace")
        else:
            head = hostile_json(head, draw)
        text = dumped(head, draw)
        length = len(text) if draw.random() < 0.95 else draw.choice((0, 2**63, 2**64 - 1, len(text) + 1, 7))
        return struct.pack("<Q", length) + text + (body if draw.random() < 0.9 else damaged(body, seeds, draw))

    def run(content: bytes) -> None:
        path.write_bytes(content)
        release = allowed(lambda: hr.Release.load(path))
        if release is not None:
            repr(release)
            allowed(lambda: release.complete(release.items[:2], [release.value_range[0]] * len(release.items[:2])))
            allowed(release.card)

    return Target("release file", make, run, 1_000_000)


# --- ledger files -----------------------------------------------------------------------------------


def _ledger(folder: Path) -> Target:
    path = folder / "fuzzed.ledger"
    path.unlink(missing_ok=True)
    ledger = LedgerFile(path, hr.Budget(3.0, 1e-6))
    ledger.open_run("a", hr.Budget(1.0, 1e-6), "SVD")
    entry = hr.privacy.accounting.LedgerEntry("q", "gaussian", 1.0, 10.0, 0.5, 3)
    ledger.spend("a", entry)
    ledger.answer("a", "q", "0" * 16)
    ledger.open_run("b", hr.Budget(0.5, 1e-6), "ALS", seeded=True)
    ledger.close_run("a")
    seed = path.read_bytes()

    def make(draw: random.Random) -> bytes:
        if draw.random() < 0.3:
            return damaged(seed, [seed], draw)
        records = [json.loads(line.rpartition(b"  #")[0]) for line in seed.splitlines()]
        if draw.random() < 0.3:
            draw.shuffle(records)
        place = draw.randrange(len(records))
        records[place] = hostile_json(records[place], draw)
        lines, last = [], ""
        for record in records:  # signed anew: the checksum must not be what saves us
            lines.append(chained(last, dumped(record, draw)))
            last = lines[-1][-17:-1].decode()
        return b"".join(lines)

    def run(content: bytes) -> None:
        try:
            book = parse(content)
        except Damaged:
            book = None
        if book is not None:
            allowed(lambda: (book.epsilon, book.full))
        if content[-1:] < b"@":  # part of them by way of the file
            path.write_bytes(content)
            fresh = allowed(lambda: LedgerFile(path))
            if fresh is not None:
                allowed(lambda: fresh.check(hr.Budget(0.1, 1e-6)))

    return Target("ledger file", make, run, 1_000_000)


# --- tables of ratings ------------------------------------------------------------------------------

ROWS = [[1, "x", 4.5], [1, "y", 3], [2, "x", 1.0], [30, "z z", 2], [4, "ü", 5]]
FIVE = (1.0, 5.0)


def _tables(folder: Path) -> list[Target]:
    made = [
        _text_table(folder, suffix, separator) for suffix, separator in ((".csv", ","), (".tsv", "\t"), (".txt", "::"))
    ]
    return [*made, _parquet(folder), _packed(folder)]


def _text_table(folder: Path, suffix: str, separator: str) -> Target:
    path = folder / f"fuzzed{suffix}"

    def make(draw: random.Random) -> bytes:
        rows = [["user", "item", "value"], *(draw.choice(ROWS) for _ in range(draw.randint(0, 6)))]
        content = cells(rows, separator if draw.random() < 0.8 else draw.choice(",;\t| "), draw)
        return damaged(content, [content], draw) if draw.random() < 0.5 else content

    def run(content: bytes) -> None:
        path.write_bytes(content)
        duplicates = ("error", "first", "last", "mean")[len(content) % 4]
        allowed(lambda: hr.read(path, value_range=FIVE, duplicates=duplicates, has_header=len(content) % 3 > 0))

    return Target(f"table {suffix}", make, run)


def _parquet(folder: Path) -> Target:
    path, seeds = folder / "fuzzed.parquet", []
    for values in (pl.Float64, pl.Int8, pl.String):
        frame = pl.DataFrame({"user": [1, 2, 2], "item": ["a", "b", "a"], "value": [1, 2, 3]})
        frame = frame.with_columns(pl.col("value").cast(values))
        for compression in ("uncompressed", "snappy"):
            frame.write_parquet(path, compression=compression)
            seeds.append(path.read_bytes())

    helper = trial.Helper()  # one process for many files: to start one takes longer than to read

    def run(content: bytes) -> None:
        path.write_bytes(content)
        with patch.object(sources, "decodes", helper.sound):
            allowed(lambda: hr.read(path, value_range=FIVE))

    return Target("table .parquet", lambda draw: damaged(draw.choice(seeds), seeds, draw), run)


def _packed(folder: Path) -> Target:
    path = folder / "fuzzed.csv.gz"
    seed = gzip.compress(b"user,item,value\n1,2,3\n4,5,5\n" * 20)
    bomb = gzip.compress(b"1" * 2**24)

    def make(draw: random.Random) -> bytes:
        return bomb if draw.random() < 0.001 else damaged(seed, [seed], draw)

    def run(content: bytes) -> None:
        path.write_bytes(content)
        allowed(lambda: hr.read(path, value_range=FIVE))

    return Target("table .csv.gz", make, run)


# --- one user's own ratings ---------------------------------------------------------------------------


def _own(folder: Path) -> list[Target]:
    text, plain = folder / "own.csv", folder / "own.json"
    seeds = [{"a": 4, "b": 2.5}, [["a", 4], [7, 1]], [{"item": 3, "value": 5}]]

    def make_text(draw: random.Random) -> bytes:
        content = cells([["item", "value"], *([row[1], row[2]] for row in ROWS)], draw.choice(",\t;:"), draw)
        return damaged(content, [content], draw) if draw.random() < 0.5 else content

    def make_json(draw: random.Random) -> bytes:
        content = dumped(hostile_json(draw.choice(seeds), draw), draw)
        return damaged(content, [content], draw) if draw.random() < 0.3 else content

    def runner(path: Path) -> Callable[[bytes], None]:
        def run(content: bytes) -> None:
            path.write_bytes(content)
            allowed(lambda: read_own(path, value_range=FIVE if len(content) % 2 else None))

        return run

    return [Target("own .csv", make_text, runner(text)), Target("own .json", make_json, runner(plain))]


# --- known data sets ------------------------------------------------------------------------------------


SAMPLES = {
    "ml-100k": {"u.data": "1\t10\t5\t881250949\n2\t10\t3\t891717742\n", "u.item": "10|Film (1995)|01-Jan-1995||\n"},
    "ml-1m": {"ratings.dat": "1::10::5::978300760\n2::10::3::978302109\n", "movies.dat": "10::Film (1995)::Drama\n"},
    "ml-25m": {"ratings.csv": "userId,movieId,rating,timestamp\n1,10,4.5,1\n2,10,3.0,2\n"},
    "jester-1": {"jester-data-1.csv": "2,-7.82," + ",".join(["99"] * 98) + ",3.5\n"},
    "restaurant": {"rating_final.csv": "userID,placeID,rating,food_rating,service_rating\nU1077,135085,2,2,2\n"},
}


def _catalogs(folder: Path) -> list[Target]:
    return [_catalog(folder, name, files) for name, files in SAMPLES.items() if name in CATALOGS]


def _catalog(folder: Path, name: str, files: dict[str, str]) -> Target:
    place = folder / name
    place.mkdir(exist_ok=True)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, content in files.items():
            archive.writestr(f"{name}/{inside}", content)
    seed = packed.getvalue()
    first = next(iter(files))

    def make(draw: random.Random) -> tuple[str, bytes]:
        if draw.random() < 0.4:
            return "archive.zip", damaged(seed, [seed], draw)
        content = files[first].encode()
        return first, damaged(content * draw.randint(1, 2), [content], draw)

    def run(made: tuple[str, bytes]) -> None:
        path = place / made[0]
        path.write_bytes(made[1])
        allowed(lambda: hr.load(name, path))
        path.unlink()

    return Target(f"data set {name}", make, run)


# --- the command line -----------------------------------------------------------------------------------

WORDS = """
    --help -h --json --epsilon --delta --relation --unit --solver --set --seed --top --output --value-range --users
    --items --ledger --resume --format --separator --user --item --value --duplicates --no-header --run add-remove
    replace-one user rating svd rank=5 rank=x readout=projection noise error mean , 0 1 -1 1e-6 nan inf 1e999 5 x
    ml-1m nothing . TABLE MODEL LEDGER
""".split()  # noqa: SIM905 (fifty lines of one word each would be no clearer)
ODD_WORDS = ("", "\u0000", "ü", "-" * 50, "=", "9" * 400, "\n", "\udcff")
SOUND = (
    "fit TABLE --value-range 1 5 --epsilon 1 --delta 1e-6 -o out.hush --solver svd --seed 1",
    "fit TABLE --value-range 1 5 --epsilon 0.1 --delta 1e-6 -o out.hush --ledger LEDGER --resume folder --top 2",
    "recommend MODEL TABLE --top 2 --ignore-unknown --json",
    "evaluate MODEL --train TABLE --test TABLE --json",
    "explain MODEL --json",
    "budget --epsilon 1 --delta 1e-6 --users 10 --items 5 --json",
    "data check TABLE --name ml-1m --json",
    "data list --json",
    "ledger start LEDGER --epsilon 4 --delta 1e-6",
    "ledger show LEDGER --json",
    "ledger close LEDGER run",
    "audit --epsilon 1 --delta 1e-6 --users 5 --items 4 --check noise --solver svd --seed 1",
)
SLOW_WORDS = ("audit", "--check", "noise")  # an audit of all checks is minutes long, as it should be


def _command_line(folder: Path) -> Target:
    from hushrec.cli import app

    table = folder / "small.csv"
    table.write_text("user,item,value\n1,2,3\n1,3,4\n2,2,5\n")
    files = {"TABLE": str(table), "MODEL": str(folder / "seed.hush"), "LEDGER": str(folder / "command.ledger")}

    def make(draw: random.Random) -> list[str]:
        words = draw.choice(SOUND).split()
        for _ in range(draw.randint(0, 4)):
            place = draw.randrange(1, len(words) + 1)
            word = draw.choice(WORDS if draw.random() < 0.8 else ODD_WORDS)
            if draw.random() < 0.5:
                words.insert(place, word)
            elif words[place - 1] not in SLOW_WORDS:
                words[place - 1] = word if place > 1 else words[0]
        return [files.get(word, word) for word in words]

    def run(words: list[str]) -> None:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), chdir(folder):
            try:
                code = app(words, standalone_mode=False)
            except SystemExit as end:
                code = end.code
        if code == 1 and "unexpected" in err.getvalue():
            raise Finding(f"{words}: {err.getvalue()}")
        if "Traceback" in err.getvalue():
            raise Finding(f"{words}: a traceback")

    return Target("command line", make, run, 20_000)
