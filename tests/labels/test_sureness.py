"""How sure to be: labels left out against spreading without them, features that know nothing, and one more label."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenview.labels import LiveLabels, graph_and_head, image_graph, label_spreading
from eigenview.labels.graph import ImageGraph
from eigenview.labels.live import JUDGED, asked_about, belief, cautious_sureness, foretold, temperature
from tests.labels.graphs import clouds, some_labels


def nothing_known(images: int = 600, classes: int = 4) -> tuple[ImageGraph, Tensor]:
    """Rows and classes that have nothing to do with each other."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(images, 24, generator=generator)
    return image_graph(rows), torch.randint(classes, (images,), generator=generator)


def test_a_label_is_foretold_as_spreading_without_it_says() -> None:
    graph, truth = clouds(spread=2.5)
    rows = [0, 3, 6, 31, 33, 35, 62, 64, 1]
    labels = some_labels(truth, rows)
    labels[1] = 3  # the only one of its class: nobody could tell
    hits = 0
    for row in rows[:-1]:
        without = labels.clone()
        without[row] = -1
        hits += int(label_spreading(graph, without, classes=4)[row].argmax() == labels[row])
    assert 0 < hits < 8
    given = LiveLabels(graph, labels, classes=4)
    assert given._foretold() == (hits, 8)


def test_a_label_that_nothing_else_reaches_is_not_foretold() -> None:
    alone = np.eye(2, dtype=np.float32)
    total = np.array([2, 1], dtype=np.float32)
    ones = np.ones(2, dtype=np.float32)
    assert foretold(alone, total, np.array([0, 1]), ones, ones) == (0, 1)


@pytest.mark.parametrize("count", [20, 60])
def test_features_that_know_nothing_are_not_sure(count: int) -> None:
    graph, truth = nothing_known()
    labels = some_labels(truth, list(range(count)))
    answers = graph_and_head(graph, labels, classes=4)[count:]
    is_right = (answers.argmax(dim=1) == truth[count:]).double().mean()
    assert float(answers.amax(dim=1).mean() - is_right) < 0.12  # 0.19 and 0.21 by the pool alone


def test_one_more_label_where_nothing_is_known_is_what_starting_anew_gives() -> None:
    graph, truth = nothing_known()
    given = LiveLabels(graph, some_labels(truth, list(range(30))), classes=4)
    given.probabilities()
    given.put(100, int(truth[100]))
    given.put(3, -1)
    anew = LiveLabels(graph, given.labels, classes=4)
    assert given._foretold() == anew._foretold()
    difference = given.probabilities().amax(dim=1).mean() - anew.probabilities().amax(dim=1).mean()
    assert abs(float(difference)) < 0.02


def test_the_pool_is_believed_where_both_agree_and_with_more_labels_sooner() -> None:
    assert belief(0.95, 10, 20) == 1
    assert belief(0.89, 10, 20) == pytest.approx(0.5)
    assert belief(0.85, 10, 20) == 0
    assert belief(0.85, 10, 100) == 1


def test_labels_outweigh_spreading_as_they_become_many() -> None:
    assert cautious_sureness(0.3, 0, 0) == pytest.approx(0.3)
    assert cautious_sureness(0.3, 20, 30) == pytest.approx((30 * 0.3 + 20) / 60)


def test_the_temperature_gives_the_sureness_that_is_wanted() -> None:
    logits = 5 * torch.randn(200, 5, generator=torch.Generator().manual_seed(2))
    hot = temperature(logits, 0.5)
    assert float((logits / hot).softmax(dim=1).amax(dim=1).mean()) == pytest.approx(0.5, abs=0.01)


def test_one_more_label_changes_one_of_those_asked_about() -> None:
    rows = torch.arange(0, 900, 3)
    before, after = set(asked_about(rows, 1000)), set(asked_about(torch.cat([rows, torch.tensor([1])]), 1000))
    assert len(before) == len(after) == JUDGED
    assert len(before - after) <= 1
