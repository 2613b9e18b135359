"""Images of any size brought to one size, for loaders without views: the central square, antialiased."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from eigenview.data.decode import REDUCTIONS, LazyImage
from eigenview.data.modes import Pixels, as_picture, with_channels
from eigenview.errors import SettingError


@dataclass(frozen=True)
class Resize:
    """The central square of each image as (size, size, channels), by antialiased bilinear resampling.

    A large JPEG is decoded at 1/2, 1/4 or 1/8 scale, as long as at least twice the wanted size remains.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingError(f"size must be at least 1; got {self.size}")

    def __call__(self, image: LazyImage, epoch: int, index: int) -> tuple[Pixels]:
        reduce = max(factor for factor in REDUCTIONS if factor == 1 or min(image.size) >= 2 * factor * self.size)
        pixels = image.pixels(reduce)
        height, width = pixels.shape[:2]
        side = min(height, width)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        return (with_channels(as_picture(pixels).resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)),)
