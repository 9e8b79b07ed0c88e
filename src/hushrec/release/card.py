"""The privacy card: what a release promises, to whom, at what price, in plain words and as a dict.

Everything here is read off the release itself: the promise is its guarantee, the price is added up anew from its
ledger, and the attacker's best chances follow from that price.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hushrec.errors import printable
from hushrec.privacy.accounting import Ledger, LedgerEntry
from hushrec.privacy.guarantee import Guarantee
from hushrec.privacy.meaning import (
    AttackSuccess,
    attack_success,
    epsilon_delta_tradeoff,
    posterior_odds,
    pure_attack_success,
)

if TYPE_CHECKING:
    from hushrec.release.file import Release

WIDTH = 92

PROTECTED = {
    ("user", "replace-one"): "All ratings of every single user: which items she rated, and how. Had her whole row been "
    "any other, what was released would have come out nearly the same.",
    (
        "user",
        "add-remove",
    ): "All ratings of every single user: which items she rated, how, and whether she took part at "
    "all. Had her row not been there, what was released would have come out nearly the same.",
    ("rating", "replace-one"): "The value of every single rating, one at a time. Had it been any other, what was "
    "released would have come out nearly the same.",
    ("rating", "add-remove"): "Every single rating, one at a time. Had it not been there, what was released would have "
    "come out nearly the same.",
}
FROM_WHOM = {
    "joint": "Everybody else, even all of them together, whatever they know and whatever they compute: they see the "
    "release file, and what they work out from it with their own ratings. The file by itself is plainly "
    "differentially private, so anyone may have it.",
    "central": "Everybody who sees what was released, even all of them together, whatever they know and compute.",
    "local": "Everybody, whoever collects the ratings included, once each has its own noise: nothing was computed "
    "from a rating before. Only where that noise was added, on her own device at best, is the rating itself known.",
}
SHOWS = "What she shows of herself: her recommendations, and whatever else she passes on, come from her own ratings."
CURATOR = "Her ratings from whoever holds them and ran the fit: noise is added to what leaves, not to what is kept."
PRESENCE = "That she took part: the number of users is public here."
WHICH_ITEMS = "Which items she rated: here that is taken to be public, and it is often the sensitive part."
WHOLE_ROW = "All her ratings together: each further one adds the same price again."
TAKEN_AS_PUBLIC = "Whatever is taken to be public, or fixed beforehand, in the conditions below."
EVERYBODY = "What is true of people in general, such as that those who like one item like another: that is the model."

NOT_PRIVATE = "NOT PRIVATE: no noise was added, and the file can give away anyone's ratings. Do not publish it."
NOTHING_PROVED = "Nothing is proved for the release as a whole; what is claimed for parts of it stands below."


def describe(release: Release) -> dict[str, Any]:
    """The privacy card as a plain dict, safe for JSON; an infinite figure is the text "inf", an unknown one None.

    **Guarantee**: `spent`, `mu` and `attacker` are recomputed from the ledger, not copied from the promise.

    >>> import hushrec as hr
    >>> train, _ = hr.synthetic(users=2000, items=20, per_user=8)
    >>> card = describe(hr.fit(train, budget=hr.Budget(1.0, 1e-6)))
    >>> card["epsilon"], card["spent"] <= 1.0, round(card["attacker"]["advantage"], 3)
    (1.0, True, 0.094)
    """
    promise = release.guarantee
    return {
        "solver": dict(release.solver),
        "kind": release.kind,
        "items": release.n_items,
        "value_range": list(release.value_range),
        "epsilon": _plain(promise.epsilon),
        "delta": promise.delta,
        "unit": promise.unit,
        "relation": promise.relation,
        "model": promise.model,
        "private": is_private(promise),
        "void": promise.void,
        "why_void": promise.why_void,
        "protected": protected(promise),
        "from_whom": from_whom(promise),
        "not_protected": list(not_protected(promise)),
        "attacker": attacker(promise),
        "mu": _plain(promise.ledger.mu),
        "spent": _plain(promise.spent),
        "ledger": [_priced(entry, promise.delta) for entry in promise.ledger],
        "assumptions": list(promise.assumptions),
        "claims": list(promise.claims),
        "notes": list(release.notes),
    }


def is_private(promise: Guarantee) -> bool:
    """Whether anything is promised for the release as a whole: a finite epsilon, and noise that nobody can redo."""
    return promise.epsilon is not None and math.isfinite(promise.epsilon) and not promise.void


def protected(promise: Guarantee) -> str:
    """What is protected, in one or two sentences."""
    if promise.epsilon is None:
        return NOTHING_PROVED
    return "Nothing." if math.isinf(promise.epsilon) else PROTECTED[promise.unit, promise.relation]


def from_whom(promise: Guarantee) -> str:
    """From whom it is protected, in one or two sentences."""
    return FROM_WHOM[promise.model] if promise.epsilon is not None and math.isfinite(promise.epsilon) else "Nobody."


def not_protected(promise: Guarantee) -> Iterator[str]:
    """What is not protected, a sentence each."""
    if promise.epsilon == math.inf:
        yield "Anything."
        return
    yield SHOWS
    if promise.model != "local":
        yield CURATOR
    if promise.unit == "rating":
        yield WHICH_ITEMS
        yield WHOLE_ROW
    elif promise.relation == "replace-one":
        yield PRESENCE
    if promise.assumptions:
        yield TAKEN_AS_PUBLIC
    yield EVERYBODY


def attacker(promise: Guarantee) -> dict[str, Any] | None:
    """How well the best attacker can do against everything in the ledger; None where nothing bounds him."""
    if promise.epsilon is None or math.isinf(promise.epsilon):
        return None
    mu, pure = promise.ledger.mu, promise.ledger.pure_epsilon
    if not promise.ledger.entries:
        success, after = _two_number_success(promise.epsilon, promise.delta), None
    elif promise.ledger.selections and math.isfinite(promise.spent):
        success, after = _two_number_success(promise.spent, promise.delta), None
    elif math.isinf(mu) or math.isinf(pure):
        return None
    elif pure == 0.0:
        success, after = attack_success(mu), posterior_odds(0.5, promise.spent, mu)
    elif mu == 0.0:
        success, after = pure_attack_success(pure), posterior_odds(0.5, pure)
    else:
        success, after = _two_number_success(promise.spent, promise.delta), None
    return asdict(success) | {"belief": None if after is None else asdict(after)}


def _two_number_success(epsilon: float, delta: float) -> AttackSuccess:
    """What epsilon and delta alone imply, where the noise is a mixture."""
    lowest = [float(epsilon_delta_tradeoff(alpha, epsilon, delta)) for alpha in (0.01, 0.001)]
    # Both lines of the trade-off curve meet at alpha = (1 - delta) / (1 + e^epsilon) = beta: there he gains most.
    meeting = (1.0 - delta) * (1.0 - math.tanh(epsilon / 2.0)) / 2.0
    return AttackSuccess(
        advantage=1.0 - 2.0 * meeting, tpr_at_1pct_fpr=1.0 - lowest[0], tpr_at_01pct_fpr=1.0 - lowest[1]
    )


def _priced(entry: LedgerEntry, delta: float) -> dict[str, Any]:
    """A line of the ledger with its price: mu, and the epsilon that it would cost on its own."""
    alone = Ledger((entry,)).epsilon(delta)
    return asdict(entry) | {"mu": _plain(entry.mu), "epsilon_alone": _plain(alone)}


def _plain(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value


# --- as text ---------------------------------------------------------------------------------------


def text(release: Release) -> str:
    """The privacy card in plain words and numbers, lines of at most 92 characters.

    >>> import hushrec as hr
    >>> train, _ = hr.synthetic(users=500, items=20, per_user=8)
    >>> print(text(hr.fit(train, budget=hr.NonPrivate())).splitlines()[2])
    NOT PRIVATE: no noise was added, and the file can give away anyone's ratings. Do not publish
    """
    promise = release.guarantee
    low, high = release.value_range
    solver = release.solver.get("name", release.kind)
    parts = [
        [f"Privacy card: {_short(str(solver), 40)}, {release.n_items} items, values from {low:g} to {high:g}"],
        list(_headline(promise)),
        _section("What is protected", [protected(promise)]),
        _section("From whom it is protected", [from_whom(promise)]),
        _section("What is not protected", not_protected(promise), bullets=True),
        _section("What the best attacker can gain", _attack_lines(promise), bullets=True),
        ["What was released, and its price (the ledger)", *_ledger_lines(promise)],
        _section("It holds if", promise.assumptions, bullets=True),
        _section("What is claimed for parts", promise.claims, bullets=True),
        _section("Notes", release.notes, bullets=True),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _headline(promise: Guarantee) -> Iterator[str]:
    if promise.void:
        label = "VOID: SEEDED." if "seed" in promise.why_void else "VOID."
        yield from _wrapped(
            f"{label} {promise.why_void} Nothing is promised; what follows is what it would be without that."
        )
    if promise.epsilon is None:
        yield from _wrapped(f"ε: none. {NOTHING_PROVED}")
    elif math.isinf(promise.epsilon):
        yield from _wrapped(NOT_PRIVATE)
    else:
        kind = {"joint": "joint ", "central": "", "local": "local "}[promise.model]
        yield f"ε = {promise.epsilon:g}, δ = {promise.delta:g}: {kind}differential privacy, for each {promise.unit}"
        yield f"(neighbours: {promise.relation})"


def _section(title: str, sentences: Iterable[str], bullets: bool = False) -> list[str]:
    mark = "- " if bullets else ""
    lines = [line for sentence in sentences for line in _wrapped(sentence, f"  {mark}")]
    return [title, *lines] if lines else []


def _wrapped(sentence: str, mark: str = "") -> list[str]:
    return textwrap.wrap(printable(sentence), WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


def _attack_lines(promise: Guarantee) -> Iterator[str]:
    gains = attacker(promise)
    if gains is None:
        yield "Nothing bounds what he can gain."
        return
    thing = "her row" if promise.unit == "user" else "one rating"
    yield (
        f"He knows everything but {thing}, has two guesses for it, and may use any method. His true positives exceed "
        f"his false positives by at most {_percent(gains['advantage'])}."
    )
    yield (
        f"Where he accepts 1 % false alarms he finds the truth in at most {_percent(gains['tpr_at_1pct_fpr'])} of the "
        f"cases; where he accepts 0.1 %, in at most {_percent(gains['tpr_at_01pct_fpr'])}."
    )
    belief = gains["belief"]
    if belief is not None:
        unless = belief["except_with_probability"]
        yield (
            f"A belief of 50 % in the truth becomes at most {_percent(belief['after_at_most'])}"
            + (f", except with probability {unless:.1g}." if unless else ".")
        )


def _percent(rate: float) -> str:
    return f"{100 * rate:.3g} %"


DIGITS = "0123456789"
COLUMNS = ("release", "what it is", "noise", "numbers", "noise/bound", "μ", "ε alone")


def _ledger_lines(promise: Guarantee) -> Iterator[str]:
    """A table of the ledger, equal releases of several rounds put together, and the total."""
    if not promise.ledger.entries:
        yield "  (empty)"
        return
    table = [COLUMNS, *(_line(group, promise) for group in _runs(promise.ledger))]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    for row in table:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield f"  {'-' * 28}"
    pure = promise.ledger.pure_epsilon
    parts = [f"μ = {promise.ledger.mu:.6g}"] if promise.ledger.mu and not promise.ledger.selections else []
    parts += [f"pure ε = {pure:.6g}"] if pure else []
    total = f"ε = {promise.spent:.9g} at δ = {promise.delta:g}"
    yield f"  together: {', '.join([*parts, total])}, added up from these lines alone"


def _runs(ledger: Ledger) -> Iterator[tuple[LedgerEntry, ...]]:
    """Entries that differ in nothing but the number at the end of their names, such as those of a solver's rounds."""
    groups: dict[str, list[LedgerEntry]] = {}
    for entry in ledger:
        groups.setdefault(repr({**asdict(entry), "name": entry.name.rstrip(DIGITS)}), []).append(entry)
    yield from map(tuple, groups.values())


