"""Deliberately broken variants of queries, curators and solvers, each with the mistake of a real system, and their
sound twin. `test_planted_bugs.py` shows that the audit catches each of them, or that it is refused by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

import hushrec as hr
from hushrec.privacy import queries
from hushrec.privacy.contributions import Block
from hushrec.privacy.curator import Curator, _QueryWork
from hushrec.privacy.forms import GramQuery, Query, SumQuery
from hushrec.privacy.noise import SeededBits, rounded_gaussian
from hushrec.solvers.base import Model

RANGE = (1.0, 5.0)
CENTRE, HALF = 3.0, 2.0


# --- the sound twin ---------------------------------------------------------------------------------


class Moments(queries.ItemMoments):
    """A sum query of the closed list, under another name so that variants can stand beside it."""


class Gram(queries.ResidualGram):
    """A Gram query of the closed list."""


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """A solver with one sum and one Gram: what is broken in a variant is sound here."""

    moments: type = Moments
    gram: type = Gram
    gram_settings: dict = field(default_factory=dict)

    def solve(self, curator):
        curator.plan({"moments": 0.5, "gram": 0.5})
        users = 30.0
        sums, counts, _ = curator.release("moments", self.moment_query()).parts
        means = np.clip(CENTRE + HALF * sums / np.maximum(counts / 0.3, 1.0), *RANGE)
        gram = curator.release("gram", self.gram_query(means)).parts[0]
        return self.model(curator, means, gram / users)

    def moment_query(self):
        return self.moments(
            bound=0.6, centre=CENTRE, half_width=HALF, count_weight=0.3, mean_weight=0.2, offset_prior=1.0
        )

    def gram_query(self, means):
        ones = np.ones(len(means))
        return self.gram(bound=2.0, means=means, item_weights=ones, offset_prior=4.0, **self.gram_settings)

    def model(self, curator, means, gram, **arrays):
        _, vectors = np.linalg.eigh(gram)
        loadings = np.column_stack((np.ones(len(means)), vectors[:, -2:]))
        public = {"means": means, "loadings": loadings, "precision": np.ones(3), "noise": np.ones(len(means))}
        return Model(kind="gaussian", arrays={**public, **arrays})


# --- broken queries ---------------------------------------------------------------------------------


class ClipOffGram(Gram):
    """The row is put on the grid but never clipped."""

    def add(self, rows, cache, scale, into):
        values = np.nan_to_num(self.row(rows, cache), posinf=0.0, neginf=0.0)
        units = np.clip(values * (scale.units / self.bound), -(2**30), 2**30).astype(np.int64)
        for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            row = np.zeros(rows.n_items, dtype=np.int64)
            row[rows.indices[start:stop]] = units[start:stop]
            into[0][...] += np.outer(row, row)


class ClipOffSum(Moments):
    """Contributions are believed to be small."""

    def add(self, rows, cache, scale, into):
        for block, total in zip(self.blocks(rows, cache), into, strict=True):
            part = np.nan_to_num(block.dense if block.entries is None else block.entries, posinf=0.0, neginf=0.0)
            units = np.clip(part * (scale.units / self.bound), -(2.0**50), 2.0**50).astype(np.int64)
            if block.dense is None:
                np.add.at(total, rows.indices, units)
            else:
                total += units.sum(axis=0)


class WeakLaterBlocks(Moments):
    """A fifth of the noise on small blocks that come after the first: the large ones hide it in any average."""

    def add_noise(self, sums, sigma, bits):
        for number, total in enumerate(sums):
            weak = 5 if number and total.size < 8 else 1
            total += rounded_gaussian(sigma / weak, total.size, bits).reshape(total.shape)


class HalfNoise(Gram):
    """Half the noise that is declared."""

    def add_noise(self, sums, sigma, bits):
        super().add_noise(sums, sigma / 2, bits)


class NoiselessDiagonal(Gram):
    """The diagonal is forgotten."""

    def add_noise(self, sums, sigma, bits):
        (gram,) = sums
        for row in range(1, len(gram)):
            gram[row, :row] += rounded_gaussian(sigma / math.sqrt(2.0), row, bits)


class AddRemoveSensitivity(Gram):
    """The textbook's L², where a row is replaced and not added."""

    def sensitivity(self, relation):
        return super().sensitivity("add-remove")

    def scale(self, relation, mu):
        return super().scale("add-remove", mu)


