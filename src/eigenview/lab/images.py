"""The laboratory's images: the digits and, where there is data, CIFAR-10, with their views."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenview.data import BatchSource, Source, decoded, open_source, subset
from eigenview.data.spec import AnySource
from eigenview.errors import DataError
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.views import Recipe, Views, centre_view, preset

LEFT_OUT = "CIFAR-10 was left out: no data folder with cifar10 in it was given, or the run was quick."


@dataclass(frozen=True)
class Pair:
    """Two views (n, …) of the same items, and the items' labels (n,)."""

    first: Tensor
    second: Tensor
    labels: Tensor


@dataclass(frozen=True)
class ImageSet:
    """Images with labels, of which training sees only the first unless it is supervised."""

    name: str
    train: Tensor  # uint8 (n, c, h, w)
    train_labels: Tensor  # (n,)
    test: Tensor
    test_labels: Tensor
    recipe: Recipe

    @property
    def classes(self) -> int:
        return int(self.train_labels.max()) + 1

    @property
    def figure(self) -> str:
        """What an experiment's figure of them is called: the digits' is the main one."""
        return "" if self.is_tiny else self.name.lower()

    @property
    def is_tiny(self) -> bool:
        """Small enough for an MLP on the pixels."""
        return self.train.shape[-1] <= 16

    def fixed_views(self) -> tuple[Tensor, Tensor]:
        """The evaluation view of the training and of the test images."""
        view = centre_view(self.recipe)
        return view(self.train), view(self.test)

    def held_out_pairs(self, *, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Two random views of every test image."""
        numbers = torch.arange(len(self.test))
        first, second = Views(self.recipe, seed=seed + 77)(self.test, numbers, epoch=0).views
        return first, second

    def random_pairs(self, *, batch: int = 128, seed: int = 0, versions: int | None = None) -> Callable[[int], Pair]:
        """step → two random views of ``batch`` training images, drawn with replacement; a pure function of the step.

        ``versions``: draw the views from so many made once for each image, 0 for new ones each time. Unless told, 32 of
        tiny images, which saves half of the time.
        """
        views = Views(self.recipe, seed=seed)
        numbers = torch.arange(len(self.train))
        fixed, versions = None, (32 if self.is_tiny else 0) if versions is None else versions
        if versions:
            pool = [
                view for epoch in range(-(-versions // 2)) for view in views(self.train, numbers, epoch=epoch).views
            ]
            fixed = torch.stack(pool[:versions])

        def draw(step: int) -> Pair:
            generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
            chosen = torch.randint(len(self.train), (batch,), generator=generator)
            if fixed is None:
                first, second = views(self.train[chosen], chosen, epoch=step).views
            else:
                first, second = (
                    fixed[torch.randint(len(fixed), (batch,), generator=generator), chosen] for _ in range(2)
                )
            return Pair(first, second, self.train_labels[chosen])

        return draw


def digits() -> ImageSet:
    """The 1,797 digits of 8 × 8 pixels that come with scikit-learn; every fifth is for testing."""
    splits = [open_source("digits", split=split) for split in ("train", "test")]
    return _image_set("digits", splits, preset("digits"))


def cifar10(data: Path | None, *, train: int = 10_000, test: int = 2_000, seed: int = 0) -> ImageSet | None:
    """Some images of CIFAR-10 from ``data``/cifar10 (its Parquet tables or its published files); None if not there."""
    folder = None if data is None else data / "cifar10"
    if folder is None or not folder.is_dir():
        return None
    splits = []
    for split, count in (("train", train), ("test", test)):
        table = folder / f"{split}.parquet"
        whole = open_source(table) if table.is_file() else open_source(f"cifar10:{folder}", split=split)
        if not isinstance(whole, Source) or len(whole) < count:
            raise DataError(f"{folder} must hold at least {count} {split} images; is it CIFAR-10?")
        chosen = np.random.default_rng(seed).permutation(len(whole))[:count]
        splits.append(decoded(subset(whole, np.sort(chosen)), workers=0, shows_progress=False))
    return _image_set("CIFAR-10", splits, preset("simclr-cifar"))


def on_images(settings: LabSettings, look: Callable[[ImageSet], Outcome]) -> Outcome:
    """``look`` at the digits and, in a full run whose data folder holds it, at some of CIFAR-10: all in one outcome."""
    real = None if settings.is_quick else cifar10(settings.data, train=8_000, test=1_000, seed=settings.seed)
    outcomes = {images.name: look(images) for images in (digits(), real) if images is not None}
    data = {name: outcome.data for name, outcome in outcomes.items()}
    figures = {name: figure for outcome in outcomes.values() for name, figure in outcome.figures.items()}
    lines = [line for outcome in outcomes.values() for line in outcome.lines]
    return Outcome(data, figures, lines if real is not None else [*lines, LEFT_OUT])


def _image_set(name: str, splits: Sequence[AnySource], recipe: Recipe) -> ImageSet:
    train, test = (labelled(name, source) for source in splits)
    return ImageSet(name, *train, *test, recipe=recipe)


def first_of_each(labels: Tensor, count: int) -> Tensor:
    """(classes · count,) the places of the first ``count`` items of each class."""
    return torch.cat([(labels == label).nonzero()[:count, 0] for label in torch.unique(labels)])


def labelled(name: str, source: AnySource) -> tuple[Tensor, Tensor]:
    """All images (n, c, h, w) of a source and their labels (n,)."""
    if not isinstance(source, BatchSource) or source.labels is None:
        raise DataError(f"the laboratory needs {name} decoded and with labels; got {source.describe()}")
    return source.batch(np.arange(len(source))), torch.from_numpy(np.array(source.labels))
