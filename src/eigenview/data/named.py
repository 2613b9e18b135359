"""Data sets by name, each from the files its authors publish, in a local directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from eigenview.data.archive import escapes
from eigenview.data.arrays import ArraySource
from eigenview.data.binary import cifar, fashion_mnist, missing, require_split, stl10
from eigenview.data.failures import shown
from eigenview.data.files import FilesSource
from eigenview.data.folder import FolderSource
from eigenview.data.joining import joined
from eigenview.data.nyu import NyuDepthSource
from eigenview.data.shapes import ShapesSource
from eigenview.data.source import Source
from eigenview.data.texts import read_lines
from eigenview.errors import DataError
from eigenview.names import Table, printable


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
    listed = root / "wnids.txt"
    classes = sorted(word for line in read_lines(listed) for word in line.split()) if listed.is_file() else None
    if classes is None:
        raise missing("tiny-imagenet", directory, "tiny-imagenet-200/wnids.txt")
    numbers = {name: number for number, name in enumerate(classes)}  # the order of the training folders
    annotations = root / "val" / "val_annotations.txt"
    if not annotations.is_file():
        raise missing("tiny-imagenet", directory, "tiny-imagenet-200/val/val_annotations.txt")
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
