"""The stored sample: what was written comes back, and what was damaged or leads elsewhere is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenview.errors import DataError
from eigenview.runs import Packed, RunDirectory, label_sample, write_sample

ROWS = 6
SAMPLE = {
    "features": np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 4),
    "first_view": None,
    "second_view": None,
    "index": np.arange(ROWS) * 2,
    "labels": None,
    "clusters": np.arange(ROWS) % 2,
    "prototypes": None,
    "names": [f"{row}.png" for row in range(ROWS)],
    "classes": None,
    "source": "six pictures",
    "seed": 3,
    "checkpoint": "last",
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    sheet = Packed([Image.new("RGB", (24, 16), "red")], side=8, columns=3, rows=2)
    write_sample(folder, SAMPLE, thumbnails=sheet, views=None)
    return folder


def test_what_was_written_comes_back(run):
    sample = RunDirectory(run).sample()
    for name, value in SAMPLE.items():
        stored = getattr(sample, name)
        assert stored == tuple(value) if name == "names" else np.array_equal(stored, value), name
    assert sample.thumbnails.files == (run / "sample" / "thumbnails-0.jpg",)
    assert (sample.thumbnails.side, sample.thumbnails.columns, sample.thumbnails.rows, sample.views) == (8, 3, 2, None)
    assert RunDirectory(run.parent).sample() is None


def test_labels_can_be_added_and_nothing_else_changes(run):
    before = {file.name: file.read_bytes() for file in (run / "sample").iterdir()}
    label_sample(run, np.array([0, 1, -1, 0, 1, 1]), ["a", "b"])
    sample = RunDirectory(run).sample()
    assert (sample.labels.tolist(), sample.classes) == ([0, 1, -1, 0, 1, 1], ("a", "b"))
    after = {file.name: file.read_bytes() for file in (run / "sample").iterdir()}
    assert after.keys() - before.keys() == {"labels.npy"}
    assert [name for name in before if before[name] != after[name]] == ["sample.json"]


def test_a_sample_that_a_kill_left_between_two_renames_is_still_read(run):
    (run / "sample").rename(run / ".sample.old")
    assert RunDirectory(run).sample().names == tuple(SAMPLE["names"])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("labels.npy", np.zeros(4, int), r"its parts have \[4, 6\] rows"),
        ("features.npy", b"", "cannot be read"),
        ("features.npy", b"\x93NUMPY\x01\x00", "cannot be read"),
        ("features.npy", b"\x93NUMPY\x01\x00\x08\x00((((((((", "cannot be read"),
        ("features.npy", np.zeros(ROWS, np.float32), r"its features are float32 of shape \(6,\)"),
        ("first_view.npy", np.zeros((ROWS, 4), np.int64), r"its first_view are int64 of shape \(6, 4\)"),
        ("index.npy", np.zeros((ROWS, 1), np.int64), r"its index are int64 of shape \(6, 1\)"),
        ("sample.json", b"{}", "cannot be read"),
        ("sample.json", b"[" * 200_000, "nested too deeply"),
        ("sample.json", b"\xff", "is not UTF-8"),
    ],
)
def test_a_damaged_sample_is_refused_with_the_remedy(run, file, content, message):
    if isinstance(content, np.ndarray):
        np.save(run / "sample" / file, content)
    else:
        (run / "sample" / file).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        RunDirectory(run).sample()
    assert "eigenview diagnose RUN writes it anew" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("names", "abc"), ("seed", "three"), ("thumbnails", {"files": 3}), ("classes", 5)]
)
def test_a_field_of_the_wrong_type_is_refused(run, name, value):
    file = run / "sample" / "sample.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(DataError, match="cannot be read"):
        RunDirectory(run).sample()


def test_an_array_with_python_objects_is_not_unpickled(run):
    np.save(run / "sample" / "clusters.npy", np.array([{}] * ROWS), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        RunDirectory(run).sample()


@pytest.mark.parametrize("name", ["sample", "sample/sample.json", "sample/thumbnails-0.jpg", "sample/features.npy"])
def test_a_link_out_of_the_run_is_not_followed(run, name, tmp_path):
    outside = tmp_path / "secret"
    (run / name).rename(outside)
    (run / name).symlink_to(outside)
    with pytest.raises(DataError, match=r"is a link that leads out of .*; it is not followed"):
        RunDirectory(run).sample()
