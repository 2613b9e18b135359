from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from PIL import Image

from eigenview.data import FolderSource, Source, UnreadableImage, subset
from eigenview.errors import DataError
from tests.data.pictures import encoded, gradient, write_broken_files, write_folder


def failure(source: FolderSource, index: int) -> UnreadableImage | None:
    try:
        source.image(index).pixels()
        return None
    except UnreadableImage as error:
        return error


def test_a_flat_folder_needs_no_labels(tmp_path):
    source = FolderSource(write_folder(tmp_path, 5))
    assert isinstance(source, Source)
    assert len(source) == 5
    assert source.labels is source.classes is source.label(0) is source.depth(0) is None
    assert source.captions(0) == ()
    for index in range(5):
        np.testing.assert_array_equal(source.image(index).pixels(), gradient(seed=index))
    assert str(source.describe()) == f"folder {tmp_path}: 5 images"


def test_the_index_is_the_sorted_relative_path(tmp_path):
    for name in (
        "b/2.png",
        "b/1.PNG",
        "a.jpeg",
        "c/d/e.webp",
        ".hidden.png",
        "__MACOSX/._x.png",
        "notes.txt",
        "._a.jpg",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(encoded(gradient()))
    source = FolderSource(tmp_path)
    assert [source.relative_path(i) for i in range(len(source))] == ["a.jpeg", "b/1.PNG", "b/2.png", "c/d/e.webp"]


def test_sub_folders_name_the_classes_when_asked(tmp_path):
    write_folder(tmp_path / "zebra", 2)
    write_folder(tmp_path / "ant" / "deeper", 3)
    source = FolderSource(tmp_path, labelled=True)
    assert source.classes == ("ant", "zebra")
    assert source.labels.tolist() == [0, 0, 0, 1, 1]
    assert source.label(4) == 1
    assert "2 classes" in str(source.describe())


def test_links_are_followed_once_and_loops_end(tmp_path):
    write_folder(tmp_path / "real", 2)
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "real")
    outside = write_folder(tmp_path.parent / f"{tmp_path.name}_outside", 1)
    (tmp_path / "elsewhere").symlink_to(outside)
    assert len(FolderSource(tmp_path)) == 3


def test_broken_files_are_listed_and_fail_one_by_one(tmp_path):
    broken = write_broken_files(write_folder(tmp_path, 3))
    source = FolderSource(tmp_path)
    failed = [reason.name for index in range(len(source)) if (reason := failure(source, index))]
    assert sorted(failed) == sorted(broken)
    assert len(source) == len(broken) + 3


def test_names_in_any_encoding_work(tmp_path):
    odd = os.fsdecode(b"caf\xe9 \xff.png")  # not UTF-8
    Image.fromarray(gradient()).save(tmp_path / "großer Hund 犬.png")
    (tmp_path / odd).write_bytes(encoded(gradient(seed=1)))
    source = FolderSource(tmp_path)
    assert [source.image(i).pixels()[0, 0, 2] for i in range(2)] == [37, 0]
    assert source.image(0).name == "caf\\xe9 \\xff.png"


def test_a_folder_that_may_not_be_entered_is_counted(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may enter everything")
    write_folder(tmp_path, 1)
    write_folder(tmp_path / "locked", 1)
    (tmp_path / "locked").chmod(0)
    try:
        source = FolderSource(tmp_path)
        assert (len(source), source.unreadable_folders) == (1, ["locked"])
    finally:
        (tmp_path / "locked").chmod(0o700)


def test_a_grey_source_gives_one_channel(tmp_path):
    folder = write_folder(tmp_path, 1)
    grey, colour = (FolderSource(folder, channels=channels).image(0).pixels() for channels in (1, 3))
    assert np.abs(grey[:, :, 0] - colour @ np.array([0.299, 0.587, 0.114])).max() <= 1


def test_sources_travel_to_workers(tmp_path):
    source = pickle.loads(pickle.dumps(FolderSource(write_folder(tmp_path / "a", 2).parent, labelled=True)))
    assert source.label(1) == 0
    assert source.image(1).size == (32, 24)


def test_a_part_of_a_source_is_renumbered(tmp_path):
    write_folder(tmp_path / "a", 2)
    write_folder(tmp_path / "b", 2)
    chosen = subset(FolderSource(tmp_path, labelled=True), [3, 0])
    assert (len(chosen), chosen.label(0), chosen.label(1)) == (2, 1, 0)
    assert chosen.image(0).name == "b/good_0001.png"
    with pytest.raises(DataError, match=r"must lie in 0 … 3; got 0 … 4"):
        subset(FolderSource(tmp_path), [0, 4])


def test_mistakes_are_told_in_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a_file.txt").write_text("hello")
    with pytest.raises(DataError, match=r"no images in .*empty \(looked for \.jpg .*is the path right\?"):
        FolderSource(tmp_path / "empty")
    with pytest.raises(DataError, match=r"no such folder: .*missing; is the path right"):
        FolderSource(tmp_path / "missing")
    with pytest.raises(DataError, match="is a file, not a folder"):
        FolderSource(tmp_path / "a_file.txt")
    write_folder(tmp_path / "flat", 2)
    with pytest.raises(DataError, match=r"2 lie directly in .*flat, such as good_0000\.png"):
        FolderSource(tmp_path / "flat", labelled=True)
