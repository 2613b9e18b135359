"""Chosen rows against the greedy loop, without copies, given labels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenview.errors import DataError, SettingError
from eigenview.labels import choose, choosing, image_graph
from eigenview.labels.choosing import CHOOSERS
from eigenview.labels.graph import graph_of_neighbours
from tests.labels.graphs import clouds, some_labels


def test_coverage_takes_what_the_greedy_loop_takes() -> None:
    graph, truth = clouds(spread=1.5)
    n = len(truth)
    flat = graph_of_neighbours(graph.rows, graph.neighbours, graph.joined, 0)
    inverse = np.linalg.inv(np.eye(n) - choosing.ALPHA * flat.normalized.toarray().astype(np.float64))
    kernel = inverse / np.sqrt(np.outer(np.diag(inverse), np.diag(inverse)))
    covered, expected = np.zeros(n), []
    for _ in range(6):
        gains = [
            sum(max(kernel[i, j] - covered[j], 0) for j in range(n)) if i not in expected else -1 for i in range(n)
        ]
        expected.append(int(np.argmax(gains)))
        covered = np.maximum(covered, kernel[expected[-1]])
    assert choose(graph, 6).tolist() == expected


@pytest.mark.parametrize("way", ["coverage", "typical", "maxherding"])
def test_one_of_each_cloud_comes_first(way: str) -> None:
    graph, truth = clouds(classes=5, spread=0.4)
    assert sorted(truth[choose(graph, 5, way=way)].tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("way", list(CHOOSERS))
def test_labelled_rows_are_not_chosen_again_and_none_twice(way: str) -> None:
    graph, truth = clouds()
    labels = some_labels(truth, [0, 31, 62])
    rows = choose(graph, 87, labels=labels, way=way)
    assert sorted([*rows.tolist(), 0, 31, 62]) == list(range(90))


@pytest.mark.parametrize("way", ["coverage", "typical", "maxherding"])
def test_clouds_with_a_label_wait(way: str) -> None:
    graph, truth = clouds(classes=4, spread=0.4)
    rows = choose(graph, 2, labels=some_labels(truth, [5, 40]), way=way)
    assert sorted(truth[rows].tolist()) == [2, 3]


@pytest.mark.parametrize("way", ["coverage", "typical", "maxherding"])
def test_copies_of_what_is_chosen_come_last(way: str) -> None:
    rows = torch.randn(12, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    graph = image_graph(torch.cat([rows, rows]))
    first = choose(graph, 12, way=way)
    assert len(set((first % 12).tolist())) == 12
    assert len(set(choose(graph, 24, way=way).tolist())) == 24


def test_the_sample_that_stands_for_a_larger_set_holds_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, truth = clouds(classes=4, each=50, spread=0.4)
    monkeypatch.setattr(choosing, "COVERED", 60)
    rows = choose(graph, 2, labels=some_labels(truth, [7, 70]), seed=4)
    assert sorted(truth[rows].tolist()) == [2, 3]
    assert choose(graph, 8, seed=1).tolist() != choose(graph, 8, seed=2).tolist()


def test_many_rows_are_chosen_before_their_edges_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, truth = clouds(classes=4, each=50, spread=0.8)
    monkeypatch.setattr(choosing, "COVERED", 60)
    one_class = some_labels(truth, [7, 9])
    assert not choosing.needs_edges(len(graph), 1)
    for labels in (None, one_class):
        early = choose(choosing.unjoined(graph.rows), 9, labels=labels, seed=4)
        joined = graph_of_neighbours(graph.rows, graph.neighbours)
        assert early.tolist() == choose(joined, 9, labels=labels, seed=4).tolist()
    assert choosing.needs_edges(len(graph), 2)
    assert choosing.needs_edges(60, 0)


def test_very_many_labels_make_no_larger_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, truth = clouds(classes=4, each=50, spread=0.4)
    labels = torch.where(truth < 3, truth, -1)
    monkeypatch.setattr(choosing, "COVERED", 60)
    sample = choosing._standing_for_all(labels, 2, torch.Generator().manual_seed(0))
    assert len(sample) == 60
    assert int((labels[sample] >= 0).sum()) == 30
    assert truth[choose(graph, 2, labels=labels)].tolist() == [3, 3]


def test_identical_rows_can_still_be_chosen() -> None:
    graph = image_graph(torch.ones(6, 3))
    for way in CHOOSERS:
        assert len(set(choose(graph, 6, way=way).tolist())) == 6


def test_bad_wishes_are_refused() -> None:
    graph, truth = clouds()
    with pytest.raises(SettingError, match="choose 1 to 89 rows, as many as have no label; got 90"):
        choose(graph, 90, labels=some_labels(truth, [0]))
    with pytest.raises(SettingError, match="all 90 rows have a label: there is none left to choose"):
        choose(graph, 1, labels=truth)
    with pytest.raises(SettingError, match="did you mean typical"):
        choose(graph, 1, way="typicl")
    with pytest.raises(DataError, match="labels must be 90 numbers"):
        choose(graph, 1, labels=truth[:3])
