"""The samplers: exact distribution with power, every sample replayed by mpmath, adversarial bits."""

import itertools
import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2
from scripted_bits import ScriptedBits

from constants import ALPHA, NOISE_BINS, NOISE_SAMPLES, REPLAYED_SAMPLES, WRONG_SCALES
from hushrec.errors import ConfigError
from hushrec.privacy import noise
from hushrec.privacy.noise import (
    CHUNK,
    LARGEST_SCALE,
    SeededBits,
    SystemBits,
    rounded_gaussian,
    rounded_laplace,
)

SAMPLERS = {"gaussian": rounded_gaussian, "laplace": rounded_laplace}
KINDS = sorted(SAMPLERS)


class RecordingBits:
    """Seeded bits that remember every word, in order."""

    def __init__(self, seed):
        self.source, self.drawn = SeededBits(seed), []

    def words(self, count):
        words = self.source.words(count)
        self.drawn.extend(int(word) for word in words)
        return words


# --- the oracle -----------------------------------------------------------------------------------


def oracle_tail(kind, scale, step, digits=80):
    """P(scale |Y| >= step + 1/2)."""
    with mpmath.workdps(digits):
        t = (mpmath.mpf(step) + 0.5) / mpmath.mpf(scale)
        return mpmath.erfc(t / mpmath.sqrt(2)) if kind == "gaussian" else mpmath.exp(-t)


def fits(kind, scale, magnitude, numerator, bit_count, digits=80):
    """Whether every V of [numerator, numerator + 1) / 2^bit_count gives this magnitude."""
    with mpmath.workdps(digits):
        low = mpmath.ldexp(mpmath.mpf(numerator), -bit_count)
        high = mpmath.ldexp(mpmath.mpf(numerator + 1), -bit_count)
        below_next = low >= oracle_tail(kind, scale, magnitude, digits)
        return below_next and (magnitude == 0 or high <= oracle_tail(kind, scale, magnitude - 1, digits))


def replay(kind, scale, samples, drawn):
    """Check every sample against its own bits, and that no word was drawn in vain; return the undecided."""
    words, extra = drawn[: len(samples)], iter(drawn[len(samples) :])
    quantile = {"gaussian": lambda v: -ndtri(v / 2), "laplace": lambda v: -np.log(v)}[kind]
    leading = np.array(words, dtype=np.uint64) >> np.uint64(11)
    low, high = noise._enclosing_steps(leading, scale, quantile)
    undecided = low != high
    for word, sample, needs_more in zip(words, samples, undecided, strict=True):
        numerator, bit_count, magnitude = word >> 11, 53, abs(int(sample))
        if needs_more:
            numerator, bit_count = (numerator << 64) | next(extra), 117
        assert fits(kind, scale, magnitude, numerator, bit_count)
        assert magnitude == 0 or (sample < 0) == bool(word & 1)
    assert next(extra, None) is None
    return int(undecided.sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 1000.1, 2.0**20, 2.0**30])
def test_every_sample_is_reproduced_from_its_bits(kind, scale):
    bits = RecordingBits(1)
    samples = SAMPLERS[kind](scale, REPLAYED_SAMPLES, bits)
    assert replay(kind, scale, samples, bits.drawn) <= 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [2.0**38, LARGEST_SCALE])
def test_every_sample_is_reproduced_where_many_need_more_bits(kind, scale):
    bits = RecordingBits(2)
    samples = SAMPLERS[kind](scale, REPLAYED_SAMPLES, bits)
    assert replay(kind, scale, samples, bits.drawn) > 50


# --- the distribution, with power -----------------------------------------------------------------


def probability_below(kind, t):
    if kind == "gaussian":
        return ndtr(t)
    return np.where(t < 0, 0.5 * np.exp(np.minimum(t, 0)), 1.0 - 0.5 * np.exp(-np.maximum(t, 0)))


def chi_squared_p_value(kind, scale, samples):
    """Compare bins cut at half-way points (so their probabilities are exact) with the samples in them.

    Two-sided: counts that are nearer to what is expected than chance allows are no noise either.
    """
    quantiles = np.arange(1, NOISE_BINS) / NOISE_BINS
    centres = (
        ndtri(quantiles)
        if kind == "gaussian"
        else -np.sign(quantiles - 0.5) * np.log(2 * np.minimum(quantiles, 1 - quantiles))
    )
    cuts = np.unique(np.rint(centres * scale)) + 0.5
    cuts = np.unique(np.concatenate([cuts, [-0.5, -1.5, 1.5]]))
    edges = np.concatenate([[0.0], probability_below(kind, cuts / scale), [1.0]])
    counts = np.bincount(np.searchsorted(cuts, samples), minlength=len(cuts) + 1)
    expected = np.diff(edges) * len(samples)
    keep = expected > 5
    statistic = np.sum((counts - expected)[keep] ** 2 / expected[keep])
    freedom = np.count_nonzero(keep) - 1
    return 2 * min(chi2.sf(statistic, freedom), chi2.cdf(statistic, freedom))


