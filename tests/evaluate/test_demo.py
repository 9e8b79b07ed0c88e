"""The demonstration, on fewer users: what it shows, what it writes, and that its guarantee is a real one."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import hushrec as hr
from hushrec.cli import app
from hushrec.errors import DataError
from hushrec.evaluate import demo, plots


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "USERS", 4_000)
        patch.setattr(demo, "ITEMS", 60)
        return demo.run_demo(tmp_path_factory.mktemp("demo") / "out")


def test_private_beats_item_means_and_comes_near_the_twin(shown):
    private, twin, means = shown.errors.values()
    assert private < means
    assert private - twin < 0.5 * (means - twin)


def test_one_user_is_completed_from_her_own_row(shown):
    assert len(shown.one_user) == demo.HELD_BACK
    assert all(1 <= prediction <= 5 for _, _, prediction in shown.one_user)
    assert [score for _, score in shown.recommended] == sorted((s for _, s in shown.recommended), reverse=True)


def test_release_and_picture_are_written_and_the_guarantee_holds(shown):
    path, picture = shown.files
    release = hr.Release.load(path)
    assert (release.guarantee.epsilon, release.guarantee.void) == (demo.EPSILON, False)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert shown.remark == ""


def test_the_figures_are_to_be_had_as_json(shown, monkeypatch):
    monkeypatch.setattr(demo, "run_demo", lambda folder: shown)
    printed = json.loads(CliRunner().invoke(app, ["demo", "--json"]).stdout)
    assert printed["rmse"] == pytest.approx(shown.errors)
    assert printed["one_user"][0] == dict(zip(("item", "rating", "predicted"), shown.one_user[0], strict=True))
    assert [(one["item"], one["score"]) for one in printed["recommended"]] == shown.recommended
    assert printed["card"]["epsilon"] == demo.EPSILON
    assert printed["files"] == [str(path) for path in shown.files]


def test_without_matplotlib_it_says_so_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "USERS", 1_000)
    monkeypatch.setattr(demo, "ITEMS", 40)
    monkeypatch.setattr(plots, "_figure", lambda width, height: None)
    shown = demo.run_demo(tmp_path)
    assert [path.name for path in shown.files] == ["model.hush"]
    assert "hushrec[plot]" in shown.remark


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made"):
        demo.run_demo(tmp_path / "file" / "out")
