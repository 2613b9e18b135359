"""Pictures as the page shows them: decoded here, turned upright, made small, and written as JPEG of our own.

Small ones are made once and kept in one file, record after record: number, length, checksum, bytes. A record that was
cut short or damaged is made again. Nothing of a file but its pixels ever reaches the page.
"""

import hashlib
import os
import struct
import zlib
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from threading import Lock

from PIL import Image

from eigenview.appending import append_bytes
from eigenview.data import Source
from eigenview.data.decode import LazyImage
from eigenview.data.modes import as_picture
from eigenview.errors import EigenviewError
from eigenview.files import atomic_path
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings

SMALL, LARGE = 128, 1280  # pixels of the longer side
KEPT_LARGE = 24  # pictures, for going back and forth
RECORD = struct.Struct("<III")
REDUCTIONS = (8, 4, 2, 1)


class Thumbnails:
    """Row → JPEG. ``source``: the pictures behind the embeddings, where they are not found by their names."""

    def __init__(self, folder: Path, stored: Embeddings, source: Source | None = None) -> None:
        self._pictures = Pictures(stored, source)
        self._reading, self._writing = Lock(), Lock()
        digest = hashlib.blake2b("\n".join(stored.paths).encode(errors="backslashreplace"), digest_size=8)
        if stored.place.exists():  # embedded anew, pictures may have changed
            facts = stored.place.stat()
            digest.update(f"{facts.st_mtime_ns} {facts.st_size}".encode())
        self.stamp = digest.hexdigest()  # tells these pictures from others that were once served here
        self._file = folder / f"thumbnails-{self.stamp}.pack"
        for other in folder.glob("thumbnails-*.pack"):
            if other != self._file:
                other.unlink(missing_ok=True)  # of other pictures
        self._places = self._scan()
        self.large = lru_cache(KEPT_LARGE)(lambda row: self._made(row, LARGE, 90))

    def small(self, row: int) -> bytes | None:
        """None where the picture is gone or cannot be read."""
        kept = self._kept(row)
        if kept is None and (kept := self._made(row, SMALL, 82)) is not None:
            self._keep(row, kept)
        return kept

    def _made(self, row: int, longest: int, quality: int) -> bytes | None:
        try:
            with self._reading:  # sources share files and caches
                image = self._pictures.image(row)
            if image is None:
                return None
            picture = fitted(image, longest)
        except (EigenviewError, OSError, IndexError):
            return None
        data = BytesIO()
        picture.save(data, "JPEG", quality=quality, subsampling=0 if longest == LARGE else 2)
        return data.getvalue()

    def _kept(self, row: int) -> bytes | None:
        place = self._places.get(row)
        if place is None:
            return None
        with self._file.open("rb") as file:
            file.seek(place[0])
            data = file.read(place[1])
        return data if zlib.crc32(data) == place[2] else None

    def _keep(self, row: int, data: bytes) -> None:
        with self._writing:
            try:
                start = self._file.stat().st_size if self._file.exists() else 0
                append_bytes(self._file, RECORD.pack(row, len(data), zlib.crc32(data)) + data)
            except (EigenviewError, OSError):
                return  # a full disk: it is made again the next time
            self._places[row] = (start + RECORD.size, len(data), zlib.crc32(data))

    def _scan(self) -> dict[int, tuple[int, int, int]]:
        """Where each record begins; what a kill left at the end is cut off."""
        places: dict[int, tuple[int, int, int]] = {}
        if not self._file.exists():
            return places
        with self._file.open("rb") as file:
            size, at = os.fstat(file.fileno()).st_size, 0
            while at + RECORD.size <= size:
                file.seek(at)
                row, length, check = RECORD.unpack(file.read(RECORD.size))
                if at + RECORD.size + length > size:
                    break
                places[row] = (at + RECORD.size, length, check)
                at += RECORD.size + length
        if at < size:
            with self._file.open("rb") as file, atomic_path(self._file) as beside:
                beside.write_bytes(file.read(at))
        return places


def fitted(image: LazyImage, longest: int) -> Image.Image:
    """RGB, at most ``longest`` pixels along its longer side; smaller pictures stay as they are."""
    longer = max(image.size)
    reduce = next(factor for factor in REDUCTIONS if factor == 1 or longer // factor >= longest)
    picture = as_picture(image.pixels(reduce)).convert("RGB")
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return picture
