"""One or more sound instances of every query of the closed list: the contract tests run over all of them."""

from __future__ import annotations

import numpy as np

from hushrec.device.corrections import FEATURES, Gauge
from hushrec.device.frank_wolfe import LOGISTIC, ONCE, PROFILED, SQUARED, Rules
from hushrec.privacy import queries

ITEMS = 12
MEANS = np.linspace(2.0, 4.0, ITEMS)

UPDATES = {
    "vectors": np.linalg.qr(np.random.default_rng(3).normal(size=(ITEMS, 2)))[0].T.copy(),
    "steps": np.array([1.0, 0.5]),
    "gains": np.array([0.3, 0.2]),
}
STARS = Rules(loss=SQUARED, offset=PROFILED, prior=1.0, limit=0.0, most=0, seed=0, low=1.0, high=5.0)
LOADINGS = np.column_stack((np.ones(ITEMS), np.linspace(-1.0, 1.0, ITEMS)))

WAVES = np.sin(np.arange(2 * ITEMS)).reshape(ITEMS, 2)
ITEM_WEIGHTS = np.linspace(0.5, 1.5, ITEMS)
PAST = queries.FactorPath(
    means=MEANS,
    unit=0.8,
    offset_prior=4.0,
    start=WAVES * 0.3,
    path=np.stack((WAVES, 0.5 * WAVES)),
    balances=np.stack((np.eye(2), np.full((2, 2), 0.1))),
    steps=np.array([0.05, 0.1]),
    density=0.4,
    catalogue=float(ITEMS),
    longest=1.5,
)

EXAMPLES = [
    queries.UserCount(),
    queries.ItemCounts(),
    queries.ItemMoments(bound=0.6, centre=3.0, half_width=2.0, count_weight=0.3, mean_weight=0.2, offset_prior=1.0),
    queries.ItemSums(bound=2.0, centre=3.0, half_width=2.0, count_weight=0.3),
    queries.ResidualGram(bound=2.0, means=MEANS, item_weights=np.ones(ITEMS)),
    queries.ResidualGram(
        bound=0.2,
        means=MEANS,
        item_weights=np.linspace(0.5, 2.0, ITEMS),
        offset_prior=4.0,
        head=np.array([1, 3, 4, 8, 9, 11]),
        diagonal=False,
    ),
    queries.FrankWolfeGram(bound=1.0, means=MEANS, **UPDATES, rules=STARS._replace(limit=1.0, offset=ONCE)),
    queries.FrankWolfeGram(bound=1.0, means=MEANS - 3, **UPDATES, rules=STARS._replace(loss=LOGISTIC, most=6)),
    queries.FrankWolfeGap(bound=1.0, means=MEANS, **UPDATES, rules=STARS),
    queries.UnexplainedGram(
        bound=0.2,
        means=MEANS,
        loadings=LOADINGS,
        precision=np.array([4.0, 1.0]),
        noise=np.ones(ITEMS),
        item_weights=np.linspace(0.5, 2.0, ITEMS),
        rules=STARS,
        diagonal=False,
    ),
    queries.CleansedGram(bound=0.5, means=MEANS, offset_prior=4.0, clamp=0.5),
    queries.CleansedGram(bound=1.0, means=MEANS, offset_prior=4.0),
    queries.HeldOutErrors(
        bound=4.0,
        hold_out=queries.HoldOut(salt=5, share=0.5),
        kind="gaussian",
        arrays={
            "means": MEANS,
            "loadings": LOADINGS,
            "precision": np.array([4.0, 1.0]),
            "noise": np.ones(ITEMS),
        },
        settings={},
        unit=0.5,
        most=4.0,
        count_weight=0.3,
    ),
    queries.FactorRegression(
        bound=0.5,
        means=MEANS,
        loadings=np.column_stack((np.ones(ITEMS), np.sin(np.arange(2 * ITEMS)).reshape(ITEMS, 2))),
        precision=np.array([5.0, 1.0, 1.0]),
        noise=np.full(ITEMS, 0.6),
        item_weights=np.linspace(0.5, 1.5, ITEMS),
        moment_weight=0.02,
        error_unit=0.7,
    ),
    queries.ChoiceRegression(
        bound=2.0,
        means=MEANS,
        loadings=np.column_stack((np.ones(ITEMS), np.sin(np.arange(2 * ITEMS)).reshape(ITEMS, 2))),
        precision=np.array([5.0, 1.0, 1.0]),
        noise=np.full(ITEMS, 0.6),
        leanings=np.cos(np.arange(2 * ITEMS)).reshape(ITEMS, 2),
        usual_log=1.5,
        leading=3,
    ),
    queries.CorrectionRegression(
        bound=4.0,
        arrays={
            "means": MEANS,
            "loadings": np.column_stack((np.ones(ITEMS), WAVES)),
            "precision": np.array([5.0, 1.0, 1.0]),
            "noise": np.full(ITEMS, 0.6),
            "start": np.array([0.1, 0.0, -0.1]),
            "activity": np.array([0.0, 0.1, 0.05]),
            "choices": 0.1 * np.column_stack((np.ones(ITEMS), WAVES)),
            "traits": np.column_stack((MEANS - 3.0, np.linspace(-1.0, 1.0, ITEMS))),
            "correction": np.zeros(FEATURES),
        },
        gauge=Gauge(3.0, 0.8, -1.0, 1.5),
        moment_weight=0.05,
    ),
    queries.RowEnergy(bound=0.5, means=MEANS, unit=2.0, offset_prior=4.0),
    queries.RatingCount(bound=4.0),
    queries.NormalEquations(
        bound=0.05,
        means=MEANS,
        unit=0.8,
        loadings=np.column_stack((np.ones(ITEMS), WAVES)),
        precision=np.array([4.0, 1.0, 1.0]),
        noise=np.full(ITEMS, 0.6),
        item_weights=ITEM_WEIGHTS,
        priority=-ITEM_WEIGHTS,
        moment_weight=0.2,
        most=5,
    ),
    queries.CooccurrenceGram(bound=0.5, item_weights=ITEM_WEIGHTS, diagonal=False),
    queries.ImplicitEquations(
        bound=0.05,
        loadings=WAVES,
        prior=np.eye(2) + 0.1 * WAVES.T @ WAVES,
        item_weights=ITEM_WEIGHTS,
        priority=-ITEM_WEIGHTS,
        moment_weight=0.2,
        gram_weight=1.0,
    ),
    queries.FactorGram(bound=1.5, past=PAST),
    queries.FactorGradient(bound=3.0, past=PAST, loadings=0.3 * WAVES, row_bound=2.0),
]
