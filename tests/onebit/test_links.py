"""Links against mpmath, their derivatives against each other, and the constants against closed forms."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from hushrec.errors import ConfigError
from hushrec.onebit.links import Flipped, Link, Logistic, Probit, make_link

POINTS = np.array([-40.0, -37.5, -20.0, -8.3, -3.0, -1.0, -1e-3, 0.0, 1e-9, 0.5, 2.0, 6.0, 12.0, 25.0, 37.9, 40.0])
LINKS = [
    Logistic(),
    Logistic(0.5),
    Probit(),
    Probit(1.7),
    Flipped(Logistic(), 0.2),
    Flipped(Probit(), 0.018),
    Flipped(Probit(), 0.0),
]
RELATIVE = 1e-10
# what is below this is zero to a double: an error there is no error
NOTHING = mp.mpf("1e-300")


@pytest.fixture(autouse=True)
def _many_digits():
    # 1 - h at x = 40 needs some 360 digits before its first
    with mp.workdps(420):
        yield


def exact(link: Link, x: float) -> tuple[mp.mpf, mp.mpf]:
    """h(x) and h'(x)."""
    if isinstance(link, Flipped):
        h, slope = exact(link.base, x)
        p = mp.mpf(link.flip)
        return h * (1 - p) + (1 - h) * p, (1 - 2 * p) * slope
    u = mp.mpf(float(x)) / mp.mpf(link.sigma)
    if isinstance(link, Logistic):
        h = 1 / (1 + mp.exp(-u))
        return h, h * (1 - h) / mp.mpf(link.sigma)
    return mp.erfc(-u / mp.sqrt(2)) / 2, mp.npdf(u) / mp.mpf(link.sigma)


def close(got: float, wanted: mp.mpf, room: mp.mpf = 0) -> bool:
    return abs(mp.mpf(float(got)) - wanted) <= RELATIVE * abs(wanted) + room + NOTHING


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_probabilities_and_slopes_match_mpmath(link):
    names = ("probability", "log_probability", "log_complement", "derivative", "logit", "logit_slope", "score")
    got = {name: getattr(link, name)(POINTS) for name in names}
    for k, x in enumerate(POINTS):
        h, slope = exact(link, x)
        wanted = {
            "probability": h,
            "log_probability": mp.log(h),
            "log_complement": mp.log(1 - h),
            "derivative": slope,
            "logit": mp.log(h / (1 - h)),
            "logit_slope": slope / (h * (1 - h)),
            "score": slope / h,
        }
        for name in names:
            # near zero the logit is a difference of two logarithms: relative to those
            room = RELATIVE * abs(wanted["log_probability"]) if name == "logit" else 0
            assert close(got[name][k], wanted[name], room), (name, x)


@pytest.mark.parametrize("link", LINKS, ids=str)
@pytest.mark.parametrize("s", [0.0, 1.0, 0.3, -4.5, 7.25])
def test_loss_and_gradient_match_mpmath(link, s):
    """Both labels at full relative precision; a perturbed s relative to the terms that it weighs."""
    labels = np.full(len(POINTS), s)
    loss, gradient = link.loss(POINTS, labels), link.loss_gradient(POINTS, labels)
    for k, x in enumerate(POINTS):
        h, slope = exact(link, x)
        weights = mp.mpf(s), 1 - mp.mpf(s)
        terms = -weights[0] * mp.log(h), -weights[1] * mp.log(1 - h)
        pulls = -weights[0] * slope / h, weights[1] * slope / (1 - h)
        assert abs(loss[k] - sum(terms)) <= RELATIVE * sum(map(abs, terms)) + NOTHING, x
        assert abs(gradient[k] - sum(pulls)) <= RELATIVE * sum(map(abs, pulls)) + NOTHING, x


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_the_loss_is_linear_in_the_sign(link):
    """ℓ(x, s) = -s g(x) - log(1 - h(x)): so noise on s is noise on the sufficient statistic."""
    x = np.linspace(-6, 6, 41)
    for s in (-1.5, 0.0, 0.4, 1.0, 3.0):
        assert np.allclose(link.loss(x, s), -s * link.logit(x) - link.log_complement(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_bend_is_the_slope_of_the_log_derivative(link):
    x = np.linspace(-4, 4, 33)
    step = 1e-5
    slope = (np.log(link.derivative(x + step)) - np.log(link.derivative(x - step))) / (2 * step)
    assert np.allclose(link.bend(x), slope, atol=1e-8)


def test_steepness_and_flatness_have_their_closed_forms():
    for alpha in (0.0, 0.5, 1.0, 3.0):
        assert Logistic().steepness(alpha) == pytest.approx(1.0, rel=1e-12)
        assert Logistic().flatness(alpha) == pytest.approx(2 + 2 * np.cosh(alpha), rel=1e-12)
        assert Logistic(2.0).steepness(alpha) == pytest.approx(0.5, rel=1e-12)
    assert Probit().steepness(0.0) == pytest.approx(4 / np.sqrt(2 * np.pi), rel=1e-12)
    # at c(0) = 1/2 the flipped logistic link is steepest: 4 (1 - 2p) h'(0)
    assert Flipped(Logistic(), 0.2).steepness(2.0) == pytest.approx(0.6, rel=1e-12)


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_the_constants_are_suprema(link):
    x = np.random.default_rng(0).uniform(-2.5, 2.5, 4000)
    h, slope = link.probability(x), link.derivative(x)
    assert np.all(slope / (h * (1 - h)) <= link.steepness(2.5) * (1 + 1e-12))
    assert np.all(h * (1 - h) / slope**2 <= link.flatness(2.5) * (1 + 1e-12))


def test_the_papers_constants_for_flipped_signs_are_not_bounds():
    """Section 4.1 prints β <= e^α for the logistic link and β_c <= 1/(2(1-2p)²) + e^α/2; both are passed."""
    alpha, p = 1.0, 1 / (1 + np.e)
    assert Logistic().flatness(alpha) > np.exp(alpha)
    printed = 1 / (2 * (1 - 2 * p) ** 2) + np.exp(alpha) / 2
    assert Flipped(Logistic(), p).flatness(alpha) > 4 * printed


@pytest.mark.parametrize("link", LINKS, ids=str)
@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_convexity_is_claimed_exactly_where_it_holds(link, alpha):
    x = np.linspace(-alpha, alpha, 4001)
    slopes = [np.diff(link.loss_gradient(x, np.full_like(x, s))) for s in (0.0, 1.0)]
    assert link.convex(alpha) == bool(min(d.min() for d in slopes) >= -1e-15)


def test_a_perturbed_statistic_keeps_only_the_logistic_loss_convex():
    assert Logistic().convex(1.0, -9.0, 9.0)
    assert not Probit().convex(1.0, -9.0, 9.0)


def test_links_are_made_by_name_and_settings_are_checked():
    assert make_link("probit", 2.0) == Probit(2.0)
    assert make_link(Logistic(3.0)) == Logistic(3.0)
    with pytest.raises(ConfigError, match='"logistic" or "probit"'):
        make_link("cauchy")
    for sigma in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ConfigError, match="sigma"):
            Logistic(sigma)
    for flip in (-0.1, 0.5, np.nan):
        with pytest.raises(ConfigError, match="flip"):
            Flipped(Logistic(), flip)
