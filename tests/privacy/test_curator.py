"""The one door: what is refused is refused unread, what is answered is in the ledger, and the sums are exact."""

import copy
import dataclasses
import inspect
import math
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
from query_examples import EXAMPLES, ITEMS, PAST

from enlisting import enlist
from hushrec import Budget, BudgetError, ConfigError, LocalEngine, NonPrivate
from hushrec.onebit.links import Logistic, Shifted
from hushrec.privacy import closed_list, fits, queries, signs
from hushrec.privacy.accounting import gaussian_epsilon
from hushrec.privacy.closed_list import require_listed
from hushrec.privacy.curator import Curator
from hushrec.privacy.fits import SeparableFit, TiltedFit
from hushrec.privacy.queries import (
    CooccurrenceGram,
    CorrectionRegression,
    FactorGradient,
    FactorGram,
    FactorPath,
    HeldOutErrors,
    HoldOut,
    ItemCounts,
    ItemSums,
    NormalEquations,
    ResidualGram,
    UserCount,
)
from hushrec.privacy.signs import FlippedSigns, MeanValue, NoisyGradient, NoisySigns, RatingQuery
from making import random_ratings

RATINGS = random_ratings(users=60, items=ITEMS, seed=5)


class ForbiddenEngine:
    """Fails the test when anything reads the ratings."""

    def attach(self, ratings):
        raise AssertionError("the ratings were read")


def curator(budget=None, **options):
    return Curator(RATINGS, budget or Budget(1.0, 1e-6), **options)


@pytest.mark.parametrize(
    ("shares", "label"),
    [({}, "gram"), ({"gram": 0.5}, "means"), ({"gram": 0.0}, "gram")],
    ids=["nothing planned", "another planned", "no share"],
)
def test_an_unplanned_release_is_refused_before_any_rating_is_read(shares, label):
    asked = curator(engine=ForbiddenEngine())
    asked.plan(shares)
    with pytest.raises(BudgetError, match="no data was read"):
        asked.release(label, ItemCounts())
    assert len(asked.ledger) == 0


@pytest.mark.parametrize("second", [{"b": 0.41}, {"a": 0.1}, {"b": math.nan}, {"b": -0.1}, {"b": math.inf}])
def test_a_plan_that_overspends_or_repeats_is_refused_whole(second):
    asked = curator(engine=ForbiddenEngine())
    asked.plan({"a": 0.6})
    with pytest.raises(BudgetError):
        asked.plan({"c": 0.01, **second})
    with pytest.raises(BudgetError):
        asked.release("c", ItemCounts())


def test_a_release_is_answered_once():
    asked = curator(seed=0)
    asked.plan({"counts": 0.5})
    asked.release("counts", ItemCounts())
    with pytest.raises(BudgetError, match="already"):
        asked.release("counts", ItemCounts())
    assert len(asked.ledger) == 1


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 20.0])
def test_the_ledger_spends_exactly_the_budget(epsilon, relation):
    budget = Budget(epsilon, 1e-6, relation=relation)
    asked = curator(budget, seed=0)
    labels = {f"q{k}": 1 / len(EXAMPLES) for k in range(len(EXAMPLES))}
    asked.plan(labels)
    for label, query in zip(labels, EXAMPLES, strict=True):
        asked.release(label, query)
    spent = asked.ledger.epsilon(1e-6)
    assert epsilon - 1e-9 <= spent <= epsilon
    # Recomputed here from first principles: what each release could change over what was added to it.
    mu = math.sqrt(math.fsum((entry.sensitivity / entry.scale) ** 2 for entry in asked.ledger))
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(spent, abs=1e-9)
    for entry, query in zip(asked.ledger, EXAMPLES, strict=True):
        assert entry.sensitivity == query.scale(relation, budget.mu * math.sqrt(entry.share)).sensitivity


