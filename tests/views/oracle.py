"""Views the slow way: one image, one pixel, one number at a time, with Python loops, Pillow and NumPy."""

from __future__ import annotations

import colorsys
import math
import random

import numpy as np

MASK = 2**64 - 1


def splitmix(bits):
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def uniform(seed, epoch, index, view, slot):
    key = 0
    for word in (seed, epoch, index, view, slot):
        key = splitmix((key + ((word + 1) & MASK) * 0x9E3779B97F4A7C15) & MASK)
    return (key >> 11) / 2**53


def crop_box(generator: random.Random, width, height, scale, ratio):
    """torchvision's RandomResizedCrop, in words: left, top, width, height."""
    for _ in range(10):
        area = width * height * generator.uniform(*scale)
        aspect = math.exp(generator.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return generator.randint(0, width - w), generator.randint(0, height - h), w, h
    w, h = width, height
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return (width - w) // 2, (height - h) // 2, w, h


def luma(image):
    """(h, w) of an image (h, w, 3)."""
    return 0.299 * image[..., 0] + 0.587 * image[..., 1] + 0.114 * image[..., 2]


def brightness(image, factor):
    return factor * image


def contrast(image, factor):
    return factor * image + (1 - factor) * luma(image).mean()


def saturation(image, factor):
    return factor * image + (1 - factor) * luma(image)[..., None]


def yiq_hue(image, turns):
    """Turn I and Q of each pixel; red goes towards yellow for positive turns."""
    to_yiq = np.array(
        [[0.299, 0.587, 0.114], [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]], dtype=np.float64
    )
    cos, sin = math.cos(2 * math.pi * turns), math.sin(2 * math.pi * turns)
    rotation = np.array([[1, 0, 0], [0, cos, sin], [0, -sin, cos]])
    return image @ (np.linalg.inv(to_yiq) @ rotation @ to_yiq).T


def hsv_hue(image, turns):
    out = np.empty_like(image)
    for place in np.ndindex(*image.shape[:2]):
        hue, saturated, value = colorsys.rgb_to_hsv(*image[place])
        out[place] = colorsys.hsv_to_rgb((hue + turns) % 1.0, saturated, value)
    return out


def smooth_photo(height, width, seed=0, detail=True):
    """uint8 (h, w, 3) with structure at every scale, and fine stripes that alias when shrunk carelessly."""
    from scipy.ndimage import gaussian_filter

    generator = np.random.default_rng(seed)
    image = np.zeros((height, width, 3))
    for sigma, weight in ((1, 0.7), (4, 1.0), (15, 1.2), (50, 1.4)):
        image += gaussian_filter(generator.standard_normal((height, width, 3)), (sigma, sigma, 0)) * sigma * weight
    image = 128 + 40 * image
    if detail:
        columns = np.arange(width)
        image[: height // 3] += 60 * np.sin(columns * 2.6)[None, :, None]  # close to the finest a pixel grid can hold
    return np.clip(image, 0, 255).astype(np.uint8)
