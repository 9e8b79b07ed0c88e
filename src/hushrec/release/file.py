"""The release: everything that leaves, as one object and one file, with no place for a user's row.

The file is safetensors: arrays, and one JSON header. Loading runs no code, and accepts only what the schema of
the model's kind allows: these array names, these shapes, finite 64-bit floats, sizes that fit each other.
"""

from __future__ import annotations

import json
import math
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushrec import require
from hushrec.device.kinds import KINDS
from hushrec.errors import DataError, ReleaseError
from hushrec.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "hushrec-release"
VERSION = 1
LARGEST_FILE = 4 * 2**30
LARGEST_HEADER = 256 * 2**20
MOST_ITEMS = 20_000_000
LARGEST_RANK = 65_536
LONGEST_TEXT, MOST_TEXTS = 2_000, 100  # a remark or a setting, and how many of them: no room for a table
LONGEST_TUPLE = 16
FIELDS = ("version", "kind", "settings", "items", "value_range", "guarantee", "solver", "notes")


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """A private model: public parameters, the item list, and the guarantee with its ledger.

    **Guarantee**: every field is a public value or post-processing of noisy sums, so anyone may have the file.
    """

    kind: str
    arrays: Mapping[str, NDArray[np.float64]]
    settings: Mapping[str, float] = field(default_factory=dict)
    items: NDArray[Any]
    value_range: tuple[float, float]
    guarantee: Guarantee
    solver: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_model(self)

    @property
    def simulation(self) -> bool:
        """True where the run was seeded: repeatable for experiments, and without a guarantee."""
        return self.guarantee.void

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def __repr__(self) -> str:
        name = self.solver.get("name", self.kind)
        return f"Release({name}, items={self.n_items}, epsilon={self.guarantee.epsilon}, void={self.simulation})"

    def complete(
        self,
        items: Sequence[Any] | NDArray[Any],
        values: Sequence[float] | NDArray[Any],
        *,
        unknown: str = "error",
    ) -> NDArray[np.float64]:
        """Predictions for every item, in the order of `release.items`, from one user's own ratings.

        unknown: "error" or "ignore", for items that are not in the item list.
        **Guarantee**: runs on the user's own device; nothing is sent and nothing is stored.
        """
        from hushrec.release.complete import complete

        return complete(self, items, values, unknown=unknown)

    def recommend(
        self,
        items: Sequence[Any] | NDArray[Any],
        values: Sequence[float] | NDArray[Any],
        top: int = 10,
        *,
        unknown: str = "error",
    ) -> list[tuple[Any, float]]:
        """The `top` items with the highest predictions that she has not rated, as (item id, score)."""
        from hushrec.release.complete import recommend

        return recommend(self, items, values, top, unknown=unknown)

    def uncertainty(
        self, items: Sequence[Any] | NDArray[Any], values: Sequence[float] | NDArray[Any], *, unknown: str = "error"
    ) -> NDArray[np.float64]:
        """The posterior predictive standard deviation (n,) of her rating of every item, from one user's own ratings.

        Only for releases of kind "gaussian" or "refined". **Guarantee**: runs on the user's own device; nothing is
        sent.
        """
        from hushrec.release.uncertainty import deviations

        return deviations(self, items, values, unknown)

    def intervals(
        self,
        items: Sequence[Any] | NDArray[Any],
        values: Sequence[float] | NDArray[Any],
        level: float = 0.9,
        *,
        unknown: str = "error",
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Prediction intervals (low, high), each (n,), that hold her rating of an item with probability `level`.

        Only for releases of kind "gaussian" or "refined". **Guarantee**: runs on the user's own device; nothing is
        sent.
        """
        from hushrec.release.uncertainty import intervals

        return intervals(self, items, values, level, unknown)

    def ask_next(
        self,
        items: Sequence[Any] | NDArray[Any],
        values: Sequence[float] | NDArray[Any],
        candidates: Sequence[Any] | NDArray[Any] | None = None,
        *,
        unknown: str = "error",
    ) -> Any:
        """The id of the item whose rating would lower the summed variance of all her predictions the most.

        candidates: ids of items that she can rate. None: all she has not rated, and popular ones rather, since about
        an item that she does not know she cannot tell. Ties go to the earlier item. Only for releases of kind
        "gaussian" or "refined". **Guarantee**: runs on the user's own device; nothing is sent.
        """
        from hushrec.release.uncertainty import ask_next

        return ask_next(self, items, values, candidates, unknown)

    def card(self) -> str:
        """The privacy card: what is promised, to whom and at what price, in plain words.

        `hushrec.release.card.describe` has the same as a dict.
        """
        from hushrec.release.card import text

        return text(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release file: to a temporary name first, then renamed, so no half file is ever seen."""
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in self.arrays.items()}
        write_whole(Path(path), save(arrays, metadata={FORMAT: json.dumps(_header(self), allow_nan=False)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Release:
        """Read a release file; anything but a sound one raises ReleaseError with one sentence."""
        header, arrays = _read(Path(path))
        try:
            return cls(
                kind=_typed(header, "kind", str),
                arrays=arrays,
                settings={key: _number(value) for key, value in _typed(header, "settings", dict).items()},
                items=_items(header),
                value_range=_pair(header),
                guarantee=Guarantee.from_dict(_typed(header, "guarantee", dict)),
                solver=_typed(header, "solver", dict),
                notes=tuple(_typed(header, "notes", list)),
            )
        except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as problem:
            if isinstance(problem, ReleaseError):
                raise
            raise ReleaseError("The release file's header does not follow its schema.") from None
        except MemoryError:
            raise ReleaseError(f"{path} is too large for this machine's memory.") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    handle, temporary = -1, ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as problem:
        raise DataError(f"{path} could not be written: {problem.strerror or problem}.") from None
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _header(release: Release) -> dict[str, Any]:
    return {
        "version": VERSION,
        "kind": release.kind,
        "settings": dict(release.settings),
        "items": release.items.tolist(),
        "value_range": list(release.value_range),
        "guarantee": release.guarantee.to_dict(),
        "solver": dict(release.solver),
        "notes": list(release.notes),
    }


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = _bytes(path)
    try:
        header = json.loads(_metadata(content)[FORMAT])
        arrays = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError, struct.error, AttributeError):
        raise ReleaseError(f"{path} is not a release file, or it is damaged.") from None
    if not isinstance(header, dict) or type(header.get("version")) is not int or header["version"] != VERSION:
        raise ReleaseError(f"{path} has a format version that this Hushrec does not read.")
    if set(header) != set(FIELDS):
        raise ReleaseError(f"{path} does not have exactly the header fields of a release.")
    return header, arrays


def _bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise ReleaseError(f"There is no release file at {path}.")
        if path.stat().st_size > LARGEST_FILE:
            raise ReleaseError(f"{path} is larger than any release file may be.")
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        if isinstance(problem, ReleaseError):
            raise
        raise ReleaseError(f"{path} could not be read.") from None


def is_release(path: Path) -> bool:
    """Whether a file has the header of a release."""
    try:
        _metadata(_bytes(path))
    except (ReleaseError, ValueError, KeyError, TypeError, RecursionError, struct.error, AttributeError):
        return False
    return True


def _metadata(content: bytes) -> dict[str, str]:
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(LARGEST_HEADER, len(content) - 8):
        raise ValueError("header longer than the file")
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    if not isinstance(metadata, dict) or set(metadata) != {FORMAT}:
        raise TypeError("metadata")
    return metadata


def _typed(header: dict[str, Any], key: str, kind: type) -> Any:
    value = header[key]
    if not isinstance(value, kind):
        raise ReleaseError(f"The release file's field {key!r} has the wrong type.")
    return value


def _number(value: Any) -> float:
    if not require.is_number(value):
        raise ReleaseError("A setting of the release is not a number.")
    return float(value)


def _pair(header: dict[str, Any]) -> tuple[float, float]:
    low, high = _typed(header, "value_range", list)
    return _number(low), _number(high)


def _items(header: dict[str, Any]) -> NDArray[Any]:
    items = _typed(header, "items", list)
    if len(items) > MOST_ITEMS:
        raise ReleaseError("The release file lists more items than are allowed.")
    if items and all(type(item) is int and abs(item) < 2**63 for item in items):
        return np.array(items, dtype=np.int64)
    if items and all(isinstance(item, str) for item in items):
        width = max(map(len, items))  # ids stand in an array as wide as the longest of them
        if 4 * width * len(items) > max(2**28, 64 * sum(map(len, items))):
            raise ReleaseError("The release file's item ids are too uneven in length.")
        return np.array(items, dtype=np.str_)
    raise ReleaseError("The release file's items must be all integers or all strings.")


def _check_model(release: Release) -> None:
    """The schema: raised for files and for solvers alike, so what cannot be loaded cannot be made either."""
    if release.kind not in KINDS:
        raise ReleaseError(f"The model kind {str(release.kind)[:40]!r} is not known to this Hushrec.")
    kind = KINDS[release.kind]
    if len(np.unique(release.items)) != release.n_items:
        raise ReleaseError("The release names an item twice.")
    _check_promise(release.guarantee)
    _check_words(release)
    low, high = release.value_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ReleaseError("The release's value range must be two finite numbers, the lowest first.")
    if set(release.arrays) != set(kind.shapes):
        raise ReleaseError(f"A {release.kind} release holds the arrays {sorted(kind.shapes)} and no others.")
    if set(release.settings) != set(kind.settings):
        raise ReleaseError(f"A {release.kind} release has the settings {sorted(kind.settings)} and no others.")
    if not all(math.isfinite(value) for value in release.settings.values()):
        raise ReleaseError("A setting of the release is not a finite number.")
    sizes = {"n": release.n_items, **kind.sizes}
    for name, shape in kind.shapes.items():
        _check_array(name, release.arrays[name], shape, sizes)
    for name in kind.positive:
        if bool((release.arrays[name] <= 0).any()):
            raise ReleaseError(f"The release's array {name!r} must be positive.")


def _check_promise(guarantee: Guarantee) -> None:
    promised = guarantee.epsilon
    if promised is not None and guarantee.spent > promised * (1 + 1e-9):
        raise ReleaseError("The release promises a smaller epsilon than its own ledger adds up to.")
    if promised is not None and math.isfinite(promised) and not len(guarantee.ledger):
        raise ReleaseError("The release promises an epsilon, and its ledger shows nothing that was released for it.")


def _check_words(release: Release) -> None:
    """What is free text, or a setting of any solver: small and flat, so that a user's row has no place in it."""
    promise = release.guarantee
    several = (release.notes, promise.assumptions, promise.claims, tuple(release.solver))
    ledger = [word for entry in promise.ledger for word in (entry.name, entry.bound)]
    if max(map(len, several)) > MOST_TEXTS:
        raise ReleaseError(f"The release has more than {MOST_TEXTS} remarks or settings.")
    if not all(type(word) is str and len(word) <= LONGEST_TEXT for word in chain(*several, ledger, [promise.why_void])):
        raise ReleaseError(f"A remark of the release is no text of at most {LONGEST_TEXT} characters.")
    for value in release.solver.values():
        parts = value if type(value) in (tuple, list) else (value,)
        if len(parts) > LONGEST_TUPLE or not all(map(_is_scalar, parts)):
            raise ReleaseError("A setting of the release's solver is more than a number, a word or a few of them.")


def _is_scalar(value: Any) -> bool:
    if type(value) is str:
        return len(value) <= LONGEST_TEXT
    return value is None or type(value) in (bool, int) or (type(value) is float and math.isfinite(value))


def _check_array(name: str, array: NDArray[Any], shape: tuple[str, ...], sizes: dict[str, int]) -> None:
    if array.dtype != np.float64 or array.ndim != len(shape):
        raise ReleaseError(f"The release's array {name!r} must hold 64-bit floats in {len(shape)} dimensions.")
    for axis, size in zip(shape, array.shape, strict=True):
        if size != sizes.setdefault(axis, size) or (axis != "n" and size > LARGEST_RANK):
            raise ReleaseError(f"The release's array {name!r} has a size that does not fit.")
    if not bool(np.isfinite(array).all()):
        raise ReleaseError(f"The release's array {name!r} holds a value that is not finite.")
