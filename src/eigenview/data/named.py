"""Data sets by name, each from the files its authors publish, in a local directory."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenview.data.arrays import ArraySource
from eigenview.data.binary import cifar, fashion_mnist, missing, read_lines, require_split, stl10
from eigenview.data.decode import PixelImage, UnreadableImage
from eigenview.data.failures import blamed_on, shown
from eigenview.data.folder import FilesSource, FolderSource
from eigenview.data.joining import joined
from eigenview.data.limits import room_for_image
from eigenview.data.places import escapes
from eigenview.data.shapes import ShapesSource
from eigenview.data.source import Depth, Source, Unannotated
from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.names import Table, printable, reason_of

NYU_FILE = "nyu_depth_v2_labeled.mat"
MOST_NUMBERS = 1 << 20  # in splits.mat, which says which of 1,449 images are for the test


class NyuDepthSource(Unannotated):
    """NYU-Depth-v2's 1,449 labelled pairs (480 × 640, metres) from the published MATLAB file.

    ``split`` "train" and "test" need the authors' ``splits.mat`` beside it.
    """

    def __init__(self, directory: str | Path, *, split: str = "all") -> None:
        require_split(split, ("all", "train", "test"))
        self._path = Path(directory) / NYU_FILE if Path(directory).is_dir() else Path(directory)
        if not self._path.is_file():
            raise missing("nyu-depth-v2", Path(directory), NYU_FILE)
        self._kind, self._place, self._has_depth = f"nyu-depth-v2 {split}", printable(self._path), True
        self._opened: tuple[int, Any] | None = None
        count = self._count()
        self._numbers = (
            np.arange(count) if split == "all" else _split_numbers(self._path.parent / "splits.mat", split, count)
        )

    def __len__(self) -> int:
        return len(self._numbers)

    def image(self, index: int) -> PixelImage:
        return PixelImage(np.ascontiguousarray(self._stored("images", index).transpose(2, 1, 0)), name=self.name(index))

    def name(self, index: int) -> str:
        return f"{NYU_FILE}[{self._numbers[index]}]"

    def depth(self, index: int) -> Depth:
        metres: Depth = np.ascontiguousarray(self._stored("depths", index).T, dtype=np.float32)
        return metres

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    def _file(self) -> Any:
        """The open file of this process: HDF5 handles do not survive a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            h5py = extra_module("h5py", extra="mat", purpose="reading NYU-Depth-v2's MATLAB file")
            self._opened = (os.getpid(), h5py.File(self._path, "r"))
        return self._opened[1]

    def _count(self) -> int:
        """The number of pairs; the file must hold (n, 3, width, height) bytes and (n, width, height) numbers."""
        with blamed_on(self._path, "is not a readable MATLAB v7.3 file"):
            images, depths = self._file()["images"], self._file()["depths"]
            fits = images.ndim == 4 and images.shape[1] == 3 and (len(images), *images.shape[2:]) == depths.shape
            fits = fits and images.dtype == np.uint8 and depths.dtype.kind == "f" and 0 not in images.shape
            pieces = [int(np.prod(stored.chunks or stored.shape[1:], dtype=np.float64)) for stored in (images, depths)]
            need = 2 * max(pieces[0], 3 * int(np.prod(images.shape[2:], dtype=np.float64)), 8 * pieces[1])
        if not fits or need > room_for_image(self._path.stat().st_size):
            raise DataError(f"{printable(self._path)} does not hold images (n, 3, w, h) and depths (n, w, h)")
        return len(images)

    def _stored(self, what: str, index: int) -> npt.NDArray[Any]:
        try:
            stored: npt.NDArray[Any] = self._file()[what][int(self._numbers[index])]
        except Exception as error:
            raise UnreadableImage(self.name(index), reason_of(error)) from error
        return stored


def _split_numbers(path: Path, split: str, count: int) -> npt.NDArray[np.int64]:
    from scipy.io import loadmat, whosmat

    if not path.is_file():
        raise missing("nyu-depth-v2", path.parent, f"splits.mat for split={split!r}")
    name = f"{split}Ndxs"
    with blamed_on(path, f"does not say which images are for {split}"):
        sizes = {stored: int(np.prod(shape, dtype=np.float64)) for stored, shape, _ in whosmat(path)}
        if sizes.get(name, 0) > MOST_NUMBERS:
            raise ValueError(f"{name} has {sizes[name]:,} numbers")
        numbers = np.asarray(loadmat(path, variable_names=[name])[name]).ravel().astype(np.int64) - 1
    if numbers.size == 0 or numbers.min() < 0 or numbers.max() >= count:
        raise DataError(f"{printable(path)} does not fit a file of {count} images")
    return numbers


