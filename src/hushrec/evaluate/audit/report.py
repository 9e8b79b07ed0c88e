"""What an audit found: as text, as JSON and as a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Curve(NamedTuple):
    """An attack's ROC: false- and true-positive rates, of how many trials in each world, with privacy or without."""

    false: NDArray[np.float64]
    true: NDArray[np.float64]
    trials: int
    private: bool = True


TITLES = {
    "neighbours": "Neighbours: measured change against declared sensitivity, every query of the plan",
    "separate": "One user, one contribution: sums of single users against sums of all, in integers",
    "noise": "Noise: what was added against what was declared",
    "books": "Books: what left against what was paid for",
    "replay": "Replay: equal answers must give equal releases, whatever the data",
    "black box": "Black box: many trainings with and without a target",
    "one run": "One run: canaries in a single training",
    "attacks": "Attacks people fear: private beside non-private",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was tried: what came out, what is allowed, and whether the guarantee stood."""

    check: str
    name: str
    passed: bool
    says: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """All findings of an audit. `passed`: nothing that was tried broke the guarantee; that is not a proof of it.

    epsilon, delta, mu: what is claimed of the release, which may be less than was asked for; without a claim
    (`claimed` is False), what was asked for. mu is infinite where the claim is not one of Gaussian noise.
    """

    solver: str
    epsilon: float
    delta: float
    relation: str
    mu: float
    confidence: float
    findings: tuple[Finding, ...]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    claimed: bool = True

    @property
    def passed(self) -> bool:
        """Whether the guarantee stood in every check."""
        return all(finding.passed for finding in self.findings)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that contradict the guarantee."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def epsilon_lower(self) -> float:
        """The largest lower bound on ε that any attack reached, at the report's confidence."""
        return max((float(f.figures.get("epsilon_lower", 0.0)) for f in self.findings), default=0.0)

    @property
    def mu_lower(self) -> float:
        """The largest lower bound on μ that any attack reached, at the report's confidence."""
        return max((float(f.figures.get("mu_lower", 0.0)) for f in self.findings), default=0.0)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """The report for a reader."""
        verdict = "nothing broke the guarantee" if self.passed else "THE GUARANTEE IS BROKEN"
        gaussian = math.isfinite(self.mu)
        what = "claimed" if self.claimed else "nothing is claimed of the release as a whole; asked for"
        lines = [
            f"Audit of {self.solver}: {what} (ε, δ) = ({self.epsilon:g}, {self.delta:g}) under {self.relation}"
            + (f", μ = {self.mu:.4g}" if gaussian else ""),
            f"Verdict: {verdict}. Best lower bounds, each at {self.confidence:.0%} confidence: "
            f"ε ≥ {self.epsilon_lower:.3g}" + (f", μ ≥ {self.mu_lower:.3g}." if gaussian else "."),
            "An audit can show that a system is broken; that it finds nothing is no proof that it is sound.",
        ]
        for check, title in TITLES.items():
            found = [finding for finding in self.findings if finding.check == check]
            if found:
                lines += ["", title]
                lines += [f"  {'ok    ' if f.passed else 'BROKEN'} {f.name}: {f.says}" for f in found]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, safe for JSON; infinities as text."""
        plain = {
            "solver": self.solver,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation,
            "mu": self.mu,
            "confidence": self.confidence,
            "claimed": self.claimed,
            "passed": self.passed,
            "epsilon_lower": self.epsilon_lower,
            "mu_lower": self.mu_lower,
            "findings": [{**vars(finding), "figures": dict(finding.figures)} for finding in self.findings],
            "curves": {
                name: {
                    "false_positives": list(curve.false),
                    "true_positives": list(curve.true),
                    "trials": curve.trials,
                    "private": curve.private,
                }
                for name, curve in self.curves.items()
            },
        }
        converted: dict[str, Any] = _plain(plain)
        return converted

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def draw(self, path: Path) -> bool:
        """Draw the attackers' curves and the best possible one; False without Matplotlib.

        Where μ is known, a band shows how far a curve of the fewest trials may lie above that by luck alone.
        """
        from hushrec.evaluate.plots import check_picture, draw_curves
        from hushrec.privacy.meaning import roc

        place, bounded = check_picture(path), math.isfinite(self.mu)
        best = {f"best possible attacker at μ = {self.mu:.3g}": roc(self.mu, points=301)} if bounded else {}
        trials = min((curve.trials for curve in self.curves.values() if curve.private), default=0)
        return draw_curves(self.curves, best, f"{self.solver}: attackers' success", place, trials=trials)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
