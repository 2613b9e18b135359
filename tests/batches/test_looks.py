"""What images look like: the first one's shape, the statistics of some."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from eigenview.batches import image_statistics, typical_shape
from eigenview.data import ArraySource, open_source


def test_statistics_are_those_of_the_pixels():
    images = np.random.default_rng(0).integers(0, 256, size=(50, 16, 16, 3), dtype=np.uint8)
    looks = image_statistics(ArraySource(images))
    values = images.reshape(-1, 3) / 255
    assert looks.mean == pytest.approx(values.mean(axis=0), abs=1e-4)
    assert looks.std == pytest.approx(values.std(axis=0), abs=1e-4)


def test_the_shape_is_height_width_channels():
    assert typical_shape(ArraySource(np.zeros((3, 10, 20, 1), dtype=np.uint8))) == (10, 20, 1)


def test_one_odd_image_does_not_decide_for_a_folder(tmp_path):
    Image.new("RGB", (3, 3)).save(tmp_path / "000.png")
    Image.new("RGB", (900, 700)).save(tmp_path / "zzz.png")
    for number in range(5):
        Image.new("RGB", (60 + number, 40 + number)).save(tmp_path / f"photo {number}.png")
    assert typical_shape(open_source(str(tmp_path))) == (42, 62, 3)
