"""The verb clusters: what it writes, the same in Python, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import eigenview as ev
from eigenview.cli import main
from tests.cli.test_labelling import refused
from tests.labels.vectors import EACH, names, read_rows, write_vectors


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path / "photos.npz")
    return tmp_path


def test_groups_are_written_with_typical_pictures_and_are_the_same_in_python(
    shop: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["clusters", "photos.npz"]) == 0
    said = capsys.readouterr().out
    assert "groups: " in said
    rows = read_rows(shop / "clusters-photos.csv")
    assert [row["name"] for row in rows] == names()
    kinds = [[row["cluster"] for row in rows[start : start + EACH]] for start in range(0, 3 * EACH, EACH)]
    assert [len(set(kind)) for kind in kinds] == [1, 1, 1]
    assert {kind[0] for kind in kinds} == {"1", "2", "3"}
    for kind in ("1", "2", "3"):
        assert max(float(row["typicality"]) for row in rows if row["cluster"] == kind) == 1
    assert (shop / "clusters-photos.png").read_bytes()[:4] == b"\x89PNG"
    mine = ev.open_embeddings("photos.npz").clusters()
    assert (mine.member + 1).tolist() == [int(row["cluster"]) for row in rows]
    assert [f"{value:g}" for value in mine.columns()["typicality"]] == [f"{float(row['typicality']):g}" for row in rows]


def test_a_given_number_is_kept_and_json_writes_nothing(shop: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["clusters", "photos.npz", "--clusters", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["clusters"], told["certainty"], sum(told["sizes"])) == (2, "given", 3 * EACH)
    assert told["sizes"] == sorted(told["sizes"], reverse=True)
    assert not list(shop.glob("clusters-*"))
    assert main(["clusters", "photos.npz", "-o", "groups.parquet", "--sheet", "groups.png", "--shown", "2"]) == 0
    said = refused(capsys, "clusters", "photos.npz", "-o", "groups.parquet")
    assert said.startswith("groups.parquet is there already")


def test_typical_pictures_are_not_copies_of_each_other(tmp_path: Path):
    random = np.random.default_rng(0)
    rows = np.eye(8)[np.arange(60) // 20] * 3 + 0.4 * random.normal(size=(60, 8))
    rows[:6] = rows[0]  # six copies, which lie more densely than any others
    np.save(tmp_path / "copies.npy", rows.astype(np.float32))
    groups = ev.open_embeddings(tmp_path / "copies.npy").clusters(3)
    shown = groups.typical(int(groups.member[0]), 8)
    assert len(set(shown) & set(range(6))) == 1


def test_many_images_take_the_groups_of_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("eigenview.labels.clusters.COUNTED", 200)
    random = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), [300, 200, 150, 100])
    np.save(tmp_path / "many.npy", (3 * np.eye(8)[truth] + 0.4 * random.normal(size=(750, 8))).astype(np.float32))
    groups = ev.open_embeddings(tmp_path / "many.npy").clusters()
    assert (groups.count.clusters, groups.count.nodes, groups.sizes) == (4, 200, (300, 200, 150, 100))
    assert torch.equal(groups.member, torch.from_numpy(truth))


def test_mistakes_are_one_line(shop: Path, capsys: pytest.CaptureFixture[str]):
    np.save(shop / "one.npy", np.ones((1, 4), dtype=np.float32))
    assert "at least three images; one.npy has 1" in refused(capsys, "clusters", "one.npy")
    np.save(shop / "same.npy", np.ones((30, 4), dtype=np.float32))
    assert "all 30 rows are the same: there are no 4 groups" in refused(
        capsys, "clusters", "same.npy", "--clusters", "4"
    )
    assert main(["clusters", "same.npy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sizes"] == [30]
    write_vectors(shop / "nan.npz", change={3: np.nan})
    assert "nan.npz" in refused(capsys, "clusters", "nan.npz")
    assert "clusters must be from 1 to 36" in refused(capsys, "clusters", "photos.npz", "--clusters", "99")
    assert "--clusters" in refused(capsys, "clusters", "photos.npz", "--clusters", "0")


def test_islands_are_groups(tmp_path: Path):
    random = np.random.default_rng(0)
    rows = 100 * np.eye(6)[np.arange(90) // 30] + 0.01 * random.normal(size=(90, 6))
    np.save(tmp_path / "islands.npy", rows.astype(np.float32))
    groups = ev.open_embeddings(tmp_path / "islands.npy").clusters()
    assert groups.sizes == (30, 30, 30)
    assert all(len(set(groups.member[start : start + 30].tolist())) == 1 for start in (0, 30, 60))
