"""No file under 10 MB makes a process need 1 GB, whatever it claims; and large photos are still read."""

from __future__ import annotations

import numpy as np
import pillow_heif
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from eigenview.data import EncodedImage
from eigenview.data.folder import Texts
from eigenview.data.limits import DECODING, PROGRESSIVE
from eigenview.data.listing import ListSource
from eigenview.data.tables import TableSource
from tests.data.bombs import GIGABYTE, write_bombs
from tests.data.peak import peaks_of
from tests.data.pictures import HAS_AVIF, encoded, gradient, write_folder

READ = {"list.csv", "rows.csv", "rows.parquet", "labels.parquet", "buffer.tar.gz"}  # odd, but in order to begin with
LIBRARIES = 300_000_000  # bytes that PyTorch and those around it take before anything is read
STRIPS = 45_000_000  # bytes of memory beyond what is counted by pixel


def test_small_files_take_little_memory(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    Image.new("RGB", (8, 8)).save(small / "small.png")
    peaks = peaks_of([str(small), *write_bombs(tmp_path / "bombs")])
    more = max(0, peaks.pop(str(small))[0] - LIBRARIES)  # PyTorch with CUDA is larger by itself
    assert len(peaks) == 21
    assert {text: peak for text, (peak, _) in peaks.items() if peak - more >= GIGABYTE} == {}
    for text, (_, refusals) in peaks.items():
        if text.rsplit("/", 1)[-1] not in READ:
            assert any("limit" in line or "sparse" in line or "it h" in line or "header" in line for line in refusals)


def test_decoding_takes_no_more_than_is_reckoned(tmp_path):
    side = 3000
    picture = Image.new("RGB", (side, side), (10, 200, 30))
    exif = Image.Exif()
    exif[0x0112] = 6
    cases = {
        "small.png": (Image.new("RGB", (8, 8)), "PNG", {}),
        "a.jpg": (picture, "JPEG", {}),
        "turned.jpg": (picture, "JPEG", {"exif": exif.tobytes()}),
        "progressive.jpg": (picture, "JPEG", {"progressive": True, "subsampling": 0}),
        "a.png": (picture, "PNG", {}),
        "alpha.png": (picture.convert("RGBA"), "PNG", {}),
        "a.gif": (picture.convert("P"), "GIF", {}),
        "a.bmp": (picture, "BMP", {}),
        "a.tif": (picture, "TIFF", {"compression": "tiff_deflate"}),
        "turned.tif": (picture, "TIFF", {"compression": "tiff_deflate", "exif": exif.tobytes()}),
        "a.webp": (picture, "WEBP", {"lossless": True}),
        "a.avif": (picture.convert("RGBA"), "AVIF", {"speed": 10, "quality": 30}),
        "a.heic": (picture, "HEIF", {"quality": 10}),
        "a.jp2": (picture.convert("RGBA"), "JPEG2000", {}),
    }
    if not HAS_AVIF:
        del cases["a.avif"]
    pillow_heif.register_heif_opener()
    for name, (image, kind, options) in cases.items():
        (tmp_path / name).mkdir()
        image.save(tmp_path / name / name, kind, **options)
    peaks = {text.rsplit("/", 1)[-1]: peak for text, (peak, _) in peaks_of([str(tmp_path / n) for n in cases]).items()}
    base = peaks.pop("small.png")
    for name, peak in peaks.items():
        reckoned = DECODING[cases[name][1]] + (PROGRESSIVE if name == "progressive.jpg" else 0)
        file = (tmp_path / name / name).stat().st_size
        assert peak - base < side * side * reckoned + file + STRIPS, name


def test_a_large_photo_is_read(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    tile = Image.fromarray(noise).resize((1000, 1000), Image.Resampling.BICUBIC)
    photo = Image.new("RGB", (10_000, 10_000))
    for left in range(0, 10_000, 1000):
        for top in range(0, 10_000, 1000):
            photo.paste(tile, (left, top))
    photo.save(tmp_path / "photo.jpg", quality=75)
    assert 10_000_000 < (tmp_path / "photo.jpg").stat().st_size < 40_000_000
    image = EncodedImage.from_file(tmp_path / "photo.jpg")
    assert image.size == (10_000, 10_000)
    assert image.pixels(8).shape == (1250, 1250, 3)
    pixels = image.pixels()
    assert pixels.shape == (10_000, 10_000, 3)
    assert np.abs(pixels[1000:1100, 3000:3100].astype(int) - np.asarray(tile)[:100, :100]).mean() < 20


def test_one_long_text_makes_no_other_longer(tmp_path):
    write_folder(tmp_path, 2)
    (tmp_path / "list.csv").write_text("path\n" + "x" * 100_000 + "\ngood_0000.png\ngood_0001.png\n")
    source = ListSource(tmp_path / "list.csv")
    assert [len(source.name(index)) for index in range(3)] == [100_000, 13, 13]
    texts = Texts(["", "größe", "b" * 1000, "\udcff"])
    assert [texts[index] for index in (0, 1, -2, 3)] == ["", "größe", "b" * 1000, "\udcff"]
    with pytest.raises(IndexError):
        texts[4]


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", None])
def test_every_way_to_write_a_column_is_read(tmp_path, encoding):
    images = [encoded(gradient(seed=number)) for number in range(5)]
    options = {} if encoding is None else {"use_dictionary": False, "column_encoding": encoding}
    columns = {"image": images, "captions": [["a", "b"], ["a"], [], None, ["c"]], "label": ["x", "y", "x", None, "x"]}
    table = pa.table({**columns, "text": pa.array(["z"] * 5).dictionary_encode()})
    if encoding is not None:
        options["column_encoding"] = {"image": encoding, "captions.list.element": encoding, "label": encoding}
        table = table.drop(["text"])
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=3, **options)
    source = TableSource(tmp_path / "t.parquet")
    assert [int(source.image(index).pixels()[0, 0, 2]) for index in range(5)] == [37 * number for number in range(5)]
    assert [source.captions(index) for index in range(5)] == [("a", "b"), ("a",), (), (), ("c",)]
    assert (source.classes, source.labels.tolist()) == (("x", "y"), [0, 1, 0, -1, 0])