def _line(group: tuple[LedgerEntry, ...], promise: Guarantee) -> tuple[str, ...]:
    first = group[0]
    ratio = first.scale / first.sensitivity if first.sensitivity else 0.0
    last = group[-1].name
    names = first.name if len(group) == 1 else f"{first.name} … {last[len(last.rstrip(DIGITS)) :]} ({len(group)})"
    alone = Ledger((first,)).epsilon(promise.delta)
    if first.selection:
        law = f"mean {first.sensitivity:g}, shape {first.scale:g}"
        return _short(names, 26), _short(first.bound, 44), "best of runs", law, "–", "–", "–"
    return (
        _short(names, 26),
        _short(first.bound.partition(",")[0], 22),
        _noise(first, promise),
        f"{first.coordinates:,}",
        f"{ratio:.4g}" if first.scale or promise.epsilon is not None else "–",
        f"{first.mu:.4g}" if first.mechanism == "gaussian" else "–",
        f"{alone:.4g}",
    )


def _noise(entry: LedgerEntry, promise: Guarantee) -> str:
    """The law of the noise; where nothing is proved, noise of scale 0 is noise that has no price, inside a fit."""
    if entry.scale:
        return entry.mechanism.replace("randomized-response", "flips")
    return "none" if promise.epsilon is not None else f"{entry.mechanism} inside"


def _short(words: str, most: int) -> str:
    clean = printable(words)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"
