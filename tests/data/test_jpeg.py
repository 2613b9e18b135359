"""JPEG files through libjpeg-turbo: the same pixels as Pillow's, and Pillow wherever anything is unusual."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from eigenview.data import formats
from eigenview.data.decode import EncodedImage, UnreadableImage
from tests.views.oracle import smooth_photo

pytest.importorskip("simplejpeg", reason="the faster JPEG decoder is an extra")


def encoded(array, **options):
    buffer = BytesIO()
    Image.fromarray(array).save(buffer, format="JPEG", **options)
    return buffer.getvalue()


PHOTO = smooth_photo(61, 83)


@pytest.mark.parametrize(
    "options", [{}, {"quality": 30}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 1}]
)
def test_the_pixels_are_pillows(options):
    data = encoded(PHOTO, **options)
    ours = formats.decode_jpeg(data, (83, 61))
    np.testing.assert_array_equal(ours, np.asarray(Image.open(BytesIO(data))))
    np.testing.assert_array_equal(EncodedImage(data, name="x").pixels(), ours)


def test_without_the_package_the_pixels_are_the_same(monkeypatch):
    data = encoded(PHOTO)
    fast = EncodedImage(data, name="x").pixels()
    monkeypatch.setattr(formats, "_decoder", lambda: None)
    np.testing.assert_array_equal(EncodedImage(data, name="x").pixels(), fast)


def test_turned_grey_and_reduced_files_are_left_to_pillow():
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = EncodedImage(encoded(PHOTO, exif=exif), name="x")
    np.testing.assert_array_equal(turned.pixels(), np.rot90(EncodedImage(encoded(PHOTO), name="x").pixels(), -1))
    with Image.open(BytesIO(encoded(PHOTO))) as half:
        half.draft("RGB", (41, 30))
        np.testing.assert_array_equal(EncodedImage(encoded(PHOTO), name="x").pixels(reduce=2), np.asarray(half))
    grey = EncodedImage(encoded(PHOTO[..., 0]), name="x").pixels()
    np.testing.assert_array_equal(grey[..., 0], grey[..., 2])


def test_a_damaged_file_is_judged_by_pillow_alone():
    data = encoded(PHOTO)
    for damaged in (data[: len(data) // 2], data[:-2], data[:200] + b"\xff\xd9"):
        assert formats.decode_jpeg(damaged, (83, 61)) is None
    with pytest.raises(UnreadableImage, match="truncated"):
        EncodedImage(data[: len(data) // 2], name="x").pixels()
    assert formats.decode_jpeg(data, (84, 61)) is None  # a file that is not of the size its header was read with
