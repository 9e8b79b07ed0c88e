"""The release file: round trips, and nothing hostile, damaged or foreign gets in."""

import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save
from test_complete import ARRAYS, GUARANTEE, N, release

from hushrec import DataError, Release, ReleaseError
from hushrec.release.file import FORMAT


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hush"


@pytest.mark.parametrize("items", [np.arange(N), np.array([f"café {j}" for j in range(N)])], ids=["int", "str"])
def test_round_trip(path, items):
    before = release(items=items, notes=("a remark",), solver={"name": "SVD", "rank": None})
    before.save(path)
    after = Release.load(path)
    assert (after.kind, after.value_range, after.notes) == (before.kind, before.value_range, before.notes)
    assert after.guarantee == before.guarantee
    assert after.solver == before.solver
    np.testing.assert_array_equal(after.items, before.items)
    for name in ARRAYS:
        np.testing.assert_array_equal(after.arrays[name], before.arrays[name])


def header(**changes):
    base = {
        "version": 1,
        "kind": "gaussian",
        "settings": {},
        "items": list(range(N)),
        "value_range": [1.0, 5.0],
        "guarantee": GUARANTEE.to_dict(),
        "solver": {},
        "notes": [],
    }
    return {**base, **changes}


def write(path, arrays=None, metadata=None, **changes):
    content = save(
        {k: np.ascontiguousarray(v) for k, v in (arrays or ARRAYS).items()},
        metadata=metadata or {FORMAT: json.dumps(header(**changes))},
    )
    path.write_bytes(content)
    return content


def without(name):
    return {k: v for k, v in ARRAYS.items() if k != name}


PROJECTION = {name: ARRAYS[name] for name in ("means", "loadings")}

