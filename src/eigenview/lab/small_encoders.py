"""Small encoders for the laboratory: a set of images, pairs of views, a model, and training in seconds.

No trainer and no run directory: a loop of ten lines around the library's losses, so that an experiment reads whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from eigenview.data import BatchSource, Source, decoded, open_source, subset
from eigenview.data.spec import AnySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import fit_logistic, knn_predict
from eigenview.nn import MLP, Identity, build_encoder
from eigenview.views import Recipe, Views, centre_view, preset

HeadKind = Literal["none", "linear", "mlp"]
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]  # embeddings of two views (n, d), labels (n,) → loss

FEATURES = 256  # width before the head, of both encoders
NEIGHBOURS = 5  # Wang & Isola's
BLOCK = 1024  # images encoded at a time


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
    def is_tiny(self) -> bool:
        """Small enough for an MLP on the pixels."""
        return self.train.shape[-1] <= 16


@dataclass(frozen=True)
class Pair:
    """Two views (n, …) of the same items, and the items' labels (n,)."""

    first: Tensor
    second: Tensor
    labels: Tensor


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


def _image_set(name: str, splits: Sequence[AnySource], recipe: Recipe) -> ImageSet:
    train, test = (_labelled(name, source) for source in splits)
    return ImageSet(name, *train, *test, recipe=recipe)


def _labelled(name: str, source: AnySource) -> tuple[Tensor, Tensor]:
    if not isinstance(source, BatchSource) or source.labels is None:
        raise DataError(f"the laboratory needs {name} decoded and with labels; got {source.describe()}")
    return source.batch(np.arange(len(source))), torch.from_numpy(np.array(source.labels))


class Branch(nn.Module):
    """An encoder and its head: images (n, c, h, w) → features (n, 256) → embeddings (n, d), not yet on the sphere."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.head(self.encoder(images))
        return embeddings


def build_branch(images: ImageSet, *, output: int, head: HeadKind = "mlp", seed: int = 0) -> Branch:
    """An untrained branch: an MLP for images of up to 16 pixels a side, the encoder ``small`` for larger ones."""
    channels, side = images.train.shape[1], images.train.shape[-1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder: nn.Module
        if images.is_tiny:
            encoder = nn.Sequential(nn.Flatten(), MLP(channels * side * side, FEATURES, FEATURES), nn.GELU())
        else:
            encoder = build_encoder("small", channels=channels, image_size=side)
        return Branch(encoder, build_projection(head, output))


def build_projection(kind: HeadKind, output: int) -> nn.Module:
    """The head of a branch: ``none`` passes features on, so ``output`` must be their width."""
    if kind == "none":
        if output != FEATURES:
            raise SettingError(f"without a head the embeddings are the {FEATURES} features; got output {output}")
        return Identity(FEATURES)
    if kind not in ("linear", "mlp"):
        raise SettingError(f"head must be none, linear or mlp; got {kind!r}")
    return MLP(FEATURES, output) if kind == "linear" else MLP(FEATURES, FEATURES, output, hidden_norm=True)


def random_pairs(
    images: ImageSet, *, batch: int = 128, seed: int = 0, versions: int | None = None
) -> Callable[[int], Pair]:
    """step → two random views of ``batch`` training images, drawn with replacement; a pure function of the step.

    ``versions``: draw the views from so many made once for each image, which on tiny images saves half of the time.
    """
    views = Views(images.recipe, seed=seed)
    numbers = torch.arange(len(images.train))
    fixed = None
    if versions is not None:
        pool = [view for epoch in range(-(-versions // 2)) for view in views(images.train, numbers, epoch=epoch).views]
        fixed = torch.stack(pool[:versions])

    def draw(step: int) -> Pair:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        chosen = torch.randint(len(images.train), (batch,), generator=generator)
        if fixed is None:
            first, second = views(images.train[chosen], chosen, epoch=step).views
        else:
            first, second = (fixed[torch.randint(len(fixed), (batch,), generator=generator), chosen] for _ in range(2))
        return Pair(first, second, images.train_labels[chosen])

    return draw


def fit(
    model: nn.Module,
    draw: Callable[[int], Pair],
    objective: Objective,
    *,
    steps: int,
    learning_rate: float = 2e-3,
) -> list[float]:
    """Train ``model`` (and the objective's own weights, if it is a module) by Adam, cosine to 0; the losses."""
    parameters = list(model.parameters())
    if isinstance(objective, nn.Module):
        parameters += list(objective.parameters())
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    model.train()
    for step in range(steps):
        pair = draw(step)
        first, second = model(torch.cat([pair.first, pair.second])).chunk(2)
        loss = objective(first, second, pair.labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    model.eval()
    return losses


class Classified(nn.Module):
    """Cross-entropy of a linear classifier on the unit embeddings, trained along: supervision through the sphere."""

    def __init__(self, width: int, classes: int, *, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.classifier = nn.Linear(width, classes)

    def forward(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        scores = self.classifier(normalize(torch.cat([first, second]), dim=1))
        return cross_entropy(scores, labels.repeat(2))


@torch.no_grad()
def encoded(model: nn.Module, views: Tensor) -> Tensor:
    """What ``model`` makes of views, a block at a time, in eval mode and left in it."""
    model.eval()
    return torch.cat([model(block) for block in torch.split(views, BLOCK)])


def fixed_views(images: ImageSet) -> tuple[Tensor, Tensor]:
    """The evaluation view of the training and of the test images."""
    view = centre_view(images.recipe)
    return view(images.train), view(images.test)


def held_out_pairs(images: ImageSet, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two random views of every test image."""
    numbers = torch.arange(len(images.test))
    first, second = Views(images.recipe, seed=seed + 77)(images.test, numbers, epoch=0).views
    return first, second


def accuracies(train: Tensor, train_labels: Tensor, test: Tensor, test_labels: Tensor) -> tuple[float, float]:
    """(linear, 5-NN) accuracy on the test rows of a classifier of the training rows.

    Linear: logistic regression with C = 1 on the rows as they are, so a collapsed spread shows. 5-NN: Euclidean,
    unweighted, which no change of scale touches.
    """
    linear = fit_logistic(train, train_labels).predict(test)
    voted = knn_predict(train, train_labels, test, k=(NEIGHBOURS,), metric="euclidean")[NEIGHBOURS]
    right = [float((predicted == test_labels).double().mean()) for predicted in (linear, voted)]
    return right[0], right[1]
