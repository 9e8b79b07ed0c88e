"""Samples a second of the exact noise, beside NumPy's floating-point normals and OpenDP, in the same run.

Usage: .venv/bin/python benchmarks/noise_speed.py [SAMPLES]
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from hushrec.privacy.noise import SeededBits, SystemBits, rounded_gaussian, rounded_laplace


def samples_per_second(draw: Callable[[int], object], size: int, repeats: int = 3) -> float:
    """Return the best of a few repeats."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        draw(size)
        best = min(best, time.perf_counter() - start)
    return size / best


def show(name: str, draw: Callable[[int], object], size: int) -> None:
    print(f"{name:<48}{samples_per_second(draw, size):>16,.0f} samples/s", flush=True)


def show_opendp(size: int) -> None:
    try:
        import opendp.prelude as dp
    except ImportError:
        print("OpenDP is not installed: left out")
        return
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=2.0**20)
    show("OpenDP discrete Gaussian, scale 2^20", lambda count: measurement([0] * count), size)


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    generator = np.random.default_rng(0)
    show("NumPy standard_normal (not exact)", generator.standard_normal, size)
    for name, bits in (("system bits", SystemBits()), ("seeded bits", SeededBits(0))):
        for exponent in (0, 20, 30):
            show(f"rounded Gaussian, sigma 2^{exponent}, {name}", _gaussian(exponent, bits), size)
        show(f"rounded Laplace, scale 2^20, {name}", lambda n, b=bits: rounded_laplace(2.0**20, n, b), size)
    show("rounded Gaussian, sigma 2^38 (slow path), seeded", _gaussian(38, SeededBits(0)), 100_000)
    show_opendp(100_000)


def _gaussian(exponent: int, bits: SystemBits | SeededBits) -> Callable[[int], object]:
    return lambda size: rounded_gaussian(2.0**exponent, size, bits)


if __name__ == "__main__":
    main()
