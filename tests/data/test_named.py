from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

from eigenview.data import BatchSource, Loader, open_source, stl10_folds
from eigenview.data.pickles import read_plain_pickle
from eigenview.data.shapes import SHAPES, ShapesSource, uniform
from eigenview.errors import DataError, SettingError
from tests.data.pictures import encoded, gradient, write_folder


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def pixels(source: object) -> np.ndarray:
    assert isinstance(source, BatchSource)
    return source.batch(np.arange(len(source))).numpy()


def test_digits_come_with_the_library():
    source = open_source("digits")
    assert isinstance(source, BatchSource)
    assert len(source) == 1797
    images = pixels(source)
    assert images.shape == (1797, 1, 8, 8)
    assert (images.min(), images.max()) == (0, 255)
    assert np.bincount(source.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    train, test = open_source("digits?split=train"), open_source("digits?split=test")
    assert (len(train), len(test)) == (1438, 359)


def test_shapes_are_a_pure_function_of_seed_and_index():
    source = ShapesSource(64, size=24, seed=5)
    together = pixels(source)
    for index in (0, 7, 63):
        np.testing.assert_array_equal(source.image(index).pixels(), together[index].transpose(1, 2, 0))
    np.testing.assert_array_equal(pixels(ShapesSource(500, size=24, seed=5))[:64], together)
    assert (pixels(ShapesSource(64, size=24, seed=6)) != together).any(axis=(1, 2, 3)).all()
    assert source.classes == SHAPES
    assert np.bincount(source.labels).tolist() == [8] * 8
    assert len({image.tobytes() for image in together}) == 64


def test_only_the_shape_tells_the_class():
    source = ShapesSource(4000, size=16)
    means = pixels(source).mean(axis=(2, 3))
    for label in range(8):  # colour says nothing: class means agree within four standard errors
        mine = means[source.labels == label]
        error = means.std(axis=0) / np.sqrt(len(mine))
        assert (np.abs(mine.mean(axis=0) - means.mean(axis=0)) < 4 * error).all()


def test_the_generator_of_shapes_is_uniform():
    numbers = uniform(3, np.arange(20_000), 8)
    assert (numbers >= 0).all()
    assert (numbers < 1).all()
    np.testing.assert_allclose(numbers.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(numbers.var(axis=0), 1 / 12, atol=0.002)
    correlation = np.corrcoef(numbers.T) - np.eye(8)
    assert np.abs(correlation).max() < 0.03


def test_shapes_of_any_size_and_number():
    for size in (8, 33, 100):
        images = pixels(ShapesSource(3, size=size))
        assert images.shape == (3, 3, size, size)
        assert (images.std(axis=(2, 3)).max(axis=1) > 5).all()  # a shape stands out
    huge = ShapesSource(10**12)
    assert huge.image(10**12 - 1).size == (32, 32)
    with pytest.raises(SettingError, match="size >= 8"):
        ShapesSource(3, size=4)


def write_cifar(root: Path, *, hundred: bool) -> tuple[np.ndarray, np.ndarray]:
    images, labels = noise(10, 3, 32, 32), np.arange(10, dtype=np.uint8)
    rows = [labels[:, None], images.reshape(10, -1)]
    if hundred:
        (root / "cifar-100-binary").mkdir()
        np.hstack([labels[:, None] // 5, *rows]).tofile(root / "cifar-100-binary" / "train.bin")
        (root / "cifar-100-binary" / "fine_label_names.txt").write_text("\n".join(f"name{i}" for i in range(100)))
    else:
        (root / "cifar-10-batches-bin").mkdir()
        records = np.hstack(rows)
        for number in range(5):
            records[2 * number : 2 * number + 2].tofile(root / "cifar-10-batches-bin" / f"data_batch_{number + 1}.bin")
        records[:3].tofile(root / "cifar-10-batches-bin" / "test_batch.bin")
        (root / "cifar-10-batches-bin" / "batches.meta.txt").write_text(
            "\n".join(f"name{i}" for i in range(10)) + "\n\n"
        )
    return images, labels


@pytest.mark.parametrize("hundred", [False, True])
def test_cifar_in_its_binary_version(tmp_path, hundred):
    images, labels = write_cifar(tmp_path, hundred=hundred)
    source = open_source(f"cifar{100 if hundred else 10}:{tmp_path}")
    np.testing.assert_array_equal(pixels(source), images)
    np.testing.assert_array_equal(source.labels, labels)
    assert source.classes[9] == "name9"
    if not hundred:
        assert len(open_source(f"cifar10:{tmp_path}/cifar-10-batches-bin?split=test")) == 3


def test_cifar_in_its_python_version(tmp_path):
    images, labels = noise(10, 3072), list(range(10))
    root = tmp_path / "cifar-10-batches-py"
    root.mkdir()
    for number in range(5):
        chosen = slice(2 * number, 2 * number + 2)
        batch = {b"data": images[chosen], b"labels": labels[chosen], b"batch_label": b"training batch"}
        (root / f"data_batch_{number + 1}").write_bytes(pickle.dumps(batch, protocol=2))
    (root / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"name{i}" for i in range(10)]}, protocol=0))
    source = open_source("cifar10:" + str(tmp_path))
    np.testing.assert_array_equal(pixels(source).reshape(10, -1), images)
    assert source.labels.tolist() == labels
    assert source.classes[0] == "name0"


class Harm:
    def __reduce__(self) -> tuple:
        return Path.touch, (Path("harm_was_done"),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_that_do_anything_are_not_run(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    objects = np.array([Harm()], dtype=object)
    structured = np.zeros(2, dtype=[("a", "u1")])
    for harmful in (
        {"data": Harm()},
        {"data": objects},
        {"data": structured},
        {"data": len},
        [1, 2],
        {"data": np.dtype},
    ):
        Path("data_batch_1").write_bytes(pickle.dumps(harmful, protocol=protocol))
        with pytest.raises(DataError, match="not a plain pickle of arrays"):
            read_plain_pickle(Path("data_batch_1"))
    Path("data_batch_1").write_bytes(b"\x80\x04nonsense")
    with pytest.raises(DataError, match="not a plain pickle"):
        read_plain_pickle(Path("data_batch_1"))
    assert not Path("harm_was_done").exists()


def test_plain_pickles_keep_shape_order_and_type(tmp_path):
    arrays = {
        "c": noise(2, 3),
        "f": np.asfortranarray(noise(4, 5)),
        "big": np.arange(3, dtype=">i4"),
        "n": 1,
        "l": [b"x"],
    }
    for protocol in range(5):
        (tmp_path / "p").write_bytes(pickle.dumps(arrays, protocol=protocol))
        content = read_plain_pickle(tmp_path / "p")
        for name in ("c", "f", "big"):
            np.testing.assert_array_equal(content[name.encode()], arrays[name])
        assert (content[b"n"], content[b"l"]) == (1, [b"x"])


def test_stl10_is_stored_column_by_column(tmp_path):
    images = noise(4, 96, 96, 3)
    root = tmp_path / "stl10_binary"
    root.mkdir()
    for stem in ("train", "unlabeled"):
        images.transpose(0, 3, 2, 1).tofile(root / f"{stem}_X.bin")
    np.array([1, 10, 3, 2], dtype=np.uint8).tofile(root / "train_y.bin")
    (root / "class_names.txt").write_text("\n".join(f"name{i}" for i in range(10)))
    (root / "fold_indices.txt").write_text("0 2\n1 3\n")
    source = open_source(f"stl10:{tmp_path}")
    np.testing.assert_array_equal(pixels(source).transpose(0, 2, 3, 1), images)
    assert source.labels.tolist() == [0, 9, 2, 1]
    unlabelled = open_source(f"stl10:{tmp_path}?split=unlabelled")
    assert (unlabelled.labels, len(unlabelled)) == (None, 4)
    both = open_source(f"stl10:{tmp_path}", split="train+unlabelled")
    assert both.labels.tolist() == [0, 9, 2, 1, -1, -1, -1, -1]
    np.testing.assert_array_equal(pixels(both)[4:].transpose(0, 2, 3, 1), images)
    np.testing.assert_array_equal(pixels(open_source(f"stl10:{tmp_path}?split=train+unlabelled")), pixels(both))
    assert [fold.tolist() for fold in stl10_folds(tmp_path)] == [[0, 2], [1, 3]]


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


def test_fashion_mnist_from_idx_files(tmp_path):
    images, labels = noise(5, 28, 28), np.array([9, 0, 1, 2, 3], dtype=np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    source = open_source("fashion-mnist:" + str(tmp_path))
    np.testing.assert_array_equal(pixels(source)[:, 0], images)
    assert source.classes[source.label(0)] == "Ankle boot"
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)[:-3]))
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels))[:-9])
    with pytest.raises(DataError, match="not a complete IDX file"):
        open_source("fashion-mnist:" + str(tmp_path), split="test")


