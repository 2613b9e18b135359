"""A picture of what the encoder sees: each row an original and its views."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from eigenview.errors import ShapeError
from eigenview.files import atomic_path
from eigenview.views.augment import ViewBatch, Views, normalised_limits
from eigenview.views.photos import Cropper, Photo, Pixels
from eigenview.views.recipe import Recipe

_GAP, _HEADER, _MARGIN, _INK, _PAPER = 4, 16, 56, (40, 40, 40), (255, 255, 255)
NEAREST = Image.Resampling.NEAREST  # pixels stay visible


def show(
    images: Tensor | Sequence[Photo],
    recipe: Recipe,
    path: str | Path,
    *,
    seed: int = 0,
    epoch: int = 0,
    indices: Sequence[int] | None = None,
    cell: int = 112,
) -> Path:
    """Write a PNG grid: a row for each image, the original first, then its views, as ``Views`` gives them.

    ``images`` is a uint8 batch (n, c, h, w) or a sequence of photos; ``indices`` are the items' numbers (0, 1, … if not
    given). Views smaller than ``cell`` pixels are enlarged without smoothing, so that pixels stay visible; larger ones
    are shrunk. Colours are the encoder's, with the normalisation undone.
    """
    if len(images) == 0:
        raise ShapeError("show needs at least one image; got none")
    numbers = list(range(len(images))) if indices is None else list(indices)
    if isinstance(images, Tensor):
        batch = Views(recipe, seed=seed)(images, numbers, epoch=epoch)
        originals = [_in_colour(image) for image in images.cpu().permute(0, 2, 3, 1).numpy()]
    else:
        batch = photo_views(images, numbers, recipe, seed=seed, epoch=epoch)
        originals = [_in_colour(photo.pixels(reduce=1)) for photo in images]
    seen = zip(*view_pixels(batch, recipe), strict=True)
    rows = [[original, *map(_in_colour, pixels)] for original, pixels in zip(originals, seen, strict=True)]
    titles = ["original", *(f"view {view}, {pixels.shape[-1]}px" for view, pixels in enumerate(batch.views))]
    with atomic_path(Path(path)) as file:
        _grid(rows, titles, [f"item {number}" for number in numbers], cell).save(file, format="PNG")
    return Path(path)


def photo_views(
    photos: Sequence[Photo], indices: Sequence[int], recipe: Recipe, *, seed: int, epoch: int = 0
) -> ViewBatch:
    """Photos cropped and augmented as in training; ``indices`` are the items' numbers."""
    cropper = Cropper(recipe, seed=seed)
    cuts = [cropper(photo, epoch, number) for photo, number in zip(photos, indices, strict=True)]
    stacked = [torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2) for crops in zip(*cuts, strict=True)]
    return Views(recipe, seed=seed).finish(stacked, list(indices), epoch=epoch)


def view_pixels(batch: ViewBatch, recipe: Recipe) -> list[Pixels]:
    """Each view of a batch as uint8 (n, h, w, c), the normalisation undone."""
    pictures = []
    for view in batch.views:
        black, white = normalised_limits(recipe.mean, recipe.std, view.shape[1])
        low, high = (torch.tensor(limit)[:, None, None] for limit in (black, white))
        values = (view.detach().cpu() - low) / (high - low) * 255.0
        pictures.append(values.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy())
    return pictures


def _in_colour(pixels: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def _grid(rows: list[list[Image.Image]], titles: list[str], labels: list[str], cell: int) -> Image.Image:
    step = cell + _GAP
    sheet = Image.new("RGB", (_MARGIN + step * len(titles), _HEADER + step * len(rows)), _PAPER)
    pen = ImageDraw.Draw(sheet)
    for column, title in enumerate(titles):
        pen.text((_MARGIN + column * step, 2), title, fill=_INK)
    for row, (label, pictures) in enumerate(zip(labels, rows, strict=True)):
        pen.text((2, _HEADER + row * step + cell // 2 - 6), label, fill=_INK)
        for column, picture in enumerate(pictures):
            paste_fitted(sheet, picture, _MARGIN + column * step, _HEADER + row * step, cell)
    return sheet


def paste_fitted(sheet: Image.Image, picture: Image.Image, left: int, top: int, side: int, how: int = NEAREST) -> None:
    """The whole picture in the middle of a square of the sheet: shrunk, or enlarged by the filter ``how``."""
    factor = side / max(picture.size)
    size = (max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
    fitted = picture.resize(size, how if factor >= 1 else Image.Resampling.LANCZOS)
    sheet.paste(fitted, (left + (side - fitted.width) // 2, top + (side - fitted.height) // 2))
