"""Exact noise in bulk: the rounded Gaussian and the rounded Laplace.

``rounded_gaussian`` returns round(sigma Z) for a *real* standard normal Z, without any error. The sums that
it is added to are whole numbers q, and q + round(sigma Z) = round(q + sigma Z): the release is
post-processing of the Gaussian mechanism on the reals, with exactly its privacy. The same holds for Laplace
noise.

How a sample is drawn without error. Let V be a uniform real of [0, 1); |Z| >= t exactly when V <= erfc(t/sqrt
2). The leading 53 bits of V confine |Z| between two quantiles. If both ends, widened by a margin far above
the error of the quantile function, round to the same whole number, that is the sample. Otherwise 64 more bits
of V are drawn, and V is compared with the probability of reaching each half-way point, computed in decimal
arithmetic with a proved error bound; this repeats until the comparison is certain.

Order of the words drawn (so that a recorded run can be replayed): per chunk of 2^16 samples one word for each
sample; then, for the undecided samples of that chunk in their order, one word at a time. Of a sample's first
word the upper 53 bits are the leading bits of V, and the lowest bit is the sign (1 is negative).
"""

import math
import os
from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrec import require
from hushrec.errors import ConfigError

LARGEST_SCALE = 2.0**40
NOISE_KEY = (0x6E6F6973,)  # parts the noise of an experiment from whatever else has the same seed
CHUNK = 2**16  # a handful of arrays of half a megabyte each: they stay in the cache, and memory does not grow

_LEADING_BITS = 53
# Relative error of ndtri and log is below 1e-15; the product with the scale adds 3e-16.
_QUANTILE_MARGIN = 1e-13

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Tail = Callable[[int, int], tuple[Decimal, Decimal]]


class BitSource(Protocol):
    """Where random bits come from."""

    def words(self, count: int) -> Words:
        """Return ``count`` independent uniform 64-bit words."""


class SystemBits:
    """Random bits of the operating system's cryptographic generator: the only source for a real release.

    **Guarantee**: as good as the operating system's generator; nothing is kept or buffered.

    >>> SystemBits().words(3).shape
    (3,)
    """

    seeded = False

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededBits:
    """Repeatable bits for experiments and tests, independent of `default_rng(seed)`, which the data may come from.

    **Guarantee**: none; whoever knows the seed can take the noise off again.

    >>> bool(SeededBits(7).words(1) == SeededBits(7).words(1))
    True
    """

    seeded = True

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise ConfigError(f"seed is {seed!r}, but it must be a whole number of at least 0.")
        self._generator = np.random.PCG64(np.random.SeedSequence(int(seed), spawn_key=NOISE_KEY))
        self.drawn = 0

    def skip(self, count: int) -> None:
        """Go on as if that many words had been drawn."""
        self._generator.advance(count)
        self.drawn += count

    def words(self, count: int) -> Words:
        self.drawn += count
        words: Words = self._generator.random_raw(count)
        return words


def rounded_gaussian(sigma: float, size: int, bits: BitSource) -> Integers:
    """Return ``size`` independent samples of round(sigma Z), Z standard normal, drawn without error.

    ``sigma`` is any number of [0, 2^40]; 0 gives zeros. Up to 2^30 nearly every sample is decided at once;
    above that a growing part takes the slow exact path (4 % at 2^38).

    **Guarantee**: given uniform bits, the distribution is exactly that of the rounded real Gaussian, so
    adding it to whole-number sums of L2 sensitivity D is exactly (D / sigma)-GDP.

    >>> rounded_gaussian(1000.0, 3, SeededBits(0)).dtype
    dtype('int64')
    """

    sigma = require.number("sigma", sigma, 0.0, LARGEST_SCALE)

    def quantile(v: Floats) -> Floats:
        z: Floats = ndtri(0.5 * v)
        return np.negative(z, out=z)

    # P(|Z| >= t) <= exp(-t^2 / 2), so V >= 2^-n keeps |Z| below this.
    return _rounded(
        sigma,
        size,
        bits,
        quantile,
        lambda bit_count: math.sqrt(2.0 * bit_count * math.log(2.0)),
        lambda step, digits: _gaussian_tail(sigma, step, digits),
    )


def rounded_laplace(scale: float, size: int, bits: BitSource) -> Integers:
    """Return ``size`` independent samples of round(scale X), X standard Laplace, drawn without error.

    ``scale`` is any number of [0, 2^40]; 0 gives zeros.

    **Guarantee**: given uniform bits, the distribution is exactly that of the rounded real Laplace, so adding
    it to whole-number sums of L1 sensitivity D is exactly (D / scale)-DP.

    >>> rounded_laplace(1000.0, 3, SeededBits(0)).dtype
    dtype('int64')
    """

    scale = require.number("scale", scale, 0.0, LARGEST_SCALE)

    def quantile(v: Floats) -> Floats:
        x: Floats = np.log(v)
        return np.negative(x, out=x)

    return _rounded(
        scale,
        size,
        bits,
        quantile,
        lambda bit_count: bit_count * math.log(2.0),
        lambda step, digits: _laplace_tail(scale, step, digits),
    )


# --- the sampler shared by Gaussian and Laplace noise ---------------------------------------------


