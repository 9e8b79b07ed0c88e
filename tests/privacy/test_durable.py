"""The ledger file: never over the total, never forgetting a spend, never believing a damaged line."""

import json
import math
import os
import threading

import pytest

import hushrec as hr
from hushrec.errors import BudgetError, ConfigError
from hushrec.privacy import durable
from hushrec.privacy.accounting import LedgerEntry, gaussian_epsilon, gaussian_mu
from hushrec.privacy.book import Damaged, chained, parse
from hushrec.privacy.durable import LedgerFile
from hushrec.privacy.selection import selection_epsilon

TOTAL = hr.Budget(2.0, 1e-6)


def entry(name="gram", mu=0.1, mechanism="gaussian"):
    return LedgerEntry(name, mechanism, sensitivity=mu, scale=1.0, share=0.5, coordinates=3)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ratings.ledger"


@pytest.fixture
def ledger(path):
    return hr.Ledger.open(path, total=TOTAL)


def test_a_ledger_is_found_again_as_it_was_left(ledger, path):
    ledger.open_run("a", hr.Budget(1.0, 1e-6), "SVD")
    ledger.spend("a", entry())
    book = hr.Ledger.open(path).read()
    run = book.runs["a"]
    assert (run.solver, run.seeded, run.closed, list(run.spent)) == ("SVD", False, False, [entry()])
    assert (run.budget, book.total, book.simulation) == (hr.Budget(1.0, 1e-6), TOTAL, False)


def test_every_line_can_be_read_by_a_person_and_by_any_json_reader(ledger, path):
    ledger.open_run("a", hr.Budget(1.0, 1e-6), "SVD")
    ledger.spend("a", entry())
    ledger.close_run("a")
    records = [json.loads(line.rpartition("  #")[0]) for line in path.read_text().splitlines()]
    assert [sorted(set(record) & {"opens", "spends", "closes", "total"}) for record in records] == [
        ["total"],
        ["opens"],
        ["spends"],
        ["closes"],
    ]
    assert records[2]["spends"]["name"] == "gram"


def test_a_run_sets_its_whole_budget_aside_until_it_closes(ledger):
    ledger.open_run("a", hr.Budget(1.9, 1e-6))
    assert ledger.read().epsilon == pytest.approx(1.9, abs=1e-9)
    with pytest.raises(BudgetError, match="no data was read"):
        ledger.check(hr.Budget(1.0, 1e-6))
    ledger.spend("a", entry(mu=0.1))
    ledger.close_run("a")
    ledger.check(hr.Budget(1.0, 1e-6))
    ledger.open_run("b", hr.Budget(1.0, 1e-6))
    both = math.hypot(0.1, gaussian_mu(1.0, 1e-6))
    assert ledger.read().epsilon == pytest.approx(gaussian_epsilon(both, 1e-6), rel=1e-9)


def test_the_total_can_be_spent_to_the_end_and_not_beyond(ledger):
    ledger.open_run("all", TOTAL)
    with pytest.raises(BudgetError):
        ledger.open_run("more", hr.Budget(1e-3, 1e-6))
    with pytest.raises(BudgetError):
        ledger.open_run("more", hr.Budget(1e-3, 1e-6))
    assert set(ledger.read().runs) == {"all"}


def test_pure_budgets_add_up_as_people_add_them(path):
    ledger = LedgerFile(path, hr.Budget(0.3, unit="rating"))
    ledger.open_run("a", hr.Budget(0.1, unit="rating"))
    ledger.open_run("b", hr.Budget(0.2, unit="rating"))
    with pytest.raises(BudgetError):
        ledger.open_run("c", hr.Budget(1e-6, unit="rating"))


def test_a_run_may_spend_its_budget_in_either_coin(path):
    """What is set aside is counted once: as Gaussian until the run spends a pure epsilon, as that from then on."""
    ledger = LedgerFile(path, hr.Budget(1.0, 1e-6, unit="rating"))
    ledger.open_run("a", hr.Budget(1.0, 1e-6, unit="rating"))
    ledger.spend("a", entry("flip", 0.4, "randomized-response"))
    assert ledger.read().epsilon == pytest.approx(1.0, abs=1e-9)
    ledger.spend("a", entry("flip again", 0.6, "randomized-response"))
    assert ledger.read().epsilon == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(BudgetError):
        ledger.spend("a", entry("and again", 0.01, "randomized-response"))
    with pytest.raises(BudgetError):
        ledger.open_run("b", hr.Budget(0.01, 1e-6, unit="rating"))


