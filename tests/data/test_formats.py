from __future__ import annotations

import sys

import numpy as np
import pytest
from PIL import Image, features

from eigenview.data import EncodedImage, FolderSource, Loader, UnreadableImage, check, formats, open_images
from eigenview.errors import DataError
from tests.data.pictures import HAS_AVIF, gradient, write_folder

pillow_heif = pytest.importorskip("pillow_heif")


def write_heic(path, array: np.ndarray, **options: object) -> None:
    pillow_heif.register_heif_opener()
    Image.fromarray(array).save(path, "HEIF", quality=95, **options)


@pytest.fixture
def without_plugin(monkeypatch):
    formats._heif.cache_clear()
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    yield
    formats._heif.cache_clear()


def test_heic_and_avif_are_read(tmp_path):
    array = gradient(48, 64)
    write_heic(tmp_path / "a.heic", array)
    write_heic(tmp_path / "b.HEIF", array)
    if HAS_AVIF:
        Image.fromarray(array).save(tmp_path / "c.avif", quality=95)
    Image.fromarray(array).save(tmp_path / "d.png")
    source = FolderSource(tmp_path)
    for index in range(len(source)):
        pixels = source.image(index).pixels()
        assert pixels.shape == (48, 64, 3)
        assert np.abs(pixels.astype(int) - array).mean() < 3
        assert source.image(index).pixels(2).shape == (24, 32, 3)
    modes = [source.image(index).mode for index in range(len(source))]
    assert modes == ["HEIF RGB", "HEIF RGB", *["AVIF RGB"] * HAS_AVIF, "PNG RGB"]


@pytest.mark.parametrize("suffix", ["heic", *["avif"] * HAS_AVIF])
def test_photos_of_phones_stand_upright(tmp_path, suffix):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    if suffix == "heic":
        write_heic(tmp_path / "a.heic", gradient(48, 64), exif=exif.tobytes())
    else:
        Image.fromarray(gradient(48, 64)).save(tmp_path / "a.avif", quality=95, exif=exif.tobytes())
    image = EncodedImage.from_file(tmp_path / f"a.{suffix}")
    assert image.size == (48, 64)
    upright = np.rot90(gradient(48, 64), -1)
    assert np.abs(image.pixels().astype(int) - upright).mean() < 3


def test_without_the_plugin_heic_is_counted_and_named_with_the_remedy(tmp_path, without_plugin):
    write_folder(tmp_path, 3)
    write_heic(tmp_path / "photo.heic", gradient())
    report = check(tmp_path, workers=0, shows_progress=False)
    assert (report.total, report.readable) == (4, 3)
    assert "pip install 'eigenview[heif]'" in str(report)
    loader = Loader(open_images(tmp_path, workers=0), batch_size=3, seed=0)
    list(loader)
    assert list(loader.unreadable) == ["photo.heic"]
    for number in range(3):
        (tmp_path / f"good_{number:04d}.png").unlink()
    with pytest.raises(DataError, match=r"none of the images can be read, .*photo\.heic: .*eigenview\[heif\]"):
        open_images(tmp_path)


def test_without_avif_in_pillow_the_reason_says_so(tmp_path, monkeypatch):
    (tmp_path / "a.avif").write_bytes(b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf")
    formats._reads_avif.cache_clear()
    monkeypatch.setattr(features, "check", lambda feature: False)
    with pytest.raises(UnreadableImage, match="AVIF images need a Pillow"):
        EncodedImage.from_file(tmp_path / "a.avif")
    formats._reads_avif.cache_clear()


def test_the_content_decides_and_not_the_name(tmp_path):
    Image.fromarray(gradient()).save(tmp_path / "x.png")
    (tmp_path / "x.png").rename(tmp_path / "x.heic")
    np.testing.assert_array_equal(EncodedImage.from_file(tmp_path / "x.heic").pixels(), gradient())
    for start in (b"", b"\0\0\0\x18ftyp", b"\0\0\0\x18ftypheic", b"\xff\xff\xff\xffftypavif" + b"x" * 300):
        with pytest.raises(UnreadableImage):
            EncodedImage(start, name="x")
