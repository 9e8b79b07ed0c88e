"""Denoising a low-rank matrix without diagonal: closed-form limits and planted answers."""

import numpy as np
import pytest

from hushrec.solvers.spectrum import denoise


def planted(n=300, strengths=(30.0, 20.0), noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    vectors, _ = np.linalg.qr(rng.normal(size=(n, len(strengths))))
    signal = (vectors * np.array(strengths)) @ vectors.T
    wigner = np.tril(rng.normal(0, noise, (n, n)), -1)
    noisy = signal + wigner + wigner.T
    np.fill_diagonal(noisy, 0.0)
    return noisy, vectors, signal


def test_planted_eigenpairs_come_back_shrunk_as_theory_says():
    noise, n = 0.3, 300
    noisy, vectors, _ = planted()
    found = denoise(noisy, known_noise=noise)
    assert found.vectors.shape == (n, 2)
    for k, strength in enumerate((30.0, 20.0)):
        overlap = 1 - n * noise**2 / strength**2
        assert np.dot(found.vectors[:, k], vectors[:, k]) ** 2 == pytest.approx(overlap, abs=0.03)
        assert found.values[k] == pytest.approx(strength * overlap, rel=0.06)


def test_the_denoised_matrix_is_nearer_than_the_plain_truncation():
    noisy, _, signal = planted(noise=0.7)
    found = denoise(noisy, known_noise=0.7)
    ours = (found.vectors * found.values) @ found.vectors.T
    values, vectors = np.linalg.eigh(noisy)
    plain = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    assert np.linalg.norm(ours - signal) < 0.9 * np.linalg.norm(plain - signal)


@pytest.mark.parametrize("known", [0.0, 0.3, 1.0])
def test_pure_noise_has_no_signal(known):
    noisy, *_ = planted(strengths=(0.0,), noise=1.0, seed=1)
    assert denoise(noisy, known_noise=known).values.size == 0


def test_noise_is_found_where_it_is_larger_than_known():
    noisy, *_ = planted(noise=0.5)
    assert denoise(noisy, known_noise=0.1).noise == pytest.approx(0.5, rel=0.05)


def test_rank_limits_the_number_of_pairs():
    noisy, *_ = planted()
    assert denoise(noisy, 0.3, rank=1).values.size == 1
    assert denoise(noisy, 0.3, rank=50).values.size == 2


def test_without_noise_the_factors_are_found():
    noisy, _, signal = planted(strengths=(30.0, 20.0), noise=0.0)
    found = denoise(noisy, 0.0)
    kept = (found.vectors[:, :2] * found.values[:2]) @ found.vectors[:, :2].T
    assert np.linalg.norm(kept - signal) < 0.02 * np.linalg.norm(signal)
