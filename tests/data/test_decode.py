from __future__ import annotations

import pickle
import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
import PIL
import pytest
from PIL import Image, ImageOps

from eigenview.data.decode import EncodedImage, LazyImage, PixelImage, UnreadableImage, read_depth
from eigenview.errors import SettingError
from tests.data.pictures import encoded, gradient, write_broken_files


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def opened(data: bytes, channels: int = 3) -> EncodedImage:
    return EncodedImage(data, name="picture", channels=channels)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
def test_lossless_formats_return_the_pixels(kind):
    array = gradient()
    options = {"lossless": True} if kind == "WEBP" else {}
    image = opened(encoded(array, kind, **options))
    assert image.size == (32, 24)
    np.testing.assert_array_equal(image.pixels(), array)


@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_turns_the_picture_upright(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = gradient(48, 64)
    options = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}}.get(kind, {})
    data = saved(Image.fromarray(stored), kind, exif=exif, **options)
    image = opened(data)
    pixels = image.pixels()
    assert image.size == (pixels.shape[1], pixels.shape[0])
    plain = Image.fromarray(stored)  # the oracle: Pillow's own transposition of the same numbers
    plain.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(plain))
    assert pixels.shape == upright.shape
    assert np.abs(pixels.astype(int) - upright).max() <= (12 if kind == "JPEG" else 0)
    half = opened(data).pixels(2)
    assert half.shape == (-(-upright.shape[0] // 2), -(-upright.shape[1] // 2), 3)
    box = upright[: 2 * (upright.shape[0] // 2)].reshape(upright.shape[0] // 2, 2, -1, 2, 3).mean(axis=(1, 3))
    assert np.abs(half - box).max() <= 14


@pytest.mark.parametrize("reduce", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (15, 9), (64, 48), (101, 67)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_reduced_pictures_have_the_rounded_up_size(kind, size, reduce):
    array = gradient(*size)
    pixels = opened(encoded(array, kind)).pixels(reduce)
    assert pixels.shape == (-(-size[0] // reduce), -(-size[1] // reduce), 3)
    edge = 255 * reduce / min(size) if min(size) > 1 else 3  # the last box may be cut short, and counts as much
    assert np.abs(pixels.mean(axis=(0, 1)) - array.mean(axis=(0, 1))).max() < edge


def test_pixels_can_be_asked_for_again_at_another_scale():
    image = opened(encoded(gradient(64, 64), "JPEG"))
    for reduce in (8, 1, 2):
        np.testing.assert_array_equal(image.pixels(reduce), opened(encoded(gradient(64, 64), "JPEG")).pixels(reduce))
    assert image.size == (64, 64)


def test_greyscale_becomes_three_equal_channels_or_stays_one():
    grey = gradient(channels=1)[:, :, 0]
    for kind in ("PNG", "BMP", "TIFF"):
        np.testing.assert_array_equal(opened(encoded(grey, kind)).pixels(), np.repeat(grey[:, :, None], 3, axis=2))
    grey_pixels = opened(encoded(grey, "JPEG"), channels=1).pixels()
    assert np.abs(grey_pixels[:, :, 0].astype(int) - grey).max() <= 3
    half = opened(encoded(grey, "JPEG")).pixels(2)
    np.testing.assert_array_equal(half, np.repeat(half[:, :, :1], 3, axis=2))
    assert np.abs(half[:, :, 0] - grey.reshape(12, 2, 16, 2).mean(axis=(1, 3))).max() <= 3


def test_one_bit_pictures_become_black_and_white():
    bits = Image.fromarray(gradient(channels=1)[:, :, 0]).point(lambda value: 255 * (value > 99)).convert("1")
    pixels = opened(saved(bits, "PNG")).pixels()
    np.testing.assert_array_equal(pixels[:, :, 0], np.asarray(bits) * np.uint8(255))


def test_sixteen_bits_are_scaled_and_not_clipped():
    deep = np.linspace(0, 65535, 24 * 32).reshape(24, 32).astype(np.uint16)
    expected = np.rint(deep / 257.0).astype(np.uint8)
    for kind in ("PNG", "TIFF"):
        np.testing.assert_array_equal(opened(encoded(deep, kind)).pixels()[:, :, 0], expected)
    big_endian = saved(Image.frombytes("I;16B", (32, 24), deep.astype(">u2").tobytes()), "TIFF")
    np.testing.assert_array_equal(opened(big_endian).pixels()[:, :, 0], expected)


def test_integers_and_floats_follow_the_stated_rules():
    unit = np.linspace(0, 1, 24 * 32, dtype=np.float32).reshape(24, 32)
    cases = {  # stored -> expected
        "unit": (unit, unit * 255.0),
        "bytes": (unit * 255, unit * 255.0),
        "wide": (unit * 4000 - 1000, unit * 255.0),
        "integers": ((unit * 65535).astype(np.int32), (unit * 65535).astype(np.int32) / 257.0),
        "signed": (
            (unit * 2000 - 1000).astype(np.int32),
            ((unit * 2000 - 1000).astype(np.int32) + 1000) * 255 / 2000.0,
        ),
    }
    for stored, expected in cases.values():
        pixels = opened(encoded(stored, "TIFF")).pixels()[:, :, 0]
        assert np.abs(pixels - expected).max() <= 0.51
    hole = unit.copy()
    hole[3, 4] = np.nan
    assert opened(encoded(hole, "TIFF")).pixels()[3, 4, 0] == 0


def test_constant_float_pictures_do_not_divide_by_zero():
    assert opened(encoded(np.full((4, 4), 1e9, dtype=np.float32), "TIFF")).pixels().max() == 0


def test_transparency_is_composited_on_white():
    array = np.zeros((4, 4, 4), dtype=np.uint8)
    array[:, :, 0] = 200  # red, hidden under alpha 0, 128 and 255
    array[:, 1, 3], array[:, 2:, 3] = 128, 255
    pixels = opened(encoded(array)).pixels()
    np.testing.assert_array_equal(pixels[0, 0], [255, 255, 255])
    np.testing.assert_allclose(pixels[0, 1], [227, 127, 127], atol=1)
    np.testing.assert_array_equal(pixels[0, 2], [200, 0, 0])
    grey = opened(saved(Image.fromarray(array).convert("LA"), "PNG")).pixels()
    np.testing.assert_array_equal(grey[0, 0], [255, 255, 255])


def test_palettes_with_and_without_a_transparent_colour():
    picture = Image.new("P", (4, 4), 0)
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.putpixel((1, 1), 1)
    plain = opened(saved(picture, "PNG")).pixels()
    np.testing.assert_array_equal(plain[0, 0], [10, 20, 30])
    np.testing.assert_array_equal(plain[1, 1], [200, 100, 50])
    for kind in ("PNG", "GIF"):
        clear = opened(saved(picture, kind, transparency=0)).pixels()
        np.testing.assert_array_equal(clear[0, 0], [255, 255, 255])
        np.testing.assert_array_equal(clear[1, 1], [200, 100, 50])


def test_a_transparent_colour_key_is_white_too():
    array = np.full((4, 4, 3), 90, dtype=np.uint8)
    array[0, 0] = [1, 2, 3]
    pixels = opened(saved(Image.fromarray(array), "PNG", transparency=(1, 2, 3))).pixels()
    np.testing.assert_array_equal(pixels[0, 0], [255, 255, 255])
    np.testing.assert_array_equal(pixels[1, 1], [90, 90, 90])


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk_has_the_right_polarity(kind):
    ink = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # no cyan: red. Photoshop's JPEGs store it inverted
    pixels = opened(saved(ink, kind)).pixels()
    np.testing.assert_allclose(pixels.reshape(-1, 3).mean(axis=0), [255, 0, 0], atol=3)


@pytest.mark.skipif(int(PIL.__version__.split(".")[0]) < 13, reason="Pillow before 13 calls such TIFFs cut short")
def test_lab_and_ycbcr_are_converted():
    lab = Image.new("LAB", (4, 4), (255, 128, 128))  # L = 100: white
    np.testing.assert_allclose(opened(saved(lab, "TIFF")).pixels()[0, 0], [255, 255, 255], atol=2)
    luma = Image.fromarray(gradient()).convert("YCbCr")
    np.testing.assert_allclose(opened(saved(luma, "TIFF")).pixels(), gradient(), atol=3)


def test_animations_give_their_first_frame():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(opened(data).pixels()[0, 0], [255, 0, 0])


def test_broken_files_are_unreadable_by_name_and_warn_nobody(tmp_path):
    names = write_broken_files(tmp_path)
    assert len(names) >= 12
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UnreadableImage) as caught:
                EncodedImage.from_file(tmp_path / name, name=name).pixels()
        assert caught.value.name == name
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 200


def test_a_lying_file_name_is_no_obstacle(tmp_path):
    (tmp_path / "really_a.png").write_bytes(encoded(gradient(), "JPEG"))
    assert EncodedImage.from_file(tmp_path / "really_a.png").mode == "JPEG RGB"


def test_equal_content_has_equal_digests():
    first, second = encoded(gradient()), encoded(gradient(seed=1))
    assert opened(first).digest() == opened(first).digest() != opened(second).digest()
    assert PixelImage(gradient(), name="a").digest() != PixelImage(gradient(32, 24), name="b").digest()


def test_arrays_behave_like_files():
    image = PixelImage(gradient(), name="array")
    assert isinstance(image, LazyImage)
    assert isinstance(opened(encoded(gradient())), LazyImage)
    assert image.size == (32, 24)
    np.testing.assert_array_equal(image.pixels(2), opened(encoded(gradient())).pixels(2))
    boxes = gradient(channels=1).reshape(6, 4, 8, 4).mean(axis=(1, 3))
    assert np.abs(PixelImage(gradient(channels=1), name="grey").pixels(4)[:, :, 0] - boxes).max() <= 0.5


def test_depth_keeps_its_numbers():
    deep = np.arange(12, dtype=np.uint16).reshape(3, 4) * 1000
    np.testing.assert_array_equal(read_depth(encoded(deep), name="depth"), deep.astype(np.float32))
    metres = np.linspace(0.5, 9.5, 12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(read_depth(encoded(metres, "TIFF"), name="depth"), metres)
    with pytest.raises(UnreadableImage, match="one channel"):
        read_depth(encoded(gradient()), name="depth")


def test_unreadable_images_travel_between_processes():
    error = pickle.loads(pickle.dumps(UnreadableImage("a.png", "empty file")))
    assert (error.name, error.reason, str(error)) == ("a.png", "empty file", "a.png: empty file")


def test_odd_requests_are_refused():
    with pytest.raises(SettingError, match="reduce is one of"):
        opened(encoded(gradient())).pixels(3)
    with pytest.raises(SettingError, match="channels is 1"):
        EncodedImage(encoded(gradient()), name="x", channels=2)


def test_a_missing_file_says_so():
    with pytest.raises(UnreadableImage, match=r"nowhere\.png: No such file"):
        EncodedImage.from_file(Path("nowhere.png"))