def data_root() -> Path:
    """Where named sets lie when no directory is given: $EIGENVIEW_DATA, or ~/.cache/eigenview."""
    return Path(os.environ.get("EIGENVIEW_DATA") or Path.home() / ".cache" / "eigenview")


def digits(*, split: str = "all") -> ArraySource:
    """scikit-learn's 1,797 handwritten digits, 8 × 8, grey, 0 … 16 stretched to 0 … 255.

    "test" is every fifth image, "train" the others.
    """
    from sklearn.datasets import load_digits

    require_split(split, ("all", "train", "test"))
    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    is_test = np.arange(len(images)) % 5 == 4
    chosen = {"all": np.ones_like(is_test), "train": ~is_test, "test": is_test}[split]
    labels, names = bunch.target[chosen], [str(digit) for digit in range(10)]
    return ArraySource(images[chosen], labels=labels, classes=names, place="scikit-learn", kind=f"digits {split}")


def stl10_split(directory: Path, *, split: str = "train") -> Source:
    """One of STL-10's splits, or "train+unlabelled", what most papers train on."""
    if split == "train+unlabelled":
        return joined([stl10(directory, split="train"), stl10(directory, split="unlabelled")])
    return stl10(directory, split=split)


def tiny_imagenet(directory: Path, *, split: str = "train") -> FilesSource:
    """Tiny-ImageNet: 200 classes of 64 × 64 JPEGs; "test" has no labels."""
    require_split(split, ("train", "val", "test"))
    root = directory if directory.name == "tiny-imagenet-200" else directory / "tiny-imagenet-200"
    if not (root / split).is_dir():
        raise missing("tiny-imagenet", directory, f"tiny-imagenet-200/{split}")
    if split != "val":
        return FolderSource(root / split, labelled=split == "train", kind=f"tiny-imagenet {split}")
    listed, annotations = root / "wnids.txt", root / "val" / "val_annotations.txt"
    for file in (listed, annotations):
        if not file.is_file():
            raise missing("tiny-imagenet", directory, f"tiny-imagenet-200/{file.relative_to(root)}")
    classes = sorted(word for line in read_lines(listed) for word in line.split())
    numbers = {name: number for number, name in enumerate(classes)}  # the order of the training folders
    rows = [line.split("\t") for line in read_lines(annotations)]
    unknown = [row for row in rows if len(row) < 2 or row[1] not in numbers]
    if unknown:
        raise DataError(f"{printable(annotations)} has a line without a known class: {shown(unknown[0])}")
    named = [row[0] for row in rows if escapes(row[0])]
    if named:
        raise DataError(f"{printable(annotations)} names {shown(named[0])}, which leads out of the folder")
    rows.sort()
    return FilesSource(
        root / "val" / "images",
        [row[0] for row in rows],
        kind="tiny-imagenet val",
        place=printable(root / "val"),
        labels=np.array([numbers[row[1]] for row in rows], dtype=np.int64),
        classes=tuple(printable(name) for name in classes),
    )


def imagenet(directory: Path, *, split: str = "train") -> FolderSource:
    """ImageNet as folders: train/<wnid>/*.JPEG and val/<wnid>/*.JPEG (the validation images sorted into classes)."""
    require_split(split, ("train", "val"))
    if not (directory / split).is_dir():
        raise missing("imagenet", directory, f"{split}/ with one folder per class")
    return FolderSource(directory / split, labelled=True, kind=f"imagenet {split}")


DRAWN: Table[Callable[..., Source]] = Table("set", {"digits": digits, "shapes": ShapesSource})  # need no files
STORED: Table[Callable[..., Source]] = Table(
    "set",
    {
        "cifar10": partial(cifar, 10),
        "cifar100": partial(cifar, 100),
        "stl10": stl10_split,
        "tiny-imagenet": tiny_imagenet,
        "fashion-mnist": fashion_mnist,
        "imagenet": imagenet,
        "nyu-depth-v2": NyuDepthSource,
    },
)
