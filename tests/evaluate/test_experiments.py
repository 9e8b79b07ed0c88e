import json
import sys

import pytest

from hushrec.errors import ConfigError, DataError
from hushrec.evaluate import experiments
from hushrec.evaluate.experiments import Experiment, Options, run_experiment
from hushrec.evaluate.plots import PlotSpec, draw
from hushrec.evaluate.tables import Table, summarise


def toy(calls, fail_at=None, **more):
    def cells(options):
        return [
            {"method": method, "epsilon": epsilon, "seed": options.seed + run}
            for method in ("a", "b")
            for epsilon in (*(options.epsilons or (1.0, 2.0)), None)
            for run in range(options.runs or 2)
        ]

    def run(cell, options):
        if len(calls) == fail_at:
            raise KeyboardInterrupt
        calls.append(cell)
        return {"rmse": 1 / (cell["epsilon"] or 4) + 0.01 * cell["seed"], "worst": float("inf")}

    plot = PlotSpec(x="epsilon", y="rmse", log_x=True)
    return Experiment(name="toy", title="Toy", about="Made up.", cells=cells, run=run, plot=plot, **more)


def test_every_cell_is_run_once_and_written_down(tmp_path):
    calls, seen = [], []
    outcome = run_experiment(toy(calls), Options(out=tmp_path), lambda *at: seen.append(at))
    lines = [json.loads(line) for line in (tmp_path / "toy.jsonl").read_text().splitlines()]
    assert len(calls) == len(lines) - 1 == outcome.ran == 12
    assert lines[1]["cell"] == {"method": "a", "epsilon": 1.0, "seed": 0}
    assert lines[1]["figures"]["rmse"] == 1.0
    assert lines[1]["figures"]["worst"] is None
    assert [at[:2] for at in seen] == [(done, 12) for done in range(12)]
    assert {path.name for path in outcome.files} == {"toy.jsonl", "toy.md", "toy.png"}
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert "Made up." in (tmp_path / "toy.md").read_text()


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    calls = []
    with pytest.raises(KeyboardInterrupt):
        run_experiment(toy(calls, fail_at=5), Options(out=tmp_path))
    with (tmp_path / "toy.jsonl").open("a") as lines:
        lines.write('{"cell": {"method": "a", "epsi')  # the torn last line of a killed run
    again = []
    outcome = run_experiment(toy(again), Options(out=tmp_path))
    assert len(calls) == 5
    assert len(again) == outcome.ran == 7
    assert not [cell for cell in again if cell in calls]
    whole = run_experiment(toy([]), Options(out=tmp_path / "whole"))
    for row, other in zip(outcome.table.rows, whole.table.rows, strict=True):
        assert {**row, "seconds": 0} == {**other, "seconds": 0}
    assert run_experiment(toy([]), Options(out=tmp_path)).ran == 0


def test_a_run_killed_inside_its_first_line_starts_again(tmp_path):
    (tmp_path / "toy.jsonl").write_text('{"experim')
    assert run_experiment(toy([]), Options(out=tmp_path)).ran == 12


def test_more_runs_add_to_those_that_are_there(tmp_path):
    run_experiment(toy([]), Options(out=tmp_path, runs=1))
    outcome = run_experiment(toy([]), Options(out=tmp_path, runs=3))
    assert outcome.ran == 12
    assert all(row["runs"] == 3 for row in outcome.table.rows)


def test_results_of_other_options_are_not_mixed(tmp_path):
    run_experiment(toy([]), Options(out=tmp_path))
    for other in ({"quick": True}, {"tuned": True}, {"data": tmp_path}):
        with pytest.raises(ConfigError, match=r"other data or other options"):
            run_experiment(toy([], tunable=True), Options(out=tmp_path, **other))


def test_data_are_told_apart_by_what_they_hold_not_by_their_names(tmp_path):
    """Two folders of one name and one size are other data; the same data in another place are the same."""
    folders = [tmp_path / str(number) / "ratings" for number in range(3)]
    for folder, content in zip(folders, ("1,2,3", "1,2,4", "1,2,3"), strict=True):
        (folder / "part").mkdir(parents=True)
        (folder / "part" / "a.csv").write_text(content)
    out = tmp_path / "out"
    run_experiment(toy([]), Options(out=out, data=folders[0]))
    with pytest.raises(ConfigError, match=r"other data or other options"):
        run_experiment(toy([]), Options(out=out, data=folders[1]))
    assert run_experiment(toy([]), Options(out=out, data=folders[2])).ran == 0
    files = [folder / "part" / "a.csv" for folder in folders]
    run_experiment(toy([]), Options(out=tmp_path / "files", data=files[0]))
    with pytest.raises(ConfigError, match=r"other data or other options"):
        run_experiment(toy([]), Options(out=tmp_path / "files", data=files[1]))


