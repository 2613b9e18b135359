"""A graph kept beside its embeddings: read back, made anew where it does not fit, never believed when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.errors import SettingError
from eigenview.labels import graph, image_graph, kept_graph
from eigenview.search import Embeddings, open_embeddings


def stored(folder: Path, seed: int = 0, rows: int = 60) -> Embeddings:
    file = folder / "rows.npy"
    np.save(file, np.random.default_rng(seed).normal(size=(rows, 6)).astype(np.float32))
    return open_embeddings(file)


def test_a_graph_read_back_is_the_one_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings = stored(tmp_path)
    made = kept_graph(embeddings, neighbours=5).graph
    assert np.allclose(made.weights.toarray(), image_graph(embeddings.vectors, neighbours=5).weights.toarray())
    monkeypatch.setattr(graph, "nearest", None)  # would fail if it searched again
    again = kept_graph(embeddings, neighbours=5).graph
    assert np.array_equal(made.weights.toarray(), again.weights.toarray())
    assert kept_graph(embeddings, neighbours=9).graph.joined == 9


def test_other_vectors_in_the_same_file_get_a_graph_of_their_own(tmp_path: Path) -> None:
    kept_graph(stored(tmp_path))
    other = stored(tmp_path, seed=1)
    expected = image_graph(other.vectors).weights.toarray()
    assert np.allclose(kept_graph(other).graph.weights.toarray(), expected)


def test_a_damaged_graph_is_made_anew(tmp_path: Path) -> None:
    embeddings = stored(tmp_path)
    expected = kept_graph(embeddings).graph.weights.toarray()
    file = tmp_path / "rows.npy.graph"
    data = bytearray(file.read_bytes())
    data[-3] ^= 0xFF
    file.write_bytes(data)
    assert np.array_equal(kept_graph(embeddings).graph.weights.toarray(), expected)
    assert file.read_bytes() != bytes(data)


def test_more_neighbours_than_are_kept_are_sought(tmp_path: Path) -> None:
    embeddings = stored(tmp_path)
    kept_graph(embeddings)
    expected = image_graph(embeddings.vectors, neighbours=30).weights.toarray()
    assert np.allclose(kept_graph(embeddings, neighbours=30).graph.weights.toarray(), expected)


def test_an_approximate_graph_says_its_recall(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    embeddings = stored(tmp_path, rows=300)
    approximate = kept_graph(embeddings, engine="faiss")
    exact = kept_graph(embeddings, engine="exact")
    assert approximate.recall is not None
    assert exact.recall is None
    near = [
        len(set(a) & set(b)) / 20
        for a, b in zip(approximate.graph.neighbours.index.tolist(), exact.graph.neighbours.index.tolist(), strict=True)
    ]
    assert np.mean(near) > 0.9
    assert bool((approximate.graph.neighbours.index != torch.arange(300)[:, None]).all())


def test_exact_search_gives_way_when_it_would_take_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(graph, "BEARABLE", 0)
    recall = kept_graph(stored(tmp_path)).recall
    assert recall is not None
    assert 0.5 < recall.share <= 1


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="engine must be exact or faiss; got 'hnsw'"):
        kept_graph(stored(tmp_path), engine="hnsw")  # type: ignore[arg-type]