class AddRemoveSum(Moments):
    """B where two opposite contributions are 2B apart."""

    def sensitivity(self, relation):
        return super().sensitivity("add-remove")

    def scale(self, relation, mu):
        return super().scale("add-remove", mu)


class BlocksClippedApart(Moments):
    """Every block is clipped to the bound by itself; the stack then is √3 times as long."""

    def add(self, rows, cache, scale, into):
        for number, (block, total) in enumerate(zip(self.blocks(rows, cache), into, strict=True)):
            _OneBlock(bound=self.bound, block=block, shape=self.shapes(rows.n_items)[number]).add(
                rows, cache, scale, (total,)
            )


@dataclass(frozen=True, kw_only=True)
class _OneBlock(SumQuery):
    name = "one block"
    block: Block
    shape: tuple

    def blocks(self, rows, cache):
        scaled = {name: getattr(self.block, name) for name in ("entries", "dense")}
        return (Block(**{name: None if part is None else 10 * part for name, part in scaled.items()}),)

    def shapes(self, n_items):
        return (self.shape,)


class MeansAcrossUsers(Gram):
    """Item means are taken off inside the user half, from the rows of all users at once."""

    def row(self, rows, cache):
        counts = np.bincount(rows.indices, minlength=rows.n_items)
        sums = np.bincount(rows.indices, weights=rows.values, minlength=rows.n_items)
        return rows.values - (sums / np.maximum(counts, 1))[rows.indices]


class FloatSums(Gram):
    """Sums in floating point: they depend on the order of users."""

    def zeros(self, n_items, dtype):
        return super().zeros(n_items, np.float64)

    def add(self, rows, cache, scale, into):
        grid = super().zeros(rows.n_items, np.int64)
        super().add(rows, cache, scale, grid)
        into[0][...] += grid[0] * 0.1

    def finish(self, sums, unit):
        return super().finish((sums[0] * 10.0,), unit)


@dataclass(frozen=True, kw_only=True)
class NoiseUnlessUnset(Gram):
    """Noise is skipped when a setting is left unset, while the report still says Gaussian."""

    noise_bound: float | None = None

    def add_noise(self, sums, sigma, bits):
        if self.noise_bound is not None:
            super().add_noise(sums, sigma, bits)


class RoundedUp(Gram):
    """Rows are rounded away from zero, so that norms grow past the bound."""

    def add(self, rows, cache, scale, into):
        values = np.nan_to_num(self.row(rows, cache), posinf=0.0, neginf=0.0).astype(float)
        for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            part = values[start:stop]
            with np.errstate(over="ignore", invalid="ignore"):
                norm = max(float(np.sqrt(np.sum(part**2))), self.bound)
            units = np.sign(part) * np.ceil(np.abs(part) / norm * scale.units) if np.isfinite(norm) else 0.0 * part
            row = np.zeros(rows.n_items, dtype=np.int64)
            row[rows.indices[start:stop]] = units.astype(np.int64)
            into[0][...] += np.outer(row, row)


class DuplicatesAddUp(Moments):
    """The norm is taken over distinct items, while an item that stands twice is summed twice."""

    def add(self, rows, cache, scale, into):
        for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            items = rows.indices[start:stop]
            if len(items):
                vector = np.zeros(rows.n_items)
                vector[items] = 1.0
                unit = int(scale.units / max(np.sqrt(vector @ vector), 1.0))
                np.add.at(into[1], items, unit)


# --- broken curators --------------------------------------------------------------------------------


class NoisePerShard(Curator):
    """Each of four workers adds noise to its own part, and the noise is averaged."""

    def _answer(self, query, scale):
        sums = self._attached().total(_QueryWork(query, scale, self._ratings.n_items))
        noises = [query.zeros(self._ratings.n_items, np.int64) for _ in range(4)]
        for noise in noises:
            query.add_noise(noise, scale.sigma, self._bits)
        for number, total in enumerate(sums):
            total += np.rint(np.mean([noise[number] for noise in noises], axis=0)).astype(np.int64)
        return query.finish(sums, scale.unit)


