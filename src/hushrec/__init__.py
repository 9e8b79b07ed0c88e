"""Hushrec: differentially private matrix completion. Names load on first use, so that the import is quick."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Budget": "hushrec.privacy.accounting",
    "Guarantee": "hushrec.privacy.guarantee",
    "Ledger": "hushrec.privacy.accounting",
    "NonPrivate": "hushrec.privacy.accounting",
    "Ratings": "hushrec.data.ratings",
    "read": "hushrec.data.readers",
    "load": "hushrec.data.catalogs",
    "split": "hushrec.data.split",
    "synthetic": "hushrec.data.synthetic",
    "fit": "hushrec.fit",
    "tune": "hushrec.tune",
    "plan": "hushrec.evaluate.planning",
    "Posterior": "hushrec.solvers.posterior",
    "ImplicitPosterior": "hushrec.solvers.implicit",
    "SVD": "hushrec.solvers.svd",
    "ALS": "hushrec.solvers.als",
    "FactoredGradient": "hushrec.solvers.factored_gradient",
    "CleansedSVD": "hushrec.solvers.cleansed_svd",
    "FrankWolfe": "hushrec.solvers.frank_wolfe",
    "OneBit": "hushrec.onebit.solver",
    "Release": "hushrec.release.file",
    "evaluate": "hushrec.evaluate.metrics",
    "audit": "hushrec.evaluate.audit",
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
    from hushrec.evaluate.audit import audit as audit
    from hushrec.evaluate.metrics import evaluate as evaluate
    from hushrec.evaluate.planning import plan as plan
    from hushrec.fit import fit as fit
    from hushrec.onebit.solver import OneBit as OneBit
    from hushrec.privacy.accounting import Budget as Budget
    from hushrec.privacy.accounting import Ledger as Ledger
    from hushrec.privacy.accounting import NonPrivate as NonPrivate
    from hushrec.privacy.guarantee import Guarantee as Guarantee
    from hushrec.release.file import Release as Release
    from hushrec.solvers.als import ALS as ALS
    from hushrec.solvers.cleansed_svd import CleansedSVD as CleansedSVD
    from hushrec.solvers.factored_gradient import FactoredGradient as FactoredGradient
    from hushrec.solvers.frank_wolfe import FrankWolfe as FrankWolfe
    from hushrec.solvers.implicit import ImplicitPosterior as ImplicitPosterior
    from hushrec.solvers.posterior import Posterior as Posterior
    from hushrec.solvers.svd import SVD as SVD
    from hushrec.tune import tune as tune

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hushrec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Package(ModuleType):
    """Keeps a submodule of the same name (hushrec.fit, hushrec.evaluate) from taking a public name's place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
