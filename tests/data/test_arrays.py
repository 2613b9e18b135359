from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenview.data import ArraySource, BatchSource, arrays, subset
from eigenview.errors import DataError, SettingError
from eigenview.tensors import map_array


def some_images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_every_layout_gives_the_same_batches():
    images = some_images(6, 5, 7, 3)
    indices = np.array([4, 0, 4])
    for source in (
        ArraySource(images),
        ArraySource(images.transpose(0, 3, 1, 2)),
        ArraySource(torch.from_numpy(images), layout="nhwc"),
    ):
        batch = source.batch(indices)
        assert batch.dtype == torch.uint8
        assert batch.is_contiguous()
        for row, index in enumerate(indices):
            np.testing.assert_array_equal(batch[row].permute(1, 2, 0).numpy(), images[index])
            np.testing.assert_array_equal(source.image(int(index)).pixels(), images[index])


def test_grey_images_have_one_channel():
    images = some_images(4, 8, 8)
    source = ArraySource(images)
    np.testing.assert_array_equal(source.batch(np.arange(4)), images[:, None])
    assert source.image(0).mode == "array L"


def test_labels_and_names_are_kept():
    source = ArraySource(some_images(3, 8, 8), labels=[1, -1, 0], classes=["cat", "dog"])
    assert isinstance(source, BatchSource)
    assert [source.label(i) for i in range(3)] == [1, None, 0]
    assert str(source.describe()) == "arrays memory: 3 images, 2 classes"
    chosen = subset(source, [2, 0])
    assert isinstance(chosen, BatchSource)
    assert chosen.labels.tolist() == [0, 1]
    assert torch.equal(chosen.batch(np.array([1])), source.batch(np.array([0])))


def test_files_round_trip(tmp_path):
    images, labels = some_images(5, 8, 8, 3), np.arange(5)
    np.save(tmp_path / "x.npy", images)
    np.save(tmp_path / "y.npy", labels)
    np.savez_compressed(tmp_path / "both.npz", images=images, labels=labels)
    for source in (
        ArraySource.from_file(tmp_path / "x.npy", labels=tmp_path / "y.npy"),
        ArraySource.from_file(tmp_path / "both.npz"),
    ):
        assert source.labels.tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(source.batch(np.arange(5)).permute(0, 2, 3, 1).numpy(), images)
    assert ArraySource.from_file(tmp_path / "x.npy").labels is None


def test_large_files_are_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "MAP_ABOVE", 100)
    images = some_images(5, 8, 8, 3)
    np.save(tmp_path / "x.npy", images)
    assert isinstance(arrays.read_arrays(tmp_path / "x.npy", images=())["images"], np.memmap)
    np.testing.assert_array_equal(
        ArraySource.from_file(tmp_path / "x.npy").batch(np.array([3]))[0].permute(1, 2, 0).numpy(), images[3]
    )


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", images=np.array([{"a": 1}], dtype=object))
    for name in ("objects.npy", "objects.npz"):
        with pytest.raises(DataError, match="Python objects, which are never loaded"):
            ArraySource.from_file(tmp_path / name)


@pytest.mark.parametrize("name", ["junk.npy", "junk.npz"])
def test_what_is_no_array_is_not_called_a_pickle(tmp_path, name):
    (tmp_path / name).write_bytes(b"neither numbers nor pictures")
    with pytest.raises(DataError, match=r"is not a readable \.npy or \.npz file: it is not readable as an array$"):
        ArraySource.from_file(tmp_path / name)
    with pytest.raises(DataError, match=r"of numbers \(np\.save writes one\): it is not readable as an array$"):
        map_array(tmp_path / name)


def test_mistakes_are_told_in_one_line(tmp_path):
    images = some_images(4, 8, 8, 3)
    with pytest.raises(DataError, match=r"4 images, but labels of shape \(3,\)"):
        ArraySource(images, labels=[0, 1, 2])
    with pytest.raises(DataError, match="label 2 has no name: there are 2"):
        ArraySource(images, labels=[0, 1, 2, 0], classes=["a", "b"])
    with pytest.raises(DataError, match="at least 0"):
        ArraySource(images, labels=[0, 1, -2, 0])
    with pytest.raises(DataError, match="whole numbers"):
        ArraySource(images, labels=[0.5, 1, 2, 0])
    with pytest.raises(DataError, match=r"uint8.*float64"):
        ArraySource(images / 255.0)
    with pytest.raises(DataError, match="both ends could be the channels"):
        ArraySource(some_images(4, 3, 8, 3))
    with pytest.raises(DataError, match="channels must be 1 or 3"):
        ArraySource(some_images(4, 8, 8, 2))
    with pytest.raises(DataError, match="non-empty"):
        ArraySource(some_images(0, 8, 8, 3))
    with pytest.raises(SettingError, match="layout is auto"):
        ArraySource(images, layout="hwc")
    with pytest.raises(DataError, match="no such file"):
        ArraySource.from_file(tmp_path / "missing.npy")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY nonsense")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nonsense")
    for name in ("broken.npy", "broken.npz"):
        with pytest.raises(DataError, match="not a readable"):
            ArraySource.from_file(tmp_path / name)
    np.savez(tmp_path / "other.npz", pictures=images)
    with pytest.raises(DataError, match=r"no array named images .* it has pictures"):
        ArraySource.from_file(tmp_path / "other.npz")