def test_a_run_that_spends_more_than_it_set_aside_is_counted_in_full(ledger):
    ledger.open_run("a", hr.Budget(1.5, 1e-6))
    ledger.spend("a", entry(mu=0.1))
    ledger.spend("a", entry("flip", 1.6, "randomized-response"))
    assert ledger.read().epsilon == pytest.approx(gaussian_epsilon(0.1, 1e-6) + 1.6, rel=1e-9)
    with pytest.raises(BudgetError):
        ledger.spend("a", entry("flip again", 0.2, "randomized-response"))


def test_a_spend_is_paid_once_and_never_for_more_than_was_paid(ledger):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    ledger.spend("a", entry(mu=0.1))
    before = ledger.path.read_bytes()
    ledger.spend("a", entry(mu=0.1))
    assert ledger.path.read_bytes() == before
    with pytest.raises(BudgetError, match="for less"):
        ledger.spend("a", entry(mu=0.2))


def test_of_a_query_one_answer_leaves_even_from_a_copied_folder(ledger):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    with pytest.raises(BudgetError):
        ledger.answer("a", "gram", "0" * 16)  # not paid for
    ledger.spend("a", entry())
    ledger.answer("a", "gram", "0" * 16)
    ledger.answer("a", "gram", "0" * 16)
    with pytest.raises(BudgetError, match="copy"):
        ledger.answer("a", "gram", "1" * 16)
    with pytest.raises(BudgetError, match="copy"):
        ledger.spend("a", entry())


def test_a_closed_run_spends_no_more(ledger):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    ledger.close_run("a")
    ledger.close_run("a")
    with pytest.raises(BudgetError, match="closed"):
        ledger.spend("a", entry())


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        (hr.Budget(0.1, 1e-6, relation="add-remove"), "counts per user"),
        (hr.Budget(0.1, unit="rating"), "counts per user"),
        (hr.NonPrivate(), "without a budget"),
    ],
)
def test_what_cannot_be_counted_is_refused(ledger, budget, sentence):
    with pytest.raises(ConfigError, match=sentence):
        ledger.open_run("a", budget)


def test_a_total_without_delta_says_so_instead_of_that_it_is_full(path):
    ledger = LedgerFile(path, hr.Budget(2.0))
    with pytest.raises(ConfigError, match="has δ = 0, and this fit asks for δ = 1e-06"):
        ledger.check(hr.Budget(1.0, 1e-6))
    ledger.check(hr.Budget(1.0))


def test_a_refusal_says_what_it_would_have_come_to(ledger):
    ledger.open_run("a", hr.Budget(1.9, 1e-6))
    both = gaussian_epsilon(math.hypot(gaussian_mu(1.9, 1e-6), gaussian_mu(1.0, 1e-5)), 1e-6)
    with pytest.raises(BudgetError, match=f"together ε = {both:.6g} at δ = 1e-06; no data was read"):
        ledger.check(hr.Budget(1.0, 1e-5))


def test_a_total_is_chosen_once(ledger, path, tmp_path):
    assert hr.Ledger.open(path, total=TOTAL).read().total == TOTAL
    with pytest.raises(ConfigError, match="another total"):
        hr.Ledger.open(path, total=hr.Budget(5.0, 1e-6))
    with pytest.raises(ConfigError, match="no ledger"):
        hr.Ledger.open(tmp_path / "none")
    with pytest.raises(ConfigError, match="must be a Budget"):
        hr.Ledger.open(path, total=3.0)


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_two_names_of_one_file_are_one_ledger(ledger, path, link):
    other = path.with_name("another name")
    getattr(other, link)(path)
    second = LedgerFile(other)
    with ledger._locked(os.O_RDWR) as handle, open(other) as file:
        assert not durable.lock(file.fileno(), 0.0)
        assert handle != file.fileno()
    ledger.open_run("a", hr.Budget(1.5, 1e-6))
    with pytest.raises(BudgetError, match="pass the total"):
        second.open_run("b", hr.Budget(1.5, 1e-6))
    second.spend("a", entry())
    assert len(ledger.read().runs["a"].spent) == 1


