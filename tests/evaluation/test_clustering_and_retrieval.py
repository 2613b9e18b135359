"""Clusters and rankings against scikit-learn and loops."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.datasets import load_digits
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.evaluation.similarity import cluster, cluster_hits, contingency, normalised_mutual_information, retrieve
from eigenview.graph.clustering import adjusted_rand_index


def digits(count: int = 600) -> tuple[Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images[:count]), torch.from_numpy(labels[:count])


@pytest.mark.parametrize("method", ["kmeans", "spectral"])
def test_scores_of_real_clusters_are_scikit_learns(method):
    features, labels = digits()
    groups = cluster(features, 10, method=method)
    table = contingency(groups, labels)
    assert normalised_mutual_information(table) == pytest.approx(metrics.normalized_mutual_info_score(labels, groups))
    assert adjusted_rand_index(table) == pytest.approx(metrics.adjusted_rand_score(labels, groups))
    assert normalised_mutual_information(table) > 0.6
    assert torch.equal(groups, cluster(features, 10, method=method))


def test_the_matching_is_the_best_of_all():
    generator = torch.Generator().manual_seed(0)
    assignment, labels = (torch.randint(4, (50,), generator=generator) for _ in range(2))
    best = max(
        sum(order[int(cluster)] == int(label) for cluster, label in zip(assignment, labels, strict=True))
        for order in permutations(range(4))
    )
    assert int(cluster_hits(assignment, labels).sum()) == best


def test_perfect_clusters_score_one_under_any_names_and_one_cluster_scores_nothing():
    _, labels = digits()
    renamed = (labels + 3) % 10
    table = contingency(renamed, labels)
    assert normalised_mutual_information(table) == pytest.approx(1)
    assert adjusted_rand_index(table) == pytest.approx(1)
    assert cluster_hits(renamed, labels).mean() == 1
    single = contingency(torch.zeros_like(labels), labels)
    assert normalised_mutual_information(single) == pytest.approx(0)
    assert adjusted_rand_index(single) == pytest.approx(0)


def average_precision_with_loops(scores, relevant):
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    hits, total = 0, 0.0
    for rank, row in enumerate(order, start=1):
        if relevant[row]:
            hits += 1
            total += hits / rank
    return total / hits


def test_average_precision_and_recall_equal_loops_and_scikit_learn():
    features, labels = digits(300)
    gallery, queries = features[:200], features[200:]
    ranking = retrieve(gallery, labels[:200], queries, labels[200:], k=(1, 5))
    for row, query in enumerate(queries):
        scores = torch.nn.functional.cosine_similarity(query[None], gallery).numpy()
        relevant = (labels[:200] == labels[200 + row]).numpy()
        ours = float(ranking.average_precision[row])
        assert ours == pytest.approx(average_precision_with_loops(scores, relevant))
        assert ours == pytest.approx(metrics.average_precision_score(relevant, scores))
        for k, recalled in ranking.recall.items():
            assert bool(recalled[row]) == relevant[np.argsort(-scores)[:k]].any()


def test_a_gallery_that_asks_itself_never_finds_the_query():
    features, labels = digits(120)
    ranking = retrieve(features, labels, k=(1,))
    for row in range(0, 120, 10):
        rest = torch.arange(120) != row
        alone = retrieve(features[rest], labels[rest], features[row : row + 1], labels[row : row + 1], k=(1,))
        assert float(ranking.average_precision[row]) == pytest.approx(float(alone.average_precision[0]))
        assert ranking.recall[1][row] == alone.recall[1][0]


def test_bad_input_is_refused_with_its_reason():
    features, labels = digits(50)
    with pytest.raises(SettingError, match="clustering is by kmeans or spectral; got 'dbscan'"):
        cluster(features, 10, method="dbscan")
    with pytest.raises(DataError, match="20 neighbours join each of 21 rows to all others, alike: use fewer"):
        cluster(features[:21], 3, method="spectral")
    with pytest.raises(DataError, match="class 9 of the test labels never occur in training"):
        retrieve(features[labels < 9], labels[labels < 9], features, labels)
    with pytest.raises(DataError, match="k = 60 were asked for, but the gallery has 49 rows"):
        retrieve(features, labels, k=(60,))
    with pytest.raises(SettingError, match="queries and their labels go together"):
        retrieve(features, labels, features)
