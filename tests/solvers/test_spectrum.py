"""Denoising a low-rank matrix without diagonal: closed-form limits and planted answers."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hushrec.solvers.spectrum import Sampling, denoise, spikes


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


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_eigenvectors_of_a_usual_head_are_found_by_one_thread(monkeypatch):
    """On a busy machine several threads wait for each other, ten times as long as one needs."""
    threads, eigh = [], np.linalg.eigh

    def watched(matrix):
        threads.extend(blas_threads())
        return eigh(matrix)

    monkeypatch.setattr(np.linalg, "eigh", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        denoise(planted()[0], known_noise=0.3)
        assert blas_threads() == before
    assert set(threads) == {1}


def rows_gram(rows, items, signal=0.0, seed=0):
    """The Gram of rows of norm 1 without its diagonal, with a planted direction."""
    rng = np.random.default_rng(seed)
    direction = np.ones(items) / np.sqrt(items)
    table = rng.normal(size=(rows, items)) + signal * rng.normal(size=(rows, 1)) * direction * np.sqrt(items)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    gram = table.T @ table
    np.fill_diagonal(gram, 0.0)
    return gram


@pytest.mark.parametrize("rows", [50, 300, 900])
def test_rows_without_structure_show_none_however_few(rows):
    items = 300
    gram = rows_gram(rows, items)
    assert denoise(gram, 0.0, sampling=Sampling(rows, items)).values.size == 0
    if rows < items:
        assert denoise(gram, 0.0).values.size > 0  # what a bulk of zeros suggests


def test_many_rows_over_unlike_items_show_no_structure():
    """A few items have most ratings: most eigenvalues are near 0, and the bulk alone would tell of no noise."""
    rng, items, rows = np.random.default_rng(0), 200, 4000
    popularity = np.exp(1.5 * rng.normal(size=items))
    table = rng.normal(size=(rows, items)) * (rng.random((rows, items)) < 0.2 * popularity / popularity.max())
    table = table[table.any(axis=1)]
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    gram = table.T @ table
    part = np.square(table).sum(axis=0) / len(table)
    np.fill_diagonal(gram, 0.0)
    assert denoise(gram, 0.0).values.size > 5
    assert denoise(gram, 0.0, sampling=Sampling(len(table), 1 / float(part @ part))).values.size == 0


def test_structure_in_few_rows_is_found():
    found = denoise(rows_gram(100, 300, signal=0.6), 0.0, sampling=Sampling(100, 300))
    assert found.values.size == 1
    assert abs(found.vectors[:, 0].sum()) / np.sqrt(300) > 0.9


def test_spikes_have_the_closed_forms_of_each_noise_alone():
    seen = np.array([30.0, 9.0, 2.0])
    semicircle = np.where(seen > 2 * 3.0, np.sqrt(np.maximum(seen**2 - 4 * 9.0, 0.0)), 0.0)
    np.testing.assert_allclose(spikes(seen, 9.0, 0.0), semicircle, rtol=1e-9)
    edge = 1 + 2 * np.sqrt(4.0)  # of the rows' Gram: (1 + √4)² − 4
    assert (spikes(np.array([1.03 * edge, 1.01 * edge]), 0.0, 4.0) > 0).tolist() == [True, False]


@pytest.mark.parametrize("sampled", [0.0, 1e-300, 1e-18, 1e-5])
@pytest.mark.parametrize("added", [0.0, 1e-300, 1e-18])
def test_hardly_any_noise_leaves_eigenvalues_as_they_are(added, sampled):
    np.testing.assert_allclose(spikes(np.array([5.0, 3.0]), added, sampled), [5.0, 3.0], rtol=1e-4)
