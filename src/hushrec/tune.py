"""tune: choose among solvers by noisy scores on the private ratings themselves, all of it charged.

    for each of K runs, K random and secret:                    (`privacy.selection`)
        draw one candidate at random
        fit it to every user's row without the ratings that a public rule holds out of it
        release its error on the held-out ratings, with noise
    keep the run with the best noisy score; of the others nothing is ever seen

One run spends a smaller budget, such that the best of K runs keeps the budget that was asked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushrec.data.ratings import Ratings
from hushrec.device.kinds import KINDS
from hushrec.engines.base import Engine
from hushrec.errors import ConfigError
from hushrec.fit import is_solver, learn, open_ledger, require_ratings, with_remark
from hushrec.privacy.accounting import Budget, LedgerEntry, NonPrivate, gaussian_epsilon
from hushrec.privacy.curator import Curator
from hushrec.privacy.durable import LedgerFile
from hushrec.privacy.guarantee import Guarantee
from hushrec.privacy.noise import BitSource, SeededBits, SystemBits
from hushrec.privacy.queries import HeldOutErrors, HoldOut
from hushrec.privacy.selection import UNIFORM_BITS, draw_runs, selection_mu
from hushrec.release.file import Release
from hushrec.solvers.base import Solver

RESIDUAL = 0.42  # typical deviation of a residual in units of half the value range: errors are counted from there
MOST_HELD_OUT = 4.0  # ratings that count for one user's score
COUNT_WEIGHT = 0.3  # the count is needed less exactly than the errors
MARGIN = 1e-10  # of epsilon: covers the rounding of shares, scales and sums in one run


@dataclass(frozen=True, kw_only=True)
class Law:
    """How many runs a tuning makes: the mean of K, and the shape of its law (0: logarithmic, 1: geometric)."""

    mean: float
    shape: float

    def __post_init__(self) -> None:
        if not 1.01 <= self.mean <= 1e6:
            raise ConfigError(f"trials_mean must be from 1.01 to 1000000, not {self.mean}.")
        if not 0 <= self.shape <= 10:
            raise ConfigError(f"shape must be from 0 to 10, not {self.shape}.")

    def draw(self, bits: BitSource) -> int:
        """A number of runs, from the source of the noise."""
        words = bits.words(UNIFORM_BITS // 64)
        return draw_runs(self.mean, self.shape, sum(int(word) << (64 * place) for place, word in enumerate(words)))

    def run_budget(self, budget: Budget) -> Budget:
        """What one run may spend."""
        mu = selection_mu(budget.epsilon * (1.0 - MARGIN), budget.delta, self.mean, self.shape)
        delta = min(budget.delta, 1e-3 * mu)  # any delta names the same mu; at a small one epsilon is above 0
        return Budget(gaussian_epsilon(mu, delta), delta, relation=budget.relation, unit=budget.unit)

    def entry(self) -> LedgerEntry:
        """How the ledger says that its other entries are those of the best run."""
        return LedgerEntry(
            "selection", "selection", self.mean, self.shape, 0.0, 0, bound="best score of a random number of runs"
        )


def tune(
    ratings: Ratings,
    candidates: Sequence[Solver],
    budget: Budget | NonPrivate,
    *,
    seed: int | None = None,
    trials_mean: float = 10.0,
    score_share: float = 0.1,
    held_out: float = 0.1,
    shape: float = 0.0,
    engine: Engine | None = None,
    ledger: LedgerFile | str | os.PathLike[str] | None = None,
) -> Release:
    """Fit random candidates a random number of times, and return the release with the best noisy held-out score.

    candidates: solvers; each trial draws one, so it may be tried more than once or not at all. trials_mean: of the
    number of trials, whose law has this `shape` (0: logarithmic, 1: geometric: dearer, but seldom a single trial).
    score_share: part of a trial's budget for its score. held_out: share of each user's ratings to score on; the
    release is fitted to the others. ledger: as in `fit`; it is charged for the whole tuning before the first trial,
    and a tuning that is interrupted has cost that.

    **Guarantee**: the release is (ε, δ)-differentially private at the budget's unit and relation, the choice
    included (Papernot and Steinke 2022, Theorem 2); its ledger has the winning trial and the selection. How many
    trials there were must stay secret: nobody else may see how long it took. A seeded run has no guarantee.

    >>> import hushrec as hr
    >>> train, _ = hr.synthetic(users=1000, items=20, per_user=8)
    >>> release = hr.tune(train, [hr.SVD(rank=1), hr.SVD(rank=3)], hr.Budget(4.0, 1e-6), trials_mean=2.0)
    >>> release.guarantee.epsilon, release.guarantee.spent <= 4.0
    (4.0, True)
    """
    require_ratings(ratings)
    law = Law(mean=trials_mean, shape=shape)
    if isinstance(candidates, (str, bytes)) or not isinstance(candidates, Sequence):
        raise ConfigError("candidates must be a list of solvers, such as [SVD(), Posterior()].")
    if len(candidates) == 0 or not all(is_solver(one) for one in candidates):
        raise ConfigError("candidates must name at least one solver, and nothing that is none, such as [SVD()].")
    if not isinstance(budget, (Budget, NonPrivate)):
        raise ConfigError("tune needs a budget: Budget(epsilon=..., delta=...), or NonPrivate() for no protection.")
    if budget.unit != "user" or any(getattr(one, "unit", "user") != "user" for one in candidates):
        raise ConfigError('tune compares held-out scores of users, at unit="user"; OneBit protects single ratings.')
    if budget.private and budget.delta == 0.0:
        raise ConfigError("delta is 0.0, but a selection needs a delta above 0, for example 1e-6.")
    for name, part in (("score_share", score_share), ("held_out", held_out)):
        if not 0 < part < 1:
            raise ConfigError(f"{name} must be between 0 and 1, not {part}.")
    bits: BitSource = SystemBits() if seed is None else SeededBits(seed)
    rule = HoldOut(salt=int(bits.words(1)[0]), share=held_out)
    each = law.run_budget(budget) if isinstance(budget, Budget) else budget
    if ledger is not None:
        charge(ledger, law, budget, each, seeded=seed is not None)
    best: tuple[float, Release] | None = None
    for _ in range(law.draw(bits)):
        solver = candidates[one_of(len(candidates), bits)]
        trial_seed = None if seed is None else int(bits.words(1)[0])
        curator = Curator(ratings, each, engine=engine, seed=trial_seed)
        scored = trial(curator, solver, rule, score_share, trial_seed)
        if best is None or scored[0] < best[0]:
            best = scored
    if best is None:
        raise ConfigError("The number of trials came out as 0.")
    release = best[1]
    release = replace(release, guarantee=selected(release.guarantee, law, budget, len(candidates)))
    return with_remark(release, budget, ratings.n_users)


def charge(
    ledger: LedgerFile | str | os.PathLike[str],
    law: Law,
    budget: Budget | NonPrivate,
    each: Budget | NonPrivate,
    *,
    seeded: bool,
) -> None:
    """Write the whole tuning down before data is read, as one selection, and close it.

    Nobody may know how many trials there are. What the file says, the times in it and the file's own are those of
    before the first one.
    """
    book = open_ledger(ledger, budget, seeded=seeded)
    name = os.urandom(6).hex()
    book.open_run(name, budget, "tune", seeded=seeded)
    try:
        book.spend(name, law.entry())  # alone it costs nothing yet, should the next line be refused
        book.spend(name, LedgerEntry("best trial", "gaussian", each.mu, 1.0, 1.0, 0, bound="all its releases"))
    finally:
        book.close_run(name)


def trial(
    curator: Curator, solver: Solver, rule: HoldOut, score_share: float, seed: int | None
) -> tuple[float, Release]:
    """One run: a release learnt without what is held out, and its noisy mean squared error there.

    **Guarantee**: the pair costs at most the curator's budget: the solver's releases, and "score".
    """
    curator.plan({"score": score_share})
    curator.hold_out(rule)
    release = learn(curator, solver, seed)
    if KINDS[release.kind].predicts != "values":
        raise ConfigError(f"{type(solver).__name__} ranks items, and so has no error that tune could compare.")
    curator.hold_out(None)
    low, high = release.value_range
    unit = (RESIDUAL * (high - low) / 2) ** 2
    answer = curator.release(
        "score",
        HeldOutErrors(
            bound=MOST_HELD_OUT,
            hold_out=rule,
            kind=release.kind,
            arrays=release.arrays,
            settings=release.settings,
            unit=unit,
            most=MOST_HELD_OUT,
            count_weight=COUNT_WEIGHT,
        ),
    )
    errors, count = answer.parts[0]
    # A count below its own noise says nothing.
    count = max(count, answer.sigma, np.finfo(float).tiny) / COUNT_WEIGHT
    ledger = replace(release.guarantee, ledger=curator.ledger)
    return unit * (1.0 + float(errors) / count), replace(release, guarantee=ledger)


def one_of(count: int, bits: BitSource) -> int:
    """A uniform choice among `count`, without the bias of a remainder."""
    fair = 2**64 // count * count
    while True:
        word = int(bits.words(1)[0])
        if word < fair:
            return word % count


def selected(run: Guarantee, law: Law, budget: Budget | NonPrivate, candidates: int) -> Guarantee:
    """The guarantee of the best run, from that of the run itself."""
    if not budget.private:
        return replace(run, claims=(*run.claims, f"Chosen among {candidates} candidates by exact held-out errors."))
    secret = "Nobody else sees how many trials the tuning made, or how long it took."
    claim = (
        f"Chosen among {candidates} candidates by a noisy score on held-out ratings, as the best of a random number "
        f"of trials (mean {law.mean:g}, shape {law.shape:g}); each trial is {run.ledger.mu:.6g}-GDP, and the best of "
        f"them keeps ε = {budget.epsilon:g} at δ = {budget.delta:g} (Papernot and Steinke 2022, Theorem 2)."
    )
    return replace(
        run,
        epsilon=budget.epsilon,
        delta=budget.delta,
        assumptions=(*run.assumptions, secret),
        claims=(*run.claims, claim),
        ledger=run.ledger.add(law.entry()),
    )
