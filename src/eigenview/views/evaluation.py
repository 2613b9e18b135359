"""The fixed view for evaluation: shorter side resized, centre cropped, normalised."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from eigenview.errors import SettingError, ShapeError
from eigenview.views.augment import check_images, normalised_limits
from eigenview.views.photos import Photo, Pixels, check_pixels, pillow_resize, reduction, resize
from eigenview.views.presets import PRESETS
from eigenview.views.recipe import Interpolation, Recipe, check_interpolation, check_statistics
from eigenview.views.resample import Span, resample, resampling_matrix


@dataclass(frozen=True, repr=False)
class CentreView:
    """Resize the shorter side to ``resize`` pixels, keep the central ``size`` × ``size``, normalise.

    ``is_squashed``: both sides become ``resize``, whatever the shape. ``rounds_down``: a crop with an odd margin begins
    at the lower pixel, as in transformers, instead of the even one of the two. ``is_exact``: photos are decoded in full
    and resized by Pillow, as libraries do; otherwise large JPEGs are decoded at a fraction of their size, and faster.

    Array sets: ``view(images)`` with uint8 images (n, c, h, w). Photos: ``view.prepare(photo, epoch, index)`` in a
    worker gives one uint8 (size, size, c) array, and ``view.finish(crops)`` normalises a batch of them.
    """

    resize: int
    size: int
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    interpolation: Interpolation = "bilinear"
    is_squashed: bool = False
    rounds_down: bool = False
    is_exact: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.resize:
            raise SettingError(f"a centre view needs 1 <= size <= resize; got size {self.size}, resize {self.resize}")
        check_statistics(self.mean, self.std)
        check_interpolation(self.interpolation)

    def __repr__(self) -> str:
        """As it always was, where nothing new is asked: stored embeddings and features are known by it."""
        shown = [
            item for item in fields(self) if not item.name.startswith(("is_", "rounds_")) or getattr(self, item.name)
        ]
        return f"CentreView({', '.join(f'{item.name}={getattr(self, item.name)!r}' for item in shown)})"

    def __call__(self, images: Tensor) -> Tensor:
        """(n, c, size, size) normalised float32, by two matrix products for the whole batch."""
        check_images(images)
        height, width = images.shape[2:]
        pixels = images.to(torch.float32)
        tall, wide = self._resized(height, width)
        if (tall, wide) != (self.size, self.size) or (height, width) != (tall, wide):
            rows, columns = (
                resampling_matrix(self._span(length, resized, pixels), length, self.interpolation)
                for length, resized in ((height, tall), (width, wide))
            )
            count = len(images)
            pixels = resample(pixels, rows.expand(count, -1, -1), columns.expand(count, -1, -1)).clamp_(0.0, 255.0)
        return self._normalise(pixels)

    def prepare(self, photo: Photo, epoch: int, index: int) -> tuple[Pixels]:
        """The central crop of a photo, uint8 (size, size, c); ``epoch`` and ``index`` change nothing."""
        width, height = photo.size
        reduce = 1 if self.is_exact else reduction(min(width, height) / self.resize)
        pixels = check_pixels(photo.pixels(reduce=reduce))
        tall, wide = self._resized(height, width)
        resized = (pillow_resize if self.is_exact else resize)(pixels, tall, wide, self.interpolation)
        top, left = self._centred(tall), self._centred(wide)
        return (np.ascontiguousarray(resized[top : top + self.size, left : left + self.size]),)

    def finish(self, crops: Sequence[Tensor]) -> Tensor:
        """Normalise a batch that ``prepare`` cut: one uint8 tensor (n, c, size, size) → the same in float32."""
        if len(crops) != 1 or crops[0].shape[2:] != (self.size, self.size):
            arrived = [tuple(crop.shape) for crop in crops]
            raise ShapeError(f"one uint8 tensor (n, c, {self.size}, {self.size}) is needed; got {arrived}")
        check_images(crops[0])
        return self._normalise(crops[0].to(torch.float32, memory_format=torch.contiguous_format))

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width with the shorter at ``resize``; the longer is rounded down, as torchvision does."""
        if self.is_squashed:
            return self.resize, self.resize
        short = min(height, width)
        return self.resize * height // short, self.resize * width // short

    def _centred(self, length: int) -> int:
        margin = length - self.size
        return margin // 2 if self.rounds_down else round(margin / 2)

    def _span(self, length: int, resized: int, like: Tensor) -> Span:
        """The central ``size`` of ``resized`` pixels; unlike a random crop it sees beyond its edge."""
        step = length / resized
        start = self._centred(resized) * step
        start_at, step_by, low, high = like.new_tensor([start, step, 0.0, float(length)]).unsqueeze(1)
        return Span(start_at, step_by, low, high, self.size)

    def _normalise(self, pixels: Tensor) -> Tensor:
        black, white = normalised_limits(self.mean, self.std, pixels.shape[1])
        low, high = pixels.new_tensor(black)[:, None, None], pixels.new_tensor(white)[:, None, None]
        return pixels.mul_((high - low) / 255.0).add_(low)


def centre_view(recipe: Recipe, *, side: int | None = None) -> CentreView:
    """The evaluation view that fits a recipe: its first size and statistics, resized to 8/7 of it from 64 pixels on.

    8/7 is ImageNet's 256 for 224; smaller views are too small to give pixels away, and keep theirs. ``side`` is the
    images' shorter one: none is enlarged only to be cropped again.
    """
    size = recipe.crops[0].size
    margin = round(size * 8 / 7) if size >= 64 else size
    if side is not None:
        margin = max(size, min(margin, side))
    return CentreView(margin, size, recipe.mean, recipe.std, recipe.interpolation)


_RESIZED = {  # the shorter side before the crop, where it was published
    "random-walk-cifar": 36,
    "spectral-cifar": 40,
    "kernel-infonce-cifar": 35,  # 1.1 × size, as in the following
    "kernel-infonce-tiny-imagenet": 70,
    "kernel-infonce-imagenet": 246,
    "kernel-infonce-stl": 105,
    "wang-isola-stl": 70,
}
EVALUATIONS: dict[str, CentreView] = {
    "imagenet": centre_view(PRESETS["moco-v2"]),
    "spectral-tiny-imagenet": replace(centre_view(PRESETS["kernel-infonce-tiny-imagenet"]), resize=74),
    **{name: replace(centre_view(PRESETS[name]), resize=resize) for name, resize in _RESIZED.items()},
}
