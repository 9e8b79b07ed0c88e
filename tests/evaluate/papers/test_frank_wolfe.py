"""The Frank-Wolfe paper's experiments: real formats go through them, they go on after an interruption, and what
their tables and texts say is so."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

import hushrec as hr
from hushrec.errors import ConfigError
from hushrec.evaluate.experiments import Options, run_experiment
from hushrec.evaluate.papers import frank_wolfe

EXPERIMENTS = {experiment.name: experiment for experiment in frank_wolfe.EXPERIMENTS}
LINES = {*frank_wolfe.methods(frank_wolfe.MOST), *frank_wolfe.NONPRIVATE}
USERS, ITEMS = 60, 10


def opinions(low, high):
    """(user, item, whole value) of a planted matrix, each user with 7 of 10 items."""
    rng = np.random.default_rng(0)
    share = 0.5 + 0.45 * np.outer(rng.uniform(-1, 1, USERS), rng.uniform(-1, 1, ITEMS))
    return [
        (user, item, round(low + (high - low) * share[user, item]))
        for user in range(USERS)
        for item in sorted(rng.permutation(ITEMS)[:7])
    ]


def netflix(place):
    """As published: a file for each film, `film:` and then a line for each of its ratings."""
    place.mkdir()
    for film in range(ITEMS):
        lines = [f"{1000 + user},{stars},2005-09-06" for user, item, stars in opinions(1, 5) if item == film]
        (place / f"mv_{film + 1:07d}.txt").write_text("\n".join([f"{film + 1}:", *lines]) + "\n")
    return place


def yahoo(place):
    """As published: user, artist and score from 0 to 100, with tabs between them."""
    place.mkdir()
    lines = [f"{user}\t{1000000 + item}\t{score}" for user, item, score in opinions(0, 100)]
    (place / "ydata-ymusic-user-artist-ratings-v1_0.txt").write_text("\n".join(lines) + "\n")
    return place


def jester(place):
    """As published: how many jokes were rated, then all hundred, 99 where one was not."""
    place.mkdir()
    rows = np.full((USERS // 3, 100), 99.0)
    for user, item, value in opinions(-10, 10):
        rows[user // 3, 10 * item : 10 * item + 10] = value
    lines = [",".join(f"{cell:g}" for cell in [(row != 99).sum(), *row]) for row in rows]
    for part in (1, 2, 3):
        (place / f"jester-data-{part}.csv").write_text("\n".join(lines) + "\n")
    return place


def movielens(place):
    place.mkdir()
    ratings = [f"{user + 1}::{item + 1}::{stars}::9" for user, item, stars in opinions(1, 5)]
    (place / "ratings.dat").write_text("\n".join(ratings) + "\n")
    (place / "movies.dat").write_text("".join(f"{item + 1}::Film {item}::Drama\n" for item in range(ITEMS)))
    (place / "ml-1m").mkdir()
    for name in ("ratings.dat", "movies.dat"):
        (place / name).rename(place / "ml-1m" / name)
    return place


FORMATS = {"fw-netflix": netflix, "fw-yahoo": yahoo, "fw-jester": jester, "fw-movielens": movielens}


@pytest.fixture
def small(monkeypatch):
    """The generated data of all experiments, made small."""
    for name, value in {
        "USERS_QUICK": 200, "ITEMS": 20, "MOST": 8, "SLOPE_QUICK": range(6, 9), "SLOPE_ITEMS": 20, "SLOPE_RATED": 8,
        "INCOHERENT_ITEMS": 25, "INCOHERENT_QUICK": (100, 200),
    }.items():  # fmt: skip
        monkeypatch.setattr(frank_wolfe, name, value)
    frank_wolfe._planted.cache_clear()
    frank_wolfe.signed.cache_clear()


def quick(name, out, **options):
    return run_experiment(EXPERIMENTS[name], Options(quick=True, out=out, **options))


@pytest.mark.parametrize("name", FORMATS)
def test_data_in_the_publishers_format_go_through_the_experiment(name, tmp_path):
    outcome = quick(name, tmp_path / "out", data=FORMATS[name](tmp_path / "data"), epsilons=(5.0,))
    assert {row["method"] for row in outcome.table.rows} == LINES
    assert len(outcome.records) == len(LINES)
    rows = {row["method"]: row for row in outcome.table.rows}
    assert all(0 < row["rmse"] < 3 for row in rows.values())
    assert rows["FW, exact noise"]["exact epsilon"] == pytest.approx(5.0)
    assert rows[frank_wolfe.PAPERS_OWN]["exact epsilon"] == pytest.approx(3.128, abs=0.01)
    assert rows[frank_wolfe.NOT_PRIVATE]["epsilon"] is None
    text = (tmp_path / "out" / f"{name}.md").read_text()
    assert "| FW, not private |" in text
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("name", "width"), [("fw-yahoo", 20.0), ("fw-jester", 4.0), ("fw-netflix", 1.0)])
def test_errors_are_on_the_papers_scale(name, width, tmp_path):
    """0 to 5, from 0 to 100 and from −10 to 10."""
    path = FORMATS[name](tmp_path / "data")
    cell = {"method": "FW, not private, ridge", "epsilon": None, "seed": 0}
    record = EXPERIMENTS[name].run(cell, Options(data=path))
    figure = {"fw-yahoo": frank_wolfe.YAHOO, "fw-jester": frank_wolfe.JESTER, "fw-netflix": frank_wolfe.NETFLIX}[name]
    train, test = hr.split(figure.load(path), test=0.01, seed=0)
    release = hr.fit(train, hr.FrankWolfe(), hr.NonPrivate(relation="add-remove"), seed=0)
    assert record["rmse"] == pytest.approx(hr.evaluate(release, train, test)["rmse"] / width)


def test_the_most_rated_items_are_taken(tmp_path):
    figure = dataclasses.replace(frank_wolfe.NETFLIX, top=4)
    path = netflix(tmp_path / "data")
    counts = np.bincount([item for _, item, _ in opinions(1, 5)], minlength=ITEMS)
    chosen = figure.load(path)
    assert chosen.n_items == 4
    assert counts[chosen.items - 1].min() >= np.delete(counts, chosen.items - 1).max()
    assert frank_wolfe.NETFLIX.load(path).n_items == ITEMS


def test_other_data_and_none_are_refused_and_spoil_nothing(tmp_path):
    out, right = tmp_path / "out", netflix(tmp_path / "netflix")
    with pytest.raises(ConfigError, match=r"needs one data path: your own copy of the Netflix prize data"):
        quick("fw-netflix", out)
    with pytest.raises(ConfigError, match=r"does not hold the data of this experiment, which needs your own copy"):
        quick("fw-netflix", out, data=yahoo(tmp_path / "yahoo"))
    assert quick("fw-netflix", out, data=right, epsilons=(5.0,)).ran == len(LINES)


def test_the_papers_form_samples_ratings_where_the_paper_does(tmp_path):
    """At most 80 of a user's, but all of Jester's: its section 4 leaves that set out."""
    assert frank_wolfe.JESTER.most == frank_wolfe.JESTER.load(jester(tmp_path / "data")).n_items == 100
    assert {figure.most for figure in (frank_wolfe.MOVIELENS, frank_wolfe.NETFLIX, frank_wolfe.YAHOO)} == {80}
    for most in (80, 100):
        methods = frank_wolfe.methods(most)
        assert methods[frank_wolfe.PAPERS_OWN].ratings_per_user == most
        assert methods["SVD after cleansing, strawman"].ratings_per_user == most
    assert "all ratings, without sampling" in EXPERIMENTS["fw-jester"].about
    assert "a sample of at most 80 ratings" in EXPERIMENTS["fw-netflix"].about


def test_the_quick_synthetic_figure_runs_and_says_what_it_is(small, tmp_path):
    outcome = quick("fw-synthetic", tmp_path, epsilons=(5.0,))
    assert {row["method"] for row in outcome.table.rows} == LINES
    assert any(remark.startswith("Quick version") for remark in outcome.remarks)
    words = f"{EXPERIMENTS['fw-synthetic'].title} {EXPERIMENTS['fw-synthetic'].about}"
    assert "500,000" not in EXPERIMENTS["fw-synthetic"].title
    assert "1 % of the ratings" not in words
    assert "one further entry of every user" in words


def test_the_grid_is_tried_where_there_is_one_and_said_to_be_free_of_charge(tmp_path, monkeypatch):
    monkeypatch.setattr(frank_wolfe, "ROUNDS_GRID", (2, 5))
    data = yahoo(tmp_path / "data")
    outcome = quick("fw-yahoo", tmp_path / "out", data=data, epsilons=(5.0,), tuned=True)
    tried = [record for record in outcome.records if record["method"] == frank_wolfe.PAPERS_OWN]
    assert {(cell.get("iterations"), cell.get("nuclear_norm")) for cell in tried} == {
        (None, None),  # the defaults: what is tuned is never worse
        *((rounds, norm) for rounds in (2, 5) for norm in (130_000, 150_000)),
    }
    (best,) = [row for row in outcome.table.rows if row["method"] == frank_wolfe.PAPERS_OWN]
    assert best["rmse"] == min(cell["rmse"] for cell in tried)
    assert {"iterations", "nuclear_norm"} <= set(outcome.table.columns)
    assert len([record for record in outcome.records if record["method"] == "SVD"]) == 1
    assert any("not charged" in remark for remark in outcome.remarks)
    assert not any("defaults" in remark for remark in outcome.remarks)


def test_the_norms_of_the_grid_are_on_the_scale_of_errors(tmp_path, monkeypatch):
    """k of the paper's Yahoo! grid belongs to values from 0 to 5; here they go from 0 to 100."""
    asked = []
    monkeypatch.setattr(frank_wolfe, "fit", lambda train, solver, budget, seed: asked.append(solver) or 1 / 0)
    cell = {"method": frank_wolfe.PAPERS_OWN, "epsilon": 1.0, "iterations": 3, "nuclear_norm": 130_000, "seed": 0}
    with pytest.raises(ZeroDivisionError):
        EXPERIMENTS["fw-yahoo"].run(cell, Options(data=yahoo(tmp_path / "data"), tuned=True))
    assert (asked[0].iterations, asked[0].nuclear_norm) == (3, 2_600_000)


