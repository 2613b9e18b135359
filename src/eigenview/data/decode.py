"""Pictures that are opened but not yet decoded: their size is known, their pixels cost nothing until asked for."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from PIL import Image

from eigenview.data.formats import decode_jpeg, decoders
from eigenview.data.limits import MAX_BYTES, require_pixels, room_for_image
from eigenview.data.modes import Pixels, as_measurements, as_picture, as_pixels, with_channels
from eigenview.data.places import Place, inside, is_address, open_place
from eigenview.errors import DataError, SettingError
from eigenview.names import printable, reason_of

ORIENTATION = 0x0112
logging.getLogger("PIL").addHandler(logging.NullHandler())  # it tells of damage to whoever listens, not to a terminal
TIFF_TILE = (0x0142, 0x0143)  # width, height
REDUCTIONS = (1, 2, 4, 8)


class UnreadableImage(DataError):
    """One picture that cannot be decoded: corrupt, truncated, empty, absurdly large, gone. Others may be fine."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason

    def __reduce__(self) -> tuple[type[UnreadableImage], tuple[str, str]]:
        return UnreadableImage, (self.name, self.reason)


@runtime_checkable
class LazyImage(Protocol):
    """What sources give: ``size`` is (width, height) after EXIF rotation, ``mode`` says how the file stores it."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> tuple[int, int]: ...

    @property
    def mode(self) -> str: ...

    def pixels(self, reduce: int = 1) -> Pixels:
        """uint8 (⌈height/reduce⌉, ⌈width/reduce⌉, channels), upright; ``reduce`` is 1, 2, 4 or 8."""
        ...

    def digest(self) -> bytes:
        """A hash of the content: equal for equal files."""
        ...


class EncodedImage:
    """A picture in an encoded file, held as its bytes; the header is read at once, the pixels on demand.

    ``pixels(reduce)`` of a JPEG decodes at 1/reduce scale, which costs a fraction of the full decode; every other
    format is decoded in full and averaged over reduce × reduce boxes, so that the result has the same size anywhere.
    Animations give their first frame. A file that cannot be used raises ``UnreadableImage``, here or in ``pixels``.

    ``room`` is the memory that decoding may take, in bytes; without it, what a file of as many bytes may.
    """

    def __init__(self, data: bytes | memoryview, *, name: str, channels: int = 3, room: int | None = None) -> None:
        if channels not in (1, 3):
            raise SettingError(f"channels is 1 (grey) or 3 (RGB); got {channels}")
        self.name, self._data, self._channels = name, data, channels
        self._room = room_for_image(len(data)) if room is None else room
        with _blaming(name):
            self._opened: Image.Image | None = _open(data, self._room)
            self.mode = f"{self._opened.format} {self._opened.mode}"
            if self._opened.format == "TIFF":  # Pillow turns these upright as they load
                self._opened.load()
            self._orientation = int(self._opened.getexif().get(ORIENTATION, 1) or 1)
            width, height = self._opened.size
        self.size: tuple[int, int] = (height, width) if self._orientation in (5, 6, 7, 8) else (width, height)

    @classmethod
    def from_file(cls, path: str | Path, *, name: str | None = None, channels: int = 3) -> EncodedImage:
        shown = name if name is not None else printable(path)
        return cls(read_regular_file(path, name=shown), name=shown, channels=channels)

    def pixels(self, reduce: int = 1) -> Pixels:
        plain = self.mode == "JPEG RGB" and self._channels == 3 and self._orientation == 1
        if plain and reduce == 1 and (pixels := decode_jpeg(self._data, self.size)) is not None:
            return pixels
        if reduce not in REDUCTIONS:
            raise SettingError(f"reduce is one of {REDUCTIONS}; got {reduce}")
        with _blaming(self.name):
            image = self._opened if self._opened is not None else _open(self._data, self._room)
            self._opened = None  # decoding in draft mode alters it: the next call opens afresh
            full = image.size
            if 1 < reduce <= min(full):  # then a JPEG comes at exactly this scale
                image.draft(None, (full[0] // reduce, full[1] // reduce))
            image.load()
            left = reduce if image.size == full else 1  # there is no draft mode in other formats
            return as_pixels(image, self._channels, reduce=left, orientation=self._orientation)

    def digest(self) -> bytes:
        return hashlib.blake2b(self._data, digest_size=16).digest()


class PixelImage:
    """A picture that is already an array, uint8 (height, width, channels): nothing to decode."""

    def __init__(self, array: Pixels, *, name: str) -> None:
        self.name, self._array = name, array

    @property
    def size(self) -> tuple[int, int]:
        return self._array.shape[1], self._array.shape[0]

    @property
    def mode(self) -> str:
        return "array L" if self._array.shape[2] == 1 else "array RGB"

    def pixels(self, reduce: int = 1) -> Pixels:
        if reduce not in REDUCTIONS:
            raise SettingError(f"reduce is one of {REDUCTIONS}; got {reduce}")
        if reduce == 1:
            return np.ascontiguousarray(self._array)
        return with_channels(as_picture(self._array).reduce(reduce))

    def digest(self) -> bytes:
        shape = repr(self._array.shape).encode()
        return hashlib.blake2b(np.ascontiguousarray(self._array).tobytes() + shape, digest_size=16).digest()


def read_depth(data: bytes, *, name: str, room: int | None = None) -> npt.NDArray[np.float32]:
    """The numbers stored in a one-channel picture, as they are: (height, width) float32."""
    with _blaming(name):
        return as_measurements(_open(data, room_for_image(len(data)) if room is None else room))


def read_regular_file(path: str | Path, *, name: str) -> bytes:
    """The bytes of a file; never waits on a pipe or a device, never reads an absurd amount."""
    with _blaming(name):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb", buffering=0) as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise DataError("not a regular file")
            if facts.st_size == 0:
                raise DataError("empty file")
            if facts.st_size > MAX_BYTES:
                raise DataError(f"{facts.st_size:,} bytes; the limit is {MAX_BYTES:,}")
            return file.read()


def read_image_file(folder: Place, name: str, *, name_shown: str) -> bytes:
    """The bytes of a file in a folder, of this machine or at an address."""
    with _blaming(name_shown):
        place = inside(folder, name)
        if not is_address(place):
            return read_regular_file(place, name=name_shown)
        with open_place(place) as file:
            data = file.read(MAX_BYTES + 1)
        if not data:
            raise DataError("empty file")
        if len(data) > MAX_BYTES:
            raise DataError(f"more than {MAX_BYTES:,} bytes, the limit")
        return data


def _open(data: bytes | memoryview, room: int) -> Image.Image:
    """A picture whose header was read, and whose pixels may be."""
    image = Image.open(BytesIO(data), formats=decoders(data))
    is_progressive = "progressive" in image.info or "progression" in image.info
    width, height = image.size
    require_pixels(width, height, format=image.format or "", is_progressive=is_progressive, room=room)
    tags = getattr(image, "tag_v2", None)
    if tags is not None:  # a TIFF may be stored in tiles, which are decoded one by one
        wide, high = (int(tags.get(tag) or 1) for tag in TIFF_TILE)
        require_pixels(wide, high, format="TIFF", is_progressive=False, room=room)
    return image


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    """Whatever a decoder throws at a bad file becomes ``UnreadableImage`` with the file's name; no warnings leak.

    Broad on purpose: corrupt files make Pillow raise nearly every kind of exception there is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (UnreadableImage, SettingError):
            raise
        except Exception as error:
            text = reason_of(error)
            if "cannot identify image file" in text:
                text = "not an image in a known format, or damaged from its first bytes"
            raise UnreadableImage(name, text) from error
