"""Data sets in the binary layouts their authors publish: CIFAR, STL-10, Fashion-MNIST, NYU-Depth-v2."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenview.data.arrays import ArraySource
from eigenview.data.decode import PixelImage
from eigenview.data.pickles import read_plain_pickle
from eigenview.data.source import Depth, SourceInfo, Unannotated
from eigenview.errors import DataError, SettingError
from eigenview.extras import extra_module
from eigenview.names import printable

Bytes = npt.NDArray[np.uint8]
CIFAR_PIXELS = 3 * 32 * 32
STL_SHAPE = (3, 96, 96)
FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
NYU_FILE = "nyu_depth_v2_labeled.mat"


def cifar(directory: Path, *, split: str, classes: int) -> ArraySource:
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
        words = listed.read_text().split() if listed.is_file() else None
    elif all((python / name).is_file() for name in names):
        parts = [read_plain_pickle(python / name) for name in names]
        pixels = np.concatenate([_cifar_pixels(part, python) for part in parts])
        labels = np.concatenate(
            [np.asarray(part[b"labels" if ten else b"fine_labels"], dtype=np.int64) for part in parts]
        )
        listed = python / ("batches.meta" if ten else "meta")
        meta = read_plain_pickle(listed) if listed.is_file() else {}
        found = meta.get(b"label_names" if ten else b"fine_label_names")
        words = None if found is None else [word.decode() if isinstance(word, bytes) else word for word in found]
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
        classes=listed.read_text().split() if listed.is_file() and labels is not None else None,
        layout="nhwc",
        place=printable(directory),
        kind=f"stl10 {split}",
    )


def stl10_folds(directory: str | Path) -> list[npt.NDArray[np.int64]]:
    """The ten official folds of STL-10's training images: indices of 1,000 images each."""
    path = _inside(Path(directory), "stl10_binary") / "fold_indices.txt"
    if not path.is_file():
        raise missing("stl10", Path(directory), "stl10_binary/fold_indices.txt")
    return [np.array(line.split(), dtype=np.int64) for line in path.read_text().splitlines() if line.strip()]


def fashion_mnist(directory: Path, *, split: str) -> ArraySource:
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
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{printable(path)} cannot be read: {error}") from error
    axes = data[3] if len(data) > 4 else 0
    shape = tuple(int.from_bytes(data[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    if data[:3] != b"\0\0\x08" or len(data) != 4 + 4 * axes + int(np.prod(shape)):
        raise DataError(f"{printable(path)} is not a complete IDX file of bytes")
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


class NyuDepthSource(Unannotated):
    """NYU-Depth-v2's 1,449 labelled pairs (480 × 640, metres) from the published MATLAB file.

    ``split`` "train" and "test" need the authors' ``splits.mat`` beside it.
    """

    def __init__(self, directory: str | Path, *, split: str = "all") -> None:
        require_split(split, ("all", "train", "test"))
        self._path = Path(directory) / NYU_FILE if Path(directory).is_dir() else Path(directory)
        if not self._path.is_file():
            raise missing("nyu-depth-v2", Path(directory), NYU_FILE)
        self._split = split
        self._opened: tuple[int, Any] | None = None
        count = len(self._file()["images"])
        self._numbers = (
            np.arange(count) if split == "all" else _nyu_split(self._path.parent / "splits.mat", split, count)
        )

    def __len__(self) -> int:
        return len(self._numbers)

    def image(self, index: int) -> PixelImage:
        stored = self._file()["images"][int(self._numbers[index])]
        return PixelImage(np.ascontiguousarray(stored.transpose(2, 1, 0)), name=self.name(index))

    def name(self, index: int) -> str:
        return f"{NYU_FILE}[{self._numbers[index]}]"

    def depth(self, index: int) -> Depth:
        metres: Depth = np.ascontiguousarray(self._file()["depths"][int(self._numbers[index])].T, dtype=np.float32)
        return metres

    def describe(self) -> SourceInfo:
        kind = f"nyu-depth-v2 {self._split}"
        return SourceInfo(kind=kind, place=printable(self._path), count=len(self), has_depth=True)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    def _file(self) -> Any:
        """The open file of this process: HDF5 handles do not survive a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            h5py = extra_module("h5py", extra="mat", purpose="reading NYU-Depth-v2's MATLAB file")
            try:
                self._opened = (os.getpid(), h5py.File(self._path, "r"))
            except OSError as error:
                raise DataError(f"{printable(self._path)} is not a readable MATLAB v7.3 file: {error}") from error
        return self._opened[1]


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


def _cifar_pixels(part: dict[bytes, Any], place: Path) -> Bytes:
    data = part.get(b"data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (CIFAR_PIXELS,):
        raise DataError(f"{printable(place)} holds no CIFAR images: 'data' must be uint8 (n, {CIFAR_PIXELS})")
    return data


def _packed_or_not(directory: Path, name: str) -> Path:
    for path in (directory / f"{name}.gz", directory / name):
        if path.is_file():
            return path
    raise missing("fashion-mnist", directory, f"{name}.gz")


def _nyu_split(path: Path, split: str, count: int) -> npt.NDArray[np.int64]:
    from scipy.io import loadmat

    if not path.is_file():
        raise missing("nyu-depth-v2", path.parent, f"splits.mat for split={split!r}")
    numbers = np.asarray(loadmat(path)[f"{split}Ndxs"]).ravel().astype(np.int64) - 1
    if numbers.size == 0 or numbers.min() < 0 or numbers.max() >= count:
        raise DataError(f"{printable(path)} does not fit a file of {count} images")
    return numbers