def test_noise_of_a_release_is_the_noise_in_the_ledger():
    """Two curators on the same data differ by the noise alone: √2 sigma in every coordinate."""
    differences, sigma = [], 0.0
    for seed in range(40):
        answers = []
        for part in range(2):
            asked = curator(seed=2 * seed + part)
            asked.plan({"counts": 1.0})
            answer = asked.release("counts", ItemCounts())
            answers.append(answer.parts[0])
            sigma = answer.sigma
        differences.append(answers[0] - answers[1])
    ratio = np.std(differences) / (math.sqrt(2) * sigma)
    assert 0.87 < ratio < 1.13  # 480 samples: five standard errors are 0.16; 2/3 and 3/2 are far outside


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_sums_do_not_depend_on_shards_workers_or_order(query):
    answers = []
    for shards, workers in ((1, 1), (2, 2), (7, 1), (7, 3), (60, 2)):
        asked = curator(seed=9, engine=LocalEngine(shards=shards, workers=workers))
        asked.plan({"q": 1.0})
        answers.append(asked.release("q", query).parts)
    backwards = random_ratings(users=60, items=ITEMS, seed=5)
    order = np.arange(60)[::-1]
    rows = [backwards.user(i) for i in order]
    from making import unchecked

    reordered = Curator(unchecked([(list(j), list(v)) for j, v in rows], ITEMS), Budget(1.0, 1e-6), seed=9)
    reordered.plan({"q": 1.0})
    answers.append(reordered.release("q", query).parts)
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_without_privacy_the_same_path_gives_the_textbook_sum():
    asked = curator(NonPrivate())
    asked.plan({"gram": 1.0})
    means = np.linspace(2, 4, ITEMS)
    query = ResidualGram(bound=1e6, means=means, item_weights=np.ones(ITEMS))
    (gram,) = asked.release("gram", query).parts
    dense = np.zeros((60, ITEMS))
    rows = np.repeat(np.arange(60), np.diff(RATINGS.indptr))
    dense[rows, RATINGS.indices] = RATINGS.values - means[RATINGS.indices]
    np.testing.assert_allclose(gram, dense.T @ dense, rtol=1e-12, atol=1e-12)
    assert asked.ledger.mu == math.inf


def test_the_number_of_users_is_private_under_add_remove_only():
    public = curator(Budget(1.0, 1e-6))
    assert public.shape.users == 60
    assert public.count_users(0.01) == 60.0
    assert len(public.ledger) == 0
    private = curator(Budget(1.0, 1e-6, relation="add-remove"), seed=0)
    assert private.shape.users is None
    noisy = private.count_users(0.01)
    assert noisy != 60.0
    assert [entry.name for entry in private.ledger] == ["users"]


class Exact(ItemCounts):
    """A question of somebody's own."""

    def add_noise(self, sums, sigma, bits):
        pass


class Tapped(np.ndarray):
    """An array that could write down what it is combined with."""


class Ruled(HoldOut):
    """A rule of somebody's own, which would be shown the ratings."""


def with_code_inside():
    query = ItemCounts()
    object.__setattr__(query, "add_noise", lambda sums, sigma, bits: None)
    return query


def gram_of(means):
    return ResidualGram(bound=1.0, means=means, item_weights=np.ones(ITEMS))


class Disguised(ItemCounts):
    """Says that it lives where the closed list does."""


Disguised.__module__, Disguised.__qualname__ = ItemCounts.__module__, ItemCounts.__qualname__

