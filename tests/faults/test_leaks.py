"""Marked values: after runs that succeed and runs that fail in many ways, no rating and no user id stands anywhere.

Searched: stdout, stderr, reprs, formatted tracebacks with all their chains, and every file that was written, as text
and as the bytes of the numbers. The ratings' own file is the only place that may hold them.
"""

import gzip
import io
import itertools
import os
import struct
import subprocess
import sys
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import hushrec as hr
from enlisting import enlist
from hushrec.cli import app
from hushrec.data.own import read_own
from hushrec.evaluate.audit import audit
from hushrec.privacy import queries
from hushrec.privacy.curator import Curator
from hushrec.solvers.registry import USER_SOLVERS, solver_class

GENERATOR = np.random.default_rng(8)
USERS = [f"{GENERATOR.integers(10**14, 10**15)}" for _ in range(12)]
NAMES = [f"person-{GENERATOR.integers(10**9, 10**10)}" for _ in range(12)]
VALUES = [round(float(v), 6) for v in GENERATOR.uniform(1.1, 9.9, 72)]
ITEMS = [f"item{j}" for j in range(6)]
RANGE = (0.0, 10.0)


def rows(users):
    return [(user, item, VALUES[6 * i + j]) for i, user in enumerate(users) for j, item in enumerate(ITEMS)]


def marks():
    """Everything that may stand nowhere: texts, and pairs of numbers as bytes (one alone could be chance)."""
    texts = [*USERS, *NAMES, *(f"{value}" for value in VALUES)]
    texts += [f"{float(np.float32(value))}"[:8] for value in VALUES]
    found = [text.encode() for text in texts]
    for first, second in itertools.pairwise(VALUES):
        found += [struct.pack("<2d", first, second), struct.pack("<2f", first, second)]
        found += [struct.pack("<2d", float(np.float32(first)), float(np.float32(second)))]
    found += [struct.pack("<q", int(user)) for user in USERS]
    return found


MARKS = marks()


