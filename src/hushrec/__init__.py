"""Hushrec: differentially private matrix completion. Names load on first use, so that the import is quick."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Budget": "hushrec.privacy.accounting",
    "Guarantee": "hushrec.privacy.accounting",
    "Ledger": "hushrec.privacy.accounting",
    "NonPrivate": "hushrec.privacy.accounting",
    "Ratings": "hushrec.data.ratings",
    "read": "hushrec.data.readers",
    "load": "hushrec.data.catalogs",
    "split": "hushrec.data.split",
    "synthetic": "hushrec.data.synthetic",
    "fit": "hushrec.fit",
    "SVD": "hushrec.solvers.svd",
    "Release": "hushrec.release.file",
    "evaluate": "hushrec.evaluate.metrics",
    "LocalEngine": "hushrec.engines.local",
    "HushrecError": "hushrec.errors",
    "DataError": "hushrec.errors",
    "ConfigError": "hushrec.errors",
    "BudgetError": "hushrec.errors",
    "ReleaseError": "hushrec.errors",
    "EngineError": "hushrec.errors",
}

if TYPE_CHECKING:
    from hushrec.data.catalogs import load as load
    from hushrec.data.ratings import Ratings as Ratings
    from hushrec.data.readers import read as read
    from hushrec.data.split import split as split
    from hushrec.data.synthetic import synthetic as synthetic
    from hushrec.engines.local import LocalEngine as LocalEngine
    from hushrec.errors import BudgetError as BudgetError
    from hushrec.errors import ConfigError as ConfigError
    from hushrec.errors import DataError as DataError
    from hushrec.errors import EngineError as EngineError
    from hushrec.errors import HushrecError as HushrecError
    from hushrec.errors import ReleaseError as ReleaseError
    from hushrec.evaluate.metrics import evaluate as evaluate
    from hushrec.fit import fit as fit
    from hushrec.privacy.accounting import Budget as Budget
    from hushrec.privacy.accounting import Guarantee as Guarantee
    from hushrec.privacy.accounting import Ledger as Ledger
    from hushrec.privacy.accounting import NonPrivate as NonPrivate
    from hushrec.release.file import Release as Release
    from hushrec.solvers.svd import SVD as SVD

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        # Looked up anew on every use: a submodule of the same name (hushrec.fit) may have taken the attribute.
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hushrec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
