"""The journal: a run that goes on repeats no noise and no spend, and its folder holds released numbers only."""

import errno
import json
import os
import shutil
import signal

import numpy as np
import pytest

import hushrec as hr
from hushrec.errors import BudgetError, ConfigError
from hushrec.privacy import durable
from hushrec.privacy.curator import Curator
from hushrec.privacy.journal import Journal, _digest, run_in
from hushrec.privacy.queries import ItemCounts, UserCount
from making import random_ratings

RATINGS = random_ratings(users=40, items=12, seed=1)
BUDGET = hr.Budget(1.0, 1e-6)


class CountingEngine(hr.LocalEngine):
    """Counts how often the ratings are laid out to be read."""

    reads = 0

    def attach(self, ratings):
        type(self).reads += 1
        return super().attach(ratings)


def ask(folder, *, seed=None, ledger=None, labels=("counts", "users"), **options):
    journal = Journal(BUDGET, ledger=ledger, folder=folder, seeded=seed is not None, settings=options)
    try:
        curator = Curator(RATINGS, BUDGET, seed=seed, engine=CountingEngine(workers=1, shards=1), journal=journal)
        curator.plan({"counts": 0.7, "users": 0.3})
        queries = {"counts": ItemCounts(), "users": UserCount()}
        return [curator.release(label, queries[label]).parts[0] for label in labels]
    finally:
        journal.close(False)


def test_answers_are_recalled_without_noise_spend_or_data(tmp_path):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    (first,) = ask(tmp_path / "run", ledger=ledger, labels=("counts",))
    CountingEngine.reads = 0
    again, users = ask(tmp_path / "run", ledger=ledger)
    np.testing.assert_array_equal(first, again)
    assert CountingEngine.reads == 1  # for the users, which had not been answered
    whole = ask(tmp_path / "run", ledger=ledger)
    np.testing.assert_array_equal(whole[1], users)
    assert CountingEngine.reads == 1
    (run,) = ledger.read().runs.values()
    assert [entry.name for entry in run.spent] == ["counts", "users"]


def test_a_seeded_run_goes_on_with_the_noise_that_it_would_have_had(tmp_path):
    uninterrupted = ask(tmp_path / "a", seed=4)
    ask(tmp_path / "b", seed=4, labels=("counts",))
    for expected, found in zip(uninterrupted, ask(tmp_path / "b", seed=4), strict=True):
        np.testing.assert_array_equal(expected, found)


def test_a_spend_without_an_answer_is_answered_at_the_cost_already_paid(tmp_path, monkeypatch):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    with monkeypatch.context() as patch:
        patch.setattr(Curator, "_answer", lambda *_: (_ for _ in ()).throw(RuntimeError("crash")))
        with pytest.raises(RuntimeError, match="crash"):
            ask(tmp_path / "run", ledger=ledger)
    assert len(next(iter(ledger.read().runs.values())).spent) == 1
    ask(tmp_path / "run", ledger=ledger)
    assert [entry.name for entry in next(iter(ledger.read().runs.values())).spent] == ["counts", "users"]


def test_what_cannot_be_written_down_is_not_read(tmp_path):
    """The spend comes first: when the ledger refuses it, the ratings are not touched."""
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    journal = Journal(BUDGET, ledger=ledger, folder=tmp_path / "run")
    curator = Curator(RATINGS, BUDGET, engine=CountingEngine(), journal=journal)
    curator.plan({"users": 1.0})
    ledger.close_run(next(iter(ledger.read().runs)))
    CountingEngine.reads = 0
    with pytest.raises(BudgetError, match="no data was read"):
        curator.release("users", UserCount())
    assert CountingEngine.reads == 0
    journal.close(False)


def test_an_answer_that_cannot_be_written_down_does_not_leave(tmp_path):
    journal = Journal(BUDGET, folder=tmp_path / "run")
    curator = Curator(RATINGS, BUDGET, journal=journal)
    curator.plan({"users": 1.0})
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(BudgetError, match="the answer to 'users' was not released"):
        curator.release("users", UserCount())
    journal.close(False)