def test_tiny_imagenet_and_its_validation_list(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    for wnid in ("n02", "n01"):
        write_folder(root / "train" / wnid / "images", 2, size=(64, 64), kind="JPEG")
    write_folder(root / "val" / "images", 3, size=(64, 64), kind="JPEG")
    write_folder(root / "test" / "images", 2, size=(64, 64), kind="JPEG")
    (root / "wnids.txt").write_text("n02\nn01\n")
    rows = ["good_0001.JPEG\tn01\t0\t0\t62\t57", "good_0000.JPEG\tn02\t1\t1\t2\t2", "good_0002.JPEG\tn01\t0\t0\t1\t1"]
    (root / "val" / "val_annotations.txt").write_text("\n".join(rows))
    train, val = open_source(f"tiny-imagenet:{tmp_path}"), open_source(f"tiny-imagenet:{root}?split=val")
    assert (train.classes, train.labels.tolist()) == (("n01", "n02"), [0, 0, 1, 1])
    assert (val.classes, val.labels.tolist()) == (("n01", "n02"), [1, 0, 0])
    assert val.image(1).name == "good_0001.JPEG"
    assert open_source(f"tiny-imagenet:{root}?split=test").labels is None


def test_imagenet_as_folders(tmp_path):
    write_folder(tmp_path / "train" / "n01", 2, kind="JPEG")
    write_folder(tmp_path / "val", 2, kind="JPEG")
    assert open_source(f"imagenet:{tmp_path}").labels.tolist() == [0, 0]
    with pytest.raises(DataError, match="labels from sub-folders need every image in one"):
        open_source(f"imagenet:{tmp_path}?split=val")


def test_nyu_depth_from_the_published_file(tmp_path):
    h5py = pytest.importorskip("h5py", reason="NYU-Depth-v2 needs the extra 'mat'")
    from scipy.io import savemat

    images, depths = noise(4, 12, 16, 3), np.random.default_rng(0).random((4, 12, 16)).astype(np.float32)
    with h5py.File(tmp_path / "nyu_depth_v2_labeled.mat", "w") as file:  # MATLAB's axes, last first
        file["images"], file["depths"] = images.transpose(0, 3, 2, 1), depths.transpose(0, 2, 1)
    savemat(tmp_path / "splits.mat", {"trainNdxs": [[1], [4]], "testNdxs": [[2], [3]]})
    source = open_source(f"nyu-depth-v2:{tmp_path}?split=test")
    assert len(source) == 2
    np.testing.assert_array_equal(source.image(1).pixels(), images[2])
    np.testing.assert_array_equal(source.depth(1), depths[2])
    whole = open_source(f"nyu-depth-v2:{tmp_path}")
    for workers in (0, 2):
        for batch in Loader(whole, batch_size=2, seed=0, workers=workers):
            np.testing.assert_array_equal(batch.depth[:, 0].numpy(), depths[batch.index.numpy()])


def test_mistakes_are_told_in_one_line(tmp_path):
    with pytest.raises(DataError, match=r"cifar10 needs cifar-10-batches-bin/ or .* is the path right"):
        open_source(f"cifar10:{tmp_path}")
    for name in ("cifar100", "stl10", "tiny-imagenet", "fashion-mnist", "imagenet", "nyu-depth-v2"):
        with pytest.raises(DataError, match=f"{name} needs "):
            open_source(f"{name}:{tmp_path}")
    (tmp_path / "train.parquet").touch()
    with pytest.raises(DataError, match=r"it holds tables: open train\.parquet by its path"):
        open_source(f"cifar10:{tmp_path}")
    write_cifar(tmp_path, hundred=True)
    with pytest.raises(SettingError, match="split is one of train, test; got 'val'"):
        open_source(f"cifar100:{tmp_path}?split=val")
    (tmp_path / "cifar-100-binary" / "train.bin").write_bytes(b"\0" * 5000)
    with pytest.raises(DataError, match="cut off or damaged"):
        open_source(f"cifar100:{tmp_path}")
    with pytest.raises(DataError, match="no such folder"):
        open_source(f"cifar10:{tmp_path}/nowhere")
    (tmp_path / "picture.png").write_bytes(encoded(gradient()))
    with pytest.raises(SettingError, match="takes no directory"):
        open_source(f"digits:{tmp_path}")
