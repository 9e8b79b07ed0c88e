"""Whatever floats the user half hands over, the integers that are added obey the bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrec.privacy.contributions import Block, add_blocks, add_grams, clip_factors, integer_rows

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)


def sparse_sum(rows, dense=None, bound=1.0, units=1000, items=6):
    indptr = np.concatenate(([0], np.cumsum([len(r) for r in rows]))).astype(np.int64)
    indices = np.concatenate([np.arange(len(r)) for r in rows]).astype(np.int32)
    entries = np.array([v for r in rows for v in r], dtype=float)
    shape = (items,) if dense is None else (items, dense.shape[1])
    dtype = np.float64 if units is None else np.int64
    into = (np.zeros(shape, dtype=dtype),)
    add_blocks(indptr, indices, items, (Block(entries=entries, dense=dense),), bound, units, into)
    return into[0]


@given(st.lists(ANY_FLOAT, min_size=1, max_size=6), st.floats(1e-6, 1e6), st.integers(1, 2**29))
@settings(max_examples=300, deadline=None)
def test_any_row_is_certified_exactly(row, bound, units):
    total = sparse_sum([row], bound=bound, units=units).astype(object)
    assert (total**2).sum() <= units**2


@given(st.lists(ANY_FLOAT, min_size=1, max_size=6), st.lists(ANY_FLOAT, min_size=3, max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_outer_product_is_certified_exactly(row, vector):
    total = sparse_sum([row], np.array([vector]), units=2**20).astype(object)
    assert (total**2).sum() <= 2**40


@given(st.lists(ANY_FLOAT, min_size=1, max_size=6), st.integers(1, 2**15))
@settings(max_examples=300, deadline=None)
def test_any_gram_row_is_certified_exactly(row, units):
    indptr = np.array([0, len(row)])
    rows = integer_rows(indptr, np.arange(len(row), dtype=np.int32), 6, np.array(row), 1.0, units)
    assert (rows.astype(object) ** 2).sum() <= units**2


LARGE_AND_SMALL = st.one_of(
    ANY_FLOAT, st.builds(lambda digits, power: digits * 10.0**power, st.floats(-9.9, 9.9), st.integers(-307, 307))
)
BOUNDS = st.builds(lambda power: 10.0**power, st.integers(-100, 150))
WIDTHS = {"entries": (4, 0), "dense": (0, 3), "outer": (4, 3), "vectors": (4, 3)}


def stacked_sum(kind, entries, dense, bound, units):
    """The squared norm of the integers that one user's block adds."""
    indptr, indices = np.array([0, 4]), np.arange(4, dtype=np.int32)
    parts = {
        "entries": Block(entries=entries),
        "dense": Block(dense=dense[None]),
        "outer": Block(entries=entries, dense=dense[None]),
        "vectors": Block(entries=np.outer(entries, dense)),
    }
    into = np.zeros([n for n in WIDTHS[kind] if n], dtype=np.int64)
    add_blocks(indptr, indices, 4, (parts[kind],), bound, units, (into,))
    return sum(int(part) ** 2 for part in into.ravel())


@pytest.mark.parametrize("kind", WIDTHS)
@given(
    st.lists(LARGE_AND_SMALL, min_size=4, max_size=4),
    st.lists(LARGE_AND_SMALL, min_size=3, max_size=3),
    BOUNDS,
    st.sampled_from([1, 1000, 2**26, 2**29]),
)
@settings(max_examples=150, deadline=None)
def test_extreme_values_and_bounds_never_pass(kind, entries, dense, bound, units):
    with np.errstate(all="ignore"):
        assert stacked_sum(kind, np.array(entries), np.array(dense), bound, units) <= units**2


@pytest.mark.parametrize(("entry", "other"), [(1e-162, 4.5e153), (4.5e153, 1e-162)])
def test_a_product_of_tiny_and_huge_does_not_wrap_around_the_integers(entry, other):
    """The tiny one's squares underflow to 0, each product is 3 · 10⁹ grid units: 32 bits do not hold it."""
    assert stacked_sum("outer", np.full(4, entry), np.full(3, other), 1e-10, 2**26) <= 2**52


def test_what_a_clip_lost_to_underflow_would_add_is_counted():
    rows = integer_rows(np.array([0, 1]), np.array([0], dtype=np.int32), 1, np.array([1e-170]), 1e-100, 2**15)
    assert abs(int(rows[0])) <= 2**15