def _rounded(
    scale: float,
    size: int,
    bits: BitSource,
    quantile: Callable[[Floats], Floats],
    largest_after: Callable[[int], float],
    tail: Tail,
) -> Integers:
    """Sample round(scale Y) for a symmetric Y: ``quantile`` maps V to |Y|, ``tail`` is its exact inverse."""
    samples = np.zeros(require.whole("size", size, 0), dtype=np.int64)
    if scale == 0.0:
        return samples
    for start in range(0, size, CHUNK):
        part = samples[start : start + CHUNK]
        words = draw(bits, part.size)
        leading = words >> np.uint64(64 - _LEADING_BITS)
        low, high = _enclosing_steps(leading, scale, quantile)
        undecided = np.flatnonzero(low != high)
        part[:] = low
        for i in undecided:
            part[i] = _decide(int(leading[i]), low[i], high[i], scale, bits, largest_after, tail)
        negative = (words & np.uint64(1)).astype(bool)
        np.negative(part, out=part, where=negative)
    return samples


def _enclosing_steps(leading: Words, scale: float, quantile: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Round both ends of where scale |Y| can lie, given the leading bits of V; the upper end may be inf."""
    v = leading.astype(np.float64)
    v *= 2.0**-_LEADING_BITS
    with np.errstate(divide="ignore"):  # V = 0 is a quantile of inf, which is decided with more bits
        high = quantile(v)
    v += 2.0**-_LEADING_BITS
    low = quantile(v)
    high *= scale * (1.0 + _QUANTILE_MARGIN)
    low *= scale * (1.0 - _QUANTILE_MARGIN)
    return np.rint(low, out=low), np.rint(high, out=high)


def _decide(
    leading: int,
    low: float,
    high: float,
    scale: float,
    bits: BitSource,
    largest_after: Callable[[int], float],
    tail: Tail,
) -> int:
    """Draw more bits of V until scale |Y| certainly rounds to one whole number, and return that."""
    numerator, bit_count = leading, _LEADING_BITS
    while True:
        numerator = (numerator << 64) | int(draw(bits, 1)[0])
        bit_count += 64
        if numerator == 0:
            continue  # V may still be 0: no upper end yet
        if math.isinf(high):
            high = max(low, round(largest_after(bit_count) * scale * (1.0 + _QUANTILE_MARGIN)))
        decided = _search(numerator, bit_count, int(low), int(high), tail)
        if decided is not None:
            return decided


def _search(numerator: int, bit_count: int, low: int, high: int, tail: Tail) -> int | None:
    """Find the step of [low, high] that fits every V of [numerator, numerator + 1) / 2^bit_count, if any."""
    digits = math.ceil(bit_count * math.log10(2.0)) + 12
    v_low, v_high = Fraction(numerator, 1 << bit_count), Fraction(numerator + 1, 1 << bit_count)
    while low < high:
        middle = (low + high) // 2
        probability, error = tail(middle, digits)
        if v_high <= Fraction(probability) - Fraction(error):
            low = middle + 1
        elif v_low >= Fraction(probability) + Fraction(error):
            high = middle
        else:
            return None
    return low


def draw(bits: BitSource, count: int) -> Words:
    """That many words of a source, or a refusal where it gives anything else."""
    words = bits.words(count)
    if words.dtype != np.uint64 or words.shape != (count,):
        raise ConfigError(f"bits returned {words.dtype} {words.shape}, but it must return {count} 64-bit words.")
    return words


# --- exact probabilities, with proved error bounds ------------------------------------------------
# With u = 10^(1 - digits), every decimal operation has a relative rounding error of at most u/2; decimal's
# exp and sqrt are correctly rounded. Python floats convert to Decimal without error.


def decimals(digits: int) -> Context:
    """Decimal arithmetic of so many digits, in which no exponent is too large."""
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[DivisionByZero, InvalidOperation, Overflow])


def _gaussian_tail(sigma: float, step: int, digits: int) -> tuple[Decimal, Decimal]:
    """Return P(|Z| >= t) for t = (step + 1/2) / sigma, and a bound on the absolute error.

    P(|Z| < t) = sqrt(2/pi) e^(-t^2/2) (t + t^3/3 + t^5/(3 5) + t^7/(3 5 7) + ...): all terms are positive, so
    relative errors only add up. An operation errs by at most u/2; t^2 carries 2.5 u, hence term N (its odd
    number is 2N + 1) carries (3.5 N + 1) u, their sum (4 N + 1) u, the exponential (1.75 t^2 + 0.5) u, all
    else 3 u. The series stops once terms at least halve and the last one is below u, so what is left out is
    below u.
    """
    with localcontext(decimals(digits)):
        u = Decimal(10) ** (1 - digits)
        t = Decimal(2 * step + 1) / (2 * Decimal(sigma))
        t_squared = t * t
        term = total = t
        odd = 1
        while term > u * total or 2 * t_squared > odd:
            odd += 2
            term = term * t_squared / odd
            total += term
        inside = (2 / _pi(digits)).sqrt() * (-t_squared / 2).exp() * total
        return 1 - inside, (3 * odd + 2 * t_squared + 20) * u


def _laplace_tail(scale: float, step: int, digits: int) -> tuple[Decimal, Decimal]:
    """Return P(|X| >= t) = e^-t for t = (step + 1/2) / scale, and a bound on the error (t e^-t < 1)."""
    with localcontext(decimals(digits)):
        t = Decimal(2 * step + 1) / (2 * Decimal(scale))
        return (-t).exp(), Decimal(10) ** (2 - digits)


@lru_cache(maxsize=32)
def _pi(digits: int) -> Decimal:
    """Return pi by Machin's formula in whole numbers; ten guard digits take up the truncations."""
    one = 10 ** (digits + 10)

    def arctan_of_inverse(x: int) -> int:
        power = total = one // x
        odd, sign = 1, 1
        while power:
            power //= x * x
            odd, sign = odd + 2, -sign
            total += sign * (power // odd)
        return total

    scaled = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    with localcontext(decimals(digits)):
        return Decimal(scaled) / one