def test_a_symlink_to_nothing_starts_the_file_that_it_leads_to(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    LedgerFile(tmp_path / "link", TOTAL).open_run("a", hr.Budget(1.0, 1e-6))
    assert set(LedgerFile(path).read().runs) == {"a"}


def test_an_older_copy_put_in_its_place_is_noticed(ledger, path):
    """A backup that is restored under a running fit would give spent budget back."""
    backup = path.read_bytes()
    ledger.open_run("a", hr.Budget(1.9, 1e-6))
    path.write_bytes(backup)
    for ask in (ledger.read, lambda: ledger.open_run("b", TOTAL), lambda: ledger.check(TOTAL)):
        with pytest.raises(BudgetError, match="not the file that it was"):
            ask()
    path.unlink()
    LedgerFile(path, TOTAL)
    with pytest.raises(BudgetError, match="not the file that it was"):
        ledger.open_run("b", TOTAL)


def test_a_file_renamed_while_another_process_waits_for_it_is_opened_again(ledger, path, monkeypatch):
    """What a waiting process would write into the file that lost its name would be lost with it."""
    content, asked = path.read_bytes(), []

    def renamed_meanwhile(handle, seconds, lock=durable.lock):
        if not asked:
            copy = path.with_name("copy")
            copy.write_bytes(content)
            copy.replace(path)
        asked.append(handle)
        return lock(handle, seconds)

    monkeypatch.setattr(durable, "lock", renamed_meanwhile)
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    assert len(asked) == 2
    monkeypatch.undo()
    assert set(LedgerFile(path).read().runs) == {"a"}


def test_a_file_moved_while_it_is_written_is_noticed_before_data_is_read(ledger, path, monkeypatch):
    def write_and_move(handle, content, offset, write=durable.write_all):
        write(handle, content, offset)
        path.rename(path.with_name("elsewhere"))

    monkeypatch.setattr(durable, "write_all", write_and_move)
    with pytest.raises(BudgetError, match="moved while it was used; no data was read"):
        ledger.open_run("a", hr.Budget(1.0, 1e-6))


def selection(mean=10.0, shape=0.0):
    return LedgerEntry("selection", "selection", mean, shape, share=0.0, coordinates=0)


def test_a_tuning_costs_what_its_own_ledger_says(ledger):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    ledger.spend("a", selection())
    ledger.spend("a", entry("best trial", 0.1))
    assert ledger.read().epsilon == pytest.approx(selection_epsilon(0.1, 1e-6, 10.0, 0.0), rel=1e-12)
    ledger.close_run("a")
    assert ledger.read().epsilon == pytest.approx(selection_epsilon(0.1, 1e-6, 10.0, 0.0), rel=1e-12)


def test_tunings_and_fits_cost_together_no_less_than_each_and_no_more_than_their_sum(ledger):
    ledger.open_run("fit", hr.Budget(0.5, 1e-6))
    ledger.open_run("tuning", hr.Budget(0.5, 1e-6))
    ledger.spend("tuning", selection())
    ledger.spend("tuning", entry("best trial", 0.05))
    chosen = selection_epsilon(0.05, 1e-6, 10.0, 0.0)
    together = ledger.read().epsilon
    assert max(0.5, chosen) < together < 0.5 + chosen
    ledger.open_run("second tuning", hr.Budget(0.5, 1e-6))
    ledger.spend("second tuning", selection(30.0, 1.0))
    ledger.spend("second tuning", entry("best trial", 0.05))
    assert ledger.read().epsilon > together


def test_a_selection_beside_anything_that_has_no_proof_is_refused(ledger):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    ledger.spend("a", selection())
    with pytest.raises(BudgetError, match="pass the total"):
        ledger.spend("a", entry("flip", 0.01, "randomized-response"))
    again = LedgerEntry("again", "selection", 2.0, 0.0, share=0.0, coordinates=0)
    with pytest.raises(BudgetError, match="pass the total"):
        ledger.spend("a", again)


def test_a_file_that_is_no_ledger_is_never_written_to(tmp_path):
    for number, content in enumerate(
        [b"user,item,value\n1,2,3\n", b"precious", b"\0" * 100, b'{"hushrec-ledger": 1}\n']
    ):
        path = tmp_path / str(number)
        path.write_bytes(content)
        with pytest.raises(BudgetError, match="not a ledger"):
            LedgerFile(path, TOTAL)
        assert path.read_bytes() == content


def test_a_torn_last_line_does_not_count_wherever_it_was_torn(ledger, path):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    whole = path.read_bytes()
    ledger.spend("a", entry())
    longer = path.read_bytes()
    for cut in range(len(whole), len(longer)):
        path.write_bytes(longer[:cut])
        again = LedgerFile(path)
        assert len(again.read().runs["a"].spent) == 0
        again.spend("a", entry())
        assert len(again.read().runs["a"].spent) == 1


def test_a_torn_line_longer_than_the_next_record_leaves_nothing_behind(ledger, path):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    whole = path.read_bytes()
    ledger.spend("a", entry())
    path.write_bytes(path.read_bytes()[:-1])
    after_the_crash = LedgerFile(path)
    after_the_crash.close_run("a")
    assert after_the_crash.read().runs["a"].closed
    assert len(path.read_bytes()) < len(whole) + 150


def test_a_record_is_on_disk_before_anybody_goes_on(ledger, monkeypatch):
    """In this order: written, synced, returned."""
    calls = []
    for name in ("pwrite", "fsync"):
        original = getattr(durable.os, name)
        monkeypatch.setattr(
            durable.os, name, lambda *a, original=original, name=name: (calls.append(name), original(*a))[1]
        )
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    assert calls == ["pwrite", "fsync"]


def test_a_torn_first_line_is_no_ledger_yet(path):
    LedgerFile(path, TOTAL)
    first = path.read_bytes()
    for cut in (0, 1, 10, 40, len(first) - 1):
        path.write_bytes(first[:cut])
        assert LedgerFile(path, TOTAL).read().total == TOTAL


def test_any_flipped_byte_dropped_or_moved_line_is_found(ledger, path):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    for k in range(3):
        ledger.spend("a", entry(f"q{k}"))
    content = path.read_bytes()
    for position in range(len(content) - 1):  # the last byte is the end of the last line: without it, a torn line
        damaged = bytearray(content)
        damaged[position] ^= 1
        with pytest.raises(Damaged):
            parse(bytes(damaged))
    lines = content.splitlines(keepends=True)
    for wrong in (lines[:2] + lines[3:], [*lines[:2], lines[3], lines[2], lines[4]], [*lines, lines[-1]], lines[1:]):
        with pytest.raises(Damaged):
            parse(b"".join(wrong))


def test_a_line_that_nobody_could_read_again_is_not_written(ledger, path, monkeypatch):
    ledger.open_run("a", hr.Budget(1.0, 1e-6))
    with pytest.raises(BudgetError, match="so long"):
        ledger.spend("a", entry("q" * 20_000))
    ledger.spend("a", entry())
    before = path.read_bytes()
    monkeypatch.setattr(durable, "LARGEST_FILE", len(before) + 100)
    with pytest.raises(BudgetError, match=r"is full; no data was read for 'more'"):
        ledger.spend("a", entry("more"))
    assert path.read_bytes() == before
    assert len(hr.Ledger.open(path).read().runs["a"].spent) == 1


@pytest.mark.parametrize("call", ["flock", "open"])
def test_a_file_system_that_cannot_lock_or_sync_is_one_sentence(call, path, monkeypatch):
    def refuses(place, *_):
        raise OSError(95, "Operation not supported")

    if call == "flock":
        monkeypatch.setattr("fcntl.flock", refuses)
    else:
        monkeypatch.setattr(durable, "sync_folder", refuses)
    with pytest.raises(BudgetError, match=r"Operation not supported; no data was read\.$"):
        hr.Ledger.open(path, total=TOTAL)


def test_clocks_that_jump_change_nothing_but_the_times(ledger, monkeypatch):
    for now in ("9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2038-01-19T03:14:08Z"):
        monkeypatch.setattr(durable, "_now", lambda now=now: now)
        ledger.open_run(now, hr.Budget(0.5, 1e-6))
        ledger.spend(now, entry())
    assert [len(run.spent) for run in ledger.read().runs.values()] == [1, 1, 1]


def test_a_lock_that_is_never_given_back_is_one_sentence(ledger, monkeypatch):
    monkeypatch.setattr(durable, "LOCK_SECONDS", 0.05)
    with ledger._locked(0), pytest.raises(BudgetError, match="locked by another process"):
        ledger.check(TOTAL)


def test_many_threads_on_one_ledger_lose_nothing(ledger):
    ledger.open_run("a", TOTAL)
    threads = [threading.Thread(target=ledger.spend, args=("a", entry(f"q{k}", 0.01))) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {spent.name for spent in ledger.read().runs["a"].spent} == {f"q{k}" for k in range(16)}


def test_a_long_ledger_is_read_in_linear_time(path):
    """Time grows with the length alone, so the largest file that is allowed keeps nobody waiting."""
    LedgerFile(path, TOTAL)
    first = path.read_bytes()
    last, lines = first[-17:-1].decode(), [first]

    def add(record):
        nonlocal last
        lines.append(chained(last, json.dumps(record).encode()))
        last = lines[-1][-17:-1].decode()

    add({"run": "a", "at": "", "opens": {"epsilon": 1.0, "delta": 1e-6}, "solver": "", "seeded": False})
    spend = {"name": "q", "mechanism": "gaussian", "sensitivity": 1e-9, "scale": 1.0, "share": 0.0, "coordinates": 1}
    for _ in range(4_000):
        add({"run": "a", "at": "", "spends": spend})
    book = parse(b"".join(lines))
    assert len(book.runs["a"].spent) == 4_000
    assert not book.full
