"""Data sets in the binary layouts their authors publish: CIFAR, STL-10, Fashion-MNIST."""

import gzip
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenview.data.arrays import ArraySource
from eigenview.data.failures import blamed_on
from eigenview.data.limits import most_unpacked
from eigenview.data.pickles import read_plain_pickle
from eigenview.errors import DataError, SettingError
from eigenview.names import printable

Bytes = npt.NDArray[np.uint8]
CIFAR_PIXELS = 3 * 32 * 32
STL_SHAPE = (3, 96, 96)
LARGEST_TEXT = 1 << 26  # bytes of a text file that comes with a data set; the largest known has 1.2 MB
FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def cifar(classes: int, directory: Path, *, split: str = "train") -> ArraySource:
    """CIFAR-10 or -100 (fine labels), from the binary version or, read with care, the Python version."""
    require_split(split, ("train", "test"))
    ten = classes == 10
    binary = _inside(directory, "cifar-10-batches-bin" if ten else "cifar-100-binary")
    python = _inside(directory, "cifar-10-batches-py" if ten else "cifar-100-python")
    batches = [f"data_batch_{number}" for number in range(1, 6)] if split == "train" else ["test_batch"]
    names = batches if ten else [split]
    if all((binary / f"{name}.bin").is_file() for name in names):
        head = 1 if ten else 2  # CIFAR-100 has the coarse label first
        records = np.concatenate([_records(binary / f"{name}.bin", head + CIFAR_PIXELS) for name in names])
        labels, pixels = records[:, head - 1], records[:, head:]
        listed = binary / ("batches.meta.txt" if ten else "fine_label_names.txt")
        words = _words(listed)
    elif all((python / name).is_file() for name in names):
        stored = [read_plain_pickle(python / name) for name in names]
        pixels = np.concatenate([_cifar_pixels(batch, python) for batch in stored])
        labels = np.concatenate([_cifar_labels(batch, "labels" if ten else "fine_labels", python) for batch in stored])
        listed = python / ("batches.meta" if ten else "meta")
        meta = read_plain_pickle(listed) if listed.is_file() else {}
        words = meta.get(b"label_names" if ten else b"fine_label_names")
        if words is not None:
            if not isinstance(words, list) or not all(isinstance(word, (bytes, str)) for word in words):
                raise DataError(f"{printable(listed)} must hold the names of the classes as a list of words")
            words = [printable(word if isinstance(word, str) else os.fsdecode(word)) for word in words]
    else:
        raise missing(f"cifar{classes}", directory, f"{binary.name}/ or {python.name}/ with the {split} images")
    images = pixels.reshape(-1, 3, 32, 32)
    return ArraySource(
        images, labels=labels, classes=words, layout="nchw", place=printable(directory), kind=f"cifar{classes} {split}"
    )


def stl10(directory: Path, *, split: str) -> ArraySource:
    """STL-10: train (5,000), test (8,000) or unlabelled (100,000; mapped, not read)."""
    require_split(split, ("train", "test", "unlabelled"))
    folder = _inside(directory, "stl10_binary")
    stem = "unlabeled" if split == "unlabelled" else split
    path = folder / f"{stem}_X.bin"
    if not path.is_file():
        raise missing("stl10", directory, f"stl10_binary/{path.name}")
    planes = _records(path, int(np.prod(STL_SHAPE))).reshape(-1, *STL_SHAPE)
    listed = folder / "class_names.txt"
    labels = None if split == "unlabelled" else _records(folder / f"{stem}_y.bin", 1)[:, 0].astype(np.int64) - 1
    return ArraySource(
        planes.transpose(0, 3, 2, 1),  # stored column by column
        labels=labels,
        classes=None if labels is None else _words(listed),
        layout="nhwc",
        place=printable(directory),
        kind=f"stl10 {split}",
    )


