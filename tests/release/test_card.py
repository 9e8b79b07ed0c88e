"""The privacy card says what the release's guarantee and ledger say, in words that cannot be missed."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.privacy.accounting import Ledger, LedgerEntry
from hushrec.privacy.guarantee import Guarantee
from hushrec.release.card import WIDTH, attacker, describe, text

ITEMS = 6


def release(guarantee: Guarantee, notes: tuple[str, ...] = ()) -> hr.Release:
    return hr.Release(
        kind="gaussian",
        arrays={
            "means": np.full(ITEMS, 3.0),
            "loadings": np.ones((ITEMS, 1)),
            "precision": np.ones(1),
            "noise": np.ones(ITEMS),
        },
        items=np.arange(ITEMS),
        value_range=(1.0, 5.0),
        guarantee=guarantee,
        solver={"name": "Some"},
        notes=notes,
    )


def gaussian(name: str, mu: float) -> LedgerEntry:
    return LedgerEntry(name, "gaussian", sensitivity=mu, scale=1.0, share=0.1, coordinates=7, bound="a sum, clipped")


def laplace(name: str, epsilon: float) -> LedgerEntry:
    return LedgerEntry(name, "laplace", sensitivity=epsilon, scale=1.0, share=0.1, coordinates=7)


def promise(epsilon: float | None = 1.0, delta: float = 1e-6, **more) -> Guarantee:
    ledger = more.pop("ledger", Ledger((gaussian("means", 0.1), gaussian("gram", 0.2))))
    return Guarantee(epsilon=epsilon, delta=delta, ledger=ledger, **more)


def joined(card: str) -> str:
    return " ".join(card.split())


@pytest.mark.parametrize(
    ("unit", "relation", "says", "omits"),
    [
        ("user", "replace-one", ["which items she rated, and how", "the number of users is public here"], []),
        ("user", "add-remove", ["whether she took part"], ["the number of users is public here"]),
        ("rating", "replace-one", ["every single rating", "Which items she rated: here that is taken"], ["whole row"]),
    ],
)
def test_unit_and_relation_in_words(unit, relation, says, omits):
    card = joined(text(release(promise(unit=unit, relation=relation))))
    assert all(words in card for words in says)
    assert not any(words in card for words in omits)
    assert relation in card


@pytest.mark.parametrize(
    ("model", "says", "omits"),
    [
        ("joint", "even all of them together", "noise was added before"),
        ("central", "Everybody who sees what was released", "noise was added before"),
        ("local", "whoever collects the ratings included", "from whoever holds them"),
    ],
)
def test_from_whom(model, says, omits):
    card = joined(text(release(promise(model=model))))
    assert says in card
    assert omits not in card


def test_figures_are_recomputed_from_the_ledger():
    card = describe(release(promise(epsilon=9.0)))
    mu = math.hypot(0.1, 0.2)
    assert card["mu"] == pytest.approx(mu, rel=1e-12)
    assert card["spent"] == pytest.approx(hr.Ledger(promise().ledger.entries).epsilon(1e-6), rel=1e-12)
    assert card["attacker"]["advantage"] == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-12)
    assert [line["name"] for line in card["ledger"]] == ["means", "gram"]
    assert card["ledger"][1]["mu"] == pytest.approx(0.2)
    assert card["ledger"][1]["epsilon_alone"] < card["spent"]
    assert f"{card['spent']:.9g}" in text(release(promise(epsilon=9.0)))


def test_the_attacker_against_pure_and_mixed_noise():
    pure = attacker(promise(delta=0.0, ledger=Ledger((laplace("flips", 0.5),))))
    assert pure["advantage"] == pytest.approx(math.tanh(0.25))
    mixed = attacker(promise(2.0, ledger=Ledger((laplace("a", 0.5), gaussian("b", 0.2)))))
    spent = Ledger((laplace("a", 0.5), gaussian("b", 0.2))).epsilon(1e-6)
    rates = np.linspace(0, 1, 200_001)
    gains = 1 - rates - np.maximum(0, np.maximum(1 - 1e-6 - np.exp(spent) * rates, np.exp(-spent) * (1 - 1e-6 - rates)))
    assert mixed["advantage"] == pytest.approx(gains.max(), abs=1e-5)
    assert mixed["belief"] is None
    assert attacker(promise(1.0, ledger=Ledger()))["advantage"] == pytest.approx(math.tanh(0.5), abs=1e-6)


def test_void_is_loud():
    void = release(promise(void=True, why_void="The run was seeded: whoever knows the seed can subtract the noise."))
    card = text(void)
    assert card.splitlines()[2].startswith("VOID: SEEDED. The run was seeded")
    assert describe(void)["void"] is True
    assert describe(void)["private"] is False
    assert "VOID" not in text(release(promise()))


def test_no_epsilon_means_that_nothing_is_proved():
    unproved = release(promise(None, claims=("Each single entry, on its own: ε = 1.",)))
    card = joined(text(unproved))
    assert "Nothing is proved for the release as a whole" in card
    assert "Each single entry, on its own: ε = 1." in card
    assert "Nothing bounds what he can gain." in card
    assert (describe(unproved)["epsilon"], describe(unproved)["private"]) == (None, False)


def test_not_private_is_loud_and_safe_for_json():
    train, _ = hr.synthetic(users=200, items=10, per_user=4)
    bare = hr.fit(train, hr.SVD(), hr.NonPrivate())
    assert "NOT PRIVATE" in bare.card()
    assert "Nothing bounds what he can gain." in bare.card()
    plain = describe(bare)
    assert (plain["epsilon"], plain["spent"], plain["attacker"], plain["private"]) == ("inf", "inf", None, False)
    json.dumps(plain, allow_nan=False)


def test_assumptions_claims_and_notes_are_all_there():
    card = joined(text(release(promise(assumptions=("First.", "Second.")), notes=("A remark.",))))
    assert all(words in card for words in ("First.", "Second.", "A remark.", "Whatever is taken to be public"))


def test_equal_rounds_share_a_line_and_the_dict_has_them_all():
    rounds = Ledger(tuple(gaussian(f"round {t}", 0.01) for t in range(1, 41)))
    card = release(promise(1.0, ledger=rounds))
    assert "round 1 … 40 (40)" in text(card)
    assert len(describe(card)["ledger"]) == 40
    assert len(text(card).splitlines()) < 60


def test_releases_that_take_turns_have_a_line_each():
    pairs = [
        gaussian(f"{name} {t}", scale) for t in range(1, 31) for name, scale in (("balance", 0.01), ("step", 0.02))
    ]
    lines = [
        line.split("  ")[1]
        for line in text(release(promise(1.0, ledger=Ledger(tuple(pairs))))).splitlines()
        if " … " in line
    ]
    assert lines == ["balance 1 … 30 (30)", "step 1 … 30 (30)"]


def test_a_hostile_file_cannot_steer_a_terminal_and_lines_stay_short():
    name = "SVD\x1b[31m\nfalse line" * 9
    card = text(replace(release(promise(), notes=("\x1b[2J\x07 word " * 40,)), solver={"name": name}))
    assert card.splitlines()[0].startswith("Privacy card: SVD [31m false line")
    assert "\x1b" not in card
    assert "\x07" not in card
    assert max(len(line) for line in card.splitlines()) <= WIDTH + 20  # table lines may be a little longer
    assert max(len(line) for line in card.splitlines() if line.startswith(("  - ", "    "))) <= WIDTH


def test_the_card_survives_the_file(tmp_path):
    before = release(promise(), notes=("A remark.",))
    before.save(tmp_path / "model.hush")
    assert hr.Release.load(tmp_path / "model.hush").card() == before.card()
    assert describe(replace(before, notes=())) != describe(before)