def test_with_the_disk_full_each_refusal_says_what_is_true_there(tmp_path, monkeypatch):
    """The ledger cannot grow from its k-th record on: which data were read, and what was released, by then."""
    said = []
    for records in range(6):
        ledger = hr.Ledger.open(tmp_path / f"{records}.ledger", total=BUDGET)
        place, left = tmp_path / f"run {records}", [records]

        def write(handle, content, offset, write=durable.write_all, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(handle, content, offset)

        monkeypatch.setattr(durable, "write_all", write)
        CountingEngine.reads = 0
        try:
            ask(place, ledger=ledger)
            said.append("")
        except BudgetError as refusal:
            said.append(str(refusal).partition("No space left on device; ")[2])
        read_and_kept = CountingEngine.reads, len(list(place.glob("*.answer")))
        assert read_and_kept == [(0, 0), (0, 0), (1, 0), (1, 1), (1, 1), (1, 2)][records], said
        monkeypatch.undo()
    assert said == [
        "no data was read.",
        "no data was read for 'counts'.",
        "this answer to 'counts' was not released.",
        "no data was read for 'users'.",
        "this answer to 'users' was not released.",
        "",
    ]


def test_an_answer_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """First the content is synced, then renamed, then the folder synced: a crash leaves no name without content."""
    calls = []
    journal = Journal(BUDGET, folder=tmp_path / "run")
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, original=original, name=name: (calls.append(name), original(*a))[1])
    curator = Curator(RATINGS, BUDGET, journal=journal)
    curator.plan({"users": 1.0})
    curator.release("users", UserCount())
    assert calls == ["fsync", "replace", "fsync"]
    journal.close(False)


def test_an_answer_that_was_cut_off_from_the_ledger_is_announced_later(tmp_path, monkeypatch):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_announce", lambda *_: (_ for _ in ()).throw(RuntimeError("crash")))
        with pytest.raises(RuntimeError, match="crash"):
            ask(tmp_path / "run", ledger=ledger, labels=("counts",))
    assert next(iter(ledger.read().runs.values())).answers == {}
    ask(tmp_path / "run", ledger=ledger, labels=("counts",))
    assert list(next(iter(ledger.read().runs.values())).answers) == ["counts"]


def test_a_copied_folder_cannot_draw_the_noise_anew(tmp_path):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    ask(tmp_path / "run", ledger=ledger, labels=())
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    ask(tmp_path / "run", ledger=ledger)
    with pytest.raises(BudgetError, match="copy"):
        ask(tmp_path / "copy", ledger=ledger)


def test_an_answer_that_comes_second_is_not_left_on_disk(tmp_path, monkeypatch):
    """Two copies of a run that answer the same query at once: one answer leaves, the other is nowhere."""
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    ask(tmp_path / "run", ledger=ledger, labels=())
    shutil.copytree(tmp_path / "run", tmp_path / "copy")

    def meanwhile(self, *arguments, answer=Curator._answer):
        monkeypatch.setattr(Curator, "_answer", answer)
        ask(tmp_path / "run", ledger=ledger, labels=("counts",))
        return answer(self, *arguments)

    monkeypatch.setattr(Curator, "_answer", meanwhile)
    with pytest.raises(BudgetError, match="copy"):
        ask(tmp_path / "copy", ledger=ledger, labels=("counts",))
    assert len(list((tmp_path / "run").glob("*.answer"))) == 1
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["lock", "run.json"]


def test_a_deleted_answer_is_not_answered_anew(tmp_path):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    ask(tmp_path / "run", ledger=ledger)
    for answer in (tmp_path / "run").glob("*.answer"):
        answer.unlink()
    with pytest.raises(BudgetError, match="copy"):
        ask(tmp_path / "run", ledger=ledger)


