"""Damaged Parquet files: whatever the decoder does with them, the reader lives, and says one sentence."""

import gzip
import subprocess

import polars as pl
import pytest

import hushrec as hr
from hushrec.data import sources, trial
from hushrec.errors import DataError


@pytest.fixture
def path(tmp_path):
    frame = pl.DataFrame({"user": [1, 2, 2], "item": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    frame.write_parquet(tmp_path / "ratings.parquet", compression="uncompressed")
    return tmp_path / "ratings.parquet"


def test_a_sound_file_is_read_packed_or_not(path):
    expected = hr.read(path, value_range=(1, 5)).values.tolist()
    packed = path.with_name("ratings.parquet.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert hr.read(packed, value_range=(1, 5)).values.tolist() == expected
    assert trial.decodes(path)


def test_any_damaged_byte_is_survived_and_nothing_is_said_past_python(path, monkeypatch, capfd):
    """Some of these make the decoder panic, and some abort its process: there are three such bytes in this file."""
    whole, helper, refused = path.read_bytes(), trial.Helper(), 0
    monkeypatch.setattr(sources, "decodes", lambda source: trial.decodes(source, helper))
    for position in range(len(whole)):
        for flip in (0xFF, 0x01) if position < 60 else (0xFF,):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ flip]) + whole[position + 1 :])
            try:
                hr.read(path, value_range=(1, 5))
            except DataError:
                refused += 1
    assert refused > 300
    helper.close()
    assert capfd.readouterr() == ("", "")


def test_a_file_that_ends_the_process_that_reads_it_is_refused(path, monkeypatch):
    monkeypatch.setattr(trial, "HELPER", "print('ready', flush=True); input(); import os; os.abort()")
    with pytest.raises(DataError, match="could not be read as Parquet"):
        hr.read(path, value_range=(1, 5))


def test_where_no_helper_runs_the_file_is_read_without_a_trial(path, monkeypatch):
    monkeypatch.setattr(trial, "HELPER", "import no_such_module")
    assert hr.read(path, value_range=(1, 5)).n_ratings == 3

    def none(*_, **__):
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", none)
    assert hr.read(path, value_range=(1, 5)).n_ratings == 3