def test_results_inside_the_folder_of_the_data_are_no_data(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3")
    for out in (tmp_path, tmp_path / "results"):
        assert run_experiment(toy([]), Options(out=out, data=tmp_path)).ran == 12
        assert run_experiment(toy([]), Options(out=out, data=tmp_path)).ran == 0


def test_a_run_that_failed_before_its_first_result_leaves_nothing_behind(tmp_path):
    (tmp_path / "a.csv").write_text("1")
    with pytest.raises(KeyboardInterrupt):
        run_experiment(toy([], fail_at=0), Options(out=tmp_path / "out", data=tmp_path / "a.csv"))
    assert list((tmp_path / "out").iterdir()) == []
    assert run_experiment(toy([]), Options(out=tmp_path / "out")).ran == 12


def test_a_file_with_a_header_alone_stops_nobody(tmp_path):
    (tmp_path / "toy.jsonl").write_text('{"experiment": "toy", "data": ["other"], "tuned": false, "quick": true}\n')
    assert run_experiment(toy([]), Options(out=tmp_path)).ran == 12
    assert run_experiment(toy([]), Options(out=tmp_path)).ran == 0


def test_a_data_path_with_nothing_there_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"There is nothing at"):
        run_experiment(toy([]), Options(out=tmp_path, data=tmp_path / "missing"))


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", "\xff"])
def test_a_damaged_file_is_refused(tmp_path, line):
    run_experiment(toy([]), Options(out=tmp_path))
    path = tmp_path / "toy.jsonl"
    path.write_bytes(line.encode("latin-1") + b"\n" + path.read_bytes())
    with pytest.raises(DataError, match=r"no result of an experiment"):
        run_experiment(toy([]), Options(out=tmp_path))


def test_a_tuned_run_says_that_tuning_was_not_charged(tmp_path):
    outcome = run_experiment(toy([], tunable=True), Options(out=tmp_path, tuned=True))
    assert "not charged" in (tmp_path / "toy.md").read_text()
    assert any("not charged" in remark for remark in outcome.remarks)
    assert not any("defaults" in remark for remark in outcome.remarks)
    usual = run_experiment(toy([], tunable=True), Options(out=tmp_path / "usual"))
    assert [remark for remark in usual.remarks if "defaults" in remark]
    assert "not charged" not in (tmp_path / "usual" / "toy.md").read_text()


def test_options_that_an_experiment_would_ignore_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^toy has no grid of hyper-parameters to try, so tuned must be left out\.$"):
        run_experiment(toy([]), Options(out=tmp_path, tuned=True))
    fixed = toy([], fixed_epsilon="is without privacy")
    with pytest.raises(ConfigError, match=r"^toy is without privacy, so epsilon must be left out, not \(3\.0,\)\.$"):
        run_experiment(fixed, Options(out=tmp_path, epsilons=(3.0,)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "tunable"), [("fw-jester", True), ("fw-slope", False), ("dplmc-noisy", False)])
def test_only_experiments_with_a_grid_are_tunable(name, tunable):
    assert experiments.find_experiment(name).tunable == tunable


@pytest.mark.parametrize("name", ["dplmc-rate", "dplmc-rank"])
def test_experiments_with_their_own_epsilon_take_no_other(name, tmp_path):
    with pytest.raises(ConfigError, match="epsilon must be left out"):
        run_experiment(experiments.find_experiment(name), Options(out=tmp_path, quick=True, epsilons=(3.0,)))


def test_the_summary_is_mean_and_deviation_over_seeds():
    records = [
        {"method": "a", "seed": seed, "rmse": rmse, "note": "x"} for seed, rmse in enumerate((1.0, 2.0, 4.0, None))
    ]
    table = summarise(records, ("method",))
    assert table.columns == ("method", "rmse", "rmse sd", "note", "runs")
    (row,) = table.rows
    assert row["rmse"] == pytest.approx(7 / 3)
    assert row["rmse sd"] == pytest.approx(1.5275252316519468)
    assert row["runs"] == 4
    assert "| a | 2.333 | 1.528 | x | 4 |" in table.markdown()


def test_a_row_without_x_becomes_a_level_line(tmp_path):
    table = Table(columns=("method", "epsilon", "rmse"), rows=[{"method": "m", "epsilon": None, "rmse": 1.0}])
    assert draw(table, PlotSpec(x="epsilon", y="rmse"), "t", tmp_path / "p.png")


def test_without_matplotlib_there_is_no_picture_and_no_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    outcome = run_experiment(toy([]), Options(out=tmp_path))
    assert {path.suffix for path in outcome.files} == {".jsonl", ".md"}


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"epsilons": ()}, {"epsilons": (-1.0,)}, {"epsilons": (float("nan"),)}])
def test_options_are_checked(wrong):
    with pytest.raises(ConfigError):
        Options(**wrong)


def test_a_missing_data_path_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"needs one data path: the folder of X"):
        Options().path("the folder of X")
    with pytest.raises(ConfigError, match=r"There is nothing at"):
        Options(data=tmp_path / "missing").path("the folder of X")
    assert Options(data=(tmp_path,)).path("it") == tmp_path


def test_an_unknown_experiment_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"known are: .*fw-synthetic"):
        experiments.find_experiment("nonsense")


def test_every_registered_experiment_describes_itself():
    for name, experiment in experiments.EXPERIMENTS.items():
        assert name == experiment.name
        assert experiment.title
        assert len(experiment.about) > 40
