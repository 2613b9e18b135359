"""What is done to one view of a batch: drawn once for all its images, applied a block of images at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenview.views.colour import colour_matrices, colour_steps, luma_row
from eigenview.views.draw import Keys
from eigenview.views.parameters import Colours, draw_boxes, draw_colours, draw_sigmas, draw_turns
from eigenview.views.recipe import Crop, Recipe
from eigenview.views.resample import blur, blur_matrix, crop_span, resample, resampling_matrix, turn


class CropWork:
    """Crop, flip, resize and blur by two matrix products: float (m, c, h, w) → (m, c, size, size)."""

    def __init__(self, recipe: Recipe, crop: Crop, keys: Keys, images: Tensor) -> None:
        self.recipe = recipe
        self.height, self.width = images.shape[2:]
        boxes = draw_boxes(crop, recipe, keys, width=self.width, height=self.height)
        numbers = np.stack([boxes.left, boxes.width, boxes.top, boxes.height]).astype(np.float32)
        left, width, top, height = torch.from_numpy(numbers).to(images.device)
        self.rows = crop_span(top, height, crop.size)
        self.columns = crop_span(left, width, crop.size, torch.from_numpy(boxes.flip).to(images.device))
        self.blurring = BlurWork(recipe, crop, keys, images)

    def __call__(self, pixels: Tensor, block: slice) -> Tensor:
        rows = resampling_matrix(self.rows.part(block), self.height, self.recipe.interpolation)
        columns = resampling_matrix(self.columns.part(block), self.width, self.recipe.interpolation)
        chosen, sigmas = self.blurring.chosen(block)
        if len(chosen):
            matrix = blur_matrix(sigmas, self.rows.size, self.blurring.radius)
            rows[chosen] = matrix @ rows[chosen]
            columns[chosen] = matrix @ columns[chosen]
        return resample(pixels, rows, columns)


class BlurWork:
    """Gaussian blur of the views that are to have one: float (m, c, size, size) → the same."""

    def __init__(self, recipe: Recipe, crop: Crop, keys: Keys, images: Tensor) -> None:
        self.radius = 0 if recipe.blur is None else recipe.blur.radius(crop.size)
        sigmas = np.zeros(len(images)) if recipe.blur is None else draw_sigmas(recipe.blur, keys)
        self.sigmas = sigmas.astype(np.float32)
        self.device = images.device

    def chosen(self, block: slice) -> tuple[Tensor, Tensor]:
        """Which views of the block are blurred, and their σ: (k,) each."""
        sigmas = self.sigmas[block]
        chosen = sigmas.nonzero()[0] if self.radius else np.zeros(0, dtype=np.int64)
        return torch.from_numpy(chosen).to(self.device), torch.from_numpy(sigmas[chosen]).to(self.device)

    def __call__(self, pixels: Tensor, block: slice) -> Tensor:
        chosen, sigmas = self.chosen(block)
        if len(chosen) == 0:
            return pixels
        radius = min(self.radius, math.ceil(6 * self.sigmas[block].max()))  # exp(−6²/2) is nothing to float32
        if len(chosen) == len(pixels):
            return blur(pixels, sigmas, radius)
        pixels[chosen] = blur(pixels[chosen], sigmas, radius)
        return pixels


class FinishWork:
    """Turn, colour, normalise, clamp and solarise: float (m, c, s, s) with values 0 to 255 → ``out``."""

    def __init__(self, recipe: Recipe, keys: Keys, images: Tensor) -> None:
        self.recipe, self.keys, self.channels = recipe, keys, images.shape[1]
        colours = draw_colours(recipe, keys)
        self.factors = _tensors(colours, images.device)
        self.solarised = torch.from_numpy(colours.solarise)
        self.black, self.white = normalised_limits(recipe.mean, recipe.std, self.channels)
        black, white = (torch.tensor(limit, device=images.device)[:, None] for limit in (self.black, self.white))
        self.scale, self.shift = white - black, black
        matrix, pivot = colour_matrices(self.factors, self.channels)
        self.matrix = matrix * (self.scale / 255.0)
        self.of_mean = pivot[:, None, None] * (self.scale / 255.0) * luma_row(self.matrix)

    def __call__(self, pixels: Tensor, block: slice, *, out: Tensor) -> None:
        if self.recipe.affine is not None:
            turns = draw_turns(self.recipe.affine, self.keys[block])
            names = [field.name for field in fields(turns)]
            pixels = turn(pixels, **{name: torch.from_numpy(getattr(turns, name)).to(pixels) for name in names})
        if self.recipe.colour == "steps":
            out.copy_(colour_steps(pixels / 255.0, Colours(*(values[block] for values in self.factors))))
            out.flatten(2).mul_(self.scale).add_(self.shift)
        else:
            self._by_matrix(pixels, block, out.flatten(2))
        if self.recipe.solarise > 0:
            solarise_(out, self.solarised[block], self.black, self.white)

    def _by_matrix(self, pixels: Tensor, block: slice, out: Tensor) -> None:
        """The colour map with the normalisation folded in, then one clamp: (m, c, s, s) → (m, c, s · s)."""
        means = pixels.mean(dim=2).mean(dim=2, keepdim=True)  # in two steps: far faster where channels come last
        constant = torch.baddbmm(self.shift, self.of_mean[block], means)
        torch.baddbmm(constant, self.matrix[block], pixels.flatten(2), out=out)
        for channel, (low, high) in enumerate(zip(self.black, self.white, strict=True)):
            out[:, channel].clamp_(low, high)  # channel by channel: bounds that are numbers clamp several times as fast


def solarise_(views: Tensor, chosen: Tensor, black: Sequence[float], white: Sequence[float]) -> None:
    """Invert the brighter half, value → 1 − value where value ≥ ½, of chosen views, in normalised values, in place."""
    if not chosen.any():
        return
    numbers = chosen.nonzero()[:, 0].to(views.device)
    total = views.new_tensor([low + high for low, high in zip(black, white, strict=True)])[:, None, None]
    before = views[numbers]
    views[numbers] = torch.where(before >= total / 2, total - before, before)


def normalised_limits(mean: Sequence[float], std: Sequence[float], channels: int) -> tuple[list[float], list[float]]:
    """What 0 and 1 become in each channel. One channel under three statistics takes their average; one serves three."""
    if channels == 1 and len(mean) == 3:
        mean, std = [sum(mean) / 3], [sum(std) / 3]
    elif channels == 3 and len(mean) == 1:
        mean, std = list(mean) * 3, list(std) * 3
    pairs = list(zip(mean, std, strict=True))
    return [(0.0 - m) / s for m, s in pairs], [(1.0 - m) / s for m, s in pairs]


def _tensors(colours: Colours[NDArray[Any]], device: torch.device) -> Colours[Tensor]:
    narrow = (array.astype(np.float32) if array.dtype == np.float64 else array for array in colours)
    return Colours(*(torch.from_numpy(array).to(device) for array in narrow))
