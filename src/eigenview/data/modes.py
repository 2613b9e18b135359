"""Every way a file can store pixels, turned into 8-bit grey or RGB.

The rules, in one place:

- transparency (alpha, palette or colour key) is composited on white;
- 16-bit greyscale is divided by 257, so that 65535 becomes 255 (12-bit TIFF likewise by its own range);
- 32-bit integers count as 16-bit while they lie in 0 … 65535, and are otherwise stretched from minimum to maximum;
- floats in [0, 1] are multiplied by 255, in [0, 255] kept, otherwise stretched; what is not finite becomes 0;
- CMYK follows Adobe's inverted convention in JPEG, as every viewer does; colour profiles are not applied.

A picture is converted in strips: besides the picture itself and the result, little memory is needed.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from eigenview.errors import DataError

Pixels = npt.NDArray[np.uint8]  # (height, width, channels)
Range = tuple[float, float]

WHITE = (255, 255, 255, 255)
TWELVE_BIT_TIFF = (258, (12,))  # BitsPerSample
STRIP = 1 << 20  # pixels converted at a time
TURNED: dict[int, Callable[[Pixels], Pixels]] = {  # EXIF orientation -> an upright array as the file stores it
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.transpose(1, 0, 2),
    6: lambda upright: upright.transpose(1, 0, 2)[::-1],
    7: lambda upright: upright.transpose(1, 0, 2)[::-1, ::-1],
    8: lambda upright: upright.transpose(1, 0, 2)[:, ::-1],
}


def as_pixels(picture: Image.Image, channels: int, *, reduce: int = 1, orientation: int = 1) -> Pixels:
    """A decoded picture by the rules above, averaged over boxes of ``reduce`` × ``reduce`` pixels, upright."""
    width, height = (-(-side // reduce) for side in picture.size)
    limits = _range(picture) if picture.mode.startswith("I") or picture.mode == "F" else None
    shape = (width, height, channels) if orientation in (5, 6, 7, 8) else (height, width, channels)
    upright = np.empty(shape, dtype=np.uint8)
    stored = TURNED[orientation](upright) if orientation in TURNED else upright
    for top, strip in _strips(picture):
        eight = _as_eight_bits(strip, channels, limits)
        array = with_channels(eight if reduce == 1 else eight.reduce(reduce))
        row = top // reduce  # a strip has a multiple of 8 rows, so boxes never lie in two
        stored[row : row + len(array)] = array
    return upright


def with_channels(picture: Image.Image) -> Pixels:
    """(height, width, channels), also of a grey picture."""
    array = np.asarray(picture)
    return array if array.ndim == 3 else array[:, :, None]


def as_picture(pixels: Pixels) -> Image.Image:
    """Grey or RGB, as it has channels."""
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def as_measurements(image: Image.Image) -> npt.NDArray[np.float32]:
    """The stored numbers of a one-channel picture (depth), unscaled, as (height, width) float32."""
    if image.mode in {"P", "1"}:
        image = image.convert("L")
    if len(image.getbands()) != 1:
        raise DataError(f"depth needs one channel; got mode {image.mode}")
    values = np.empty((image.height, image.width), dtype=np.float32)
    for top, strip in _strips(image):
        values[top : top + strip.height] = np.asarray(strip)
    return values


def _strips(picture: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Pieces as wide as the picture, from the top down, each with its first row."""
    width, height = picture.size
    rows = max(8, STRIP // width // 8 * 8)
    if rows >= height:
        yield 0, picture
        return
    for top in range(0, height, rows):
        yield top, picture.crop((0, top, width, min(height, top + rows)))


def _as_eight_bits(image: Image.Image, channels: int, limits: Range | None) -> Image.Image:
    """In mode "L" (``channels`` 1) or "RGB" (3); ``limits`` are what becomes 0 and 255 where numbers are measured."""
    wanted = "L" if channels == 1 else "RGB"
    if limits is not None:
        return _scaled(image, limits).convert(wanted)
    if image.mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        picture = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, WHITE), picture).convert("RGB").convert(wanted)
    if image.mode == "LAB":
        lab, rgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, rgb, outputMode="RGB")
        if converted is None:
            raise DataError("a LAB picture could not be converted to RGB")
        image = converted
    return image if image.mode == wanted else image.convert(wanted)


def _range(image: Image.Image) -> Range:
    """Which numbers become 0 and 255."""
    if image.mode not in ("F", "I"):
        key, value = TWELVE_BIT_TIFF
        is_twelve_bit = getattr(image, "tag_v2", {}).get(key) == value
        return 0.0, 4095.0 if is_twelve_bit else 65535.0
    ends = [(float(values.min()), float(values.max())) for values in (_values(strip) for _, strip in _strips(image))]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    for top in (1.0, 255.0) if image.mode == "F" else (65535.0,):
        if low >= 0 and high <= top:
            return 0.0, top
    return low, high


def _values(image: Image.Image) -> npt.NDArray[np.float64]:
    values = np.asarray(image).astype(np.float64)
    return np.nan_to_num(values, copy=False, nan=0.0, posinf=0.0, neginf=0.0) if image.mode == "F" else values


def _scaled(image: Image.Image, limits: Range) -> Image.Image:
    low, high = limits
    spread = max(high - low, float(np.finfo(np.float64).tiny))
    scaled = (_values(image) - low) * (255.0 / spread)
    return Image.fromarray(np.rint(scaled).clip(0, 255).astype(np.uint8))
