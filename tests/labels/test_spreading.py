"""Ways to spread labels against loops and dense solutions, on parts without labels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.labels import LiveLabels, graph_and_head, harmonic, image_graph, label_spreading, live, poisson
from eigenview.labels.graph import ImageGraph
from tests.labels.graphs import clouds, some_labels

WAYS = [label_spreading, harmonic, poisson, graph_and_head]
FEW = [0, 31, 62, 3]


def two_islands() -> tuple[ImageGraph, Tensor]:
    """Twelve rows around one corner and twelve around the opposite one, joined by nothing."""
    noise = torch.randn(24, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 50
    side = torch.tensor([1.0] * 12 + [-1.0] * 12, dtype=torch.float64)
    return image_graph(torch.stack([side, 0 * side, 0 * side], dim=1) + noise, neighbours=3), (side < 0).long()


def test_label_spreading_is_a_hundred_steps_of_the_loop() -> None:
    graph, truth = clouds(each=8)
    labels = some_labels(truth, [0, 9, 17])
    n = len(truth)
    weights = graph.normalized.toarray().astype(np.float64)
    given = np.zeros((n, 3))
    for row in (0, 9, 17):
        given[row, truth[row]] = 1
    flow = given.copy()
    for _ in range(100):
        flow = np.array(
            [
                [0.99 * sum(weights[i, j] * flow[j, c] for j in range(n)) + 0.01 * given[i, c] for c in range(3)]
                for i in range(n)
            ]
        )
    flow /= flow.sum(axis=0)
    expected = flow / flow.sum(axis=1, keepdims=True)
    expected[[0, 9, 17]] = np.eye(3)
    assert np.allclose(label_spreading(graph, labels, classes=3).numpy(), expected, atol=1e-4)


def test_harmonic_rows_are_the_mean_of_their_neighbours() -> None:
    graph, truth = clouds(each=8)
    labels = some_labels(truth, [0, 9, 17])
    answers = harmonic(graph, labels, classes=3).numpy()
    weights = graph.weights.toarray()
    for row in (labels < 0).nonzero().flatten().tolist():
        mean = weights[row] @ answers / weights[row].sum()
        assert np.allclose(answers[row], mean, atol=1e-3)


def test_poisson_solves_its_equation() -> None:
    graph, truth = clouds(each=8, spread=2.0)
    labels = some_labels(truth, [0, 1, 9, 17])
    weights = graph.weights.toarray().astype(np.float64)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    sources, mean = np.zeros((len(truth), 3)), np.array([0.5, 0.25, 0.25])
    for row in (0, 1, 9, 17):
        sources[row] = np.eye(3)[truth[row]] - mean
    flow = np.linalg.lstsq(laplacian, sources, rcond=None)[0]
    degree = weights.sum(axis=1)
    flow -= degree @ flow / degree.sum()  # the solution whose mean by degree is zero
    positive = np.maximum(flow / mean, 0)
    expected = positive / positive.sum(axis=1, keepdims=True)
    expected[[0, 1, 9, 17]] = np.eye(3)[truth[[0, 1, 9, 17]]]
    assert np.allclose(poisson(graph, labels, classes=3).numpy(), expected, atol=0.01)


@pytest.mark.parametrize("way", WAYS)
def test_separate_clouds_get_their_labels(way) -> None:
    graph, truth = clouds()
    answers = way(graph, some_labels(truth, FEW), classes=3)
    assert torch.allclose(answers.sum(dim=1), torch.ones(len(truth)), atol=1e-5)
    assert (answers.argmax(dim=1) == truth).double().mean() > 0.95
    assert torch.equal(answers[FEW], torch.eye(3)[truth[FEW]])


@pytest.mark.parametrize("way", [label_spreading, harmonic, poisson])
def test_classes_are_equally_likely_where_nothing_reaches(way) -> None:
    graph, _ = two_islands()
    labels = torch.full((24,), -1)
    labels[0], labels[1] = 0, 2
    assert torch.allclose(way(graph, labels, classes=3)[12:], torch.tensor([0.5, 0.0, 0.5]))


def test_the_head_answers_where_the_graph_does_not_reach() -> None:
    graph, _ = two_islands()
    labels = torch.full((24,), -1)
    labels[0], labels[1] = 0, 1
    answers = graph_and_head(graph, labels, classes=2)
    assert bool(answers.isfinite().all())
    assert torch.allclose(answers.sum(dim=1), torch.ones(24), atol=1e-5)


@pytest.mark.parametrize("way", [label_spreading, graph_and_head])
def test_given_class_sizes_are_met(way) -> None:
    graph, truth = clouds(spread=2.0)
    sizes = torch.tensor([6.0, 3.0, 1.0])
    answers = way(graph, some_labels(truth, FEW), classes=3, sizes=sizes)
    assert torch.allclose(answers.mean(dim=0), sizes / 10, atol=0.05)


def test_without_sizes_classes_are_as_large_as_the_pictures_say() -> None:
    graph, truth = clouds()
    kept = torch.cat([torch.arange(45), torch.arange(60, 66)])  # 30, 15 and 6 of them
    few, truth = image_graph(graph.rows[kept], neighbours=6), truth[kept]
    labels = some_labels(truth, [0, 31, 46])
    free, equal = (graph_and_head(few, labels, classes=3, sizes=sizes) for sizes in (None, torch.ones(3)))
    assert torch.allclose(free.mean(dim=0), truth.bincount() / len(truth), atol=0.05)
    assert torch.allclose(equal.mean(dim=0), torch.full((3,), 1 / 3), atol=0.05)


def test_one_more_label_is_what_starting_anew_gives() -> None:
    graph, truth = clouds(spread=1.5)
    given = LiveLabels(graph, some_labels(truth, FEW), classes=3)
    given.probabilities()
    given.put(40, int(truth[40]))
    given.put(62, 0)
    given.put(3, -1)
    given.put(3, int(truth[3]))
    given.put(62, int(truth[62]))
    anew = some_labels(truth, [*FEW, 40])
    assert torch.equal(given.labels, anew)
    assert torch.allclose(given.probabilities(), graph_and_head(graph, anew, classes=3), atol=0.05)


def test_a_head_fitted_to_some_of_the_rows_still_labels_all(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, truth = clouds()
    monkeypatch.setattr(live, "FITTED", 40)
    answers = graph_and_head(graph, some_labels(truth, FEW), classes=3)
    assert (answers.argmax(dim=1) == truth).double().mean() > 0.95


def test_a_head_labels_rows_that_come_later_and_is_as_sure_as_the_answers() -> None:
    graph, truth = clouds(spread=1.0)
    given = LiveLabels(graph, some_labels(truth, FEW), classes=3)
    later, expected = clouds(spread=1.0, seed=5)
    answers = given.head().probabilities(later.rows)
    assert (answers.argmax(dim=1) == expected).double().mean() > 0.9
    own = given.head().probabilities(graph.rows).amax(dim=1).mean()
    assert float(own) == pytest.approx(float(given.probabilities().amax(dim=1).mean()), abs=0.01)


def test_more_rows_make_it_little_surer_than_it_is_right() -> None:
    def too_sure(each: int, seed: int) -> float:
        graph, truth = clouds(each=each, spread=1.4, seed=seed)
        rows = torch.randperm(len(truth), generator=torch.Generator().manual_seed(seed))[:12].tolist()
        answers = graph_and_head(graph, some_labels(truth, rows), classes=3)
        return float(answers.amax(dim=1).mean() - (answers.argmax(dim=1) == truth).double().mean())

    growth = [too_sure(1200, seed) - too_sure(80, seed) for seed in range(3)]
    assert np.mean(growth) < 0.02  # 0.05 where the powers of the pool are the same for any number of rows


def test_few_labels_are_less_sure_than_many() -> None:
    graph, truth = clouds(spread=1.5)
    rest = truth.clone()
    rest[::2] = -1
    few, many = (graph_and_head(graph, labels, classes=3) for labels in (some_labels(truth, FEW), rest))
    assert few[2::6].amax(dim=1).mean() < many[2::6].amax(dim=1).mean()


@pytest.mark.parametrize("way", WAYS)
def test_a_class_without_a_label_is_never_answered(way) -> None:
    graph, truth = clouds()
    answers = way(graph, some_labels(truth, FEW), classes=4)
    assert float(answers[:, 3].max()) < 1e-6
    assert torch.equal(answers[:, :3].argmax(dim=1), way(graph, some_labels(truth, FEW), classes=3).argmax(dim=1))


@pytest.mark.parametrize("way", WAYS)
def test_labels_that_say_nothing_are_refused(way) -> None:
    graph, truth = clouds()
    with pytest.raises(DataError, match="no image has a label yet; label at least one image of each of two classes"):
        way(graph, torch.full_like(truth, -1), classes=3)
    with pytest.raises(DataError, match="all 2 labels name one class, 0"):
        way(graph, some_labels(truth, [0, 1]), classes=3)
    with pytest.raises(DataError, match=r"labels must lie in 0 … 1; they run from 0 to 2"):
        way(graph, some_labels(truth, FEW), classes=2)
    with pytest.raises(DataError, match="labels must be 90 numbers"):
        way(graph, truth[:5], classes=3)
    with pytest.raises(SettingError, match="class sizes must be 3 numbers above 0"):
        way(graph, some_labels(truth, FEW), classes=3, sizes=torch.tensor([1.0, 0.0, 1.0]))


def test_a_label_of_no_class_is_refused_as_it_comes() -> None:
    graph, truth = clouds()
    given = LiveLabels(graph, some_labels(truth, FEW), classes=3)
    with pytest.raises(DataError, match="no row 90 or class 0: 90 rows, 3 classes"):
        given.put(90, 0)
