"""Randomized response: answers of yes and no, each flipped with a probability that is exact.

Let V be a uniform real of [0, 1): an answer is flipped where V < 1 / (1 + e^epsilon). The leading 64 bits of V decide
that but once in 2^64; then more are drawn, and the probability is computed to as many digits as it takes.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrec.errors import ConfigError
from hushrec.privacy.noise import CHUNK, BitSource, decimals, draw


def randomized_response(values: NDArray[Any], epsilon: float, bits: BitSource) -> NDArray[Any]:
    """Return a copy of 0/1 ``values`` (any shape), each flipped with probability exactly 1 / (1 + e^epsilon).

    ``epsilon`` is above 0; at inf nothing is flipped.

    **Guarantee**: given uniform bits, the result is exactly epsilon-DP for each single value, even towards
    whoever collects it (the local model).

    >>> from hushrec.privacy.noise import SeededBits
    >>> randomized_response(np.array([0, 1, 1]), 50.0, SeededBits(0))
    array([0, 1, 1])
    """
    if not isinstance(epsilon, int | float | np.floating) or not epsilon > 0.0:
        raise ConfigError(f"epsilon is {epsilon!r}, but it must be a number above 0.")
    answers = np.array(values)
    if answers.dtype.kind not in "biu" or np.any((answers != 0) & (answers != 1)):
        raise ConfigError("values holds something else than 0 and 1, but randomized response takes only these.")
    if math.isinf(epsilon):
        return answers
    flat = answers.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        part ^= _flips(float(epsilon), part.size, bits).astype(part.dtype)
    return answers


def _flips(epsilon: float, size: int, bits: BitSource) -> NDArray[np.bool_]:
    """Decide V < 1 / (1 + e^epsilon) exactly, for ``size`` uniform reals V."""
    words = draw(bits, size)
    threshold = np.uint64(_flip_threshold(epsilon, 64))
    flips = words < threshold
    for index in np.flatnonzero(words == threshold):
        numerator, bit_count = int(words[index]), 64
        while numerator == _flip_threshold(epsilon, bit_count):
            numerator = (numerator << 64) | int(draw(bits, 1)[0])
            bit_count += 64
        flips[index] = numerator < _flip_threshold(epsilon, bit_count)
    return flips


@lru_cache(maxsize=32)
def _flip_threshold(epsilon: float, bit_count: int) -> int:
    """Return the whole part of 2^bit_count / (1 + e^epsilon), certainly.

    The precision doubles until both ends of the error bound agree; they do, since e^epsilon is irrational.
    """
    digits = math.ceil(bit_count * math.log10(2.0)) + 12
    while True:
        with localcontext(decimals(digits)):
            power = Decimal(-epsilon).exp()  # Decimal(-epsilon) is exact; negating a Decimal would round it
            probability = Fraction(power / (1 + power))
        error = Fraction(1, 10 ** (digits - 2))
        low, high = ((probability + end) * (1 << bit_count) for end in (-error, error))
        if math.floor(low) == math.floor(high) or high < 1:
            return max(0, math.floor(low))
        digits *= 2
