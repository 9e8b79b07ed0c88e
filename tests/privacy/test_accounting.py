"""The Gaussian curve against 120-digit arithmetic and dp-accounting; budgets, ledger and guarantee."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrec.errors import BudgetError, ConfigError, ReleaseError
from hushrec.privacy import accounting
from hushrec.privacy.accounting import (
    Budget,
    Ledger,
    LedgerEntry,
    NonPrivate,
    check_shares,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_scale,
    laplace_scale,
)
from hushrec.privacy.guarantee import Guarantee

VECTORS = [
    (0.1, 1e-6, 0.0275446502),
    (0.5, 1e-6, 0.1241061490),
    (1, 1e-6, 0.2367043807),
    (1, 1e-5, 0.2680511232),
    (5, 1e-6, 1.0203571451),
    (5, 1e-5, 1.1212418238),
    (10, 1e-5, 2.0004456204),
    (20, 1e-5, 3.4477834468),
    (20, 1e-6, 3.2353593069),
]
EPSILONS = [1e-4, 1e-3, 0.03, 0.5, 1.0, 4.0, 17.0, 90.0, 500.0]
DELTAS = [1e-300, 1e-150, 1e-40, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9]

epsilons = st.floats(math.log(1e-4), math.log(500)).map(math.exp)
deltas = st.one_of(
    st.floats(math.log(1e-300), math.log(0.9)).map(math.exp), st.floats(-28.0, math.log(0.9)).map(math.exp)
)


def oracle_log_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(120):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        root = mpmath.sqrt(2)
        return mpmath.log(mpmath.erfc(-a / root) / 2 - mpmath.exp(epsilon) * mpmath.erfc(-b / root) / 2)


def log(x: float) -> mpmath.mpf:
    with mpmath.workdps(120):
        return mpmath.log(mpmath.mpf(x))


@pytest.mark.parametrize(("epsilon", "delta", "mu"), VECTORS)
def test_published_vectors(epsilon, delta, mu):
    assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-8)
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-7)


def test_forty_releases_of_noise_multiplier_twenty():
    assert gaussian_epsilon(math.sqrt(40) / 20, 1e-6) == pytest.approx(1.367571, abs=5e-7)


@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
def test_curve_error_is_far_below_its_margin(epsilon):
    for mu in (1e-5, 1e-3, 0.1, 0.7, 1.0, 1.0000001, 1.3, 3.0, 10.0, 40.0):
        exact = oracle_log_delta(mu, epsilon)
        if exact > -700:
            assert abs(float(exact - mpmath.mpf(accounting._log_delta(mu, epsilon)))) < 5e-13


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_grid_rounds_toward_privacy_and_stays_tight(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert oracle_log_delta(mu, epsilon) <= log(delta)
    assert oracle_log_delta(mu * (1 + 1e-11), epsilon) > log(delta)
    back = gaussian_epsilon(mu, delta)
    assert oracle_log_delta(mu, back) <= log(delta)
    assert 0 <= epsilon - back <= 1e-9


@given(epsilons, deltas)
@settings(max_examples=200, deadline=None)
def test_rounding_is_toward_privacy(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert oracle_log_delta(mu, epsilon) <= log(delta)
    assert oracle_log_delta(mu, gaussian_epsilon(mu, delta)) <= log(delta)


@given(epsilons, deltas, st.floats(1.0001, 2.0))
@settings(max_examples=150, deadline=None)
def test_monotone(epsilon, delta, factor):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_mu(epsilon * factor, delta) > mu
    assert gaussian_delta(mu * factor, epsilon) > gaussian_delta(mu, epsilon)
    assert gaussian_delta(mu, epsilon * factor) < gaussian_delta(mu, epsilon)
    assert gaussian_epsilon(mu * factor, delta) > gaussian_epsilon(mu, delta)
    assert gaussian_epsilon(mu, min(delta * factor, 0.99)) < gaussian_epsilon(mu, delta)


@given(epsilons, deltas, st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=40), st.floats(1e-3, 1e9))
@settings(max_examples=150, deadline=None)
def test_ledger_recomputes_at_most_the_budget_and_less_than_1e_9_below(epsilon, delta, weights, sensitivity):
    budget, total = Budget(epsilon, delta), math.fsum(weights)
    shares = {str(index): weight / total for index, weight in enumerate(weights)}
    check_shares(shares)
    ledger = Ledger()
    for name, share in shares.items():
        scale = gaussian_scale(sensitivity, budget.mu * math.sqrt(share))
        ledger = ledger.add(LedgerEntry(name, "gaussian", sensitivity, scale, share, 1))
    assert 0 <= epsilon - ledger.epsilon(delta) <= 1e-9


@given(epsilons, st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_pure_ledger_recomputes_at_most_the_budget(epsilon, weights):
    total = math.fsum(weights)
    entries = tuple(
        LedgerEntry("x", "laplace", 3.0, laplace_scale(3.0, epsilon * weight / total), weight / total, 1)
        for weight in weights
    )
    assert 0 <= epsilon - Ledger(entries).epsilon(0.0) <= 1e-9


def test_a_plan_at_the_edge_of_the_tolerance_still_keeps_the_budget():
    budget = Budget(1.0, 1e-6)
    for share in (0.5, 0.5 + 0.99e-12):
        check_shares({"a": share, "b": 0.5})
        scales = [gaussian_scale(1.0, budget.mu * math.sqrt(part)) for part in (share, 0.5)]
        ledger = Ledger(tuple(LedgerEntry("x", "gaussian", 1.0, scale, 0.5, 1) for scale in scales))
        assert ledger.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize(("noise_multiplier", "count", "delta"), [(20.0, 40, 1e-6), (3.0, 4, 1e-5)])
def test_agrees_with_dp_accounting(noise_multiplier, count, delta):
    from dp_accounting import GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-5)
    accountant.compose(GaussianDpEvent(noise_multiplier), count)
    ours = gaussian_epsilon(math.sqrt(count) / noise_multiplier, delta)
    assert accountant.get_epsilon(delta) == pytest.approx(ours, rel=1e-5)


def test_edges_of_the_curve():
    assert gaussian_delta(0.0, 1.0) == 0.0
    assert gaussian_delta(math.inf, 1.0) == 1.0
    assert gaussian_delta(1.0, math.inf) == 0.0
    assert gaussian_delta(1e-3, 500.0) == 0.0
    assert gaussian_mu(1.0, 0.0) == 0.0
    assert gaussian_mu(math.inf, 1e-6) == math.inf
    assert gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(math.inf, 0.5) == math.inf
    assert gaussian_epsilon(0.1, 0.5) == 0.0
    assert gaussian_scale(1.0, math.inf) == laplace_scale(1.0, math.inf) == 0.0


@pytest.mark.parametrize("mu", [5e-324, 1e-320, 1e-100, 1e-9, 1e9, 1e100, 1e308])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-9, 0.9, 1 - 2**-53])
def test_extreme_arguments_of_hostile_files_neither_hang_nor_raise(mu, delta):
    assert gaussian_epsilon(mu, delta) >= 0.0
    assert gaussian_mu(mu, delta) > 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": "1"},
        {"epsilon": True},
        {"epsilon": 10**400},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": math.nan},
        {"epsilon": 1.0, "relation": "neighbour"},
        {"epsilon": 1.0, "unit": "item"},
        {"epsilon": 1.0, "unit": None},
    ],
)
def test_budget_refuses(arguments):
    with pytest.raises(ConfigError, match=r"but it must be|too large"):
        Budget(**arguments)


def test_budget_and_its_opposite():
    budget = Budget(1, 1e-6, relation="add-remove", unit="rating")
    assert (budget.epsilon, budget.delta, budget.relation, budget.unit) == (1.0, 1e-6, "add-remove", "rating")
    assert budget.private
    assert not NonPrivate().private
    assert budget.mu == gaussian_mu(1.0, 1e-6)
    assert (NonPrivate().epsilon, NonPrivate().delta, NonPrivate().mu) == (math.inf, 0.0, math.inf)
    with pytest.raises(ConfigError, match="delta"):
        _ = Budget(1.0).mu
    with pytest.raises(TypeError):
        Budget(1.0, 1e-6, "add-remove")
    with pytest.raises(ConfigError):
        NonPrivate(relation="none")


@pytest.mark.parametrize(
    "shares",
    [{"a": 0.6, "b": 0.5}, {"a": -0.1}, {"a": math.nan}, {"a": math.inf}, {"a": "1"}, {"a": 1 + 2e-12}],
)
def test_shares_refused(shares):
    with pytest.raises(BudgetError, match="share"):
        check_shares(shares)


def test_zero_noise_costs_everything():
    free = LedgerEntry("sum", "gaussian", sensitivity=2.0, scale=0.0, share=1.0, coordinates=3)
    assert free.mu == math.inf
    assert Ledger((free,)).epsilon(1e-6) == math.inf
    assert replace(free, mechanism="laplace").epsilon == math.inf


def test_entry_quotients_are_rounded_up_exactly():
    for sensitivity, scale in [
        (1.0, 3.0),
        (2.0, 3.0),
        (0.1, 0.7),
        (1e308, 1e-308),
        (1e-308, 1e308),
        (1.0, 4.0),
    ]:
        entry = LedgerEntry("x", "gaussian", sensitivity, scale, 0.0, 1)
        exact = Fraction(sensitivity) / Fraction(scale)
        assert entry.mu == math.inf or Fraction(entry.mu) >= exact
        assert Fraction(math.nextafter(entry.mu, 0)) < exact


def test_ledger_mu_is_never_below_the_exact_root():
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 7, 40):
        scales = rng.uniform(0.5, 50.0, size=(50, count))
        for row in scales:
            ledger = Ledger(tuple(LedgerEntry("x", "gaussian", 1.0, scale, 0.0, 1) for scale in row))
            exact = sum(1 / Fraction(scale) ** 2 for scale in row)
            assert exact <= Fraction(ledger.mu) ** 2 <= exact * (1 + Fraction(1, 10**14))


def test_mixed_ledger_adds_pure_epsilon_to_the_gaussian_total():
    gaussian = LedgerEntry("g", "gaussian", 1.0, 4.0, 0.5, 10)
    response = LedgerEntry("r", "randomized-response", 0.25, 1.0, 0.5, 10)
    ledger = Ledger((gaussian, response))
    assert (ledger.mu, ledger.pure_epsilon) == (pytest.approx(0.25, rel=1e-15), 0.25)
    assert ledger.epsilon(1e-6) == pytest.approx(gaussian_epsilon(0.25, 1e-6) + 0.25, rel=1e-15)
    assert len(ledger) == 2
    assert list(ledger) == [gaussian, response]


ENTRY = {
    "name": "gram",
    "mechanism": "gaussian",
    "sensitivity": 1.5,
    "scale": 7,
    "share": 0.5,
    "coordinates": 55,
    "bound": "row norm 4",
}
GUARANTEE = Guarantee(
    epsilon=1.0,
    delta=1e-6,
    relation="add-remove",
    assumptions=("the item list is public",),
    claims=("each single entry: epsilon 1",),
    ledger=Ledger.from_list([ENTRY]),
)


@pytest.mark.parametrize("epsilon", [1.0, None, math.inf])
def test_guarantee_survives_json(epsilon):
    guarantee = replace(GUARANTEE, epsilon=epsilon, void=True, why_void="simulation")
    text = json.dumps(guarantee.to_dict(), allow_nan=False)
    assert Guarantee.from_dict(json.loads(text)) == guarantee
    assert guarantee.spent == guarantee.ledger.epsilon(1e-6)


def test_numpy_numbers_become_plain_ones():
    entry = LedgerEntry("x", "gaussian", np.float32(1), np.float64(2), np.int64(1), np.int64(5))
    assert json.loads(json.dumps(Ledger((entry,)).to_list())) == Ledger((entry,)).to_list()


def hostile_values():
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([10**400, -(10**5000), math.nan, math.inf, -math.inf, -1.0, 2.0, "inf", "nan", "1"]),
        st.text(max_size=5),
        st.lists(st.integers(), max_size=2),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    )


@given(st.sampled_from(sorted(ENTRY)), hostile_values())
@settings(max_examples=200, deadline=None)
def test_hostile_entries_are_refused_or_valid(key, value):
    try:
        ledger = Ledger.from_list([ENTRY | {key: value}])
    except ReleaseError:
        return
    json.dumps(ledger.to_list(), allow_nan=False)
    assert ledger.epsilon(1e-6) >= 0.0


@given(st.sampled_from(sorted(GUARANTEE.to_dict())), hostile_values())
@settings(max_examples=200, deadline=None)
def test_hostile_guarantees_are_refused_or_valid(key, value):
    try:
        guarantee = Guarantee.from_dict(GUARANTEE.to_dict() | {key: value})
    except ReleaseError:
        return
    json.dumps(guarantee.to_dict(), allow_nan=False)
    assert guarantee.spent >= 0.0


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "uniform"},
        {"scale": -1.0},
        {"scale": math.nan},
        {"scale": math.inf},
        {"scale": "7"},
        {"scale": True},
        {"share": 1.1},
        {"coordinates": -1},
        {"coordinates": 1.0},
        {"coordinates": True},
        {"name": 3},
        {"extra": 1},
    ],
)
def test_junk_entries_are_refused(change):
    with pytest.raises(ReleaseError):
        Ledger.from_list([ENTRY | change])


@pytest.mark.parametrize("junk", [None, {}, "gram", [None], [[]], [{}], [{**ENTRY, 5: 1}]])
def test_junk_ledgers_are_refused(junk):
    with pytest.raises(ReleaseError):
        Ledger.from_list(junk)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"epsilon": -1.0},
        {"epsilon": "Inf"},
        {"delta": 1.0},
        {"unit": "item"},
        {"model": "none"},
        {"assumptions": "text"},
        {"claims": [1]},
        {"void": 0},
        {"why_void": None},
        {"ledger": {}},
        {"extra": 1},
    ],
)
def test_junk_guarantees_are_refused(change):
    with pytest.raises(ReleaseError):
        Guarantee.from_dict(GUARANTEE.to_dict() | change)


def test_missing_fields_and_non_records_are_refused():
    for key in GUARANTEE.to_dict():
        plain = GUARANTEE.to_dict()
        del plain[key]
        with pytest.raises(ReleaseError):
            Guarantee.from_dict(plain)
    for junk in (None, [], "x", 3):
        with pytest.raises(ReleaseError):
            Guarantee.from_dict(junk)
