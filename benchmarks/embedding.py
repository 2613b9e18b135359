"""Vectors a second from JPEG files, `embed` side by side with a plain loop, on the same cores in the same run.

    python benchmarks/embedding.py --data ../shared/data --json embedding.json

EfficientNet-lite0 with its ImageNet weights, at 96 pixels (STL-10's 64-pixel files) and at 224 (photographs of many
sizes). The plain loop is what people write: Pillow decodes and resizes in two workers of a DataLoader, the network runs
eagerly in eval mode, without gradients, on batches of 64. Both get the same files, the same view and two cores; rounds
are interleaved, the best of each counts, and the ratio is what is claimed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from bars import Bar, best_times, finish
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from eigenview.data import open_images, open_source
from eigenview.runs import open_encoder
from eigenview.search import embed
from eigenview.views import CentreView

NAME = "efficientnet-lite0"
WORKERS, BATCH, LEAST = 2, 64, 1.2  # the bar: so many times as fast
CASES = {96: ("stl10_64/train.parquet", 2000), 224: ("photos", 800)}  # pixels: source, images


class Photos(Dataset[Tensor]):
    """Files as a plain loop reads them."""

    def __init__(self, files: list[Path], view: CentreView) -> None:
        self.files, self.view = files, view
        self.mean, self.std = (torch.tensor(values)[:, None, None] for values in (view.mean, view.std))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        import numpy as np

        picture, view = Image.open(self.files[index]).convert("RGB"), self.view
        width, height = picture.size
        scale = view.resize / min(width, height)
        wide, tall = max(view.resize, int(width * scale)), max(view.resize, int(height * scale))
        left, top = (wide - view.size) // 2, (tall - view.size) // 2
        picture = picture.resize((wide, tall), Image.Resampling.BICUBIC)
        picture = picture.crop((left, top, left + view.size, top + view.size))
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255
        return (pixels - self.mean) / self.std


@torch.no_grad()
def plain(encoder: nn.Module, files: list[Path], view: CentreView) -> Tensor:
    loader = DataLoader(Photos(files, view), batch_size=BATCH, num_workers=WORKERS)
    return torch.cat([encoder(images) for images in loader])


def write_files(source: str, count: int, folder: Path) -> list[Path]:
    """The first images of a source as files, or the files themselves."""
    if Path(source).is_dir():
        return sorted(Path(source).rglob("*.jpg"))[:count]
    images, files = open_images(source, needs_index=True), []
    for index in range(min(count, len(images))):
        file = folder / f"{index:05d}.jpg"
        Image.fromarray(images.image(index).pixels()).save(file, quality=95)
        files.append(file)
    return files


def measure(data: Path, size: int, rounds: int) -> dict[str, float]:
    place, count = CASES[size]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "files").mkdir()
        files = write_files(str(data / place), count, folder / "files")
        listed = folder / "files.csv"
        listed.write_text("path\n" + "".join(f"{file}\n" for file in files), encoding="utf-8")
        source = open_source(str(listed))
        run = open_encoder(NAME, source, folder / "run", size=size)
        out = folder / "embeddings.parquet"
        contenders = {
            "plain loop": lambda: plain(run.encoder, files, run.view),
            "eigenview": lambda: embed(run, str(listed), out, workers=WORKERS, resume=False),
        }
        return {name: len(files) / taken for name, taken in best_times(contenders, rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(2)
    bars, figures = [], {}
    for size in CASES:
        rates = figures[str(size)] = measure(given.data, size, given.rounds)
        ratio = rates["eigenview"] / rates["plain loop"]
        print(f"{size} pixels: " + ", ".join(f"{name} {rate:.0f} images/s" for name, rate in rates.items()))
        bars.append(Bar(f"embed at {size} pixels, times a plain loop", ratio, LEAST, at_most=False))
    finish(bars, figures, given.json)


if __name__ == "__main__":
    main()