class SeededNoise(Curator):
    """Noise from a generator with a fixed seed, "for reproducibility"."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._bits = SeededBits(0)


class NoiseOnce(Curator):
    """The noise words are drawn once and used for every answer."""

    def release(self, label, query):
        self._bits = _SameWords()
        return super().release(label, query)


class _SameWords:
    pool = np.random.default_rng(5).integers(0, 2**63, 2**20, dtype=np.uint64)

    def __init__(self):
        self.at = 0

    def words(self, count):
        self.at += count
        return self.pool[self.at - count : self.at].copy()


class ChargedOnce(Curator):
    """Two releases with one entry in the ledger."""

    def release(self, label, query):
        noisy = super().release(label, query)
        self._spent = type(self._spent)(self._spent.entries[:1])
        return noisy


class PlanWithoutTotal(Curator):
    """Each share is checked, their sum is not."""

    def plan(self, shares):
        self._shares.update({label: min(1.0, 2 * share) for label, share in shares.items()})


class AnswersAgain(Curator):
    """A query may be asked as often as one likes; each time the noise is new."""

    def release(self, label, query):
        self._spent = type(self._spent)(tuple(entry for entry in self._spent if entry.name != label))
        return super().release(label, query)


class BoundFromData(Curator):
    """The clipping bound is the largest norm in the data: no clipping needed, but the scale is a leak."""

    def release(self, label, query):
        if isinstance(query, GramQuery):
            values = query.row(self._ratings, {})
            starts = self._ratings.indptr[:-1]
            norms = np.sqrt([np.sum(part**2) for part in np.split(values, starts[1:])])
            query = replace(query, bound=float(norms.max()) + 1e-9)
        return super().release(label, query)


class ScaleFromMaximum(Curator):
    """The noise is that of the largest contribution that occurs, and the ledger says otherwise."""

    def _answer(self, query, scale):
        largest = float(np.max(np.abs(self._ratings.values), initial=0.0)) / 5.0
        sums = self._attached().total(_work(query, scale, self._ratings.n_items))
        query.add_noise(sums, scale.sigma * largest, self._bits)
        return query.finish(sums, scale.unit)


def _work(query, scale, n_items):
    return _QueryWork(query, scale, n_items)


class WrongSigmaWide(Curator):
    """Noise of the root of the share where the share itself was planned: too little by a factor."""

    def _answer(self, query, scale):
        sums = self._attached().total(_work(query, scale, self._ratings.n_items))
        query.add_noise(sums, scale.sigma * 0.7, self._bits)
        return query.finish(sums, scale.unit)


# --- broken solvers ---------------------------------------------------------------------------------


class ExactCatalogue(Sketch):
    """The Gram is of the items that are rated most, by exact counts."""

    def gram_query(self, means):
        counts = np.bincount(self.peek._ratings.indices, minlength=len(means))
        head = np.sort(np.argsort(-counts, kind="stable")[:4])
        return replace(super().gram_query(means), head=head)

    def solve(self, curator):
        object.__setattr__(self, "peek", curator)
        return super().solve(curator)

    def model(self, curator, means, gram, **arrays):
        return super().model(curator, means, np.pad(gram, (0, len(means) - len(gram))), **arrays)


class ObservedShare(Sketch):
    """p is |Ω| / (m n), read off the data."""

    def model(self, curator, means, gram, **arrays):
        ratings = curator._ratings
        density = ratings.n_ratings / (ratings.n_users * ratings.n_items)
        return super().model(curator, means, gram, noise=np.full(len(means), 0.1 + density))


class EarlyStopping(Sketch):
    """Rounds go on while the error on the ratings falls."""

    def model(self, curator, means, gram, **arrays):
        ratings, best = curator._ratings, math.inf
        for step in range(20):
            moved = means * (1 - 0.02 * step)
            error = float(np.mean((ratings.values - moved[ratings.indices]) ** 2))
            if error >= best:
                break
            best, kept = error, moved
        return super().model(curator, kept, gram)


class BestOfSeveral(Sketch):
    """The better of two models, judged on the ratings themselves."""

    def model(self, curator, means, gram, **arrays):
        ratings = curator._ratings
        flat = np.full(len(means), means.mean())
        errors = [np.mean((ratings.values - m[ratings.indices]) ** 2) for m in (means, flat)]
        return super().model(curator, (means, flat)[int(np.argmin(errors))], gram)


class ExactUserCount(Sketch):
    """The number of users, exact, where it is private."""

    def model(self, curator, means, gram, **arrays):
        return super().model(curator, means, gram, precision=np.full(3, float(curator._ratings.n_users)))


class ErrorInTheNotes(Sketch):
    """The training error, without noise, in the remarks of the release."""

    def model(self, curator, means, gram, **arrays):
        ratings = curator._ratings
        error = float(np.sqrt(np.mean((ratings.values - means[ratings.indices]) ** 2)))
        return replace(super().model(curator, means, gram), notes=(f"training RMSE {error:.4f}",))


class FailsOnRareData(Sketch):
    """Stops with an error that depends on what somebody rated."""

    def model(self, curator, means, gram, **arrays):
        if curator._ratings.values.max() >= 5.0 and np.diff(curator._ratings.indptr)[-1] == curator.shape.items:
            raise hr.DataError("The ratings are too extreme.")
        return super().model(curator, means, gram)


class OverAsks(Sketch):
    """Plans more than there is."""

    def solve(self, curator):
        curator.plan({"extra": 0.5})
        curator.release("extra", queries.ItemCounts())
        return super().solve(curator)


class UnplannedRelease(Sketch):
    """Asks what it has not planned."""

    def solve(self, curator):
        curator.release("extra", queries.ItemCounts())
        return super().solve(curator)


class AsksTwice(Sketch):
    """Asks the same again for fresh noise, to average it away."""

    def solve(self, curator):
        model = super().solve(curator)
        curator.release("moments", self.moment_query())
        return model


class NoNoise(queries.ItemCounts):
    """A question of the solver's own, which leaves the noise out while the ledger says Gaussian."""

    def add_noise(self, sums, sigma, bits):
        pass


