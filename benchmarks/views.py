"""SimCLR views a second, side by side with peers, on the same cores in the same run.

    python3 -m venv .venv-peers
    env -u PIP_FIND_LINKS .venv-peers/bin/pip install -r benchmarks/requirements.txt
    .venv-peers/bin/pip install --no-deps -e .
    .venv-peers/bin/python benchmarks/views.py --json views.json

Two settings: 32 x 32 from arrays in memory (SimCLR's CIFAR recipe), and 224 x 224 from JPEG files of 500 x 375,
decoding counted (SimCLR's ImageNet recipe, blur included). Everyone gets two cores: two loader workers, or two threads
for those who augment whole batches in the main process (kornia, and Eigenview at 32 x 32); where a peer can be set up
in two ways, both are measured and the faster counts. Rounds are interleaved, so that noise meets everyone; the best
round counts, the median is shown beside it. Slow peers meet fewer images. kornia's crop is not antialiased.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from eigenview.data import FolderSource, Loader
from eigenview.views import Cropper, Views, preset
from eigenview.views.presets import IMAGENET_MEAN, IMAGENET_STD

warnings.filterwarnings("ignore")
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

WORKERS = 2
BATCH_SMALL, BATCH_LARGE = 512, 32
Pass = Callable[[], int]  # one pass over the data; gives the number of views made


class Transformed(Dataset):
    """Items of a list, each opened and turned into two views by a worker."""

    def __init__(self, items, opener, transform) -> None:
        self.items, self.opener, self.transform = items, opener, transform

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int):
        opened = self.opener(self.items[index])
        return self.transform(opened), self.transform(opened)


class Lightly(Transformed):
    def __getitem__(self, index: int):
        return tuple(self.transform(self.opener(self.items[index])))


class Opened(Transformed):
    def __getitem__(self, index: int):
        return self.opener(self.items[index])


def one_thread(_worker: int) -> None:
    torch.set_num_threads(1)
    try:
        import cv2

        cv2.setNumThreads(0)
    except ImportError:
        pass


def by_workers(dataset: Dataset, batch: int, size: int) -> Pass:
    loader = DataLoader(
        dataset, batch, num_workers=WORKERS, persistent_workers=True, drop_last=True, worker_init_fn=one_thread
    )

    def run() -> int:
        made = 0
        for views in loader:
            check(views, size)
            made += sum(len(view) for view in views)
        return made

    return run


def check(views, size: int) -> None:
    for view in views:
        assert view.dtype == torch.float32
        assert view.shape[1:] == (3, size, size)


# --- what each contender does -----------------------------------------------------------------------------------------


def torchvision_steps(size: int, strength: float, *, has_blur: bool, from_tensor: bool):
    from torchvision.transforms import v2

    jitter = v2.ColorJitter(0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength)
    steps = [
        v2.RandomResizedCrop(size, scale=(0.08, 1.0), antialias=True),
        v2.RandomHorizontalFlip(),
        v2.RandomApply([jitter], p=0.8),
        v2.RandomGrayscale(0.2),
    ]
    if has_blur:
        steps.append(v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], p=0.5))
    steps += [] if from_tensor else [v2.ToImage()]
    return v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(IMAGENET_MEAN, IMAGENET_STD)])


def lightly_transform(size: int, strength: float, *, has_blur: bool):
    from lightly.transforms import SimCLRTransform

    return SimCLRTransform(input_size=size, cj_strength=strength, gaussian_blur=0.5 if has_blur else 0.0)


def albumentations_steps(size: int, strength: float, *, has_blur: bool):
    import albumentations as A
    import cv2
    from albumentations.pytorch import ToTensorV2

    span = (1 - 0.8 * strength, 1 + 0.8 * strength)
    steps = [
        A.RandomResizedCrop(
            (size, size), scale=(0.08, 1.0), interpolation=cv2.INTER_LINEAR, area_for_downscale="image"
        ),
        A.HorizontalFlip(p=0.5),
        A.ColorJitter(span, span, span, (-0.2 * strength, 0.2 * strength), p=0.8),
        A.ToGray(p=0.2),
    ]
    if has_blur:
        steps.append(A.GaussianBlur(blur_limit=(23, 23), sigma_limit=(0.1, 2.0), p=0.5))
    pipeline = A.Compose([*steps, A.Normalize(IMAGENET_MEAN, IMAGENET_STD), ToTensorV2()])
    return AlbumentationsCall(pipeline)


class AlbumentationsCall:
    def __init__(self, pipeline) -> None:
        self.pipeline = pipeline

    def __call__(self, image: np.ndarray) -> Tensor:
        return self.pipeline(image=image)["image"]


def kornia_steps(size: int, strength: float, *, has_blur: bool, cropping: str):
    import kornia.augmentation as K

    jitter = (0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength)
    steps = [
        K.RandomResizedCrop((size, size), scale=(0.08, 1.0), cropping_mode=cropping),  # not antialiased
        K.RandomHorizontalFlip(),
        K.ColorJitter(*jitter, p=0.8),
        K.RandomGrayscale(p=0.2),
    ]
    if has_blur:
        steps.append(K.RandomGaussianBlur((23, 23), (0.1, 2.0), p=0.5))
    return torch.nn.Sequential(*steps, K.Normalize(torch.tensor(IMAGENET_MEAN), torch.tensor(IMAGENET_STD)))


def kornia_pass(batches: Callable[[], Iterator[Tensor]], augment, size: int, threads: int) -> Pass:
    def run() -> int:
        torch.set_num_threads(threads)
        made = 0
        with torch.no_grad():
            for images in batches():
                values = images.float().div_(255)
                views = augment(values), augment(values)
                check(views, size)
                made += 2 * len(images)
        return made

    return run


def same(item):
    return item


def as_picture(item: Tensor) -> Image.Image:
    return Image.fromarray(item.permute(1, 2, 0).contiguous().numpy())


def as_array(item: Tensor) -> np.ndarray:
    return item.permute(1, 2, 0).contiguous().numpy()


def open_picture(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def open_tensor(path: Path) -> Tensor:
    from torchvision.io import ImageReadMode, decode_image

    return decode_image(str(path), mode=ImageReadMode.RGB)


def open_by_opencv(path: Path) -> np.ndarray:
    import cv2

    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)


# --- the two settings -------------------------------------------------------------------------------------------------


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
    found = {
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
        found[f"kornia, {cropping}"] = kornia_pass(lambda: iter(some.split(BATCH_SMALL)), augment, size, WORKERS)
    return found


def eigenview_from_files(folder: Path, name: str) -> Pass:
    recipe = preset(name)
    views = Views(recipe, seed=0)
    loader = Loader(FolderSource(folder), batch_size=BATCH_LARGE, seed=0, prepare=Cropper(recipe), workers=WORKERS)
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

    found = {
        "eigenview": eigenview_from_files(folder, "kernel-infonce-imagenet"),
        "torchvision v2, PIL": loaded(
            Transformed(some, open_picture, torchvision_steps(size, from_tensor=False, **options))
        ),
        "torchvision v2, tensor": loaded(
            Transformed(some, open_tensor, torchvision_steps(size, from_tensor=True, **options))
        ),
        "lightly": loaded(Lightly(some, open_picture, lightly_transform(size, **options))),
        "albumentations": loaded(Transformed(paths, open_by_opencv, albumentations_steps(size, **options))),
    }
    decoded = DataLoader(
        Opened(some, open_tensor, None),
        BATCH_LARGE,
        num_workers=WORKERS,
        persistent_workers=True,
        drop_last=True,
        worker_init_fn=one_thread,
    )
    for threads in (1, WORKERS):
        augment = kornia_steps(size, cropping="slice", **options)
        found[f"kornia, {threads} thread{'s' * (threads > 1)}"] = kornia_pass(
            lambda: iter(decoded), augment, size, threads
        )
    return found


def measure(contenders: dict[str, Pass], rounds: int) -> dict[str, list[float]]:
    """Views a second of each round, after one that does not count."""
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
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


def report(title: str, speeds: dict[str, list[float]]) -> dict[str, float]:
    print(f"\n{title}\n{'':24}{'best':>10}{'median':>10}   views/s")
    for name, found in speeds.items():
        print(f"{name:24}{max(found):10,.0f}{statistics.median(found):10,.0f}")
    return {name: max(found) for name, found in speeds.items()}


def bars(small: dict[str, float], large: dict[str, float], multi_crop: float) -> list[dict[str, object]]:
    def peers(speeds: dict[str, float]) -> float:
        return max(speed for name, speed in speeds.items() if name != "eigenview")

    torchvision = max(speed for name, speed in large.items() if name.startswith("torchvision"))
    wanted = [
        ("views-32-over-best-peer", small["eigenview"] / peers(small), ">=", 6.0),
        ("views-224-over-lightly", large["eigenview"] / large["lightly"], ">=", 2.0),
        ("views-224-over-torchvision", large["eigenview"] / torchvision, ">=", 2.0),
        ("views-224-over-best-peer", large["eigenview"] / peers(large), ">=", 1.3),
        ("multi-crop-cost", multi_crop, "<", 1.6),
    ]
    found: list[dict[str, object]] = []
    for name, value, sign, target in wanted:
        holds = value >= target if sign == ">=" else value < target
        found.append({"bar": name, "value": value, "target": f"{sign}{target}", "holds": holds})
    return found


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
    judged = bars(best_small, best_large, multi_crop)
    print(f"\nload at the end {os.getloadavg()[0]:.2f}")
    for bar in judged:
        print(f"bar {bar['bar']} {bar['value']:.2f} {bar['target']} {'holds' if bar['holds'] else 'falls short'}")
    if options.json:
        figures = {"small": small, "large": large, "multi_crop": crops, "bars": judged, "load": load}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