def test_a_folder_belongs_to_one_fit_and_one_ledger(tmp_path):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)
    ask(tmp_path / "run", ledger=ledger, rank=3)
    with pytest.raises(ConfigError, match="other settings"):
        ask(tmp_path / "run", ledger=ledger, rank=4)
    with pytest.raises(ConfigError, match="another ledger"):
        ask(tmp_path / "run", rank=3)
    other = hr.Ledger.open(tmp_path / "other", total=BUDGET)
    with pytest.raises(ConfigError, match="another ledger"):
        ask(tmp_path / "run", ledger=other, rank=3)


def test_a_folder_is_used_by_one_process_at_a_time_and_given_back(tmp_path):
    journal = Journal(BUDGET, folder=tmp_path / "run")
    with pytest.raises(BudgetError, match="Another fit is at work"):
        Journal(BUDGET, folder=tmp_path / "run")
    journal.close(True)
    Journal(BUDGET, folder=tmp_path / "run").close(True)


def test_a_refused_run_leaves_the_folder_free(tmp_path):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=hr.Budget(0.5, 1e-6))
    for _ in range(2):
        with pytest.raises(BudgetError, match="pass the total"):
            Journal(BUDGET, folder=tmp_path / "run", ledger=ledger)


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff" * 50, b'{"checksum": "0"}\nabc', b"7\n"])
def test_a_damaged_answer_is_refused_not_answered_anew(tmp_path, damage):
    ask(tmp_path / "run", seed=0, labels=("counts",))
    (answer,) = (tmp_path / "run").glob("*.answer")
    for content in (damage, answer.read_bytes()[:-1], answer.read_bytes() + b"x"):
        saved = answer.read_bytes()
        answer.write_bytes(content)
        with pytest.raises(BudgetError, match="damaged"):
            ask(tmp_path / "run", seed=0)
        answer.write_bytes(saved)


def test_an_answer_to_another_question_is_refused(tmp_path):
    journal = Journal(BUDGET, folder=tmp_path / "run")
    curator = Curator(RATINGS, BUDGET, journal=journal)
    curator.plan({"counts": 0.7})
    curator.release("counts", UserCount())
    journal.close(False)
    with pytest.raises(BudgetError, match="not to the question"):
        ask(tmp_path / "run")


def test_a_damaged_run_file_is_one_sentence(tmp_path):
    ask(tmp_path / "run", labels=())
    for content in (b"", b"[]", b"{", b"[" * 100_000):
        (tmp_path / "run" / "run.json").write_bytes(content)
        with pytest.raises(BudgetError, match="damaged"):
            ask(tmp_path / "run", labels=())


@pytest.mark.parametrize(
    "shapes", [[[[0] * 500, 2**40]], [["ab", 10**12]], [[10**25]], [[-1, -12]], [12], 12, [[1.5, 8]]]
)
def test_shapes_that_are_none_are_damage_and_take_no_memory(tmp_path, shapes):
    ask(tmp_path / "run", labels=("counts",))
    (path,) = (tmp_path / "run").glob("*.answer")
    head, _, body = path.read_bytes().partition(b"\n")
    header = {**json.loads(head), "shapes": shapes}
    header.pop("checksum")
    path.write_bytes(json.dumps({**header, "checksum": _digest(header, body)}).encode() + b"\n" + body)
    with pytest.raises(BudgetError, match="is damaged"):
        ask(tmp_path / "run")


@pytest.mark.parametrize("what", ["run", "answer"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path, what):
    ask(tmp_path / "run", labels=("counts",))
    (path,) = (tmp_path / "run").glob({"run": "run.json", "answer": "*.answer"}[what])
    path.unlink()
    os.mkfifo(path)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(10)
    try:
        with pytest.raises(BudgetError, match="is damaged"):
            ask(tmp_path / "run")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    assert run_in(tmp_path / "run") is None or what == "answer"


def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path):
    mine, folder = tmp_path / "mine", tmp_path / "run"
    mine.write_text("mine")
    folder.mkdir()
    (folder / "run.json.part").symlink_to(mine)
    ask(folder, labels=("counts",))
    assert mine.read_text() == "mine"
    assert not (folder / "run.json").is_symlink()