def stl10_folds(directory: str | Path) -> list[npt.NDArray[np.int64]]:
    """The ten official folds of STL-10's training images: indices of 1,000 images each."""
    path = _inside(Path(directory), "stl10_binary") / "fold_indices.txt"
    if not path.is_file():
        raise missing("stl10", Path(directory), "stl10_binary/fold_indices.txt")
    with blamed_on(path, "must hold whole numbers"):
        return [np.array(line.split(), dtype=np.int64) for line in read_lines(path)]


def fashion_mnist(directory: Path, *, split: str = "train") -> ArraySource:
    """Fashion-MNIST from its four IDX files, packed (.gz) or not."""
    require_split(split, ("train", "test"))
    stem = "train" if split == "train" else "t10k"
    return ArraySource(
        read_idx(_packed_or_not(directory, f"{stem}-images-idx3-ubyte")),
        labels=read_idx(_packed_or_not(directory, f"{stem}-labels-idx1-ubyte")),
        classes=FASHION,
        place=printable(directory),
        kind=f"fashion-mnist {split}",
    )


def read_idx(path: Path) -> Bytes:
    """An array of bytes in the IDX layout: two zeros, type 8, the number of axes, their big-endian sizes, the data."""
    most = most_unpacked(path.stat().st_size)
    with blamed_on(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DataError(f"{printable(path)} unpacks to more than {most / 1e6:,.0f} MB, the limit for its size")
    axes = data[3] if len(data) > 4 else 0
    shape = tuple(int.from_bytes(data[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    if data[:3] != b"\0\0\x08" or len(data) != 4 + 4 * axes + math.prod(shape):
        raise DataError(f"{printable(path)} is not a complete IDX file of bytes")
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file that are not blank; whatever is wrong with it is one line of error."""
    with blamed_on(path), path.open("rb") as file:
        data = file.read(LARGEST_TEXT + 1)
        if len(data) > LARGEST_TEXT:
            raise DataError(f"{printable(path)} is too large to be what it should: over {LARGEST_TEXT >> 20} MB")
        return [line for line in data.decode("utf-8").splitlines() if line.strip()]


def require_split(split: str, known: Sequence[str]) -> None:
    if split not in known:
        raise SettingError(f"split is one of {', '.join(known)}; got {split!r}")


def missing(name: str, directory: Path, wanted: str) -> DataError:
    tables = sorted(path.name for path in directory.glob("*.parquet")) if directory.is_dir() else []
    remedy = (
        f"it holds tables: open {tables[0]} by its path" if tables else "is the path right, and the archive unpacked?"
    )
    return DataError(f"{name} needs {wanted} in {printable(directory)}; {remedy}")


def _inside(directory: Path, name: str) -> Path:
    """The published folder, whether ``directory`` is it or holds it."""
    return directory if directory.name == name else directory / name


def _records(path: Path, length: int) -> Bytes:
    if not path.is_file():
        raise DataError(f"no such file: {printable(path)}; is the archive unpacked in full?")
    size = path.stat().st_size
    if size == 0 or size % length:
        raise DataError(f"{printable(path)} has {size:,} bytes, not a multiple of {length:,}: it is cut off or damaged")
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, length)


def _cifar_pixels(batch: dict[bytes, Any], place: Path) -> Bytes:
    data = batch.get(b"data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (CIFAR_PIXELS,):
        raise DataError(f"{printable(place)} holds no CIFAR images: 'data' must be uint8 (n, {CIFAR_PIXELS})")
    return data


def _cifar_labels(batch: dict[bytes, Any], name: str, place: Path) -> npt.NDArray[np.int64]:
    labels = batch.get(name.encode())
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise DataError(f"{printable(place)} holds no CIFAR labels: {name!r} must be a list of small whole numbers")
    return np.array(labels, dtype=np.int64)


def _words(path: Path) -> list[str] | None:
    """The names of classes that a text file lists, if it is there."""
    return [printable(word) for line in read_lines(path) for word in line.split()] if path.is_file() else None


def _packed_or_not(directory: Path, name: str) -> Path:
    for path in (directory / f"{name}.gz", directory / name):
        if path.is_file():
            return path
    raise missing("fashion-mnist", directory, f"{name}.gz")
