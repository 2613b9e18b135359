"""Images that are already arrays: in memory, or in .npy and .npz files (mapped, not read, when large)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data.decode import PixelImage
from eigenview.data.failures import reason_of
from eigenview.data.modes import Pixels
from eigenview.data.source import LARGEST_LABEL, NO_LABEL, Labels, SourceInfo, Unannotated
from eigenview.errors import DataError, SettingError
from eigenview.names import printable

MAP_ABOVE = 1 << 28  # bytes: a quarter of a gigabyte is read at once, more is mapped
IMAGE_KEYS = ("images", "image", "x", "data", "X", "arr_0")
LABEL_KEYS = ("labels", "label", "y", "Y", "arr_1")


class ArraySource(Unannotated):
    """uint8 images of one size: (n, h, w), (n, h, w, c) or (n, c, h, w) with c = 1 or 3.

    ``layout`` "auto" finds the channels where the sizes 1 and 3 stand; where both places fit, say "nhwc" or "nchw".
    ``labels`` (n,) are whole numbers, −1 for none. Nothing is copied until a batch is asked for.
    """

    def __init__(
        self,
        images: npt.NDArray[np.uint8] | Tensor,
        *,
        labels: npt.ArrayLike | Tensor | None = None,
        classes: Sequence[str] | None = None,
        layout: str = "auto",
        place: str = "memory",
        kind: str = "arrays",
    ) -> None:
        self._images = _as_nhwc(np.asarray(images), layout)
        self._place, self._kind = place, kind
        self._labels = None if labels is None else checked_labels(labels, len(self._images), classes)
        self._classes = None if classes is None else tuple(classes)

    @classmethod
    def from_file(cls, path: str | Path, *, labels: str | Path | None = None, layout: str = "auto") -> ArraySource:
        """From .npy (labels, if any, in a second file) or .npz with ``images`` and perhaps ``labels``. No pickles."""
        stored = read_arrays(Path(path))
        if isinstance(stored, dict):
            images = _first_of(stored, IMAGE_KEYS)
            if images is None:
                raise _without("images", IMAGE_KEYS, path, stored)
            given = _first_of(stored, LABEL_KEYS)
        else:
            images, given = stored, None
        if labels is not None:
            read = read_arrays(Path(labels))
            given = _first_of(read, (*LABEL_KEYS, "arr_0")) if isinstance(read, dict) else read
            if given is None and isinstance(read, dict):
                raise _without("labels", LABEL_KEYS, labels, read)
        return cls(images, labels=given, layout=layout, place=printable(path))

    def __len__(self) -> int:
        return len(self._images)

    def image(self, index: int) -> PixelImage:
        return PixelImage(self._images[index], name=self.name(index))

    def name(self, index: int) -> str:
        return f"{self._place}[{index}]"

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self._images[indices].transpose(0, 3, 1, 2)))

    def describe(self) -> SourceInfo:
        return SourceInfo(
            kind=self._kind,
            place=self._place,
            count=len(self),
            classes=self._classes,
            is_labelled=self._labels is not None,
        )


def checked_labels(labels: npt.ArrayLike | Tensor, count: int, classes: Sequence[str] | None) -> Labels:
    """Labels as (count,) int64, each −1 or the number of a class."""
    found = np.asarray(labels)
    if found.shape != (count,):
        raise DataError(f"every image needs one label: {count:,} images, but labels of shape {found.shape}")
    if not np.issubdtype(found.dtype, np.integer):
        is_whole = np.issubdtype(found.dtype, np.floating) and bool(np.all(found == np.rint(found)))
        if not is_whole or (found.size and np.abs(found).max() > LARGEST_LABEL):
            raise DataError(f"labels must be whole numbers; got {found.dtype}")
    if found.size and found.max() > LARGEST_LABEL:
        raise DataError(f"labels must be below 2³¹; got {found.max()}")
    numbers = found.astype(np.int64)
    if numbers.size and numbers.min() < NO_LABEL:
        raise DataError(f"labels must be at least 0 (or -1 for none); got {numbers.min()}")
    if classes is not None and numbers.size and numbers.max() >= len(classes):
        raise DataError(f"label {numbers.max()} has no name: there are {len(classes)} class names")
    return numbers


def read_arrays(path: Path) -> npt.NDArray[np.uint8] | dict[str, npt.NDArray[np.uint8]]:
    """One array of .npy, mapped when large, or all of .npz by name. Files that need unpickling are refused."""
    if not path.is_file():
        raise DataError(f"no such file: {printable(path)}; is the path right?")
    try:
        if path.suffix == ".npy" and path.stat().st_size > MAP_ABOVE:
            mapped: npt.NDArray[np.uint8] = np.load(path, mmap_mode="r", allow_pickle=False)
            return mapped
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except Exception as error:  # a header that lies makes NumPy raise nearly anything, from TokenError to MemoryError
        if "allow_pickle" in str(error) or "pickled" in str(error):
            raise DataError(
                f"{printable(path)} holds Python objects, which are never loaded; save plain arrays"
            ) from None
        raise DataError(f"{printable(path)} is not a readable .npy or .npz file: {reason_of(error)}") from error


def _without(what: str, keys: Sequence[str], path: str | Path, stored: Iterable[str]) -> DataError:
    names = ", ".join(printable(name) for name in stored) or "no array at all"
    return DataError(f"{printable(path)} has no {what}: no array named {' or '.join(keys[:3])}; it has {names}")


def _first_of(stored: dict[str, npt.NDArray[np.uint8]], names: Sequence[str]) -> npt.NDArray[np.uint8] | None:
    return next((stored[name] for name in names if name in stored), None)


def _as_nhwc(images: npt.NDArray[np.uint8], layout: str) -> Pixels:
    if layout not in ("auto", "nhwc", "nchw"):
        raise SettingError(f"layout is auto, nhwc or nchw; got {layout!r}")
    if images.dtype != np.uint8:
        raise DataError(f"images must be uint8, 0 … 255; got {images.dtype}: scale and round them first")
    if images.ndim == 3:
        images = images[:, :, :, None]
        layout = "nhwc"
    if images.ndim != 4:
        raise DataError(f"images must be (n, h, w), (n, h, w, c) or (n, c, h, w); got {images.shape}")
    if layout == "auto":
        last, second = images.shape[3] in (1, 3), images.shape[1] in (1, 3)
        if last == second:
            why = "both ends could be the channels" if last else "channels must be 1 or 3"
            raise DataError(f"{why} in images of shape {images.shape}; say layout='nhwc' or 'nchw'")
        layout = "nhwc" if last else "nchw"
    pixels = images if layout == "nhwc" else images.transpose(0, 2, 3, 1)
    if pixels.shape[3] not in (1, 3) or 0 in pixels.shape:
        raise DataError(f"images must be non-empty with 1 or 3 channels; got {images.shape} as {layout}")
    return pixels
