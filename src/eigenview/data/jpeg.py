"""JPEG files decoded by libjpeg-turbo straight into an array, where the ``simplejpeg`` package is installed.

The pixels are those of Pillow, which uses the same library, but puts them into memory of its own first, and copies
them from there: decoding takes about a quarter less time without that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from eigenview.data.modes import Pixels
from eigenview.extras import optional_module


def decode_jpeg(data: bytes | memoryview, size: tuple[int, int]) -> Pixels | None:
    """uint8 (height, width, 3) of a JPEG file of ``size`` (width, height); None leaves it to Pillow.

    That is where the package is missing, and for any file that is not in perfect order: Pillow then says what is wrong
    with it, or that it will do.
    """
    decode = _decoder()
    if decode is None:
        return None
    try:
        pixels = decode(data, "RGB")
    except (ValueError, MemoryError):
        return None
    return pixels if pixels.shape[:2] == (size[1], size[0]) else None


@cache
def _decoder() -> Callable[[bytes | memoryview, str], Pixels] | None:
    return getattr(optional_module("simplejpeg"), "decode_jpeg", None)