HOSTILE = {
    "a user row": {"arrays": {**ARRAYS, "user_rows": np.ones((3, 2))}},
    "an array missing": {"arrays": without("noise")},
    "wrong type": {"arrays": {**ARRAYS, "noise": np.ones(N, dtype=np.float32)}},
    "wrong rank": {"arrays": {**ARRAYS, "precision": np.ones(7)}},
    "wrong number of items": {"arrays": {**ARRAYS, "means": np.ones(N + 1)}},
    "wrong dimensions": {"arrays": {**ARRAYS, "means": np.ones((N, 1))}},
    "not finite": {"arrays": {**ARRAYS, "means": np.full(N, np.nan)}},
    "not positive": {"arrays": {**ARRAYS, "noise": np.zeros(N)}},
    "unknown kind": {"kind": "pickle"},
    "unknown version": {"version": 2},
    "a setting too many": {"settings": {"x": 1.0}},
    "items of mixed types": {"items": ["a", *range(N - 1)]},
    "items that are lists": {"items": [[1]] * N},
    "items that are booleans": {"items": [True] * N},
    "huge items": {"items": [2**70] * N},
    "no items": {"items": []},
    "a range upside down": {"value_range": [5, 1]},
    "a range that is text": {"value_range": "15"},
    "a guarantee that is text": {"guarantee": "trust me"},
    "a guarantee with negative epsilon": {"guarantee": {**GUARANTEE.to_dict(), "epsilon": -1.0}},
    "a header field of its own": {"rows": [["alice", 1, 5.0]]},
    "a header field too few": {"metadata": {FORMAT: json.dumps({k: v for k, v in header().items() if k != "notes"})}},
    "a version that is true": {"version": True},
    "a version with a point": {"version": 1.0},
    "a table among the solver's settings": {"solver": {"rows": {"alice": [[1, 5.0]]}}},
    "rows among the solver's settings": {"solver": {"rows": [[1, 5.0]]}},
    "a long list among the solver's settings": {"solver": {"row": [1.0] * 17}},
    "a long text among the solver's settings": {"solver": {"row": "1:5," * 501}},
    "an infinite setting of the solver": {"metadata": {FORMAT: json.dumps(header(solver={"x": float("inf")}))}},
    "too many settings of the solver": {"solver": {f"item {j}": 5.0 for j in range(101)}},
    "notes that are no text": {"notes": [[1, 5.0]]},
    "a note without end": {"notes": ["1:5," * 501]},
    "too many notes": {"notes": ["a note"] * 101},
    "assumptions without end": {"guarantee": {**GUARANTEE.to_dict(), "assumptions": ["1:5," * 501]}},
    "claims that are too many": {"guarantee": {**GUARANTEE.to_dict(), "claims": ["a claim"] * 101}},
    "a ledger that tells stories": {
        "guarantee": {**GUARANTEE.to_dict(), "ledger": [{**GUARANTEE.ledger.to_list()[0], "bound": "1:5," * 501}]}
    },
    "a setting that is text": {
        "kind": "projection",
        "arrays": PROJECTION,
        "settings": {"offset_prior": "4", "density": 0.5},
    },
    "a setting that is true": {
        "kind": "projection",
        "arrays": PROJECTION,
        "settings": {"offset_prior": True, "density": 0.5},
    },
    "a range of words": {"value_range": ["1", "5"]},
    "a range of three": {"value_range": [1.0, 2.0, 5.0]},
    "metadata of its own": {"metadata": {FORMAT: json.dumps(header()), "rows": "[[1, 5.0]]"}},
    "a promise with nothing spent for it": {"guarantee": {**GUARANTEE.to_dict(), "epsilon": 0.001, "ledger": []}},
    "header fields missing": {"metadata": {FORMAT: json.dumps({"version": 1})}},
    "header that is a list": {"metadata": {FORMAT: "[1]"}},
    "header that is no JSON": {"metadata": {FORMAT: "{"}},
    "header nested without end": {"metadata": {FORMAT: "[" * 100_000}},
    "another program's file": {"metadata": {"format": "pt"}},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_with_one_sentence(path, case):
    write(path, **HOSTILE[case])
    with pytest.raises(ReleaseError) as caught:
        Release.load(path)
    assert len(str(caught.value).splitlines()) == 1


def test_what_the_hostile_cases_change_is_sound_before(path):
    write(path, solver={"name": "SVD", "rank": None, "head": 9, "shares": [0.1, 0.9], "on": True}, notes=["a note"])
    assert Release.load(path).solver["shares"] == [0.1, 0.9]
    write(path, kind="projection", arrays=PROJECTION, settings={"offset_prior": 4, "density": 0.5})
    assert Release.load(path).settings == {"offset_prior": 4.0, "density": 0.5}


def test_duplicate_items_are_refused(path):
    write(path, items=[0] * N)
    with pytest.raises(ReleaseError, match="twice"):
        Release.load(path)


def test_a_file_cut_anywhere_is_refused(path):
    content = write(path)
    for length in [0, 1, 7, 8, 9, *range(20, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ReleaseError):
            Release.load(path)


def test_a_header_length_beyond_the_file_is_refused(path):
    content = write(path)
    for length in (2**63, 2**40, len(content)):
        path.write_bytes(struct.pack("<Q", length) + content[8:])
        with pytest.raises(ReleaseError):
            Release.load(path)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_changed_bytes_load_or_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "model.hush"
    content = bytearray(write(path))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        loaded = Release.load(path)
    except ReleaseError:
        return
    assert np.isfinite(loaded.complete(loaded.items[:1], [3.0])).all()


def test_missing_files_and_folders(tmp_path):
    for path in (tmp_path / "none.hush", tmp_path):
        with pytest.raises(ReleaseError):
            Release.load(path)


def test_saving_into_nowhere_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="could not be written"):
        release().save(tmp_path / "no" / "such" / "folder.hush")


def test_a_failed_save_leaves_the_old_file_and_no_litter(path, monkeypatch):
    release().save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DataError, match="No space left"):
        release(notes=("new",)).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["model.hush"]


def test_a_solver_cannot_make_what_could_not_be_loaded():
    with pytest.raises(ReleaseError, match="finite"):
        release(arrays={**ARRAYS, "means": np.full(N, np.inf)})
    with pytest.raises(ReleaseError, match="no others"):
        release(arrays={**ARRAYS, "ratings": np.ones(3)})


def test_a_promise_below_what_the_ledger_spent_is_refused(path):
    import hushrec as hr

    train, _ = hr.synthetic(users=500, items=20, per_user=5, seed=0)
    hr.fit(train, hr.SVD(), hr.Budget(2.0, 1e-6)).save(path)
    loaded = Release.load(path)
    lie = {**loaded.guarantee.to_dict(), "epsilon": 1.0}
    write(
        path,
        arrays=dict(loaded.arrays),
        guarantee=lie,
        items=loaded.items.tolist(),
        value_range=list(loaded.value_range),
    )
    with pytest.raises(ReleaseError, match="smaller epsilon"):
        Release.load(path)
