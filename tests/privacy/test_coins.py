"""Randomized response: flips at the exact rate, with power, decided exactly at its threshold."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom
from scripted_bits import ScriptedBits

from constants import ALPHA, NOISE_SAMPLES, WRONG_FLIP_RATES
from hushrec.errors import ConfigError
from hushrec.privacy.coins import randomized_response
from hushrec.privacy.noise import SeededBits


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_flip_frequency(epsilon):
    def two_sided(rate):
        flips = randomized_response(np.zeros(NOISE_SAMPLES, dtype=np.int8), epsilon, SeededBits(9)).sum()
        return 2 * min(binom.cdf(flips, NOISE_SAMPLES, rate), binom.sf(flips - 1, NOISE_SAMPLES, rate))

    rate = 1 / (1 + math.exp(epsilon))
    assert two_sided(rate) > ALPHA
    for factor in WRONG_FLIP_RATES:
        assert two_sided(min(1.0, rate * factor)) < ALPHA


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 7.5, 60.0, 700.0])
@pytest.mark.parametrize("agreeing_words", [0, 1, 2, 5])
def test_flip_threshold_is_exact(epsilon, agreeing_words):
    bit_count = 64 * (agreeing_words + 1)
    with mpmath.workdps(600):
        threshold = int(mpmath.floor(mpmath.ldexp(1 / (1 + mpmath.exp(mpmath.mpf(epsilon))), bit_count)))
    for numerator, flipped in ((threshold - 1, 1), (threshold + 1, 0)):
        if numerator >= 0:
            words = [(numerator >> shift) & (2**64 - 1) for shift in range(0, bit_count, 64)][::-1]
            assert randomized_response(np.array([0]), epsilon, ScriptedBits(words))[0] == flipped
            assert randomized_response(np.array([1]), epsilon, ScriptedBits(words))[0] == 1 - flipped


def test_response_keeps_type_and_shape_and_the_argument():
    for dtype in (bool, np.int8, np.uint64, np.int64):
        values = np.ones((3, 5), dtype=dtype)
        answers = randomized_response(values, 0.1, SeededBits(1))
        assert (answers.dtype, answers.shape) == (values.dtype, values.shape)
        assert values.all()
        assert not answers.all()
    assert randomized_response(np.ones(4, bool), math.inf, ScriptedBits([])).all()
    assert randomized_response(np.ones(0, bool), 1.0, ScriptedBits([])).shape == (0,)
    assert randomized_response(np.ones(9, bool), 1e308, SeededBits(0)).all()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, "1"])
def test_response_refuses_bad_epsilon(epsilon):
    with pytest.raises(ConfigError, match="epsilon"):
        randomized_response(np.array([0]), epsilon, SeededBits(0))


@pytest.mark.parametrize("values", [[2], [-1], [0.5], ["a"]])
def test_response_refuses_other_values_without_showing_them(values):
    with pytest.raises(ConfigError, match="something else than 0 and 1"):
        randomized_response(np.array(values), 1.0, SeededBits(0))