class OwnQuestion(Sketch):
    """Asks what is not on the closed list."""

    def moment_query(self):
        return NoNoise()


class Eavesdropper(np.ndarray):
    """An array that writes down by what it is indexed."""

    heard: ClassVar[list] = []

    def __getitem__(self, index):
        self.heard.append(index)
        return super().__getitem__(index)


class CodeForValues(Sketch):
    """Hands over an object with code of its own where an array of public values is expected."""

    def gram_query(self, means):
        return replace(super().gram_query(means), means=means.view(Eavesdropper))


class OwnSensitivity(Sketch):
    """Writes a smaller sensitivity on its question, in front of the one that its type declares."""

    def moment_query(self):
        query = super().moment_query()
        object.__setattr__(query, "factors", {"replace-one": 1e-9, "add-remove": 1e-9})
        return query


class ShortArray(Sketch):
    """Hands over an array that ends before the items do: the user half would read what lies behind it."""

    def gram_query(self, means):
        return super().gram_query(means[:1])


class Denial(str):
    """A name that denies to be any other, itself included."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return False


class ForgottenName(Sketch):
    """Asks the same question again and again under a name that nobody can find among the answers."""

    def solve(self, curator):
        again = Denial("again")
        curator.plan({again: curator.left() / 2})
        for _ in range(3):
            curator.release(again, queries.ItemCounts())
        return super().solve(curator)


class UserRows(Sketch):
    """Puts the users' factors into the release."""

    def model(self, curator, means, gram, **arrays):
        return super().model(curator, means, gram, users=np.ones((curator._ratings.n_users, 3)))


# --- the list ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A broken variant, and who finds it: a check of the audit, or the error that refuses it; `also`: who else does."""

    name: str
    caught_by: str
    also: tuple[str, ...] = ()
    solver: object = field(default_factory=Sketch)
    curator: type = Curator
    relation: str = "replace-one"
    refused: type[Exception] | None = None


def _query(name: str, caught_by: str, *also: str, **changes: object) -> Bug:
    return Bug(name=name, caught_by=caught_by, also=also, solver=Sketch(**changes))


