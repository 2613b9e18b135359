"""What the peers of ``views.py`` do: torchvision, lightly, albumentations and kornia, each as its users set it up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from eigenview.views.presets import IMAGENET_MEAN, IMAGENET_STD

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

WORKERS = 2
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


def with_workers(dataset: Dataset, batch: int) -> DataLoader:
    return DataLoader(
        dataset, batch, num_workers=WORKERS, persistent_workers=True, drop_last=True, worker_init_fn=one_thread
    )


def by_workers(dataset: Dataset, batch: int, size: int) -> Pass:
    loader = with_workers(dataset, batch)

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
