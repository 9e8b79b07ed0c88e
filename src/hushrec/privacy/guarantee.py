"""What is promised about one release, as a record: nothing is computed here, and nothing rests on it.

The proof is about what was spent, which the ledger shows; a release whose promise is below that is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from hushrec import require
from hushrec.errors import ConfigError, ReleaseError
from hushrec.privacy.accounting import RELATIONS, UNITS, Ledger, Relation, Unit

Model = Literal["joint", "central", "local"]
MODELS = ("joint", "central", "local")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is promised about one release, to whom, under which assumptions, with the ledger that shows it.

    ``epsilon`` is None where nothing is proved for the release as a whole, and infinite where it is not
    private.

    **Guarantee**: ``spent`` is recomputed from the ledger alone; a ``void`` guarantee promises nothing.

    >>> Guarantee.from_dict(Guarantee(epsilon=1.0, delta=1e-6).to_dict()).epsilon
    1.0
    """

    epsilon: float | None
    delta: float
    unit: Unit = "user"
    relation: Relation = "replace-one"
    model: Model = "joint"
    assumptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    void: bool = False
    why_void: str = ""

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", require.number("epsilon", self.epsilon, 0.0, math.inf))
        object.__setattr__(self, "delta", require.number("delta", self.delta, 0.0, 1.0, below_high=True))
        require.choice("unit", self.unit, UNITS)
        require.choice("relation", self.relation, RELATIONS)
        require.choice("model", self.model, MODELS)
        for name in ("assumptions", "claims"):
            if not isinstance(getattr(self, name), tuple | list):
                raise ConfigError(f"{name} must be a tuple of sentences.")
            object.__setattr__(self, name, tuple(getattr(self, name)))
            for sentence in getattr(self, name):
                require.text(name, sentence)
        if not isinstance(self.ledger, Ledger) or not isinstance(self.void, bool):
            raise ConfigError("ledger must be a Ledger and void must be True or False.")
        require.text("why_void", self.why_void)

    @property
    def spent(self) -> float:
        """The epsilon that the ledger shows at this guarantee's delta."""
        return self.ledger.epsilon(self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict, safe for JSON; an infinite epsilon becomes the text "inf"."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        plain["epsilon"] = "inf" if self.epsilon == math.inf else self.epsilon
        plain["ledger"] = self.ledger.to_list()
        return plain | {name: list(plain[name]) for name in ("assumptions", "claims")}

    @staticmethod
    def from_dict(plain: Any) -> Guarantee:
        """Rebuild a guarantee from an untrusted plain dict; raises ReleaseError on anything unexpected."""
        if not isinstance(plain, dict) or not {"epsilon", "ledger"} <= plain.keys():
            raise ReleaseError("The guarantee is not a record with an epsilon and a ledger.")
        if isinstance(plain["epsilon"], float) and math.isinf(plain["epsilon"]):
            raise ReleaseError('The guarantee holds a bare infinity; an infinite epsilon is written as "inf".')
        epsilon = math.inf if plain["epsilon"] == "inf" else plain["epsilon"]
        ledger = Ledger.from_list(plain["ledger"])
        guarantee: Guarantee = require.record(
            Guarantee, plain | {"epsilon": epsilon, "ledger": ledger}, "guarantee", ReleaseError
        )
        return guarantee
