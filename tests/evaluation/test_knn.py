"""Nearest neighbours against loops and scikit-learn, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation import knn, knn_predict, nearest


def rows(count: int, width: int, seed: int) -> Tensor:
    return torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    features, classes = torch.from_numpy(images), torch.from_numpy(labels)
    return features[:1200], classes[:1200], features[1200:], classes[1200:]


def vote_with_loops(bank, labels, queries, k, metric, temperature):
    winners = []
    for query in queries:
        if metric == "cosine":
            scores = [float(query @ row / query.norm() / row.norm()) for row in bank]
        else:
            scores = [-float((query - row).square().sum()) / 2 for row in bank]
        best = sorted(range(len(bank)), key=lambda row: -scores[row])[:k]
        votes = [0.0] * (int(labels.max()) + 1)
        for row in best:
            votes[int(labels[row])] += 1.0 if temperature is None else float(np.exp(scores[row] / temperature))
        winners.append(votes.index(max(votes)))
    return torch.tensor(winners)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("temperature", [None, 0.1])
def test_votes_equal_those_counted_with_loops(metric, temperature):
    bank, queries = rows(60, 5, 0), rows(20, 5, 1)
    labels = torch.randint(4, (60,), generator=torch.Generator().manual_seed(2))
    weights = "uniform" if temperature is None else "exponential"
    found = knn_predict(
        bank, labels, queries, k=(7, 1, 60), metric=metric, weights=weights, temperature=temperature or 1.0
    )
    assert sorted(found) == [1, 7, 60]
    for k, predicted in found.items():
        assert torch.equal(predicted, vote_with_loops(bank, labels, queries, k, metric, temperature))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_real_digits_get_scikit_learns_classes(metric):
    bank, labels, queries, _ = digits()
    found = knn_predict(bank, labels, queries, k=(1, 5, 20, 200), metric=metric)
    for k, predicted in found.items():
        reference = KNeighborsClassifier(k, metric=metric, algorithm="brute").fit(bank.numpy(), labels.numpy())
        assert (predicted.numpy() == reference.predict(queries.numpy())).mean() >= 0.998  # equal distances apart


@pytest.mark.parametrize("columns", [1, 3, 40, 41, 97, 1000])
def test_grouped_selection_is_a_plain_selection(columns):
    scores = rows(6, columns, 3)
    for k in {1, min(3, columns), columns}:
        values, index = knn._largest(scores, k)
        assert torch.equal(values, scores.topk(k, dim=1).values)
        assert torch.equal(scores.gather(1, index), values)


def test_blocks_change_nothing(monkeypatch):
    bank, queries = rows(300, 6, 4), rows(50, 6, 5)
    whole = nearest(bank, queries, k=9)
    monkeypatch.setattr(knn, "BLOCK_ELEMENTS", 900)
    parts = nearest(bank, queries, k=9)
    assert torch.equal(whole.index, parts.index)
    assert torch.allclose(whole.similarity, parts.similarity, atol=1e-14)


def test_similarities_are_cosines_or_half_squared_distances():
    bank, queries = rows(40, 6, 6) + 100, rows(10, 6, 7) + 100
    found = nearest(bank, queries, k=40, metric="euclidean")
    distances = torch.cdist(queries, bank, compute_mode="donot_use_mm_for_euclid_dist")
    assert torch.allclose(found.similarity, -distances.square().gather(1, found.index) / 2)
    cosine = nearest(bank, queries, k=40)
    expected = torch.nn.functional.cosine_similarity(queries[:, None], bank[None], dim=2)
    assert torch.allclose(cosine.similarity, expected.gather(1, cosine.index))


def test_a_row_is_its_own_neighbour_unless_excluded():
    bank = rows(30, 4, 8)
    assert torch.equal(nearest(bank, bank, k=1).index[:, 0], torch.arange(30))
    without = nearest(bank, bank, k=29, excludes_self=True)
    assert not (without.index == torch.arange(30)[:, None]).any()
    doubled = torch.cat([bank, bank])
    assert torch.equal(nearest(doubled, doubled, k=1, excludes_self=True).index[:, 0], torch.arange(60).roll(30))


def test_small_temperatures_do_not_overflow():
    bank, queries = rows(40, 5, 9).float(), rows(8, 5, 10).float()
    labels = torch.arange(40) % 3
    sharp = knn_predict(bank, labels, queries, k=(40,), weights="exponential", temperature=1e-6)[40]
    assert torch.equal(sharp, knn_predict(bank, labels, queries, k=(1,))[1])


def test_half_precision_is_computed_in_single():
    bank, queries = rows(50, 8, 11).half(), rows(9, 8, 12).half()
    assert torch.equal(nearest(bank, queries, k=5).index, nearest(bank.float(), queries.float(), k=5).index)


def test_bad_input_is_refused_with_its_reason():
    bank, queries, labels = rows(10, 3, 0), rows(4, 3, 1), torch.arange(10) % 2
    broken = bank.clone()
    broken[[2, 7]] = torch.nan
    with pytest.raises(DataError, match="the bank must be finite; 2 of 10 rows are not: rows 2, 7"):
        knn_predict(broken, labels, queries, k=(1,))
    with pytest.raises(DataError, match="k = 11 neighbours were asked for, but the bank has 10 rows"):
        knn_predict(bank, labels, queries, k=(1, 11))
    with pytest.raises(DataError, match="3 of 10 labels of the bank are -1, which means unlabelled"):
        knn_predict(bank, torch.where(torch.arange(10) < 3, -1, labels), queries, k=(1,))
    with pytest.raises(DataError, match=r"must lie in 0 … 2; they run from 0 to 9"):
        knn_predict(bank, torch.arange(10), queries, k=(1,), classes=3)
    with pytest.raises(ShapeError, match="must be 10 whole numbers"):
        knn_predict(bank, labels.double(), queries, k=(1,))
    with pytest.raises(ShapeError, match="rows of one width; got 3 and 2"):
        nearest(bank, queries[:, :2], k=1)
    with pytest.raises(SettingError, match="metric must be cosine or euclidean; got 'l2'"):
        nearest(bank, queries, k=1, metric="l2")
    with pytest.raises(SettingError, match="k is a list"):
        knn_predict(bank, labels, queries, k=5)
    with pytest.raises(SettingError, match="temperature must be positive; got 0"):
        knn_predict(bank, labels, queries, k=(1,), temperature=0)
