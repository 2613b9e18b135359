"""What images look like: the first one's shape, the statistics of some."""

from __future__ import annotations

import numpy as np
import pytest

from eigenview.batches import first_shape, image_statistics
from eigenview.data import ArraySource


def test_statistics_are_those_of_the_pixels():
    images = np.random.default_rng(0).integers(0, 256, size=(50, 16, 16, 3), dtype=np.uint8)
    looks = image_statistics(ArraySource(images))
    values = images.reshape(-1, 3) / 255
    assert looks.mean == pytest.approx(values.mean(axis=0), abs=1e-4)
    assert looks.std == pytest.approx(values.std(axis=0), abs=1e-4)


def test_the_shape_is_height_width_channels():
    assert first_shape(ArraySource(np.zeros((3, 10, 20, 1), dtype=np.uint8))) == (10, 20, 1)
