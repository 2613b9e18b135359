"""A graph kept beside its embeddings: read back, made anew where it does not fit, never believed when damaged."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.errors import SettingError
from eigenview.graph.nearest import nearest
from eigenview.labels import audit, choose_images, cluster_images, graph, image_graph, kept_graph, spread_labels
from eigenview.labels.graph import graph_seconds
from eigenview.labels.label_files import GivenLabels
from eigenview.search import Embeddings, approximate, open_embeddings


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
    assert approximate.recall.share == pytest.approx(np.mean(near), abs=0.02)
    assert bool((approximate.graph.neighbours.index != torch.arange(300)[:, None]).all())


def test_recall_is_that_of_the_neighbours_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(approximate, "PROBED", 2)  # so that some are missed
    embeddings = stored(tmp_path, rows=2000)
    kept = kept_graph(embeddings, engine="faiss")
    exact = nearest(kept.graph.rows, kept.graph.rows, k=20, excludes_self=True).index.tolist()
    own = torch.linspace(0, 1999, 100).long().tolist()
    shares = [len(set(exact[row]) & set(kept.graph.neighbours.index[row].tolist())) / 20 for row in own]
    assert kept.recall is not None
    assert kept.recall.k == 20
    assert kept.recall.share == pytest.approx(np.mean(shares), abs=1e-3)
    assert kept.recall.share < 1
    assert choose_images(embeddings, 3).recall == cluster_images(embeddings, 3).recall == kept.recall


def test_exact_search_gives_way_when_it_would_take_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(graph, "BEARABLE", 0)
    embeddings = stored(tmp_path)
    assert graph_seconds(embeddings) is None
    recall = kept_graph(embeddings).recall
    assert recall is not None
    assert 0.5 < recall.share <= 1
    assert graph_seconds(embeddings) == 0
    assert graph_seconds(embeddings, engine="exact") > 0  # type: ignore[operator]
    assert kept_graph(embeddings, engine="exact").recall is None


def test_without_faiss_a_graph_too_long_to_seek_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "BEARABLE", 0)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(SettingError, match=r"60 images \(by exact search \(--engine exact, .* needs faiss"):
        kept_graph(stored(tmp_path))
    assert kept_graph(stored(tmp_path), engine="exact").recall is None


def test_the_time_of_a_graph_is_told_where_the_one_kept_does_not_fit(tmp_path: Path) -> None:
    embeddings = stored(tmp_path)
    seconds = graph_seconds(embeddings)
    assert seconds is not None
    assert seconds > 0
    kept_graph(embeddings)
    assert graph_seconds(embeddings) == 0
    assert graph_seconds(stored(tmp_path, seed=1)) == seconds


@pytest.mark.parametrize("content", ["nodes and edges of mine", ""])
def test_a_file_of_another_kind_under_its_name_is_left_alone(content: str, tmp_path: Path) -> None:
    embeddings = stored(tmp_path)
    (tmp_path / "rows.npy.graph").write_text(content)
    with pytest.warns(UserWarning, match=r"rows\.npy\.graph is no graph of eigenview's and is left alone"):
        made = kept_graph(embeddings).graph
    assert (tmp_path / "rows.npy.graph").read_text() == content
    assert np.allclose(made.weights.toarray(), image_graph(embeddings.vectors).weights.toarray())


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(SettingError, match="engine must be auto, exact or faiss; got 'hnsw'"):
            kept_graph(stored(tmp_path), engine="hnsw")  # type: ignore[arg-type]
        kept_graph(stored(tmp_path))


def test_what_is_found_is_printed_in_a_line_however_many_rows_there_are(tmp_path: Path) -> None:
    rows = stored(tmp_path, rows=60)
    given = GivenLabels(torch.arange(60) % 2, ("cat", "dog"))
    whole = f"Embeddings(60 in {str(rows.place)!r})"
    assert repr(rows) == whole
    assert repr(choose_images(rows, 2)).endswith(f"stored={whole}, recall=None)")
    spread = spread_labels(rows, given)
    assert repr(spread) == f"Suggestions({whole}, labels=60, given=60, certain=0)"
    assert repr(cluster_images(rows, 1)) == f"ImageClusters({whole}, sizes=(60,))"
    audited = audit(rows, given, copies=False, outliers=3)
    assert repr(audited) == f"Audit({whole}, labels=60, suspects={len(audited.suspects)}, outliers=3)"
