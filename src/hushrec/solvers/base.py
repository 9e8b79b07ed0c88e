"""What a solver is, and what it hands back: it names queries to a curator and turns noisy sums into a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushrec.privacy.curator import Curator

Floats = NDArray[np.float64]
Positions = NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Model:
    """Public parameters of one of the kinds in `device.kinds`, with remarks for the privacy card."""

    kind: str
    arrays: Mapping[str, Floats]
    settings: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


class Solver(Protocol):
    """A way to learn a model from noisy sums; a frozen dataclass of public settings."""

    def solve(self, curator: Curator) -> Model:
        """Plan, ask, and turn the answers into a model. Sees no rating, ever."""


def public_settings(solver: Any) -> dict[str, Any]:
    """A solver's name and settings, for the release's header."""
    return {"name": type(solver).__name__, **vars(solver)}
