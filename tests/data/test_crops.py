"""Slight crops: recognised whatever window they show, and never another picture."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from eigenview.data.crops import same_or_cropped
from eigenview.data.decode import PixelImage
from eigenview.data.likeness import Thumbnail, same_picture, thumbnail_of


def picture(seed: int, side: int = 64) -> Image.Image:
    """Blobs of several sizes, as photographs have detail at several scales."""
    random = np.random.default_rng(seed)
    layers = [
        np.asarray(
            Image.fromarray(random.integers(0, 256, (size, size, 3), dtype=np.uint8)).resize((side, side), 3),
            dtype=float,
        )
        for size in (4, 9, 20)
    ]
    return Image.fromarray((sum(layers) / 3).astype(np.uint8))


def photograph(seed: int, side: int = 300) -> Image.Image:
    """Things of every size that hide each other, with sharp edges and thin lines: as photographs have them."""
    random = np.random.default_rng(seed)
    image = Image.new("RGB", (side, side))
    pen = ImageDraw.Draw(image)
    for _ in range(400):
        x, y = random.uniform(0, side, 2)
        radius = side / random.uniform(3, 60)
        shade = tuple(random.integers(0, 256, 3).tolist())
        pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=shade)
        pen.line([x - radius, y, x + radius, y + radius], fill=shade[::-1], width=2)
    return image


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    data = io.BytesIO()
    image.save(data, "JPEG", quality=quality)
    return Image.open(data).convert("RGB")


def thumbnail(image: Image.Image) -> Thumbnail:
    return thumbnail_of(PixelImage(np.asarray(image), name="a picture"))


def cropped(image: Image.Image, scale: float, left: float, top: float) -> Image.Image:
    side = image.width
    box = (left * side, top * side, (left + scale) * side, (top + scale) * side)
    return image.resize(image.size, Image.Resampling.BICUBIC, box=box)


@pytest.mark.parametrize(
    "window", [(0.96, 0.02, 0.02), (0.93, 0.0, 0.07), (0.9, 0.1, 0.0), (0.88, 0.06, 0.03), (0.85, 0.05, 0.1)]
)
@pytest.mark.parametrize("side", [32, 64, 200])
def test_a_slight_crop_is_the_same_picture_either_way(window: tuple[float, float, float], side: int):
    whole = picture(3, side)
    first, second = thumbnail(whole), thumbnail(cropped(whole, *window))
    assert same_or_cropped(first, second).verdict == "same"
    assert same_or_cropped(second, first).verdict == "same"


def test_a_crop_that_was_re_encoded_and_brightened_is_too():
    whole = picture(4)
    bright = np.clip(np.asarray(cropped(whole, 0.92, 0.03, 0.05), dtype=float) * 1.1, 0, 255).astype(np.uint8)
    assert same_or_cropped(thumbnail(whole), thumbnail(jpeg(Image.fromarray(bright), 80))).is_same


@pytest.mark.parametrize("side", [110, 240, 300])
@pytest.mark.parametrize("scale", [0.97, 0.92, 0.88, 0.84])
def test_crops_of_photographs_are_found_down_to_their_finest_detail(scale: float, side: int):
    whole = photograph(2, side)
    place = np.random.default_rng(side).uniform(0, 1 - scale, 2)
    copy = jpeg(cropped(whole, scale, *place), 90)
    assert same_or_cropped(thumbnail(whole), thumbnail(copy)).is_same
    assert same_or_cropped(thumbnail(copy), thumbnail(whole)).is_same


def test_what_changed_in_a_photograph_is_seen_in_its_crop_and_in_its_copy():
    whole = photograph(2)
    for scale, width in ((0.92, 30), (1.0, 12)):
        changed = jpeg(cropped(whole, scale, 0.0, 1 - scale), 90)
        assert same_or_cropped(thumbnail(whole), thumbnail(changed)).is_same
        changed.paste(photograph(3).crop((0, 0, width, width)), (200, 100))
        assert not same_or_cropped(thumbnail(whole), thumbnail(changed)).is_same


def test_copies_are_what_they_were():
    first = thumbnail(picture(5))
    assert same_or_cropped(first, first) == same_picture(first, first)
    assert same_or_cropped(first, first).verdict == "identical"


def test_other_pictures_and_smaller_parts_are_not():
    pictures = [thumbnail(picture(seed, 32)) for seed in range(12)]
    for number, first in enumerate(pictures):
        assert not any(same_or_cropped(first, second).is_same for second in pictures[number + 1 :])
    whole = picture(6)
    assert not same_or_cropped(thumbnail(whole), thumbnail(cropped(whole, 0.6, 0.2, 0.2))).is_same
    changed = np.asarray(cropped(whole, 0.92, 0.03, 0.05)).copy()
    changed[40:56, 8:24] = 255 - changed[40:56, 8:24]  # a part of it shows something else
    assert not same_or_cropped(thumbnail(whole), thumbnail(Image.fromarray(changed))).is_same
