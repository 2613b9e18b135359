"""Addresses: tables, lists, shards and folders by fsspec; and one line where something is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenview.data import FolderSource, Loader, StreamLoader, UnreadableImage, open_source, places
from eigenview.errors import DataError, SettingError
from tests.data.pictures import encoded, gradient, write_folder
from tests.data.test_shards import write_shards

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def remote(tmp_path) -> str:
    """Everything that is in ``tmp_path``, in memory, which fsspec calls an address."""
    write_folder(tmp_path / "photos" / "cats", 2)
    write_folder(tmp_path / "photos" / "dogs", 2)
    (tmp_path / "photos" / ".hidden.png").write_bytes(b"x")
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    for number in range(2):
        table = pa.table({"image": [encoded(gradient(seed=number))], "label": [number]})
        pq.write_table(table, tmp_path / f"t-{number}.parquet")
    pq.write_table(pa.table({"file": ["photos/cats/good_0001.png", "../x.png"]}), tmp_path / "paths.parquet")
    (tmp_path / "list.csv").write_text("path,caption\nphotos/cats/good_0001.png,a cat\n")
    np.save(tmp_path / "x.npy", np.zeros((2, 8, 8, 3), dtype=np.uint8))
    write_shards(tmp_path, 2, 3)
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.put(str(tmp_path) + "/", "/bucket/", recursive=True)
    return "memory://bucket"


def test_tables_lists_arrays_and_folders_are_read_from_addresses(remote, tmp_path):
    for text in ("photos", "photos?labelled=yes", "t-*.parquet", "t-1.parquet", "list.csv", "x.npy"):
        near, far = open_source(f"{tmp_path}/{text}"), open_source(f"{remote}/{text}")
        assert len(near) == len(far)
        assert (near.classes, [near.label(i) for i in range(len(near))]) == (
            far.classes,
            [far.label(i) for i in range(len(far))],
        )
        for index in range(len(near)):
            np.testing.assert_array_equal(near.image(index).pixels(), far.image(index).pixels())
            assert near.captions(index) == far.captions(index)
            assert far.path(index) is None
    assert remote in str(open_source(f"{remote}/photos").describe())


def test_workers_read_addresses_too(remote, tmp_path):
    far = Loader(open_source(f"{remote}/photos"), batch_size=2, seed=0, workers=1)
    near = Loader(FolderSource(tmp_path / "photos"), batch_size=2, seed=0, workers=0)
    for batch, other in zip(far, near, strict=True):
        np.testing.assert_array_equal(batch.images.numpy(), other.images.numpy())
        assert batch.names == other.names


def test_shards_are_read_from_addresses(remote):
    for pattern in ("shard-{000..001}.tar", "shard-*.tar"):
        source = open_source(f"{remote}/{pattern}")
        batches = list(StreamLoader(source, batch_size=3, seed=0, workers=0, shuffle=False))
        assert [batch.label.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]


def test_files_by_address_are_files(tmp_path):
    write_folder(tmp_path, 2)
    assert [open_source(f"file://{tmp_path}").name(index) for index in range(2)] == ["good_0000.png", "good_0001.png"]


def test_a_remote_table_leads_nowhere_else(remote):
    source = open_source(f"{remote}/paths.parquet")
    np.testing.assert_array_equal(source.image(0).pixels(), gradient(seed=1))
    with pytest.raises(UnreadableImage, match="leads out of"):
        source.image(1)
    for name in ("/etc/passwd", "../../x", "http://127.0.0.1:9/x.png"):
        with pytest.raises(DataError, match="leads out of"):
            places.inside(remote, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3://bucket/photos", "reading s3:// addresses needs s3fs, .*pip install s3fs"),
        ("gs://bucket/t.parquet", "reading gs:// addresses needs gcsfs, .*pip install gcsfs"),
        ("hf://datasets/a/b/*.parquet", "reading hf:// addresses needs huggingface_hub, "),
        ("s3://bucket/shard-{000..001}.tar", "reading s3:// addresses needs s3fs"),
        ("nonsense://bucket/list.csv", "nonsense://bucket/list.csv cannot be read: Protocol not known"),
        ("memory://bucket/gone.csv", "no such file: memory://bucket/gone.csv; is the address right"),
        ("memory://bucket/gone.parquet", "no such file: memory://bucket/gone.parquet"),
        ("memory://bucket/gone", "no images in memory://bucket/gone"),
        ("https://127.0.0.1:9/photos/", "must be one of .npy .npz .parquet"),
        ("cifar10:s3://bucket/cifar", "cifar10 is read from a folder of this machine"),
    ],
)
def test_what_is_missing_is_said_in_one_line(remote, text, message, monkeypatch):
    for driver in ("s3fs", "gcsfs", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises((DataError, SettingError), match=message) as caught:
        open_source(text)
    assert "\n" not in str(caught.value)
    assert "no such folder" not in str(caught.value)


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(SettingError, match=r"reading s3:// addresses needs fsspec, .*'eigenview\[remote\]'"):
        open_source("s3://bucket/t.parquet")


def test_no_address_is_opened_that_only_a_file_names(remote, tmp_path):
    for text in (f"{remote}/photos", f"{tmp_path}/list.csv?root={remote}", f"table:{remote}/t-0.parquet"):
        open_source(text)
        with pytest.raises(DataError, match="is an address that only a file names"):
            open_source(text, network=False)
    (tmp_path / "urls.csv").write_text("path\nhttp://127.0.0.1:9/x.png\n")
    with pytest.raises(UnreadableImage, match="No such file"):  # a list on this machine names files of this machine
        open_source(str(tmp_path / "urls.csv")).image(0)


def test_a_text_that_is_no_place_is_told_so():
    for text in ("x" * 5000, "a\0b", str(Path("/") / "nowhere" / "at" / "all")):
        with pytest.raises(DataError, match="no such folder or file"):
            open_source(text)
