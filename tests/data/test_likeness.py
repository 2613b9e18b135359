"""Whether two pictures are one: copies are known again, and plain pictures are not taken for each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image, ImageDraw

from eigenview.data.decode import EncodedImage, PixelImage
from eigenview.data.likeness import CERTAIN, Thumbnail, detail_agreement, same_picture, thumbnail_of
from tests.data.pictures import brightened, encoded, plain_fields, reencoded, resized, scene

COPIES = {
    "quality 90": lambda array: reencoded(array, 90),
    "half": lambda array: resized(array, 0.5),
    "three quarters": lambda array: resized(array, 0.75),
    "double": lambda array: resized(array, 2),
    "brighter": lambda array: brightened(array, 1.1),
    "darker": lambda array: brightened(array, 0.9),
    "lifted": lambda array: brightened(array, 1, 12),
    "double, quality 85": lambda array: reencoded(resized(array, 2), 85),
}


def thumbnail(array: np.ndarray) -> Thumbnail:
    return thumbnail_of(PixelImage(np.ascontiguousarray(array), name="picture"))


def agreement_by_loops(first: np.ndarray, second: np.ndarray) -> float:
    """Of two 32 × 32 grey pictures: Fisher's z of what each pixel has beyond its neighbours, less cubic polynomials."""
    details = []
    for grey in (first, second):
        places = [((i / 15.5 - 1), (j / 15.5 - 1)) for i in range(32) for j in range(32)]
        powers = np.array([[y**a * x**b for a in range(4) for b in range(4 - a)] for y, x in places])
        rest = grey.ravel() - powers @ np.linalg.lstsq(powers, grey.ravel(), rcond=None)[0]
        rest = rest.reshape(32, 32)
        detail = []
        for i in range(1, 31):
            for j in range(1, 31):
                around = rest[i - 1, j] + rest[i + 1, j] + rest[i, j - 1] + rest[i, j + 1]
                detail.append(rest[i, j] - around / 4)
        details.append(np.array(detail))
    return math.atanh(np.corrcoef(*details)[0, 1]) * math.sqrt(900 - 3)


def test_agreement_is_that_of_loops():
    generator = np.random.default_rng(0)
    first = generator.integers(0, 256, (32, 32)).astype(np.uint8)
    second = np.clip(first + generator.normal(0, 60, (32, 32)), 0, 255).astype(np.uint8)
    a, b = (thumbnail(np.repeat(grey[..., None], 3, axis=2)) for grey in (first, second))
    expected = agreement_by_loops(first.astype(float), second.astype(float))
    assert math.atanh(float(a.details[16] @ b.details[16])) * 14 < expected  # the finer side decides
    assert detail_agreement(a, b) == pytest.approx(expected, rel=1e-4)
    assert detail_agreement(b, a) == detail_agreement(a, b)


@pytest.mark.parametrize("change", COPIES)
def test_a_copy_is_known_again_however_little_it_shows(change):
    pictures = [scene(seed) for seed in range(12)] + plain_fields(12)
    verdicts = [same_picture(thumbnail(array), thumbnail(COPIES[change](array))).verdict for array in pictures]
    assert verdicts == ["same"] * 24


def test_detail_that_re_encoding_wiped_out_is_missed_but_never_guessed():
    scenes = [scene(seed) for seed in range(12)]
    assert all(same_picture(thumbnail(array), thumbnail(reencoded(array, 60))).is_same for array in scenes)
    fields = plain_fields(12)
    verdicts = {same_picture(thumbnail(array), thumbnail(reencoded(array, 30))).verdict for array in fields}
    assert verdicts == {"unclear"}


def test_no_plain_field_is_taken_for_another():
    thumbnails = [thumbnail(array) for array in plain_fields(1500)]
    details = np.stack([each.details[32] for each in thumbnails])
    shades = np.stack([each.colours.ravel() for each in thumbnails]).astype(np.float64)
    squares = (shades**2).sum(axis=1)
    compared = 0
    for nearness in (details @ details.T, 2 * shades @ shades.T - squares - squares[:, None]):
        np.fill_diagonal(nearness, -np.inf)
        for row, partner in enumerate(nearness.argmax(axis=1)):  # the closest of all in detail, and in shade
            likeness = same_picture(thumbnails[row], thumbnails[partner])
            assert (likeness.verdict, likeness.agreement < CERTAIN) == ("unclear", True)
            compared += 1
    assert compared == 3000


