"""A small encoder and its view, the same in every process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from eigenview.nn import Encoder, build_encoder
from eigenview.search import parts
from eigenview.views import CentreView

VIEW = CentreView(16, 16)
PART = 8  # images of a part in these tests


def small_encoder(seed: int = 0) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_encoder("small", width=0.25)


def small_parts() -> None:
    """Parts of 8 images instead of thousands, in this process."""
    parts.PART_ITEMS = PART


def write_pictures(root: Path, names: list[str]) -> Path:
    """Pictures of noise: each its own, by its place in the list."""
    root.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / name)
    return root


def expected_vectors(files: list[Path], encoder: Encoder) -> Iterator[torch.Tensor]:
    """The vector of each file, one picture at a time."""
    for file in files:
        pixels = torch.from_numpy(np.array(Image.open(file).convert("RGB")))
        crop = VIEW.prepare(_Photo(pixels.numpy()), 0, 0)[0]
        with torch.no_grad():
            encoder.eval()
            yield encoder(VIEW.finish([torch.from_numpy(crop).permute(2, 0, 1)[None]]))[0]


class _Photo:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.size = (array.shape[1], array.shape[0])

    def pixels(self, reduce: int = 1) -> np.ndarray:
        assert reduce == 1
        return self.array


def cosines(rows: torch.Tensor, query: torch.Tensor) -> list[float]:
    """One pair at a time."""
    return [float(row @ query / (row.norm() * query.norm())) for row in rows.double()]
