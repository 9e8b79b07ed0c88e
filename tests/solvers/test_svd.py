"""Private SVD: the paper's algorithm without noise, structure found with it, honest fallback without signal."""

from dataclasses import replace

import numpy as np
import pytest

import hushrec as hr
from hushrec.privacy.curator import Curator
from making import csr


@pytest.fixture(scope="module")
def planted():
    return hr.synthetic(users=6000, items=60, rank=2, per_user=25, noise=0.1, seed=1)


def rmse(release, data):
    return hr.evaluate(release, *data)["rmse"]


def test_zero_noise_projection_is_algorithm_3(planted):
    """Against NumPy on the dense matrix: top-r eigenvectors of Σ Π_L(e)ᵀΠ_L(e), then (1/p) e V Vᵀ and the offset."""
    train, _ = planted
    solver = hr.SVD(readout="projection", rank=3, density=25 / 60)
    model = solver.solve(Curator(train, hr.NonPrivate()))
    means, loadings = model.arrays["means"], model.arrays["loadings"]
    dense, seen = np.zeros((6000, 60)), np.zeros((6000, 60), dtype=bool)
    rows = np.repeat(np.arange(6000), np.diff(train.indptr))
    seen[rows, train.indices] = True
    dense[rows, train.indices] = train.values - means[train.indices]
    offsets = dense.sum(axis=1) / (seen.sum(axis=1) + 4.0)
    residual = np.where(seen, dense - offsets[:, None], 0.0)
    bound = 0.5 * np.sqrt(25 / 60 * 60)
    clipped = residual * np.minimum(1, bound / np.linalg.norm(residual, axis=1))[:, None]
    _, vectors = np.linalg.eigh(clipped.T @ clipped)
    projector = vectors[:, -3:] @ vectors[:, -3:].T
    np.testing.assert_allclose(loadings[:, 1:] @ loadings[:, 1:].T, projector, atol=1e-9)
    release = hr.fit(train, solver, hr.NonPrivate())
    for user in (0, 17, 4242):
        expected = means + offsets[user] + residual[user] @ projector * 60 / 25
        np.testing.assert_allclose(release.complete(*train.user(user)), np.clip(expected, -1, 1), atol=1e-9)


def test_ridge_finds_planted_structure_and_privacy_costs_little(planted):
    train, test = planted
    spread = float(np.std(test.values))
    free = rmse(hr.fit(train, hr.SVD(), hr.NonPrivate()), planted)
    private = rmse(hr.fit(train, hr.SVD(), hr.Budget(5.0, 1e-6), seed=0), planted)
    scarce = rmse(hr.fit(train, hr.SVD(), hr.Budget(0.2, 1e-6), seed=0), planted)
    assert free < 0.35 * spread
    assert private < 1.2 * free
    assert scarce > 1.5 * free


def test_ridge_beats_the_papers_projection(planted):
    train, _ = planted
    budget = hr.Budget(5.0, 1e-6)
    ridge = rmse(hr.fit(train, hr.SVD(), budget, seed=0), planted)
    projection = rmse(hr.fit(train, hr.SVD(readout="projection", rank=2, density=25 / 60), budget, seed=0), planted)
    assert ridge < projection


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_projection_counts_the_density_where_none_is_given(planted, relation):
    """A small noisy count, charged; with it the error is that of the density declared."""
    solver = hr.SVD(readout="projection", rank=2)
    budget = hr.Budget(5.0, 1e-6, relation=relation)
    release = hr.fit(planted[0], solver, budget, seed=0)
    entries = {entry.name: entry for entry in release.guarantee.ledger}
    assert entries["ratings"].share == 0.01
    assert 5.0 - 1e-9 <= release.guarantee.spent <= 5.0
    assert release.settings["density"] == pytest.approx(25 / 60, rel=0.02)
    declared = hr.fit(planted[0], replace(solver, density=25 / 60), budget, seed=0)
    assert "ratings" not in [entry.name for entry in declared.guarantee.ledger]
    assert rmse(release, planted) < 1.05 * rmse(declared, planted)
    assert hr.fit(planted[0], solver, hr.NonPrivate()).settings["density"] == pytest.approx(25 / 60, abs=1e-12)


def test_hopeless_noise_falls_back_to_means_and_says_so(planted):
    train, test = planted
    release = hr.fit(train, hr.SVD(), hr.Budget(0.01, 1e-6), seed=0)
    assert release.arrays["loadings"].shape[1] == 1
    assert "noise" in release.notes[0]
    assert rmse(release, planted) < 1.3 * float(np.std(test.values))


def test_training_and_device_are_the_same_function(planted):
    train, _ = planted
    from hushrec.release.complete import coordinates

    release = hr.fit(train, hr.SVD(), hr.Budget(5.0, 1e-6), seed=0)
    indptr, indices, values = csr(train)
    together = coordinates(release, (indptr, indices, values.astype(float)))
    everyone = release.arrays["means"] + together @ release.arrays["loadings"].T
    for user in range(0, 6000, 501):
        alone = release.complete(*train.user(user))
        np.testing.assert_allclose(alone, np.clip(everyone[user], -1, 1), rtol=0, atol=1e-12)


def test_a_head_smaller_than_the_catalogue_leaves_the_rest_their_means(planted):
    train, _ = planted
    release = hr.fit(train, hr.SVD(head=30), hr.Budget(5.0, 1e-6), seed=0)
    outside = ~release.arrays["loadings"][:, 1:].any(axis=1)
    assert outside.sum() == 30


@pytest.mark.parametrize(
    "settings",
    [
        {"readout": "both"},
        {"rank": 0},
        {"head": 1},
        {"offset_prior": 0.0},
        {"offset_prior": float("nan")},
        {"means_share": 1.0},
        {"density": 0.0},
    ],
)
def test_settings_are_checked_and_named(settings):
    with pytest.raises(hr.ConfigError, match=next(iter(settings))):
        hr.SVD(**settings)
