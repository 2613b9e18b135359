"""Which decoders may see a file, by its first bytes: Pillow's own for common formats, others where they are needed.

A file may lie about its name, so its content decides; and Pillow knows formats that are better left alone (its EPS
reader starts a program).
"""

from collections.abc import Callable
from functools import cache

from PIL import features

from eigenview.data.modes import Pixels
from eigenview.errors import DataError, SettingError
from eigenview.extras import extra_module, optional_module

COMMON = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "TIFF", "GIF", "PPM", "JPEG2000")  # JPEG's opens MPO too
AVIF = frozenset({b"avif", b"avis"})
HEIF = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"})
LONGEST_START = 256  # bytes in which the names of the formats stand that a file conforms to


def decoders(data: bytes | memoryview) -> tuple[str, ...]:
    """The Pillow formats to try; an error says what to install for a file that none here can read."""
    brands = _brands(bytes(data[:LONGEST_START]))
    if brands & AVIF:
        if not _reads_avif():
            raise DataError("AVIF images need a Pillow that was built with AVIF, 11.3 or newer")
        return ("AVIF",)
    if brands & HEIF:
        return _heif()
    return COMMON


def _brands(start: bytes) -> set[bytes]:
    """What an ISO media file says it conforms to, its main brand first; nothing for any other file."""
    if start[4:8] != b"ftyp":
        return set()
    stop = min(len(start), int.from_bytes(start[:4], "big"))
    return {start[8:12], *(start[place : place + 4] for place in range(16, stop - 3, 4))}


@cache
def _reads_avif() -> bool:
    return features.check("avif") is True


@cache
def _heif() -> tuple[str, ...]:
    try:
        plugin = extra_module("pillow_heif", extra="heif", purpose="reading HEIC images")
    except SettingError as error:
        raise DataError(str(error)) from None
    plugin.register_heif_opener(thumbnails=False, decode_threads=1)  # images are decoded in parallel already
    return ("HEIF",)


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
