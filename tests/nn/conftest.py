"""Photographs that libraries and we look at."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from eigenview.data import FolderSource

SIZES = ((640, 427), (301, 500), (97, 61))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> FolderSource:
    """JPEGs of three sizes, coarse shapes with grain."""
    folder, generator = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number, (width, height) in enumerate(SIZES):
        shapes = Image.fromarray(generator.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        grain = generator.integers(-20, 21, (height, width, 3))
        pixels = np.asarray(shapes.resize((width, height), Image.Resampling.BICUBIC)).astype(int) + grain
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.jpg", quality=92)
    return FolderSource(folder)
