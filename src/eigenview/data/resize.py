"""Images of any size brought to one size, for loaders without views: the central square, antialiased."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from eigenview.data.decode import REDUCTIONS, LazyImage
from eigenview.data.modes import Pixels
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
        height, width, channels = pixels.shape
        side = min(height, width)
        left, top = (width - side) / 2, (height - side) / 2
        picture = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
        box = (left, top, left + side, top + side)
        small = np.asarray(picture.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box))
        return (small if small.ndim == 3 else small[:, :, None],)
