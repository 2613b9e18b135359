"""Pictures for tests: good ones of every kind, and folders full of broken ones."""

from __future__ import annotations

import os
import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, features

HAS_AVIF = "avif" in features.get_supported()  # not in every Pillow


def gradient(height: int = 24, width: int = 32, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Smooth and different for each seed: survives JPEG, tells corners apart."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = [
        rows * (255 / max(1, height - 1)),
        columns * (255 / max(1, width - 1)),
        np.full_like(rows, 37 * seed % 256),
    ]
    return np.stack(planes[:channels], axis=2).astype(np.uint8)


def encoded(array: np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    buffer = BytesIO()
    Image.fromarray(array).save(buffer, kind, **options)
    return buffer.getvalue()


def write_folder(root: Path, count: int, *, size: tuple[int, int] = (24, 32), kind: str = "png") -> Path:
    """``count`` good pictures, each with its own number in the blue channel (37 × number mod 256)."""
    root.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.fromarray(gradient(*size, seed=number)).save(root / f"good_{number:04d}.{kind}")
    return root


def png_header_only(width: int, height: int) -> bytes:
    """A PNG that claims to be huge and holds next to nothing: a decompression bomb."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def write_broken_files(root: Path) -> list[str]:
    """One file of every kind of damage; returns their names."""
    root.mkdir(parents=True, exist_ok=True)
    jpeg, png = encoded(gradient(64, 64), "JPEG"), encoded(gradient(64, 64), "PNG")
    noise = np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8).tobytes()
    tiff, gif = encoded(gradient(64, 64), "TIFF"), encoded(gradient(64, 64), "GIF")
    webp, bmp = encoded(gradient(64, 64), "WEBP"), encoded(gradient(64, 64), "BMP")
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    files = {
        "bad_empty.jpg": b"",
        "bad_text.jpg": b"this is not a picture\n",
        "bad_noise.png": noise,
        "bad_truncated.jpg": jpeg[: len(jpeg) // 2],
        "bad_header_only.jpg": jpeg[:20],
        "bad_truncated.png": png[: len(png) // 2],
        "bad_checksum.png": png[:40] + bytes(byte ^ 0xFF for byte in png[40:60]) + png[60:],
        "bad_bomb.png": png_header_only(60_000, 60_000),
        "bad_large_bomb.png": png_header_only(13_000, 13_000),
        "bad_zero_width.png": png_header_only(0, 10),
        "bad_truncated.tif": tiff[: len(tiff) // 3],
        "bad_truncated.gif": gif[:30],
        "bad_truncated.webp": webp[: len(webp) // 2],
        "bad_truncated.bmp": bmp[:80],
        "bad_postscript.jpg": postscript,  # must never reach a PostScript interpreter
        "bad_page.gif": b"<!DOCTYPE html><html>404 not found</html>",
    }
    for name, data in files.items():
        (root / name).write_bytes(data)
    (root / "bad_dangling.png").symlink_to(root / "nowhere.png")
    (root / "bad_self.png").symlink_to(root / "bad_self.png")
    os.mkfifo(root / "bad_pipe.png")
    names = [*files, "bad_dangling.png", "bad_self.png", "bad_pipe.png"]
    if os.geteuid() != 0:  # root reads everything
        (root / "bad_forbidden.png").write_bytes(png)
        (root / "bad_forbidden.png").chmod(0)
        names.append("bad_forbidden.png")
    return names


def plain_fields(count: int, *, size: int = 64, seed: int = 0) -> list[np.ndarray]:
    """Fields seen from above: a smooth shade of one of four colours under faint noise. No two are the same."""
    generator = np.random.default_rng(seed)
    colours = np.array([[92, 104, 72], [110, 98, 80], [70, 92, 60], [128, 120, 96]])
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    fields = []
    for _ in range(count):
        base = colours[generator.integers(4)] + generator.normal(0, 2, 3)
        slope = generator.normal(0, 3, 5)
        shade = slope[0] * x + slope[1] * y + slope[2] * x * y + slope[3] * x * x + slope[4] * y * y
        noise = generator.normal(0, generator.uniform(0.7, 2.0), (size, size))
        grain = generator.normal(0, 0.5, (size, size, 3))
        fields.append(np.clip(np.rint(base + (shade + noise)[..., None] + grain), 0, 255).astype(np.uint8))
    return fields


def scene(seed: int, *, height: int = 96, width: int = 128) -> np.ndarray:
    """Noise at every scale, in colour: as much detail as a photograph has."""
    generator = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for side in (2, 4, 8, 16, 32, 64):
        coarse = Image.fromarray(generator.integers(0, 256, (side, side, 3), dtype=np.uint8))
        total += np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=float) * 2 / side**0.5
    return np.clip(128 + (total - total.mean()) * 55 / total.std(), 5, 240).astype(np.uint8)


def resized(array: np.ndarray, factor: float) -> np.ndarray:
    picture = Image.fromarray(array)
    size = (round(picture.width * factor), round(picture.height * factor))
    return np.asarray(picture.resize(size, Image.Resampling.BICUBIC))


def brightened(array: np.ndarray, factor: float, by: float = 0) -> np.ndarray:
    return np.clip(np.rint(array * factor + by), 0, 255).astype(np.uint8)


def reencoded(array: np.ndarray, quality: int) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(encoded(array, "JPEG", quality=quality))))