def test_different_scenes_are_different_and_so_are_flips_crops_and_other_colours():
    array = scene(0)
    whole = thumbnail(array)
    others = {
        "another": scene(1),
        "flipped": array[:, ::-1],
        "turned": array[::-1, ::-1],
        "cropped": array[6:-6, 8:-8],
        "narrower": array[:, 16:-16],
        "stretched": np.asarray(Image.fromarray(array).resize((128, 128))),
        "much brighter": brightened(array, 1.0, 60),
        "flatter": brightened(array, 0.6, 50),
        "recoloured": array[..., [1, 2, 0]],
    }
    verdicts = {name: same_picture(whole, thumbnail(other)).verdict for name, other in others.items()}
    assert verdicts == dict.fromkeys(others, "different")


def test_a_form_filled_in_otherwise_is_another_form():
    def form(name: str, seed: int) -> np.ndarray:
        page = Image.new("RGB", (420, 560), "white")
        pen = ImageDraw.Draw(page)
        for line in range(8):
            pen.line([(30, 70 + line * 60), (390, 70 + line * 60)], fill="black", width=2)
            pen.text((35, 52 + line * 60), f"Line {line} of the form", fill="black")
        pen.text((200, 52 + 3 * 60), name, fill=(20, 20, 120))
        noise = np.random.default_rng(seed).normal(0, 2, (560, 420, 3))
        return np.clip(np.asarray(page) + noise, 0, 255).astype(np.uint8)

    mine = thumbnail(form("Ada Lovelace", 0))
    assert same_picture(mine, thumbnail(reencoded(form("Ada Lovelace", 1), 70))).verdict == "same"
    assert same_picture(mine, thumbnail(form("Grace Hopper", 1))).verdict == "different"


def test_equal_pixels_are_identical_whatever_the_file_and_however_plain():
    flat = np.full((40, 40, 3), 200, dtype=np.uint8)
    png, bmp = (thumbnail_of(EncodedImage(encoded(flat, kind), name="flat")) for kind in ("PNG", "BMP"))
    assert same_picture(png, bmp).verdict == "identical"
    assert same_picture(png, thumbnail(flat + 1)).verdict == "unclear"
    large = encoded(resized(scene(0), 8), "PNG")
    twice = [thumbnail_of(EncodedImage(large, name="large")) for _ in range(2)]
    assert same_picture(*twice).verdict == "identical"
    assert twice[0].luminance.shape == (256, 256)


def test_large_small_and_grey_pictures_are_compared_alike():
    array = scene(3, height=640, width=800)
    jpeg = thumbnail_of(EncodedImage(encoded(array, "JPEG", quality=90), name="large"))
    assert same_picture(jpeg, thumbnail(array)).verdict == "same"  # decoded at a fraction of its size
    assert same_picture(jpeg, thumbnail(resized(array, 0.05))).verdict == "same"
    grey = np.asarray(Image.fromarray(array).convert("L"))[..., None]
    assert same_picture(thumbnail(grey), thumbnail(resized(np.repeat(grey, 3, axis=2), 0.5))).verdict == "same"
    tiny = [thumbnail(resized(scene(seed, height=96, width=96), 1 / 12)) for seed in (0, 1)]
    assert same_picture(*tiny).verdict == "unclear"


def test_the_order_of_two_pictures_does_not_matter():
    array = scene(5)
    for other in (reencoded(array, 60), resized(array, 0.6), brightened(array, 1.1), scene(6)):
        forth, back = same_picture(thumbnail(array), thumbnail(other)), same_picture(thumbnail(other), thumbnail(array))
        assert forth.verdict == back.verdict
        assert forth.difference == pytest.approx(back.difference, rel=1e-5)
