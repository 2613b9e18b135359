"""Every way a file can store pixels, turned into 8-bit grey or RGB.

The rules, in one place:

- transparency (alpha, palette or colour key) is composited on white;
- 16-bit greyscale is divided by 257, so that 65535 becomes 255 (12-bit TIFF likewise by its own range);
- 32-bit integers count as 16-bit while they lie in 0 … 65535, and are otherwise stretched from minimum to maximum;
- floats in [0, 1] are multiplied by 255, in [0, 255] kept, otherwise stretched; what is not finite becomes 0;
- CMYK follows Adobe's inverted convention in JPEG, as every viewer does; colour profiles are not applied.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from eigenview.errors import DataError

Pixels = npt.NDArray[np.uint8]  # (height, width, channels)

WHITE = (255, 255, 255, 255)
TWELVE_BIT_TIFF = (258, (12,))  # BitsPerSample
UPRIGHT = {  # EXIF orientation -> what undoes it
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def as_eight_bits(image: Image.Image, channels: int) -> Image.Image:
    """A decoded picture in mode "L" (``channels`` 1) or "RGB" (3), by the rules above."""
    wanted = "L" if channels == 1 else "RGB"
    mode = image.mode
    if mode.startswith("I") or mode == "F":
        return _scaled(image).convert(wanted)
    if mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        return _on_white(image).convert(wanted)
    if mode == "LAB":
        image = _from_lab(image)
    return image if image.mode == wanted else image.convert(wanted)


def as_measurements(image: Image.Image) -> npt.NDArray[np.float32]:
    """The stored numbers of a one-channel picture (depth), unscaled, as (height, width) float32."""
    if image.mode in {"P", "1"}:
        image = image.convert("L")
    values = np.asarray(image)
    if values.ndim != 2:
        raise DataError(f"depth needs one channel; got mode {image.mode}")
    return values.astype(np.float32)


def _scaled(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if image.mode == "F":
        values = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        low, high = float(values.min()), float(values.max())
        if low >= 0 and high <= 1:
            low, high = 0.0, 1.0
        elif low >= 0 and high <= 255:
            low, high = 0.0, 255.0
    elif image.mode == "I":
        low, high = float(values.min()), float(values.max())
        if low >= 0 and high <= 65535:
            low, high = 0.0, 65535.0
    else:
        low, high = 0.0, 4095.0 if _is_twelve_bit(image) else 65535.0
    spread = max(high - low, np.finfo(np.float64).tiny)
    scaled = (values.astype(np.float64) - low) * (255.0 / spread)
    return Image.fromarray(np.rint(scaled).clip(0, 255).astype(np.uint8))


def _is_twelve_bit(image: Image.Image) -> bool:
    tags = getattr(image, "tag_v2", None)
    key, value = TWELVE_BIT_TIFF
    return tags is not None and tags.get(key) == value


def _on_white(image: Image.Image) -> Image.Image:
    picture = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, WHITE), picture).convert("RGB")


def _from_lab(image: Image.Image) -> Image.Image:
    lab, rgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    converted = ImageCms.profileToProfile(image, lab, rgb, outputMode="RGB")
    if converted is None:
        raise DataError("a LAB picture could not be converted to RGB")
    return converted