@pytest.mark.parametrize(
    "block",
    [
        Block(),
        Block(entries=np.ones(3)),
        Block(dense=np.ones((3, 2))),
        Block(entries=np.ones((2, 5))),
        Block(entries=np.ones((2, 2)), dense=np.ones((1, 2))),
    ],
    ids=["empty", "entries", "dense", "vectors", "two kinds at once"],
)
def test_a_block_that_does_not_fit_is_refused(block):
    indptr, indices, into = np.array([0, 2]), np.array([0, 1], dtype=np.int32), (np.zeros((6, 2), dtype=np.int64),)
    with pytest.raises(ValueError, match="block"):
        add_blocks(indptr, indices, 6, (block,), 1.0, 100, into)
    with pytest.raises(ValueError, match="row"):
        integer_rows(indptr, indices, 6, np.ones(3), 1.0, 100)


def test_rows_inside_the_bound_are_only_rounded_toward_zero():
    row = [0.3, -0.4, 0.1999]
    np.testing.assert_array_equal(sparse_sum([row], units=1000)[:3], [299, -399, 199])


def test_rows_outside_the_bound_keep_their_direction():
    total = sparse_sum([[30.0, -40.0]], units=10_000)
    np.testing.assert_allclose(total[:2], [6000, -8000], atol=1)


def test_the_stack_of_blocks_is_clipped_as_a_whole():
    indptr, indices = np.array([0, 2]), np.array([0, 1], dtype=np.int32)
    blocks = (Block(entries=np.array([3.0, 0.0])), Block(dense=np.array([[4.0]])))
    into = (np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64))
    add_blocks(indptr, indices, 2, blocks, 1.0, 10_000, into)
    np.testing.assert_allclose(np.concatenate(into), [6000, 0, 8000], atol=1)


@pytest.mark.parametrize("clip", [1.2, 1e12], ids=["too long", "too long for the integers"])
def test_a_contribution_that_fails_the_exact_check_is_taken_out_again(monkeypatch, clip):
    """With the clip broken, the integer check alone must hold the line: the others stay, the long row leaves."""
    import hushrec.privacy.contributions as contributions

    monkeypatch.setattr(contributions, "SHRINK", clip)
    short = [[0.1 / clip, 0.2 / clip], [0.5 / clip, 0.1 / clip]]
    np.testing.assert_array_equal(sparse_sum([short[0], [3.0, 4.0], short[1]]), sparse_sum(short))
    assert sparse_sum(short).any()
    rows = integer_rows(np.array([0, 2]), np.array([0, 1], dtype=np.int32), 2, np.array([3.0, 4.0]), 1.0, 1000)
    assert not rows.any()


def test_without_a_grid_sums_are_plain_floats():
    rows = [[0.1, 0.2, 0.3], [3.0, 4.0, 0.0]]
    np.testing.assert_allclose(sparse_sum(rows, units=None)[:3], [0.1 + 0.6, 0.2 + 0.8, 0.3], rtol=1e-15)


def test_not_finite_norms_give_a_factor_of_zero():
    with np.errstate(all="ignore"):
        factors = clip_factors(np.array([np.nan, np.inf, 4.0, 0.0]), 1.0, None)
    np.testing.assert_array_equal(factors, [0.0, 0.0, 0.5, 1.0])


def test_gram_is_the_plain_product_of_the_integer_rows():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((40, 9)) < 0.5, rng.integers(-1000, 1000, (40, 9)), 0)
    users, items = np.nonzero(dense)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(users, minlength=40))))
    positions = items.astype(np.int32)
    positions[items == 4] = -1
    into = np.zeros((9, 9), dtype=np.int64)
    add_grams(indptr, positions, dense[users, items].astype(np.int32), into)
    dense[:, 4] = 0
    np.testing.assert_array_equal(into, np.tril(dense.T @ dense))


@pytest.mark.parametrize("indices", [[2, 1, 3], [1, 1, 2], [1, 2, 99]])
def test_a_malformed_row_becomes_zero(indices):
    indptr, positions = np.array([0, 3]), np.array(indices, dtype=np.int32)
    into = (np.zeros(6, dtype=np.int64),)
    add_blocks(indptr, positions, 6, (Block(entries=np.ones(3)),), 1.0, 100, into)
    assert not into[0].any()
    assert not integer_rows(indptr, positions, 6, np.ones(3), 1.0, 100).any()