def leaks(content: bytes) -> list[bytes]:
    return [mark for mark in MARKS if mark in content]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Ratings with marked values in `data`; a separate folder for all that is written, temporary files too."""
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "bad").mkdir(parents=True)
    (out / "temporary").mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(out / "temporary"))
    monkeypatch.chdir(out)
    for name, users in (("ratings.csv", USERS), ("names.csv", NAMES)):
        lines = ["user,item,value", *(",".join(map(str, row)) for row in rows(users))]
        (data / name).write_text("\n".join(lines) + "\n")
    return data, out


def everything_written(folder):
    return [(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()]


def said(problem: BaseException) -> bytes:
    """All that a person or a log could see of an exception: its chains, whether or not they are suppressed."""
    seen, texts, waiting = set(), [], [problem]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        texts.append("".join(traceback.format_exception(error)))
        waiting.append(error.__cause__)
        if not error.__suppress_context__:
            waiting.append(error.__context__)
    return "".join(texts).encode("utf-8", "surrogatepass")


def heard(action) -> bytes:
    """What an action prints, and all that could be seen of the error it ends with; nothing where it goes well."""
    out = io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(out):
            action()
    except Exception as problem:
        return out.getvalue().encode() + said(problem)
    return out.getvalue().encode()


def test_the_marks_would_be_found(place):
    data, _ = place
    assert len(leaks((data / "ratings.csv").read_bytes())) > len(USERS) + len(VALUES) / 2
    ratings = hr.read(data / "ratings.csv", value_range=RANGE)
    assert leaks(ratings.values.tobytes())
    assert leaks(np.asarray(ratings.users).tobytes())


@pytest.mark.parametrize("table", ["ratings.csv", "names.csv"])
@pytest.mark.parametrize("solver", sorted(USER_SOLVERS))
def test_a_fit_on_the_command_line_writes_and_says_nothing(place, table, solver):
    data, out = place
    words = ["fit", data / table, "--value-range", 0, 10, "--epsilon", 50, "--delta", 1e-6, "--solver", solver]
    words += ["--ledger", out / "ledger", "--resume", out / "run", "-o", out / "model.hush", "--json"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code in (0, 2), done.output
    shown = done.output
    for command in (["explain", out / "model.hush"], ["ledger", "show", out / "ledger"]):
        shown += CliRunner().invoke(app, [str(word) for word in command]).output
    assert leaks(shown.encode()) == []
    written = everything_written(out)
    assert len(written) >= 2
    for path, content in written:
        assert leaks(content) == [], path


@pytest.mark.parametrize("mechanism", ["input", "objective", "gradient", "output"])
def test_a_fit_of_signs_writes_and_says_nothing_but_signs(place, mechanism):
    data, out = place
    words = ["fit", data / "names.csv", "--value-range", 0, 10, "--epsilon", 50, "--delta", 1e-6, "--solver", "onebit"]
    words += ["--mechanism", mechanism, "--set", "threshold=5", "--ledger", out / "ledger", "--resume", out / "run"]
    done = CliRunner().invoke(app, [str(word) for word in [*words, "-o", out / "model.hush", "--json"]])
    assert done.exit_code == 0, done.output
    shown = done.output
    for command in (["explain", out / "model.hush"], ["ledger", "show", out / "ledger"]):
        shown += CliRunner().invoke(app, [str(word) for word in command]).output
    assert leaks(shown.encode()) == []
    written = everything_written(out)
    assert len(written) >= 4
    for path, content in written:
        assert leaks(content) == [], path


def test_what_a_device_sends_holds_signs_and_no_value(place):
    data, out = place
    own = data / "own.csv"
    own.write_text("".join(f"{item},{value}\n" for item, value in zip(ITEMS, VALUES, strict=False)))
    words = ["randomize", own, "--epsilon", 2, "--threshold", 5, "-o", out / "to-send.csv"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert leaks(done.output.encode() + (out / "to-send.csv").read_bytes()) == []


@pytest.mark.parametrize(
    "candidates", [[hr.SVD(rank=1), hr.Posterior()], [hr.ImplicitPosterior()]], ids=["good", "bad"]
)
def test_a_tuning_writes_and_says_nothing(place, candidates):
    data, out = place
    ratings = hr.read(data / "ratings.csv", value_range=RANGE)

    def tuned():
        settings = {"trials_mean": 3.0, "ledger": out / "ledger"}
        release = hr.tune(ratings, candidates, hr.Budget(50.0, 1e-6), **settings)
        release.save(out / "model.hush")
        print(release, release.card(), release.guarantee)

    assert leaks(heard(tuned)) == []
    for path, content in everything_written(out):
        assert leaks(content) == [], path
    assert (out / "model.hush").exists() == (len(candidates) == 2)


def test_a_process_says_nothing_even_when_it_is_debugged(place):
    data, out = place
    (data / "bad" / "cut.csv").write_bytes((data / "ratings.csv").read_bytes()[:300] + b',"x')
    for debug, name in (("1", "ratings.csv"), ("1", "bad/cut.csv")):
        words = ["fit", data / name, "--value-range", "0", "5", "--epsilon", "1", "--delta", "1e-6"]
        done = subprocess.run(
            [sys.executable, "-m", "hushrec", *map(str, words)],
            capture_output=True,
            env={**os.environ, "HUSHREC_DEBUG": debug},
            check=False,
        )
        assert done.returncode != 0
        assert b"DataError" in done.stderr
        assert leaks(done.stdout + done.stderr) == []
    for path, content in everything_written(out):
        assert leaks(content) == [], path


def broken_files(data):
    """Ratings damaged in every way that we could think of: their readers must not quote them."""
    text = (data / "ratings.csv").read_text()
    named = (data / "names.csv").read_text()
    first, second = VALUES[0], VALUES[1]
    made = {
        "outside.csv": text.replace(str(first), f"1{first}"),
        "words.csv": text.replace(str(first), f"{first} stars"),
        "empty.csv": text.replace(str(first), ""),
        "twice.csv": text + text.splitlines()[1] + "\n",
        "no-header.csv": text.partition("\n")[2],
        "no-header-names.csv": named.partition("\n")[2],
        "no-header-clicks.csv": "".join(f"{name},{item}\n" for name in NAMES for item in ITEMS),
        "blanks.csv": text.partition("\n")[2].replace(",", " "),
        "returns.csv": text.replace("\n", "\r"),
        "bars.csv": text.partition("\n")[2].replace(",", "~"),
        "more-fields.csv": text.replace(str(second), f"{second},7,8"),
        "quote.csv": text.replace(str(second), f'"{second}'),
        "long.csv": named.replace(NAMES[0], NAMES[0] * 200),
        "zero.csv": named.replace(NAMES[0], NAMES[0] + "\0"),
        "header-only-first.csv": text.replace("user,item,value", f"{USERS[0]},item0,{first}"),
    }
    files = []
    for name, content in made.items():
        path = data / "bad" / name
        path.write_text(content)
        files.append(path)
    raw = {
        "utf16.csv": text.encode("utf-16"),
        "latin.csv": text.replace("item0", "Käse").encode("latin-1"),
        "cut.csv.gz": gzip.compress(text.encode())[:-20],
        "own.json": f'[["a", {first}], ["a", {second}]]'.encode(),
        "own2.json": f'{{"{USERS[0]}": "{first} stars"}}'.encode(),
    }
    pl.read_csv(io.StringIO(text)).write_parquet(data / "bad" / "whole.parquet", compression="uncompressed")
    whole = (data / "bad" / "whole.parquet").read_bytes()
    raw |= {"cut.parquet": whole[:-30], "flipped.parquet": whole[:400] + b"\xff" * 8 + whole[408:]}
    for name, content in raw.items():
        path = data / "bad" / name
        path.write_bytes(content)
        files.append(path)
    return files


def test_no_error_about_a_bad_file_quotes_it(place):
    data, _ = place
    refused = 0
    for path in broken_files(data):
        for read in (
            lambda path=path: hr.read(path, value_range=RANGE),
            lambda path=path: hr.read(path, value_range=RANGE, value=None),
            lambda path=path: hr.read(path, user="u", item="i", value="r", value_range=RANGE),
            lambda path=path: hr.read(path, value_range=RANGE, items=["item0", "item1"]),
            lambda path=path: hr.load("ml-1m", path),
            lambda path=path: hr.load("jester-1", path),
            lambda path=path: read_own(path, value_range=(0, 5)),
        ):
            shown = heard(read)
            refused += bool(shown)
            assert leaks(shown) == [], f"{path.name}: {shown!r}"
    assert refused > 80


class Quoting(queries.ItemCounts):
    """A user half that fails with the ratings in its message."""

    def blocks(self, rows, cache):
        raise ValueError(f"cannot handle {rows.values.tolist()} of {list(rows.users)}")


class Starving(queries.ItemCounts):
    """A user half without memory, with the ratings in its message."""

    def blocks(self, rows, cache):
        raise MemoryError(f"{rows.values.tolist()}")


@pytest.mark.parametrize("query", [Quoting(), Starving()], ids=["failing", "starving"])
def test_an_engine_that_fails_does_not_hang_on_to_what_it_saw(place, query, monkeypatch):
    enlist(monkeypatch, type(query))
    data, _ = place
    ratings = hr.read(data / "ratings.csv", value_range=RANGE)
    curator = Curator(ratings, hr.Budget(1.0, 1e-6))
    curator.plan({"q": 1.0})
    with pytest.raises(hr.EngineError) as caught:
        curator.release("q", query)
    assert leaks(said(caught.value)) == []
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_no_repr_shows_a_rating_or_a_user(place):
    data, _ = place
    ratings = hr.read(data / "ratings.csv", value_range=RANGE)
    curator = Curator(ratings, hr.Budget(50.0, 1e-6))
    release = hr.fit(ratings, hr.SVD(), hr.Budget(50.0, 1e-6))
    things = [ratings, ratings.rows(0, 2), curator, curator.shape, curator.ledger, release, release.guarantee]
    shown = "".join(f"{thing!r}{thing}" for thing in things)
    assert leaks(shown.encode()) == []


def test_warnings_show_nothing(place):
    data, _ = place
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ratings = hr.read(data / "ratings.csv", value_range=RANGE)
        for name in sorted(USER_SOLVERS):
            assert leaks(heard(lambda name=name: hr.fit(ratings, solver_class(name)(), hr.Budget(0.1, 1e-6)))) == []
    assert leaks("".join(str(one.message) for one in seen).encode()) == []


def test_an_audit_never_sees_real_ratings(place):
    report = audit(hr.SVD(), hr.Budget(1.0, 1e-6), checks=("noise",))
    assert leaks(report.to_json().encode()) == []
