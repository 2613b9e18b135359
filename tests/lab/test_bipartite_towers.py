"""The graph of images and words, and how far a learned kernel shares its directions."""

from __future__ import annotations

import json

import pytest
import torch

from eigenview.lab import LabSettings, run_experiment
from eigenview.lab.bipartite_towers import WordGraph, compared, directions, shared, word_graph

CAPTIONS = [["a red dog", "the dog, red!"], ["a blue dog"], ["a red cat", "A cat"], ["a blue cat"]]


def test_words_are_counted_by_caption_and_the_usual_and_the_rare_left_out():
    graph = word_graph(CAPTIONS, least=2, most=0.5)
    assert graph.words == ("blue", "cat", "dog", "red")
    assert graph.weights.tolist() == [[0, 0, 2, 2], [1, 0, 1, 0], [0, 2, 0, 1], [1, 1, 0, 0]]


def test_directions_are_those_of_the_normalised_graph_by_loops():
    weights = torch.rand(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scaled = weights.clone()
    for row in range(7):
        for column in range(5):
            scaled[row, column] /= (weights[row].sum() * weights[:, column].sum()) ** 0.5
    left, right = directions(weights, 2)
    values = torch.linalg.svdvals(scaled)
    assert float(values[0]) == pytest.approx(1)  # the pair that is left out
    for place in range(2):
        torch.testing.assert_close(scaled @ right[:, place], values[place + 1] * left[:, place])


def test_equal_spaces_share_all_and_unrelated_ones_k_of_n():
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(400, 40, generator=generator, dtype=torch.float64))[0]
    assert shared(basis, basis @ torch.linalg.qr(torch.randn(40, 40, dtype=torch.float64))[0]) == pytest.approx(1)
    other = torch.linalg.qr(torch.randn(400, 40, generator=generator, dtype=torch.float64))[0]
    assert shared(basis, other) == pytest.approx(0.1, abs=0.02)


def test_a_kernel_that_is_the_graph_up_to_degrees_shares_its_directions():
    generator = torch.Generator().manual_seed(0)
    weights = 0.05 + torch.block_diag(*[torch.ones(20, 8, dtype=torch.float64)] * 5)
    weights = weights + 0.01 * torch.rand(weights.shape, generator=generator, dtype=torch.float64)
    answer = compared(3 * weights, WordGraph(weights, ("word",) * 40), seed=0)
    assert answer["graph"]["images"] == pytest.approx([1.0] * len(answer["graph"]["images"]))
    assert answer["shuffled"]["images"][2] < 0.5


def test_the_experiment_runs_quickly_on_shapes(tmp_path):
    files = run_experiment("bipartite-towers", tmp_path, settings=LabSettings(is_quick=True))
    assert [file.name for file in files] == [
        "bipartite-towers.json",
        "bipartite-towers.png",
        "bipartite-towers-words.png",
    ]
    data = json.loads(files[0].read_text())["data"]
    assert data["seeds"] == 2
    assert data["words"] > 10