def test_an_interrupted_run_goes_on_and_ends_the_same(tmp_path, monkeypatch):
    data, real, calls = netflix(tmp_path / "data"), frank_wolfe.fit, []

    def interrupted(*arguments, **more):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    monkeypatch.setattr(frank_wolfe, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quick("fw-netflix", tmp_path / "out", data=data, epsilons=(5.0,))
    again = quick("fw-netflix", tmp_path / "out", data=data, epsilons=(5.0,))
    assert again.ran == len(LINES) - 3
    whole = quick("fw-netflix", tmp_path / "whole", data=data, epsilons=(5.0,))
    for row, other in zip(again.table.rows, whole.table.rows, strict=True):
        assert {**row, "seconds": 0} == {**other, "seconds": 0}


# --- error against the number of users ------------------------------------------------------------


def records(prices):
    return [
        {"method": method, "users": 2**step, "epsilon": 1.0, "seed": seed, "mse": price(2.0**step) + 1,
         "mse without noise": 1.0, "price": price(2.0**step) * (1 + 1e-3 * seed)}
        for method, price in prices.items() for step in range(10, 16) for seed in range(2)
    ]  # fmt: skip


def test_the_slope_summary_finds_slopes_and_hides_no_line():
    prices = {
        frank_wolfe.SLOPE_PAPER: lambda m: 5 * m**-0.5,
        frank_wolfe.SLOPE_SVD: lambda m: 80 * m**-2,
        "FW, exact noise, ridge": lambda m: -0.02 / m,
    }
    table = frank_wolfe._slope_summary(records(prices))
    slopes = {row["method"]: row["slope"] for row in table.rows}
    assert slopes[frank_wolfe.SLOPE_PAPER] == pytest.approx(-0.5, abs=1e-6)
    assert slopes[frank_wolfe.SLOPE_SVD] == pytest.approx(-2.0, abs=1e-6)
    assert slopes["FW, exact noise, ridge"] is None
    ridge = [row for row in table.rows if row["method"] == "FW, exact noise, ridge"]
    assert all(row["price"] < 0 for row in ridge)
    assert (ridge[0]["at"], ridge[0]["drawn"]) == (None, pytest.approx(0.02 / 1024, rel=1e-2))
    assert "none, |price| at most 2e-05" in ridge[0]["line"]
    assert all(row["drawn"] is None for row in ridge[1:])
    assert {row["line"] for row in table.rows if row["drawn"] is not None} == {row["line"] for row in table.rows}
    for name, (slope, method) in frank_wolfe.THEORY.items():
        first, *_, last = [row for row in table.rows if row["method"] == name]
        assert first["price"] == pytest.approx(prices[method](1024), rel=1e-2)
        assert math.log(last["price"] / first["price"]) / math.log(32) == pytest.approx(slope)


def test_a_price_that_is_within_its_own_error_tells_no_slope():
    falling = [(2.0**step, 2.0**-step, 0.0) for step in range(8)]
    lost = [(2.0**step, 0.3, 0.2) for step in range(8, 12)]
    assert frank_wolfe.fitted_slope(falling + lost) == pytest.approx(-1.0)
    assert frank_wolfe.fitted_slope([(m, price, 1.0) for m, price, _ in falling]) is None
    assert frank_wolfe.fitted_slope([(1.0, -1.0, 0.0), (2.0, -2.0, 0.0)]) is None


def test_the_quick_slope_experiment_runs_with_the_papers_claim_at_its_true_price(small, tmp_path):
    outcome = quick("fw-slope", tmp_path)
    assert {record["method"] for record in outcome.records} == set(frank_wolfe.SLOPE_METHODS)
    for record in outcome.records:
        assert record["price"] == pytest.approx(record["mse"] - record["mse without noise"])
        assert record["epsilon"] == (20.0 if record["method"] == frank_wolfe.SLOPE_PAPER else 1.0)
    assert (tmp_path / "fw-slope.png").exists()
    assert "falls as 1/m" in (tmp_path / "fw-slope.md").read_text()


def test_a_price_below_zero_is_told_as_it_is(small, monkeypatch):
    def error(release, *_):
        return {"rmse": 0.2 if math.isinf(release.guarantee.epsilon) else 0.1}

    monkeypatch.setattr(frank_wolfe, "evaluate", error)
    cell = {"method": "SVD, ridge", "users": 64, "epsilon": 1.0, "seed": 0}
    assert EXPERIMENTS["fw-slope"].run(cell, Options())["price"] == pytest.approx(0.01 - 0.04)


# --- incoherent data ------------------------------------------------------------------------------


@pytest.mark.parametrize("incoherent", [True, False])
def test_signed_data_are_rank_one_and_as_coherent_as_they_say(incoherent):
    train, held_out = frank_wolfe.signed(300, 25, incoherent, 1)
    sizes = np.abs(train.values)
    assert train.n_ratings == 300 * 5
    assert sizes.max() <= 1.0
    assert (sizes == 1).all() == incoherent
    largest = np.sort(np.square(sizes))[-len(sizes) // 10 :].sum() / np.square(sizes).sum()
    assert largest < 0.11 if incoherent else largest > 0.6
    seen = np.full((300, 25), np.nan)
    for part in (train, held_out):
        seen[np.repeat(np.arange(300), np.diff(part.indptr)), part.indices] = part.values
    minors = seen[:-1, :-1] * seen[1:, 1:] - seen[:-1, 1:] * seen[1:, :-1]  # 0 where all four were seen
    assert np.isfinite(minors).sum() > 20
    assert np.nanmax(np.abs(minors)) < 1e-6


def test_the_quick_incoherent_experiment_runs(small, tmp_path):
    """Every method on both kinds of data, each kind in its own panel."""
    outcome = quick("svd-incoherent", tmp_path)
    named = {
        f"{method} on {data} data" for method in frank_wolfe.INCOHERENT_METHODS for data in ("incoherent", "coherent")
    }
    assert {record["method"] for record in outcome.records} == named
    assert {record["users"] for record in outcome.records} == {100, 200}
    assert all(0 < record["rmse"] < 3 for record in outcome.records)
    assert {(row["method"], row["data"]) for row in outcome.table.rows} == set(
        itertools.product(frank_wolfe.INCOHERENT_METHODS, ("incoherent", "coherent"))
    )
    assert (tmp_path / "svd-incoherent.png").exists()
