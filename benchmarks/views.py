"""SimCLR views a second, side by side with peers, on the same cores in the same run.

    python3 -m venv .venv-peers
    env -u PIP_FIND_LINKS .venv-peers/bin/pip install -r benchmarks/requirements.txt
    .venv-peers/bin/pip install --no-deps -e .
    .venv-peers/bin/python benchmarks/views.py --json views.json

Two settings: 32 x 32 from arrays in memory (SimCLR's CIFAR recipe), and 224 x 224 from JPEG files of 500 x 375,
decoding counted (SimCLR's ImageNet recipe, blur included). Everyone gets two cores: two loader workers, or two threads
for those who augment whole batches in the main process (kornia, and Eigenview at 32 x 32); where a peer can be set up
in two ways, both are measured and the faster counts. Rounds are interleaved, so that noise meets everyone; the best
round counts, the median is shown beside it. Slow peers meet fewer images. kornia's crop is not antialiased. Eigenview
decodes by simplejpeg where that is installed; "Pillow alone" is without it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from bars import Bar, finish
from PIL import Image
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.utils.data import Dataset
from view_peers import (
    WORKERS,
    Lightly,
    Opened,
    Pass,
    Transformed,
    albumentations_steps,
    as_array,
    as_picture,
    by_workers,
    check,
    kornia_pass,
    kornia_steps,
    lightly_transform,
    open_by_opencv,
    open_picture,
    open_tensor,
    same,
    torchvision_steps,
    with_workers,
)

from eigenview.data import FolderSource, Loader
from eigenview.views import Cropper, Views, preset

warnings.filterwarnings("ignore")

BATCH_SMALL, BATCH_LARGE = 512, 32
Speeds = dict[str, list[float]]  # views a second of each round


def small_contenders(images: Tensor) -> dict[str, Pass]:
    size, options = 32, {"strength": 0.5, "has_blur": False}
    views = Views(preset("simsiam-cifar").with_crops(preset("simclr-cifar").crops), seed=0)
    epoch = iter(range(10**9))

    def eigenview() -> int:
        torch.set_num_threads(WORKERS)
        number, made = next(epoch), 0
        for first in range(0, len(images), BATCH_SMALL):
            indices = torch.arange(first, first + BATCH_SMALL)
            batch = views(images[first : first + BATCH_SMALL], indices, epoch=number)
            check(batch.views, size)
            made += sum(len(view) for view in batch.views)
        return made

    def loaded(dataset: Dataset) -> Pass:
        return by_workers(dataset, BATCH_SMALL, size)

    some = images[: len(images) // 4]  # the slow ones meet a quarter
    contenders = {
        "eigenview": eigenview,
        "torchvision v2, PIL": loaded(
            Transformed(some, as_picture, torchvision_steps(size, from_tensor=False, **options))
        ),
        "torchvision v2, tensor": loaded(Transformed(some, same, torchvision_steps(size, from_tensor=True, **options))),
        "lightly": loaded(Lightly(some, as_picture, lightly_transform(size, **options))),
        "albumentations": loaded(Transformed(some, as_array, albumentations_steps(size, **options))),
    }
    for cropping in ("slice", "resample"):
        augment = kornia_steps(size, cropping=cropping, **options)
        contenders[f"kornia, {cropping}"] = kornia_pass(lambda: iter(some.split(BATCH_SMALL)), augment, size, WORKERS)
    return contenders


class PillowCropper(Cropper):
    """Photos are decoded by Pillow, as where simplejpeg is not installed."""

    def __call__(self, photo, epoch: int, index: int):
        with patch("eigenview.data.decode.decode_jpeg", lambda data, size: None):
            return super().__call__(photo, epoch, index)


def eigenview_from_files(folder: Path, name: str, cropper: type[Cropper] = Cropper) -> Pass:
    recipe = preset(name)
    views = Views(recipe, seed=0)
    loader = Loader(FolderSource(folder), batch_size=BATCH_LARGE, seed=0, prepare=cropper(recipe), workers=WORKERS)
    epoch = iter(range(10**9))

    def run() -> int:
        torch.set_num_threads(1)  # the workers have the cores
        number, made = next(epoch), 0
        loader.set_epoch(number)
        for batch in loader:
            finished = views.finish(batch.views, batch.index, epoch=number)
            made += sum(len(view) for view in finished.views)
        return made

    return run


def large_contenders(folder: Path) -> dict[str, Pass]:
    size, options = 224, {"strength": 1.0, "has_blur": True}
    paths = sorted(folder.glob("*.jpg"))
    some = paths[: max(4 * BATCH_LARGE, len(paths) // 4)]

    def loaded(dataset: Dataset) -> Pass:
        return by_workers(dataset, BATCH_LARGE, size)

    contenders = {
        "eigenview": eigenview_from_files(folder, "kernel-infonce-imagenet"),
        "eigenview, Pillow alone": eigenview_from_files(folder, "kernel-infonce-imagenet", PillowCropper),
        "torchvision v2, PIL": loaded(
            Transformed(some, open_picture, torchvision_steps(size, from_tensor=False, **options))
        ),
        "torchvision v2, tensor": loaded(
            Transformed(some, open_tensor, torchvision_steps(size, from_tensor=True, **options))
        ),
        "lightly": loaded(Lightly(some, open_picture, lightly_transform(size, **options))),
        "albumentations": loaded(Transformed(paths, open_by_opencv, albumentations_steps(size, **options))),
    }
    decoded = with_workers(Opened(some, open_tensor, None), BATCH_LARGE)
    for threads in (1, WORKERS):
        augment = kornia_steps(size, cropping="slice", **options)
        contenders[f"kornia, {threads} thread{'s' * (threads > 1)}"] = kornia_pass(
            lambda: iter(decoded), augment, size, threads
        )
    return contenders


def measure(contenders: dict[str, Pass], rounds: int) -> Speeds:
    """Views a second of each round, after one that does not count."""
    speeds: Speeds = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            made = run()
            if number:
                speeds[name].append(made / (time.perf_counter() - start))
    return speeds


def write_photos(folder: Path, count: int) -> float:
    """JPEG files of 500 x 375 with structure at every scale, as photographs have; gives their mean size in kB."""
    generator = np.random.default_rng(0)
    for number in range(count):
        image = np.zeros((375, 500, 3))
        for sigma, weight in ((1, 0.7), (3, 1.0), (10, 1.2), (40, 1.4)):
            grey = generator.standard_normal((375, 500, 1)) + 0.5 * generator.standard_normal((375, 500, 3))
            image += gaussian_filter(grey, (sigma, sigma, 0)) * sigma * weight
        picture = Image.fromarray(np.clip(128 + 38 * image, 0, 255).astype(np.uint8))
        picture.save(folder / f"{number:04}.jpg", quality=92)
    return sum(path.stat().st_size for path in folder.glob("*.jpg")) / count / 1000


def report(title: str, speeds: Speeds) -> dict[str, float]:
    print(f"\n{title}\n{'':24}{'best':>10}{'median':>10}   views/s")
    for name, rates in speeds.items():
        print(f"{name:24}{max(rates):10,.0f}{statistics.median(rates):10,.0f}")
    return {name: max(rates) for name, rates in speeds.items()}


def bars(small: dict[str, float], large: dict[str, float], multi_crop: float) -> list[Bar]:
    def best(speeds: dict[str, float], beginning: str = "") -> float:
        return max(
            speed for name, speed in speeds.items() if name.startswith(beginning) and not name.startswith("eigenview")
        )

    ours, pillow = large["eigenview"], large["eigenview, Pillow alone"]
    return [
        Bar("views-32-over-best-peer", small["eigenview"] / best(small), 6.0, at_most=False),
        Bar("views-224-over-lightly", ours / large["lightly"], 2.0, at_most=False),
        Bar("views-224-over-torchvision", ours / best(large, "torchvision"), 2.0, at_most=False),
        Bar("views-224-over-best-peer", ours / best(large), 1.3, at_most=False),
        Bar("views-224-over-best-peer-by-pillow", pillow / best(large), 1.3, at_most=False),
        Bar("multi-crop-cost", multi_crop, 1.6, at_most=True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--images", type=Path, help="a folder of .jpg files of one size, instead of generated ones")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--photos", type=int, default=512, help="how many JPEG files to generate")
    options = parser.parse_args()
    torch.set_num_threads(WORKERS)
    load = os.getloadavg()[0]
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, load at the start {load:.2f}")

    images = torch.randint(0, 256, (4 * BATCH_SMALL, 3, 8, 8), generator=torch.Generator().manual_seed(0)).float()
    images = torch.nn.functional.interpolate(images, (32, 32), mode="bicubic").clamp_(0, 255).to(torch.uint8)
    small = measure(small_contenders(images), options.rounds)
    best_small = report(f"32 x 32 from arrays, batches of {BATCH_SMALL}", small)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.images or Path(temporary)
        if options.images is None:
            print(f"\n{options.photos} JPEG files of {write_photos(folder, options.photos):.0f} kB on average")
        large = measure(large_contenders(folder), options.rounds)
        best_large = report(f"224 x 224 from JPEG files, batches of {BATCH_LARGE}", large)
        crops = measure(
            {name: eigenview_from_files(folder, name) for name in ("swav-two-crops", "swav-160")}, options.rounds
        )
        # seconds for an image are views an image over views a second
        multi_crop = (6 / max(crops["swav-160"])) / (2 / max(crops["swav-two-crops"]))
        report("multi-crop: 2 x 224 and 2 x 160 + 4 x 96", crops)
    print(f"\nload at the end {os.getloadavg()[0]:.2f}")
    measured = {"small": small, "large": large, "multi_crop": crops, "load": load}
    finish(bars(best_small, best_large, multi_crop), measured, options.json)


if __name__ == "__main__":
    main()
