"""Every query, both relations: worst-case neighbours never pass the declared sensitivity, and reach half of it."""

import inspect
import itertools

import numpy as np
import pytest
from query_examples import EXAMPLES, ITEMS

from hushrec.privacy import queries
from hushrec.privacy.forms import GramQuery, Query
from making import random_ratings, unchecked

MU = 0.3
ALL = list(range(ITEMS))

# Rows that a hostile user might hold; the last ones could not even be constructed as Ratings.
ADVERSARIES = {
    "nothing": ([], []),
    "all at the top": (ALL, [5.0] * ITEMS),
    "all at the bottom": (ALL, [1.0] * ITEMS),
    "alternating": (ALL, [1.0, 5.0] * (ITEMS // 2)),
    "alternating, other way": (ALL, [5.0, 1.0] * (ITEMS // 2)),
    "pairs": (ALL, [1.0, 1.0, 5.0, 5.0] * (ITEMS // 4)),
    "one item, top": ([3], [5.0]),
    "one item, bottom": ([3], [1.0]),
    "another item": ([8], [5.0]),
    "two items": ([1, 4], [1.0, 5.0]),
    "two other items": ([8, 11], [5.0, 1.0]),
    "half of the items": (ALL[::2], [5.0, 1.0] * (ITEMS // 4)),
    "the other half": (ALL[1::2], [5.0, 1.0, 1.0] * (ITEMS // 6)),
    "halves apart, low": (ALL[: ITEMS // 2], [1.0] * (ITEMS // 2)),
    "halves apart, high": (ALL[ITEMS // 2 :], [5.0] * (ITEMS // 2)),
    "huge": (ALL, [3e38] * ITEMS),
    "large": (ALL, [1e6, -1e6] * (ITEMS // 2)),
    "tiny": (ALL, [1e-38] * ITEMS),
    "not a number": (ALL, [np.nan] + [5.0] * (ITEMS - 1)),
    "infinite": (ALL, [np.inf] + [1.0] * (ITEMS - 1)),
    "the same item over and over": ([3] * 50, [5.0] * 50),
    "items out of order": ([8, 3], [5.0, 1.0]),
}
OTHERS = random_ratings(users=7, items=ITEMS, seed=1)


def others():
    return [(list(OTHERS.user(i)[0]), list(OTHERS.user(i)[1])) for i in range(OTHERS.n_users)]


def exact_sums(query: Query, rows, relation: str):
    """The integer sums that the curator would add noise to, as Python integers."""
    scale = query.scale(relation, MU)
    sums = query.zeros(ITEMS, np.int64)
    with np.errstate(all="ignore"):
        query.add(unchecked(rows, ITEMS), {}, scale, sums)
    return [part.astype(object) for part in sums], scale


def isometric_norm(query: Query, difference) -> float:
    if isinstance(query, GramQuery):
        (gram,) = difference
        lower = np.tril(gram, -1)
        diagonal = np.diag(gram) if query.diagonal else np.zeros(1, dtype=object)
        return float(2 * (lower**2).sum() + (diagonal**2).sum()) ** 0.5
    return float(sum((part**2).sum() for part in difference)) ** 0.5


def neighbours(relation: str):
    if relation == "add-remove":
        return [(name, None) for name in ADVERSARIES]
    return list(itertools.combinations(ADVERSARIES, 2))


def changes(query: Query, relation: str):
    """For every pair of neighbouring data sets: the norm of the difference of the sums, in sensitivities."""
    with_user = {name: exact_sums(query, [*others(), row], relation) for name, row in ADVERSARIES.items()}
    without = exact_sums(query, others(), relation)
    for first, second in neighbours(relation):
        ours, scale = with_user[first]
        theirs, _ = with_user[second] if second else without
        difference = [a - b for a, b in zip(ours, theirs, strict=True)]
        yield first, second, isometric_norm(query, difference) / scale.sensitivity


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_no_neighbour_passes_the_sensitivity_and_one_reaches_half(query, relation):
    found = list(changes(query, relation))
    worst = max(found, key=lambda change: change[2])
    assert worst[2] <= 1.0, worst
    if isinstance(query, queries.UserCount) and relation == "replace-one":
        assert worst[2] <= 0.5  # every sound user adds 1, whatever her row: m is public there, and nobody asks
    else:
        assert worst[2] >= 0.5, worst


COUNTS = (
    queries.UserCount,
    queries.ItemCounts,
    queries.RatingCount,
    queries.CooccurrenceGram,
    queries.ImplicitEquations,
)
READ_VALUES = [query for query in EXAMPLES if not isinstance(query, COUNTS) and getattr(query, "clamp", 0) is not None]


@pytest.mark.parametrize("query", READ_VALUES, ids=lambda q: type(q).__name__)
def test_users_who_are_not_numbers_add_nothing(query):
    without, _ = exact_sums(query, others(), "add-remove")
    for name in ("not a number", "infinite"):
        with_user, _ = exact_sums(query, [*others(), ADVERSARIES[name]], "add-remove")
        assert all((a == b).all() for a, b in zip(with_user, without, strict=True))


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_a_users_contribution_does_not_depend_on_the_others(query):
    """What she adds is the same among others and alone: nothing is computed across users."""
    row = ADVERSARIES["half of the items"]
    alone, _ = exact_sums(query, [row], "add-remove")
    together, _ = exact_sums(query, [*others(), row], "add-remove")
    without, _ = exact_sums(query, others(), "add-remove")
    for one, both, rest in zip(alone, together, without, strict=True):
        assert (both - rest == one).all()


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda q: type(q).__name__)
def test_the_grid_is_fine_enough_to_lose_nothing(query):
    """Integer sums against the same sums in floats: off by less than one unit a user in every coordinate."""
    rows = others()
    exact, scale = exact_sums(query, rows, "add-remove")
    ours = query.finish(tuple(part.astype(np.int64) for part in exact), scale.unit)
    floats = query.zeros(ITEMS, np.float64)
    query.add(unchecked(rows, ITEMS), {}, type(scale)(), floats)
    theirs = query.finish(floats, 1.0)
    step = query.bound / scale.units
    room = 2 * query.bound * step if isinstance(query, GramQuery) else step
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1.01 * room * len(rows))


def test_every_query_of_the_closed_list_has_an_example():
    listed = {
        cls
        for _, cls in inspect.getmembers(queries, inspect.isclass)
        if issubclass(cls, Query) and not inspect.isabstract(cls) and cls.__module__ == queries.__name__
    }
    assert listed == {type(example) for example in EXAMPLES}
