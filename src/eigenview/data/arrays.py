"""Images that are already arrays: in memory, or in .npy and .npz files (mapped, not read, when large)."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenview.data.decode import PixelImage
from eigenview.data.failures import blamed_on
from eigenview.data.limits import room_for_image
from eigenview.data.modes import Pixels
from eigenview.data.places import Place, is_address, open_place, size_of
from eigenview.data.source import LARGEST_LABEL, NO_LABEL, Labels, Unannotated
from eigenview.errors import DataError, SettingError
from eigenview.names import printable
from eigenview.tensors import why_no_array

MAP_ABOVE = 1 << 28  # bytes: a quarter of a gigabyte is read at once, more is mapped
IMAGE_KEYS = ("images", "image", "x", "data", "X", "arr_0")
LABEL_KEYS = ("labels", "label", "y", "Y", "arr_1")
UNREADABLE = "is not a readable .npy or .npz file"


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
    def from_file(cls, place: Place, *, labels: Place | None = None, layout: str = "auto") -> ArraySource:
        """From .npy (labels, if any, in a second file) or .npz with ``images`` and perhaps ``labels``. No pickles."""
        stored = read_arrays(place, images=IMAGE_KEYS, labels=LABEL_KEYS)
        given = stored.get("labels")
        if labels is not None:
            given = read_arrays(labels, labels=(*LABEL_KEYS, "arr_0"))["labels"]
        images = stored["images"]
        return cls(images, labels=given, layout=layout, place=printable(place))

    def __len__(self) -> int:
        return len(self._images)

    def image(self, index: int) -> PixelImage:
        return PixelImage(self._images[index], name=self.name(index))

    def name(self, index: int) -> str:
        return f"{self._place}[{index}]"

    def batch(self, indices: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self._images[indices].transpose(0, 3, 1, 2)))


def checked_labels(labels: npt.ArrayLike | Tensor, count: int, classes: Sequence[str] | None) -> Labels:
    """Labels as (count,) int64, each −1 or the number of a class."""
    given = np.asarray(labels)
    if given.shape != (count,):
        raise DataError(f"every image needs one label: {count:,} images, but labels of shape {given.shape}")
    is_number = given.dtype.kind in "iuf"
    with np.errstate(invalid="ignore"):  # NaN and Inf become something, and differ from it
        numbers = given.astype(np.int64) if is_number else np.empty(0, np.int64)
    if not is_number or (given.dtype.kind != "i" and not np.array_equal(numbers, given)):
        raise DataError(f"labels must be whole numbers; got {given.dtype}")
    if numbers.size and numbers.max() > LARGEST_LABEL:
        raise DataError(f"labels must be below 2³¹; got {numbers.max()}")
    if numbers.size and numbers.min() < NO_LABEL:
        raise DataError(f"labels must be at least 0 (or -1 for none); got {numbers.min()}")
    if classes is not None and numbers.size and numbers.max() >= len(classes):
        raise DataError(f"label {numbers.max()} has no name: there are {len(classes)} class names")
    return numbers


Array = npt.NDArray[np.uint8]


def read_arrays(place: Place, **names: Sequence[str]) -> dict[str, Array]:
    """Arrays by what they are: in an .npz each has one of its ``names``; a .npy, mapped when large, is the first.

    The first must be there. Files that need unpickling are refused, and so are those that unpack to far more than
    they are.
    """
    first = next(iter(names))
    try:
        with open_place(place) as file, blamed_on(place, UNREADABLE):
            size = size_of(place)
            if str(place).endswith(".npy") and size > MAP_ABOVE and not is_address(place):
                return {first: np.load(place, mmap_mode="r", allow_pickle=False)}
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {first: loaded}
            stored = set(loaded.files)
            keys = {what: name for what, known in names.items() for name in reversed(known) if name in stored}
            if first not in keys:
                listed = ", ".join(printable(name) for name in loaded.files) or "no array at all"
                known = " or ".join(names[first][:3])
                raise DataError(f"{printable(place)} has no {first}: no array named {known}; it has {listed}")
            _require_unpacked(list(keys.values()), loaded.zip, size, printable(place))
            return {what: loaded[key] for what, key in keys.items()}
    except DataError as error:
        if isinstance(error.__cause__, ValueError):
            raise DataError(f"{printable(place)} {UNREADABLE}: {why_no_array(error.__cause__)}") from None
        raise


def _require_unpacked(keys: Sequence[str], packed: zipfile.ZipFile, size: int, place: str) -> None:
    sizes = {facts.filename: facts.file_size for facts in packed.infolist()}
    total = sum(sizes.get(f"{key}.npy", sizes.get(key, 0)) for key in keys)
    most = room_for_image(size) // 2  # one copy is made on the way
    if total > most:
        raise DataError(
            f"{place} unpacks to {total / 1e6:,.0f} MB, and the limit for its size is {most / 1e6:,.0f} MB: "
            "save it as .npy, which is not read but mapped"
        )


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