ARRAYS = {"means": np.zeros(2), "loadings": np.ones((2, 1)), "precision": np.ones(1), "noise": np.ones(2)}
HELD_OUT = {"bound": 1.0, "kind": "gaussian", "unit": 1.0, "most": 4.0, "count_weight": 0.3}
FOREIGN = {
    "a type of its own": Exact(),
    "a type with a false address": Disguised(),
    "no question at all": object(),
    "an attribute with code": with_code_inside(),
    "an array with code": gram_of(np.zeros(ITEMS).view(Tapped)),
    "an array of objects": gram_of(np.array([lambda: None] * ITEMS)),
    "a list": gram_of([0.0] * ITEMS),
    "a rule with code": HeldOutErrors(**HELD_OUT, hold_out=Ruled(salt=1, share=0.5), arrays=ARRAYS, settings={}),
    "code in a mapping": HeldOutErrors(
        **HELD_OUT, hold_out=HoldOut(salt=1, share=0.5), arrays=ARRAYS | {"means": print}, settings={}
    ),
    "a path with code": FactorGram(bound=1.0, past=type("Path", (FactorPath,), {})(**vars(PAST))),
    "signs by a link of its own": SeparableFit(threshold=3.0, link=type("Own", (Logistic,), {})(), ridge=0.5),
}


@pytest.mark.parametrize("query", FOREIGN.values(), ids=FOREIGN)
def test_what_is_not_on_the_closed_list_is_refused_unread_and_unpaid(query):
    asked = curator(
        Budget(1.0, 1e-6, unit="rating" if isinstance(query, RatingQuery) else "user"), engine=ForbiddenEngine()
    )
    asked.plan({"q": 0.5})
    with pytest.raises(ConfigError, match="no data was read"):
        asked.release("q", query)
    assert len(asked.ledger) == 0


def tampered(query, **attributes):
    query = copy.copy(query)
    for name, value in attributes.items():
        object.__setattr__(query, name, value)
    return query


HELD_OUT_ERRORS = next(query for query in EXAMPLES if isinstance(query, HeldOutErrors))
CORRECTIONS = next(query for query in EXAMPLES if isinstance(query, CorrectionRegression))
EQUATIONS = next(query for query in EXAMPLES if isinstance(query, NormalEquations))
COLUMN = np.zeros((RATINGS.n_ratings, 1))
OTHER = {
    "a sensitivity of its own": tampered(ItemCounts(), factors={"replace-one": 1e-9}),
    "a grid of its own": tampered(ItemCounts(), most_units=2**60, widest=2.0**70),
    "a path with more in it": FactorGram(bound=1.0, past=tampered(PAST, more=1)),
    "a path that keeps no key": FactorGram(bound=1.0, past=tampered(PAST, now=0.5)),
    "a truth for a number": tampered(ItemCounts(), bound=True),
    "a threshold for each of many answers": FlippedSigns(threshold=np.full((101, 1), 3.0)),
    "two thresholds and one noise": NoisySigns(threshold=np.array([[1.0], [3.0]])),
    "a column of gradients, and one noise": NoisyGradient(threshold=3.0, no=COLUMN, yes=COLUMN + 1.0, bound=1.0),
    "a weight for each rating": CooccurrenceGram(bound=1.0, item_weights=np.ones(RATINGS.n_ratings)),
    "a number for an array": tampered(EQUATIONS, noise=1.0),
    "means of too few items": gram_of(np.zeros(ITEMS - 1)),
    "weights of too few items": tampered(EQUATIONS, priority=np.zeros(1)),
    "a precision of another rank": tampered(EQUATIONS, precision=np.ones(2)),
    "loadings of another rank than the path's": FactorGradient(
        bound=1.0, past=PAST, loadings=np.ones((ITEMS, 5)), row_bound=1.0
    ),
    "fewer steps than rounds": FactorGram(bound=1.0, past=dataclasses.replace(PAST, steps=np.ones(1))),
    "less than no rating of a user": tampered(EQUATIONS, most=-5),
    "a model of too few items": tampered(
        HELD_OUT_ERRORS, arrays=HELD_OUT_ERRORS.arrays | {"noise": np.ones(ITEMS - 1)}
    ),
    "a model without an array": tampered(HELD_OUT_ERRORS, arrays={}),
    "a model of no kind": tampered(HELD_OUT_ERRORS, kind="none"),
    "traits too few": tampered(CORRECTIONS, arrays=CORRECTIONS.arrays | {"traits": np.ones((ITEMS, 1))}),
    "coefficients too few": tampered(CORRECTIONS, arrays=CORRECTIONS.arrays | {"correction": np.ones(3)}),
    "an array of no declared shape": SeparableFit(threshold=3.0, ridge=0.5, link=Shifted(Logistic(), np.zeros(3))),
}