SCALES = [0.3, 1.0, 3.7, 2.0**20]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_the_right_scale_passes(kind, scale):
    samples = SAMPLERS[kind](scale, NOISE_SAMPLES, SeededBits(3))
    assert chi_squared_p_value(kind, scale, samples) > ALPHA


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("factor", WRONG_SCALES)
def test_a_wrong_scale_fails(kind, scale, factor):
    samples = SAMPLERS[kind](scale * factor, NOISE_SAMPLES, SeededBits(4))
    assert chi_squared_p_value(kind, scale, samples) < ALPHA


@pytest.mark.parametrize("kind", KINDS)
def test_other_mistakes_fail_too(kind):
    samples = SAMPLERS[kind](3.7, NOISE_SAMPLES, SeededBits(5))
    floats = np.random.default_rng(0).laplace(size=NOISE_SAMPLES)
    if kind == "gaussian":
        floats = np.random.default_rng(0).standard_normal(NOISE_SAMPLES)
    for wrong in (np.abs(samples), samples + 1, np.trunc(3.7 * floats), np.floor(3.7 * floats)):
        assert chi_squared_p_value(kind, 3.7, wrong) < ALPHA
    assert chi_squared_p_value(kind, 3.7, np.rint(3.7 * floats)) > ALPHA


@pytest.mark.parametrize("kind", KINDS)
def test_samples_that_are_too_even_fail(kind):
    """A part of the samples stratified, one from each of as many equal parts of the distribution; the rest sound."""
    generator = np.random.default_rng(7)
    for stratified in (NOISE_SAMPLES, NOISE_SAMPLES * 4 // 5):
        uniform = generator.random(NOISE_SAMPLES)
        uniform[:stratified] = (np.arange(stratified) + uniform[:stratified]) / stratified
        tails = np.minimum(uniform, 1 - uniform)
        floats = ndtri(uniform) if kind == "gaussian" else np.sign(uniform - 0.5) * -np.log(2 * tails)
        assert chi_squared_p_value(kind, 1000.0, np.rint(1000.0 * floats)) < ALPHA


def test_neighbouring_samples_are_uncorrelated():
    samples = rounded_gaussian(100.0, NOISE_SAMPLES, SeededBits(6)).astype(float)
    for a in (samples, np.abs(samples) - np.abs(samples).mean()):
        correlation = np.mean(a[1:] * a[:-1]) / np.mean(a * a)
        assert abs(correlation) < 5 / math.sqrt(NOISE_SAMPLES)


# --- adversarial bits -----------------------------------------------------------------------------


def first_word(leading, negative=False):
    return (leading << 11) | int(negative)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [5e-324, 1e-300, 0.3, 3.7, 2.0**20, LARGEST_SCALE])
@pytest.mark.parametrize("zero_words", [0, 1, 3])
def test_leading_bits_all_zero(kind, scale, zero_words):
    tail_word = 0x0123_4567_89AB_CDEF
    bits = ScriptedBits([first_word(0), *[0] * zero_words, tail_word])
    magnitude = abs(int(SAMPLERS[kind](scale, 1, bits)[0]))
    if scale > 1e-3:
        assert fits(kind, scale, magnitude, tail_word, 117 + 64 * zero_words, digits=200)
    else:
        assert magnitude == 0


@pytest.mark.parametrize("kind", KINDS)
def test_all_bits_one_is_zero_noise_and_never_raises(kind):
    for scale in (0.3, 2.0**20, LARGEST_SCALE):
        assert SAMPLERS[kind](scale, 1, ScriptedBits([2**64 - 1] * 9))[0] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 3.7, 2.0**20, 2.0**30, LARGEST_SCALE])
