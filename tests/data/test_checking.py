from __future__ import annotations

import shutil

import numpy as np
import pytest

from eigenview.data import ArraySource, FolderSource, check
from eigenview.errors import DataError
from tests.data.pictures import encoded, gradient, write_broken_files, write_folder
from tests.data.test_shards import write_shards, write_tar


@pytest.mark.parametrize("workers", [0, 2])
def test_a_messy_folder_is_told_in_a_few_lines(tmp_path, workers):
    write_folder(tmp_path / "cats", 70)
    write_folder(tmp_path / "dogs", 3, size=(40, 40), kind="jpg")
    shutil.copy(tmp_path / "cats" / "good_0000.png", tmp_path / "dogs" / "same.png")
    broken = write_broken_files(tmp_path / "dogs")
    report = check(FolderSource(tmp_path, labelled=True), workers=workers, shows_progress=False)
    assert (report.total, report.readable) == (74 + len(broken), 74)
    assert report.sizes == {(32, 24): 71, (40, 40): 3}
    assert report.modes == {"PNG RGB": 71, "JPEG RGB": 3}
    assert report.labels == {"cats": 70, "dogs": 4}
    assert sorted(failure.name for failure in report.unreadable) == sorted(f"dogs/{name}" for name in broken)
    assert report.duplicates == (("cats/good_0000.png", "dogs/same.png"),)
    text = str(report)
    assert f"images      {report.total}, of which 74 readable" in text
    assert "sizes       32 x 24 (71), 40 x 40 (3)" in text
    assert "labels      2 classes, 4 to 70 images each" in text
    assert "captions    none" in text
    assert f"unreadable  {len(broken)}: dogs/bad_" in text
    assert f"and {len(broken) - 5} more" in text
    assert "duplicates  1 image repeats another: cats/good_0000.png = dogs/same.png" in text
    assert len(str(report).splitlines()) <= 9


def test_a_path_is_enough_and_an_array_is_fine_too(tmp_path):
    write_folder(tmp_path, 3)
    assert check(tmp_path, workers=0).readable == 3
    report = check(ArraySource(np.zeros((4, 8, 8), dtype=np.uint8), labels=[0, 1, -1, 1]), workers=0)
    assert "labels      2 classes, 1 to 2 images each; 1 images without" in str(report)
    assert "3 images repeat others" in str(report)
    assert "stored as   array L (4)" in str(report)


def test_shards_are_checked_as_they_stream(tmp_path):
    write_shards(tmp_path, 2, 3)
    write_tar(tmp_path / "shard-002.tar", {"x.jpg": b"broken", "y.png": encoded(gradient(50, 60))})
    report = check(str(tmp_path / "shard-*.tar"))
    assert (report.total, report.readable) == (8, 7)
    assert "captions    6, 0 to 1 an image" in str(report)
    assert "shard-002.tar/x" in str(report)


def test_many_sizes_are_summed_up(tmp_path):
    for side in range(10, 16):
        write_folder(tmp_path / str(side), 1, size=(side, 20))
    assert "6 sizes, sides from 10 to 20; most often" in str(check(tmp_path, workers=0))


def test_there_must_be_something_to_check(tmp_path):
    with pytest.raises(DataError, match="no images in"):
        check(tmp_path)