@pytest.mark.parametrize("query", OTHER.values(), ids=OTHER)
def test_arguments_that_the_question_does_not_declare_are_refused_unread_and_unpaid(query):
    unit = "rating" if isinstance(query, RatingQuery) else "user"
    asked = curator(Budget(1.0, 1e-6, unit=unit), engine=ForbiddenEngine())
    asked.plan({"q": 0.5})
    with pytest.raises(ConfigError, match="no data was read"):
        asked.release("q", query)
    assert len(asked.ledger) == 0


def test_a_gradient_has_one_number_for_each_rating():
    short = np.zeros(RATINGS.n_ratings - 1)
    asked = curator(Budget(1.0, unit="rating"))
    asked.plan({"q": 1.0})
    with pytest.raises(ConfigError, match="one number per rating"):
        asked.release("q", NoisyGradient(threshold=3.0, no=short, yes=short + 1.0, bound=1.0))


class Forgetful(str):
    """A name that denies to be itself, so that nothing under it was ever answered."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return False


class Modest(float):
    """A share that is larger than it says."""

    def __le__(self, other):
        return True

    def __float__(self):
        return 9.0


@pytest.mark.parametrize("label", [Forgetful("q"), "q" * 5000, 7, None])
def test_the_name_of_a_release_is_plain_text(label):
    asked = curator(engine=ForbiddenEngine())
    with pytest.raises(ConfigError, match="plain text"):
        asked.plan({label: 0.5})
    with pytest.raises(ConfigError, match="plain text"):
        asked.release(label, ItemCounts())


def test_a_share_is_what_it_comes_to_as_a_plain_number():
    asked = curator(engine=ForbiddenEngine())
    with pytest.raises(BudgetError):
        asked.plan({"q": Modest(0.5)})
    assert asked.left() == 1.0


def test_a_plan_is_read_once():
    class Swelling(Mapping):
        """Shares that are larger whenever they are looked at again."""

        share = 0.05

        def __getitem__(self, name):
            self.share *= 10.0
            return self.share

        def __iter__(self):
            return iter(["q"])

        def __len__(self):
            return 1

    asked = curator(engine=ForbiddenEngine())
    asked.plan(Swelling())
    assert asked.left() == 0.5


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_every_query_of_the_closed_list_is_on_it(query):
    require_listed(query, ITEMS)


def test_the_closed_list_holds_concrete_questions_of_the_trusted_folder_alone():
    assert {UserCount, ItemCounts, MeanValue, FlippedSigns} <= closed_list.QUERIES
    assert {kind.__module__ for kind in closed_list.QUERIES} == {queries.__name__, signs.__name__}
    assert not any(inspect.isabstract(kind) for kind in closed_list.QUERIES)
    assert {SeparableFit, TiltedFit} <= closed_list.questions(fits)


def test_only_a_plain_rule_holds_ratings_out():
    with pytest.raises(ConfigError, match="HoldOut"):
        curator().hold_out(Ruled(salt=1, share=0.5))
    with pytest.raises(ConfigError, match="HoldOut"):
        curator().hold_out(HoldOut(salt=1, share=np.full(RATINGS.n_ratings, 0.5)))


@pytest.mark.parametrize("chosen", [[-1], [99], [2, 1], [1, 1], [], [[1]], [1.0], [True], np.array([2, 1], np.uint8)])
def test_narrow_takes_increasing_positions_alone(chosen):
    with pytest.raises(ConfigError, match="increasing positions"):
        curator().narrow(np.array(chosen))


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-14, 1e-300), (1e-9, 1e-12)])
def test_a_hopeless_budget_is_refused_before_anything_is_planned(epsilon, delta):
    with pytest.raises(ConfigError, match=f"epsilon = {epsilon:g} with delta = {delta:g} is too small"):
        curator(Budget(epsilon, delta))


@pytest.mark.parametrize("query", [ItemCounts(), FactorGram(bound=1.0, past=PAST)], ids=["sum", "Gram"])
def test_a_share_that_is_too_small_for_the_sampler_is_refused_unpaid(query):
    asked = curator(Budget(1e-7, 1e-9), engine=ForbiddenEngine())
    asked.plan({"q": 1e-12})
    with pytest.raises(ConfigError, match="epsilon must be larger"):
        asked.release("q", query)
    assert len(asked.ledger) == 0


def test_a_rating_budget_that_is_too_small_for_the_sampler_is_refused_unpaid():
    asked = curator(Budget(1e-13, unit="rating"))
    asked.plan({"mean": 1.0})
    with pytest.raises(ConfigError, match="epsilon must be larger"):
        asked.release("mean", MeanValue())
    assert len(asked.ledger) == 0


def test_unseeded_noise_differs_from_run_to_run_and_seeded_noise_does_not():
    def answer(seed):
        asked = curator(seed=seed)
        asked.plan({"u": 1.0})
        return asked.release("u", ItemCounts()).parts[0]

    assert (answer(None) != answer(None)).any()
    np.testing.assert_array_equal(answer(1), answer(1))


def test_the_pattern_is_for_reading():
    """Its arrays are the ratings' own: whoever wrote into them would change what everybody is asked afterwards."""
    pattern = curator(Budget(1.0, unit="rating")).pattern
    for array in (pattern.indptr, pattern.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert RATINGS.indices.flags.writeable


def test_narrowing_keeps_the_chosen_items_in_every_later_answer():
    asked = curator(NonPrivate())
    asked.plan({"before": 0.5, "after": 0.5})
    (before,) = asked.release("before", ItemCounts()).parts
    asked.narrow(np.array([2, 5, 7]))
    (after,) = asked.release("after", UserCount()).parts
    assert asked.shape.items == 3
    np.testing.assert_array_equal(asked.items, [2, 5, 7])
    assert len(before) == ITEMS
    assert after[0] == 60


@pytest.mark.parametrize("action", ["always", "error"])
def test_whether_a_row_overflows_is_told_by_no_warning(action):
    """Warnings reach a solver, as a record or an error: exact answers that nobody paid for."""
    highest = float(RATINGS.values.max())
    query = ItemSums(bound=1.0, centre=0.0, half_width=highest / 1.79e308 * 0.99, count_weight=1.0)
    asked = curator()
    asked.plan({"q": 1.0})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        asked.release("q", query)
    assert seen == []


def test_a_failure_in_the_user_half_releases_nothing_and_quotes_nothing(monkeypatch):
    from dataclasses import dataclass

    from hushrec import EngineError

    @dataclass(frozen=True, kw_only=True)
    class Broken(ItemCounts):
        def blocks(self, rows, cache):
            raise ValueError(f"user with rating {rows.values[0]}")

    enlist(monkeypatch, Broken)
    asked = curator()
    asked.plan({"q": 1.0})
    with pytest.raises(EngineError) as caught:
        asked.release("q", Broken())
    assert "rating" not in str(caught.value).replace("ratings", "")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None  # a traceback prints the context too


def test_a_failure_in_an_answer_about_ratings_quotes_nothing_either(monkeypatch):
    from hushrec import EngineError

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Broken(NoisySigns):
        def answer(self, ratings, entry, bits):
            raise ValueError(f"a rating of {ratings.values[0]}")

    enlist(monkeypatch, Broken)
    asked = curator(Budget(1.0, unit="rating"))
    asked.plan({"q": 1.0})
    with pytest.raises(EngineError, match=r"^The answer failed \(ValueError\); nothing was released\.$") as caught:
        asked.release("q", Broken(threshold=3.0))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