@pytest.mark.parametrize("agreeing_words", [0, 1, 2, 5])
def test_bits_next_to_a_rounding_boundary(kind, scale, agreeing_words):
    """V agrees with the probability of reaching a half-way point in all its bits but the last ones."""
    for step in (0, 1, round(scale), 2 * round(scale)):
        bit_count = 53 + 64 * (agreeing_words + 1)
        with mpmath.workdps(300):
            boundary = int(mpmath.floor(mpmath.ldexp(oracle_tail(kind, scale, step, 300), bit_count)))
        for numerator, magnitude in ((boundary - 7, step + 1), (boundary + 7, step)):
            words = [(numerator >> shift) & (2**64 - 1) for shift in range(0, bit_count - 53, 64)][::-1]
            bits = ScriptedBits([first_word(numerator >> (bit_count - 53), negative=True), *words])
            assert SAMPLERS[kind](scale, 1, bits)[0] == -magnitude
            assert fits(kind, scale, magnitude, numerator, bit_count, digits=300)
            assert len(bits.left) <= (1 if agreeing_words == 0 else 0)


@pytest.mark.parametrize("digits", [30, 60, 120])
def test_exact_probabilities_keep_their_error_bounds(digits):
    tails = {"gaussian": noise._gaussian_tail, "laplace": noise._laplace_tail}
    for (kind, tail), scale in itertools.product(tails.items(), (0.1, 1.0, 3.7, 1e6 / 3)):
        for step in sorted({int(t * scale) for t in (0, 0.1, 1, 2.5, 7, 12)}):
            probability, error = tail(scale, step, digits)
            with mpmath.workdps(digits + 60):
                gap = abs(mpmath.mpf(str(probability)) - oracle_tail(kind, scale, step, digits + 60))
                assert gap <= mpmath.mpf(str(error))
            assert error < Decimal(10) ** (5 - digits)


def test_floating_point_quantiles_are_far_inside_their_margin():
    rng = np.random.default_rng(0)
    numerators = np.concatenate(
        [rng.integers(1, 2**53, 300), 2 ** np.arange(53), 2**53 - 2 ** np.arange(52), [3, 5, 2**53 - 3]]
    )
    with mpmath.workdps(50):
        for numerator in numerators:
            v = float(numerator) * 2.0**-53
            exact = mpmath.mpf(int(numerator)) / 2**53
            logarithm = -mpmath.log(exact)
            assert abs(mpmath.mpf(float(-np.log(v))) / logarithm - 1) < 2e-15
            z = mpmath.mpf(float(-ndtri(v / 2)))
            # Newton's step from z gives its error: (erfc(z/sqrt 2) - V) / (2 phi(z)).
            density = 2 * mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)
            assert abs((mpmath.erfc(z / mpmath.sqrt(2)) - exact) / density) < 2e-15 * z


# --- shapes, chunks, refusals ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_zero_scale_draws_nothing(kind):
    samples = SAMPLERS[kind](0, 5, ScriptedBits([]))
    assert samples.dtype == np.int64
    assert not samples.any()


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_join_up_and_numpy_scalars_are_taken(kind):
    samples = SAMPLERS[kind](1000.0, 2 * CHUNK + 3, SeededBits(8))
    again = SeededBits(8)
    parts = [SAMPLERS[kind](np.float32(1000), size, again) for size in (CHUNK, np.int64(CHUNK), 3)]
    assert np.array_equal(samples, np.concatenate(parts))
    assert SAMPLERS[kind](7.0, 0, SeededBits(8)).shape == (0,)


def test_system_bits_differ_and_say_that_they_are_not_seeded():
    assert not SystemBits.seeded
    assert SeededBits.seeded
    assert not np.array_equal(SystemBits().words(4), SystemBits().words(4))
    assert rounded_gaussian(2.0**20, 1000, SystemBits()).std() > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 2.0**40 * 1.01, "1"])
def test_bad_scales_are_refused(kind, scale):
    with pytest.raises(ConfigError, match="must be a number in"):
        SAMPLERS[kind](scale, 1, SeededBits(0))


def test_bad_sizes_seeds_and_sources_are_refused():
    for size in (-1, 1.5):
        with pytest.raises(ConfigError, match="size"):
            rounded_gaussian(1.0, size, SeededBits(0))
    for seed in (-1, 1.5, True, None):
        with pytest.raises(ConfigError, match="seed"):
            SeededBits(seed)
    with pytest.raises(ConfigError, match="64-bit words"):
        rounded_gaussian(1.0, 2, ScriptedBits([1]))


def test_seeded_noise_shares_nothing_with_data_of_the_same_seed():
    """`hr.synthetic(seed=7)` draws from default_rng(7): its noise-free twin must not be the noise of fit(seed=7)."""
    for seed in (0, 7, 12345):
        noise = SeededBits(seed).words(2000)
        assert np.array_equal(noise, SeededBits(seed).words(2000))
        data = np.random.default_rng(seed).bit_generator.random_raw(100_000)
        assert len(np.intersect1d(noise, data)) == 0
        assert len(np.intersect1d(noise, SeededBits(seed + 1).words(2000))) == 0
