"""compare without labels: encoders by name and files of vectors, the same in Python, and mistakes in one line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import eigenview as ev
from eigenview.cli import main
from tests.cli.test_labelling import refused
from tests.made_runs import MadeRuns


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(24):
        pixels = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((16, 16)).save(tmp_path / "photos" / f"{number:02d}.png")
    return tmp_path


def test_runs_without_scores_are_measured_on_their_own_images_and_the_same_in_python(
    shop: Path, made_runs: MadeRuns, capsys: pytest.CaptureFixture[str]
):
    folders = [made_runs.copy(shop / "first"), made_runs.copy(shop / "second", "supervised")]
    assert main(["compare", "first", "second", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["measures"]) == ["first", "second"]
    assert told["best"] in told["measures"]
    assert told["by"] == max(told["worth"], key=lambda title: told["worth"][title])
    mine = ev.compare(*(ev.open_run(folder) for folder in folders), unlabelled="digits")
    for figures, stored in zip(mine.values(), told["measures"].values(), strict=True):
        assert asdict(figures) == pytest.approx(stored)
    assert (mine.best, mine.by, dict(mine.worth)) == (told["best"], told["by"], told["worth"])
    other = made_runs.copy(shop / "more" / "first")
    with pytest.raises(ev.EigenviewError, match="told apart by their folders' names; got first, first: rename one"):
        ev.compare(*(ev.open_run(folder) for folder in (folders[0], other)), unlabelled="digits")


def test_an_encoder_by_name_stands_beside_others_with_what_measures_are_worth(
    shop: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", "small", "--unlabelled", "photos/"]) == 0
    shown = capsys.readouterr().out
    assert "LiDAR (more is better)" in shown
    assert "probably best: small" in shown
    assert "rank correlation with 20-NN accuracy" in shown
    assert "--select SOURCE tells more" in shown


def test_files_of_vectors_have_no_views(shop: Path, capsys: pytest.CaptureFixture[str]):
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(shop / f"{name}.npy", random.normal(size=(60, 8)).astype(np.float32))
    assert main(["compare", "a.npy", "b.npy", "--unlabelled", "photos/", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["measures"]["a"]["lidar"] is None
    assert told["by"] not in ("LiDAR", "neighbours kept")
    assert main(["compare", "a.npy", "b.npy", "--unlabelled", "photos/"]) == 0
    assert "a hint, hardly better than a guess: " in capsys.readouterr().out
    mine = ev.compare(*map(ev.open_embeddings, ("a.npy", "b.npy")), unlabelled="photos/")
    assert {name: asdict(figures) for name, figures in mine.items()} == told["measures"]
    np.save(shop / "few.npy", np.ones((3, 8), dtype=np.float32))
    assert "at least 20 rows" in refused(capsys, "compare", "a.npy", "few.npy", "--unlabelled", "photos/")
    (shop / "more").mkdir()
    np.save(shop / "more" / "a.npy", random.normal(size=(30, 8)).astype(np.float32))
    assert main(["compare", "a.npy", "more/a.npy", "--unlabelled", "photos/", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["measures"]) == ["a.npy", "more/a.npy"]
    twice = ["a.npy", "a.npy"]
    assert "names; got a.npy, a.npy: rename one" in refused(capsys, "compare", *twice, "--unlabelled", "photos/")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_table_is_written(ending: str, shop: Path, capsys: pytest.CaptureFixture[str]):
    arrays = pytest.importorskip("pyarrow.csv" if ending == "csv" else "pyarrow.parquet")
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(shop / f"{name}.npy", random.normal(size=(60, 8)).astype(np.float32))
    words = ["compare", "a.npy", "b.npy", "--unlabelled", "photos/", "-o", f"out.{ending}"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["measures"]
    rows = (arrays.read_csv if ending == "csv" else arrays.read_table)(f"out.{ending}").to_pylist()
    assert [row["name"] for row in rows] == ["a", "b"]
    for row in rows:
        expected = told[row.pop("name")]
        assert row.keys() == expected.keys()
        for key, value in expected.items():
            assert row[key] in (None, "") if value is None else row[key] == pytest.approx(value, rel=1e-5)
    assert "is there already: name another file" in refused(capsys, *words)
    assert main([*words, "--overwrite"]) == 0
    assert f"out.{ending}: all of it" in capsys.readouterr().out.splitlines()
    assert "a .csv or .parquet file is written" in refused(capsys, *words[:-1], "out.txt")


def test_names_are_looked_at_before_anything_is_computed(shop: Path, capsys: pytest.CaptureFixture[str]):
    encoder = "small is an encoder, and has no scores: compare it on images (--unlabelled SOURCE)"
    assert refused(capsys, "compare", "small", "efficientnet-lite0") == encoder
    for missing in ("nosuch", "nosuch.npy"):
        said = refused(capsys, "compare", "small", missing, "--unlabelled", "photos/")  # a line: nothing said of small
        assert said == f"{missing} is no run directory, no file and no encoder; is the path right?"
    assert not (shop / "runs").exists()
