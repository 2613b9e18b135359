"""How much memory a file may take: so much for any file, and beyond that in proportion to its own size.

A file that came from elsewhere may claim anything about itself, and compression lets ten kilobytes claim gigabytes.
Under these limits no file of less than 10 MB makes a process need 1 GB, of which PyTorch and the libraries around it
take 260 MB; tests/data/test_memory_limits.py measures it.
"""

from collections.abc import Mapping

from eigenview.errors import DataError

ROOM, ROOM_PER_BYTE = 660_000_000, 66  # bytes that decoding an image may take; the second one at 10 MB and above
UNPACKED, UNPACKED_PER_BYTE = 1 << 26, 10  # bytes that may come out of a compressed file
ROWS = 2_000_000  # rows that any table may claim: long runs of equal ones take no bytes
MAX_PIXELS = 1 << 27  # 134 megapixels: above the largest phone cameras in common use
MAX_BYTES = 1 << 30  # of an encoded image

# Bytes of memory for each pixel while an image is decoded and turned into RGB, at most: measured, and rounded up.
DECODING: Mapping[str, float] = {
    "JPEG": 7.5,
    "PNG": 8.0,
    "WEBP": 16.5,  # its decoder holds three copies
    "BMP": 7.5,
    "DIB": 7.5,
    "TIFF": 8.5,
    "GIF": 8.0,
    "PPM": 8.0,
    "JPEG2000": 25.0,  # 32 bits for each channel
    "AVIF": 12.5,
    "HEIF": 12.5,
}
PROGRESSIVE = 3.0  # more for each pixel of a JPEG that holds all coefficients until its end


def room_for_image(file_bytes: int) -> int:
    """Bytes of memory that decoding one image from a file of this size may take."""
    return max(ROOM, ROOM_PER_BYTE * file_bytes)


def most_unpacked(file_bytes: int) -> int:
    """Bytes that a compressed file of this size may unpack to."""
    return UNPACKED + UNPACKED_PER_BYTE * file_bytes


def most_rows(file_bytes: int) -> int:
    """Rows, or values in a column, that a table in a file of this size may have."""
    return max(ROWS, file_bytes)


def require_pixels(width: int, height: int, *, format: str, is_progressive: bool, room: int) -> None:
    """Refuse an image whose pixels would take more memory than its file may claim."""
    if width < 1 or height < 1:
        raise DataError(f"{width} x {height} pixels")
    if width * height > MAX_PIXELS:
        raise DataError(f"{width} x {height} pixels; the limit is {MAX_PIXELS:,}")
    need = width * height * (DECODING.get(format, max(DECODING.values())) + PROGRESSIVE * is_progressive)
    if need > room:
        raise DataError(
            f"{width} x {height} pixels in so small a file: decoding them would take {need / 1e6:,.0f} MB of memory, "
            f"and the limit for a file of this size is {room / 1e6:,.0f} MB"
        )