def test_no_journal_without_privacy(tmp_path):
    with pytest.raises(ConfigError, match="NonPrivate"):
        hr.fit(RATINGS, hr.SVD(), hr.NonPrivate(), resume=tmp_path)
    with pytest.raises(ConfigError, match="no ledger"):
        hr.fit(RATINGS, hr.SVD(), hr.NonPrivate(), ledger=tmp_path / "ledger")


def test_the_folder_holds_what_left_and_nothing_else(tmp_path):
    """The diagonal of a Gram that is asked without it is never written, not even in passing."""
    release = hr.fit(RATINGS, hr.SVD(), hr.Budget(8.0, 1e-6), seed=0, resume=tmp_path)
    grams = 0
    for path in tmp_path.glob("*.answer"):
        head, _, body = path.read_bytes().partition(b"\n")
        header = json.loads(head)
        if header["entry"]["name"] == "gram":
            gram = np.frombuffer(body).reshape(header["shapes"][0])
            assert not np.diag(gram).any()
            np.testing.assert_array_equal(gram, gram.T)
            grams += 1
    assert grams == 1
    assert release.simulation


def test_fit_starts_a_ledger_with_its_own_budget_as_the_total(tmp_path):
    hr.fit(RATINGS, hr.SVD(), BUDGET, ledger=tmp_path / "ledger")
    with pytest.raises(BudgetError, match=r"pass the total.*; no data was read"):
        hr.fit(RATINGS, hr.SVD(), BUDGET, ledger=tmp_path / "ledger")


def test_a_fit_starts_no_ledger_that_could_not_take_it(tmp_path):
    for budget, options, sentence in ((BUDGET, {"seed": 1}, "seeded"), (hr.Budget(1.0), {}, "delta")):
        with pytest.raises(ConfigError, match=sentence):
            hr.fit(RATINGS, hr.SVD(), budget, ledger=tmp_path / "ledger", **options)
        assert not (tmp_path / "ledger").exists()


def test_seeded_fits_and_real_ones_never_stand_in_one_ledger(tmp_path):
    """Whoever knows a seed takes the noise off: such a run would be admitted as private and is not."""
    real = hr.Ledger.open(tmp_path / "real", total=BUDGET)
    simulation = hr.Ledger.open(tmp_path / "simulation", total=BUDGET, simulation=True)
    for ledger, seed in ((real, 3), (simulation, None)):
        before = ledger.path.read_bytes()
        for fit in (hr.fit, lambda r, s, b, **o: hr.tune(r, [s], b, **o)):
            CountingEngine.reads = 0
            with pytest.raises(ConfigError, match="simulation"):
                fit(RATINGS, hr.SVD(), BUDGET, ledger=ledger, seed=seed, engine=CountingEngine())
            assert CountingEngine.reads == 0
        assert ledger.path.read_bytes() == before
    hr.fit(RATINGS, hr.SVD(), BUDGET, ledger=simulation, seed=3)
    assert [run.seeded for run in hr.Ledger.open(simulation.path).read().runs.values()] == [True]
    for path, kind in ((real.path, True), (simulation.path, False)):
        with pytest.raises(ConfigError, match="was started for"):
            hr.Ledger.open(path, total=BUDGET, simulation=kind)


def test_a_failed_fit_frees_what_it_set_aside_unless_it_can_go_on(tmp_path):
    ledger = hr.Ledger.open(tmp_path / "ledger", total=BUDGET)

    class Failing:
        def solve(self, curator):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        hr.fit(RATINGS, Failing(), BUDGET, ledger=ledger)
    assert ledger.read().epsilon == 0.0
    with pytest.raises(RuntimeError):
        hr.fit(RATINGS, Failing(), BUDGET, ledger=ledger, resume=tmp_path / "run")
    assert ledger.read().epsilon == pytest.approx(1.0)
