"""Approximate search: asked for, measured, and never from an index that is damaged or another's."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.errors import DataError
from eigenview.search import neighbours
from tests.search.encoders import cosines

pytest.importorskip("faiss", reason="faiss is not installed")


def write_rows(file: Path, *, count: int = 600, seed: int = 0) -> Path:
    np.save(file, np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32))
    return file


def found_rows(file: Path, queries: list[int], engine: str = "faiss") -> list[list[int]]:
    return [[near.row for near in answer.neighbours] for answer in neighbours(file, queries, k=5, engine=engine)]


def test_faiss_finds_what_exact_search_finds_where_all_cells_are_looked_into(tmp_path):
    file = write_rows(tmp_path / "rows.npy")
    exact = neighbours(file, [7, 300], k=5)
    assert [answer.recall for answer in exact] == [None, None]
    for _ in range(2):  # built, then read back
        quick = neighbours(file, [7, 300], k=5, engine="faiss")
        assert [answer.recall.share for answer in quick] == [1, 1]
        for answer, other in zip(exact, quick, strict=True):
            assert [near.row for near in answer.neighbours] == [near.row for near in other.neighbours]
            assert [near.cosine for near in other.neighbours] == pytest.approx([n.cosine for n in answer.neighbours])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.npy", "rows.npy.faiss", "rows.npy.faiss.json"]


def test_recall_is_the_share_of_the_exact_nearest_that_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["eigenview.search.approximate"], "PROBED", 1)
    file = write_rows(tmp_path / "rows.npy", count=900)
    rows = torch.from_numpy(np.load(file)).double()
    queries = np.linspace(0, 899, 100).astype(int).tolist()
    hits = 0
    for answer in neighbours(file, queries, k=10, engine="faiss"):
        line = cosines(rows, rows[answer.row])
        line[answer.row] = -2.0
        exact = sorted(range(900), key=lambda row: -line[row])[:10]
        hits += len({near.row for near in answer.neighbours} & set(exact))
    assert 0.1 < answer.recall.share < 0.95
    assert answer.recall.share == pytest.approx(hits / 1000, abs=0.002)
    assert (answer.recall.queries, answer.recall.k) == (100, 10)


@pytest.mark.parametrize("harm", ["bits", "cut", "swapped", "seal", "no seal", "recall", "endless"])
def test_a_damaged_index_is_built_anew(tmp_path, harm):
    file = write_rows(tmp_path / "rows.npy")
    expected = found_rows(file, [7, 300], "exact")
    assert found_rows(file, [7, 300]) == expected
    index, seal = tmp_path / "rows.npy.faiss", tmp_path / "rows.npy.faiss.json"
    before = index.read_bytes()
    if harm == "bits":  # the stored vectors themselves: faiss notices nothing
        middle = len(before) // 2
        index.write_bytes(before[:middle] + bytes(5000) + before[middle + 5000 :])
    elif harm == "cut":
        index.write_bytes(before[: len(before) // 3])
    elif harm == "swapped":
        index.write_bytes(b"no index")
    elif harm == "seal":
        seal.write_text(seal.read_text().replace('"content": "', '"content": "0'))
    elif harm == "no seal":
        seal.unlink()
        index.write_bytes(before[: len(before) // 3])
    elif harm == "recall":
        seal.write_text(seal.read_text().replace('"share": 1.0', '"share": 0.5'))
    else:
        seal.write_text("[" * 100_000)
    assert found_rows(file, [7, 300]) == expected
    assert index.read_bytes() == before  # the same again: building repeats itself
    assert json.loads(seal.read_text())["recall"]["share"] == 1


def test_an_index_of_other_vectors_is_not_used_though_shape_and_time_agree(tmp_path):
    mine, other = write_rows(tmp_path / "mine.npy"), write_rows(tmp_path / "other.npy", seed=1)
    os.utime(mine, (1, 1))
    os.utime(other, (1, 1))
    found_rows(other, [7])
    for suffix in (".faiss", ".faiss.json"):
        shutil.copy(f"{other}{suffix}", f"{mine}{suffix}")
    assert found_rows(mine, [7, 300]) == found_rows(mine, [7, 300], "exact")


def test_a_folder_that_cannot_be_written_to_still_answers(tmp_path, monkeypatch):
    def refused(path):
        raise DataError("cannot write")

    file = write_rows(tmp_path / "rows.npy")
    monkeypatch.setattr(sys.modules["eigenview.search.approximate"], "atomic_path", refused)
    assert found_rows(file, [7]) == found_rows(file, [7], "exact")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]
