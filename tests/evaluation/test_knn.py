"""Votes of nearest neighbours against loops and scikit-learn, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation import knn_predict


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
    measured = knn_predict(bank, labels, queries, k=(7, 1, 60), metric=metric, temperature=temperature)
    assert sorted(measured) == [1, 7, 60]
    for k, predicted in measured.items():
        assert torch.equal(predicted, vote_with_loops(bank, labels, queries, k, metric, temperature))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_real_digits_get_scikit_learns_classes(metric):
    bank, labels, queries, _ = digits()
    measured = knn_predict(bank, labels, queries, k=(1, 5, 20, 200), metric=metric)
    for k, predicted in measured.items():
        reference = KNeighborsClassifier(k, metric=metric, algorithm="brute").fit(bank.numpy(), labels.numpy())
        assert (predicted.numpy() == reference.predict(queries.numpy())).mean() >= 0.998  # equal distances apart


def test_small_temperatures_do_not_overflow():
    bank, queries = rows(40, 5, 9).float(), rows(8, 5, 10).float()
    labels = torch.arange(40) % 3
    sharp = knn_predict(bank, labels, queries, k=(40,), temperature=1e-6)[40]
    assert torch.equal(sharp, knn_predict(bank, labels, queries, k=(1,))[1])


def test_bad_input_is_refused_with_its_reason():
    bank, queries, labels = rows(10, 3, 0), rows(4, 3, 1), torch.arange(10) % 2
    broken = bank.clone()
    broken[[2, 7]] = torch.nan
    with pytest.raises(DataError, match="the bank must be finite; NaN or Inf in 2 of 10 rows, first 2, 7"):
        knn_predict(broken, labels, queries, k=(1,))
    with pytest.raises(DataError, match="k = 11 neighbours were asked for, but the bank has 10 rows"):
        knn_predict(bank, labels, queries, k=(1, 11))
    with pytest.raises(DataError, match="3 of 10 labels of the bank are -1, which means unlabelled"):
        knn_predict(bank, torch.where(torch.arange(10) < 3, -1, labels), queries, k=(1,))
    with pytest.raises(DataError, match=r"must lie in 0 … 2; they run from 0 to 9"):
        knn_predict(bank, torch.arange(10), queries, k=(1,), classes=3)
    with pytest.raises(ShapeError, match="must be 10 whole numbers"):
        knn_predict(bank, labels.double(), queries, k=(1,))
    for k in (5, (), (5, 0)):
        with pytest.raises(SettingError, match="k is a list of numbers of neighbours"):
            knn_predict(bank, labels, queries, k=k)
    with pytest.raises(SettingError, match="temperature must be positive; got 0"):
        knn_predict(bank, labels, queries, k=(1,), temperature=0)
