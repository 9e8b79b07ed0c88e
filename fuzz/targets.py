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

import numpy as np
import polars as pl
from mutate import cells, damaged, dumped, hostile_json

import hushrec as hr
from hushrec.data import sources, trial
from hushrec.data.catalogs import CATALOGS
from hushrec.data.own import read_own, read_own_items
from hushrec.data.randomized import randomized_text, read_randomized
from hushrec.errors import HushrecError
from hushrec.privacy.accounting import LedgerEntry
from hushrec.privacy.book import Damaged, chained, parse
from hushrec.privacy.durable import LedgerFile
from hushrec.privacy.journal import Journal, _digest
from hushrec.privacy.noise import SeededBits
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
        _resumed(folder),
        *_tables(folder),
        *_randomized(folder),
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
    entry = LedgerEntry("q", "gaussian", 1.0, 10.0, 0.5, 3)
    ledger.spend("a", entry)
    ledger.answer("a", "q", "0" * 16)
    ledger.open_run("b", hr.Budget(0.5, 1e-6), "ALS")
    ledger.close_run("a")
    seed = path.read_bytes()
    path.unlink()
    LedgerFile(path, hr.Budget(3.0, 1e-6), simulation=True).open_run("c", hr.Budget(1.0, 1e-6), "SVD", seeded=True)
    simulation = path.read_bytes()

    def make(draw: random.Random) -> bytes:
        if draw.random() < 0.3:
            return damaged(draw.choice((seed, simulation)), [seed, simulation], draw)
        lines = (seed if draw.random() < 0.8 else simulation).splitlines()
        records = [json.loads(line.rpartition(b"  #")[0]) for line in lines]
        if draw.random() < 0.3:
            draw.shuffle(records)
        place = draw.randrange(len(records))
        records[place] = hostile_json(records[place], draw)
        signed, last = [], ""
        for record in records:  # signed anew: the checksum must not be what saves us
            signed.append(chained(last, dumped(record, draw)))
            last = signed[-1][-17:-1].decode()
        return b"".join(signed)

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


# --- the folder of an interrupted run -----------------------------------------------------------------


def _resumed(folder: Path) -> Target:
    place, budget = folder / "resumed", hr.Budget(3.0, 1e-6)
    entries = [LedgerEntry(name, "gaussian", 1.0, 10.0, 0.5, 3, bound="a bound") for name in ("means", "gram")]
    parts = (np.arange(3.0), np.ones((2, 2)))
    first = Journal(budget, folder=place, settings={"solver": {"name": "SVD"}, "top": None})
    for entry in entries:
        first.record(entry, parts, SeededBits(1))
    first.close(False)
    seeds = {path.name: path.read_bytes() for path in place.iterdir()}
    answers = [name for name in seeds if name.endswith(".answer")]

    def make(draw: random.Random) -> tuple[str, bytes]:
        name = draw.choice(["run.json", *answers])
        content = seeds[name]
        if draw.random() < 0.5:
            return name, damaged(content, list(seeds.values()), draw)
        if name == "run.json":
            return name, dumped(hostile_json(json.loads(content), draw), draw)
        head, _, body = content.partition(b"\n")
        header = json.loads(head)
        del header["checksum"]
        header = hostile_json(header, draw)
        if draw.random() < 0.8 and isinstance(header, dict):  # signed anew: the checksum must not be what saves us
            header["checksum"] = _digest(header, body)
        return name, dumped(header, draw) + b"\n" + body

    def run(made: tuple[str, bytes]) -> None:
        for name, content in {**seeds, made[0]: made[1]}.items():
            (place / name).write_bytes(content)
        journal = allowed(lambda: Journal(budget, folder=place, settings={"solver": {"name": "SVD"}, "top": None}))
        if journal is not None:
            for entry in entries:
                allowed(lambda entry=entry: journal.recall(entry, SeededBits(1)))
            journal.close(False)

    return Target("resume folder", make, run)


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


# --- answers that users' devices randomized -------------------------------------------------------------


def _randomized(folder: Path) -> list[Target]:
    own = randomized_text([1, 2, "x"], np.array([1, 0, 1]), 2.0, 3.0)
    rows = [f"{user},{line}" for user in (7, 8) for line in own.splitlines()[1:]]
    one = "\n".join(["user," + own.splitlines()[0], *rows, ""]).encode()
    table, place = folder / "randomized.csv", folder / "randomized"
    place.mkdir(exist_ok=True)
    (place / "sound.csv").write_text(own)

    def make(content: bytes) -> Callable[[random.Random], bytes]:
        lines = [line.split(",") for line in content.decode().splitlines()]

        def made(draw: random.Random) -> bytes:
            return damaged(content, [content], draw) if draw.random() < 0.5 else cells(lines, ",", draw)

        return made

    def runner(path: Path, source: Path) -> Callable[[bytes], None]:
        def run(content: bytes) -> None:
            path.write_bytes(content)
            items = [1, 2, "x"] if len(content) % 2 else None
            allowed(lambda: read_randomized(source, value_range=FIVE, items=items))

        return run

    return [
        Target("randomized table", make(one), runner(table, table)),
        Target("randomized folder", make(own.encode()), runner(place / "fuzzed.csv", place)),
    ]


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
            allowed(lambda: read_own_items(path))

        return run

    return [Target("own .csv", make_text, runner(text)), Target("own .json", make_json, runner(plain))]


# --- known data sets ------------------------------------------------------------------------------------


SAMPLES = {
    "ml-100k": {"u.data": "1\t10\t5\t881250949\n2\t10\t3\t891717742\n", "u.item": "10|Film (1995)|01-Jan-1995||\n"},
    "ml-1m": {"ratings.dat": "1::10::5::978300760\n2::10::3::978302109\n", "movies.dat": "10::Film (1995)::Drama\n"},
    "ml-25m": {"ratings.csv": "userId,movieId,rating,timestamp\n1,10,4.5,1\n2,10,3.0,2\n"},
    "jester-1": {"jester-data-1.csv": "2,-7.82," + ",".join(["99"] * 98) + ",3.5\n"},
    "netflix": {"combined_data_1.txt": "1:\n7,5,2005-09-06\n8,3,2005-09-07\n2:\n7,4,2005-01-01\n"},
    "yahoo-music": {"trainIdx1.txt": "0|2\n10\t90\t1\t10:00:00\n11\t50\t1\t10:01:00\n1|1\n10\t30\t2\t09:00:00\n"},
    "yahoo-music-r2": {"train_0.txt": "0\t12\t5\n0\t9\t1\n1\t12\t3\n"},
    "yahoo-music-r3": {"ydata-ymusic-rating-study-v1_0-train.txt": "1\t14\t5\n1\t35\t1\n3\t14\t4\n"},
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
    "plan --users 20 --items 4 --ratings-per-user 2 --value-range 1 5 --epsilon 1 --delta 1e-6 --solver svd --at 2",
    "randomize TABLE --epsilon 2 --threshold 3 -o out.csv",
    "audit --epsilon 1 --delta 1e-6 --users 5 --items 4 --check noise --solver svd --seed 1",
)
SLOW_WORDS = ("audit", "--check", "noise", "plan", "--solver", "svd")  # all checks, or all candidates, take minutes


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