BUGS = [
    _query("clip off, Gram", "neighbours", "black box", gram=ClipOffGram),
    _query("clip off, sum", "neighbours", moments=ClipOffSum),
    _query("add-remove sensitivity for replace-one data, Gram", "neighbours", "black box", gram=AddRemoveSensitivity),
    _query("add-remove sensitivity for replace-one data, sum", "neighbours", "black box", moments=AddRemoveSum),
    _query("each block clipped by itself", "neighbours", "black box", moments=BlocksClippedApart),
    _query("rows rounded away from zero", "neighbours", gram=RoundedUp),
    _query("an item that stands twice counts twice", "neighbours", moments=DuplicatesAddUp),
    _query("item means across users in the user half", "separate", gram=MeansAcrossUsers),
    _query("float sums instead of integers", "separate", gram=FloatSums),
    _query("noise halved", "noise", "black box", gram=HalfNoise),
    _query("a fifth of the noise on a small later block", "noise", moments=WeakLaterBlocks),
    _query("no noise on the diagonal", "noise", "black box", gram=NoiselessDiagonal),
    _query("noise skipped when a setting is unset", "noise", "black box", gram=NoiseUnlessUnset),
    Bug(name="noise per shard, averaged", caught_by="noise", also=("black box",), curator=NoisePerShard),
    Bug(name="seeded noise", caught_by="noise", also=("black box", "attacks"), curator=SeededNoise),
    Bug(name="one noise for every answer", caught_by="noise", also=("black box", "attacks"), curator=NoiseOnce),
    Bug(name="seven tenths of the noise", caught_by="noise", also=("black box",), curator=WrongSigmaWide),
    Bug(name="noise scale from the data's maximum", caught_by="replay", curator=ScaleFromMaximum),
    Bug(name="clipping bound from the data", caught_by="replay", curator=BoundFromData),
    Bug(name="budget charged once for two releases", caught_by="books", curator=ChargedOnce),
    Bug(name="shares that pass the whole", caught_by="refused", curator=PlanWithoutTotal, refused=hr.ReleaseError),
    Bug(name="answers to the same question without end", caught_by="books", curator=AnswersAgain),
    Bug(name="exact counts choose the catalogue", caught_by="replay", solver=ExactCatalogue()),
    Bug(name="the number of ratings used as p", caught_by="replay", also=("attacks",), solver=ObservedShare()),
    Bug(name="early stopping on private error", caught_by="replay", solver=EarlyStopping()),
    Bug(name="the best of two by private error", caught_by="replay", solver=BestOfSeveral()),
    Bug(
        name="exact number of users",
        caught_by="replay",
        also=("attacks",),
        solver=ExactUserCount(),
        relation="add-remove",
    ),
    Bug(name="training error in the notes", caught_by="replay", solver=ErrorInTheNotes()),
    Bug(name="an error that depends on the data", caught_by="replay", solver=FailsOnRareData()),
    Bug(name="more asked than planned", caught_by="refused", solver=OverAsks(), refused=hr.BudgetError),
    Bug(name="a question without a plan", caught_by="refused", solver=UnplannedRelease(), refused=hr.BudgetError),
    Bug(name="the same question again", caught_by="refused", solver=AsksTwice(), refused=hr.BudgetError),
    Bug(name="a question of the solver's own", caught_by="refused", solver=OwnQuestion(), refused=hr.ConfigError),
    Bug(name="code among the arguments", caught_by="refused", solver=CodeForValues(), refused=hr.ConfigError),
    Bug(name="a sensitivity of the solver's own", caught_by="refused", solver=OwnSensitivity(), refused=hr.ConfigError),
    Bug(name="an array that is too short", caught_by="refused", solver=ShortArray(), refused=hr.ConfigError),
    Bug(name="a name that is never found", caught_by="refused", solver=ForgottenName(), refused=hr.ConfigError),
    Bug(name="user rows in the release", caught_by="refused", solver=UserRows(), refused=hr.ReleaseError),
]


QUESTIONS = tuple(
    kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Query) and kind.__module__ == __name__ and kind is not NoNoise
)
"""What the tests put on the closed list; one stays off it, to be refused."""


# --- a mechanism that is no solver ------------------------------------------------------------------


def paper_output_mechanism(epsilon: float, generator: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """One-bit completion that adds Laplace(2α/ε) to each entry of the estimate and claims ε for all of them.

    The estimate: projected gradient for the logistic loss on the nuclear-norm ball. 2α bounds one entry, but one
    flipped sign moves them all.
    """
    estimates: dict[bytes, np.ndarray] = {}

    def mechanism(signs: np.ndarray) -> np.ndarray:
        key = signs.tobytes()
        if key not in estimates:
            estimates[key] = estimate(signs)
        return estimates[key] + generator.laplace(scale=2.0 / epsilon, size=signs.shape)

    return mechanism


def estimate(signs: np.ndarray, alpha: float = 1.0, rank: int = 2, steps: int = 80) -> np.ndarray:
    """M̂ with entries in [−α, α] from signs in {−1, 0, 1}; 0 is not observed."""
    guess = np.zeros(signs.shape)
    radius = alpha * math.sqrt(rank * signs.size)
    for _ in range(steps):
        guess += 4.0 * signs / (1.0 + np.exp(signs * guess)) * (signs != 0)
        left, sizes, right = np.linalg.svd(guess, full_matrices=False)
        excess = np.maximum((np.cumsum(sizes) - radius) / np.arange(1, len(sizes) + 1), 0.0).max()
        guess = np.clip(left * np.maximum(sizes - excess, 0.0) @ right, -alpha, alpha)
    return guess
