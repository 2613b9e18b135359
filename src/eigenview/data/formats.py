"""Which decoders may see a file, by its first bytes: Pillow's own for common formats, others where they are needed.

A file may lie about its name, so its content decides; and Pillow knows formats that are better left alone (its EPS
reader starts a program).
"""

from __future__ import annotations

from functools import cache

from PIL import features

from eigenview.errors import DataError, SettingError
from eigenview.extras import extra_module

COMMON = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "TIFF", "GIF", "PPM", "JPEG2000")  # JPEG's opens MPO too
AVIF = frozenset({b"avif", b"avis"})
HEIF = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"})
LONGEST_START = 256  # bytes in which the names of the formats stand that a file conforms to


def decoders(data: bytes | memoryview) -> tuple[str, ...]:
    """The Pillow formats to try; an error says what to install for a file that none here can read."""
    brands = _brands(bytes(data[:LONGEST_START]))
    if brands & AVIF:
        return (
            ("AVIF",) if _reads_avif() else _refuse("AVIF images need a Pillow that was built with AVIF, 11.3 or newer")
        )
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
        return _refuse(str(error))
    plugin.register_heif_opener(thumbnails=False, decode_threads=1)  # images are decoded in parallel already
    return ("HEIF",)


def _refuse(reason: str) -> tuple[str, ...]:
    raise DataError(reason)
