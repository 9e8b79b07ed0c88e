"""Recall and NDCG against sums by hand, and on a release with known scores."""

import numpy as np
import pytest

import hushrec as hr
from hushrec.evaluate import ranking
from hushrec.privacy.guarantee import Guarantee

ITEMS = 8


def known_scores(means) -> hr.Release:
    """A release whose scores are the same for all users."""
    return hr.Release(
        kind="implicit",
        arrays={"means": np.array(means, float), "loadings": np.zeros((len(means), 1)), "prior": np.eye(1)},
        items=np.arange(len(means)),
        value_range=(0.0, 1.0),
        guarantee=Guarantee(epsilon=np.inf, delta=0.0),
    )


def used(rows, items=ITEMS) -> hr.Ratings:
    users = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    columns = np.array([j for row in rows for j in row], dtype=int)
    return hr.Ratings.from_codes(
        users, columns, np.ones(len(users)), items=np.arange(items), value_range=(0, 1), n_users=len(rows)
    )


def test_figures_by_hand():
    release = known_scores([8, 7, 6, 5, 4, 3, 2, 1])
    train = used([[0], [], [1, 2], [5]])
    test = used([[1, 4], [7], [0, 3, 4], []])
    found = ranking.evaluate_ranking(release, train, test, ks=(2, 3))
    # Rankings without the train items: 1 2 3 ..., 0 1 2 ..., 0 3 4 ...; the last user has nothing to find.
    first, second, third = 1.0, 1 / np.log2(3), 1 / 2
    assert found["users"] == 3
    assert found["ratings"] == 6
    assert found["recall@2"] == pytest.approx(np.mean([1 / 2, 0, 1]))
    assert found["recall@3"] == pytest.approx(np.mean([1 / 2, 0, 1]))
    assert found["ndcg@2"] == pytest.approx(np.mean([first / (first + second), 0, 1]))
    assert found["ndcg@3"] == pytest.approx(
        np.mean([first / (first + second), 0, (first + second + third) / 2.1309297])
    )


def test_ties_go_to_the_earlier_item_and_nothing_left_is_no_hit():
    release = known_scores([1.0] * 3)
    found = ranking.evaluate_ranking(release, used([[], [0, 1]], 3), used([[0], [2]], 3), ks=(1, 10))
    assert found["recall@1"] == 1.0
    assert found["ndcg@10"] == 1.0


def test_blocks_of_users_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    release = known_scores(rng.random(ITEMS))
    train, test = used([[i % 4] for i in range(50)]), used([[4 + i % 3] for i in range(50)])
    whole = ranking.evaluate_ranking(release, train, test)
    monkeypatch.setattr(ranking, "CELLS", 3 * ITEMS)
    assert ranking.evaluate_ranking(release, train, test) == whole


def test_evaluate_returns_ranking_figures_for_implicit_releases_alone():
    release = known_scores([3, 2, 1])
    found = hr.evaluate(release, used([[0]], 3), used([[1]], 3))
    assert {"recall@10", "ndcg@10"} <= set(found)
    assert "rmse" not in found


def test_any_release_is_ranked_at_the_cutoffs_that_are_asked_for():
    train, test = hr.synthetic(users=400, items=30, rank=1, per_user=8, test_per_user=3, seed=0)
    release = hr.fit(train, hr.SVD(), hr.NonPrivate())
    plain, found = hr.evaluate(release, train, test), hr.evaluate(release, train, test, ks=(7, 3))
    assert set(found) - set(plain) == {"recall@3", "ndcg@3", "recall@7", "ndcg@7"}
    assert {name: found[name] for name in plain} == plain
    by_hand = []
    for user in range(400):
        best = [item for item, _ in release.recommend(*train.user(user), top=3)]
        by_hand.append(len(set(best) & set(test.user(user)[0].tolist())) / 3)
    assert found["recall@3"] == pytest.approx(np.mean(by_hand))
    scores = known_scores([3, 2, 1])
    assert set(hr.evaluate(scores, used([[0]], 3), used([[1]], 3), ks=[1])) == {
        "recall@1", "ndcg@1", "ratings", "users"
    }  # fmt: skip


@pytest.mark.parametrize("ks", [(), (0,), (2.5,), (True,), ("3",), 10])
def test_cutoffs_are_checked_before_anything_is_scored(ks):
    with pytest.raises(hr.ConfigError, match="ks must be whole numbers"):
        hr.evaluate(known_scores([1, 2]), None, None, ks=ks)


def test_bad_questions_are_refused():
    release = known_scores([1, 2])
    with pytest.raises(hr.ConfigError, match="ks"):
        ranking.evaluate_ranking(release, used([[0]], 2), used([[1]], 2), ks=(0,))
    with pytest.raises(hr.DataError, match="test item"):
        ranking.evaluate_ranking(release, used([[0]], 2), used([[]], 2))
