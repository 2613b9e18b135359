"""Colour: brightness, contrast, saturation, hue and greyscale as one affine map a view, or step by step.

With luma Y = 0.299 R + 0.587 G + 0.114 B and chroma = pixel − Y, and the view's mean luma Ȳ:

    luma′ = brightness · (contrast · Y + (1 − contrast) · Ȳ)
    chroma′ = brightness · contrast · saturation · (chroma turned by hue in the YIQ plane)

Brightness scales everything, contrast pivots on Ȳ, saturation and hue leave the luma alone, so the four commute: as
matrices their order does not matter. Greyscale is saturation 0. The map ends in [0, 1] by one clamp, where torchvision
clamps after each step. ``colour_steps`` is that other way, with exact HSV hue.
"""

import math
from functools import cache

import torch
from torch import Tensor

from eigenview.views.parameters import Colours

LUMA = (0.299, 0.587, 0.114)
_YIQ = ((0.299, 0.587, 0.114), (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135))


def colour_matrices(factors: Colours[Tensor], channels: int) -> tuple[Tensor, Tensor]:
    """Matrices (n, c, c) and pivots (n,): the map is pixel → matrix · pixel + pivot · Ȳ, see ``luma_row``.

    With one channel only brightness and contrast act.
    """
    gain = factors.brightness * factors.contrast
    pivot = factors.brightness * (1.0 - factors.contrast)
    if channels == 1:
        return gain[:, None, None], pivot
    saturation = torch.where(factors.grey, 0.0, gain * factors.saturation)
    angle = 2.0 * math.pi * factors.hue
    weights = torch.stack([gain, saturation * torch.cos(angle), saturation * torch.sin(angle)], dim=1)
    return (weights @ _bases().to(weights)).view(-1, 3, 3), pivot


def luma_row(like: Tensor) -> Tensor:
    """(1, c): what takes a pixel of ``like``'s (n, c, …) channels to its luma."""
    return like.new_tensor([LUMA if like.shape[1] == 3 else (1.0,)])


def colour_steps(images: Tensor, factors: Colours[Tensor]) -> Tensor:
    """The four operations on images (n, c, h, w) in [0, 1], in each image's order, clamped after each; then grey."""
    images = images.clone()
    for step in range(4):
        for number, amount in enumerate(factors[:4]):
            chosen = (factors.order[:, step] == number).nonzero()[:, 0]
            if len(chosen) and (images.shape[1] == 3 or number < 2):
                images[chosen] = _changed(images[chosen], number, amount[chosen][:, None, None, None]).clamp_(0.0, 1.0)
    if images.shape[1] == 3:
        chosen = factors.grey.nonzero()[:, 0]
        images[chosen] = _luma(images[chosen]).expand(-1, 3, -1, -1)
    return images


def rgb_to_hsv(images: Tensor) -> Tensor:
    """Hue (in turns), saturation, value of images (n, 3, h, w) in [0, 1]; hue and saturation are 0 for greys."""
    red, green, blue = images.unbind(dim=1)
    value = images.amax(dim=1)
    spread = value - images.amin(dim=1)
    safe = torch.where(spread > 0, spread, torch.ones_like(spread))
    sector = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2.0 + (blue - red) / safe, 4.0 + (red - green) / safe),
    )
    hue = torch.where(spread > 0, sector / 6.0, torch.zeros_like(sector)) % 1.0
    return torch.stack([hue, spread / torch.where(value > 0, value, torch.ones_like(value)), value], dim=1)


def hsv_to_rgb(images: Tensor) -> Tensor:
    """The inverse of ``rgb_to_hsv``: channel = v − v·s·max(0, min(k, 4 − k, 1)), k = (n + 6·hue) mod 6, n = 5, 3, 1."""
    hue, saturation, value = images.unbind(dim=1)
    shift = torch.tensor([5.0, 3.0, 1.0], dtype=images.dtype, device=images.device)[:, None, None]
    k = (shift + 6.0 * hue[:, None]) % 6.0
    dip = torch.minimum(k, 4.0 - k).clamp(0.0, 1.0)
    return value[:, None] * (1.0 - saturation[:, None] * dip)


@cache
def _bases() -> Tensor:
    """(3, 9): the flattened matrices onto luma, onto chroma, and onto chroma turned a quarter in the YIQ plane."""
    to_yiq = torch.tensor(_YIQ, dtype=torch.float64)
    turn = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]], dtype=torch.float64)  # red towards yellow
    luma = torch.tensor(LUMA, dtype=torch.float64).expand(3, 3)
    quarter = torch.linalg.solve(to_yiq, turn @ to_yiq)
    return torch.stack([luma, torch.eye(3, dtype=torch.float64) - luma, quarter]).flatten(1)


def _luma(images: Tensor) -> Tensor:
    if images.shape[1] == 1:
        return images
    weights = torch.tensor(LUMA, dtype=images.dtype, device=images.device)
    return torch.einsum("nchw,c->nhw", images, weights)[:, None]


def _changed(images: Tensor, number: int, amount: Tensor) -> Tensor:
    """Brightness 0, contrast 1, saturation 2 or hue 3 of images (n, c, h, w), by ``amount`` (n, 1, 1, 1)."""
    if number == 0:
        return images * amount
    if number == 3:
        hsv = rgb_to_hsv(images)
        hsv[:, 0] = (hsv[:, 0] + amount[:, 0]) % 1.0
        return hsv_to_rgb(hsv)
    luma = _luma(images)
    return amount * images + (1.0 - amount) * (luma.mean(dim=(1, 2, 3), keepdim=True) if number == 1 else luma)
