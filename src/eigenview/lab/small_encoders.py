"""Small encoders for the laboratory: a model, training in seconds, and what became of it.

No trainer and no run directory: a loop of ten lines around the library's losses, so that an experiment reads whole.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from eigenview.batches import evaluating
from eigenview.diagnostics import alignment_figure, uniformity_figure
from eigenview.errors import SettingError
from eigenview.evaluation import fit_logistic, knn_predict
from eigenview.lab.descent import descended
from eigenview.lab.images import ImageSet, Pair
from eigenview.nn import MLP, Identity, build_encoder

HeadKind = Literal["none", "linear", "mlp"]

FEATURES = 256  # width before the head, of both encoders
NEIGHBOURS = 5  # Wang & Isola's
BLOCK = 1024  # images encoded at a time


@dataclass(frozen=True)
class Judged:
    """What an encoder makes of the test images, on the sphere, and how good that is."""

    embeddings: Tensor  # (n, d), unit: of the fixed view
    labels: Tensor  # (n,)
    distances: Tensor  # (n,) between two random views of an image
    alignment: float
    uniformity: float
    linear: float  # accuracy
    knn: float

    @property
    def figures(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in ("alignment", "uniformity", "linear", "knn")}


class Branch(nn.Sequential):
    """An encoder and its head: images (n, c, h, w) → features (n, 256) → embeddings (n, d), not yet on the sphere."""

    encoder: nn.Module
    head: nn.Module


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
        return Branch(OrderedDict(encoder=encoder, head=build_projection(head, output)))


def build_projection(kind: HeadKind, output: int) -> nn.Module:
    """The head of a branch: ``none`` passes features on, so ``output`` must be their width."""
    if kind == "none":
        if output != FEATURES:
            raise SettingError(f"without a head the embeddings are the {FEATURES} features; got output {output}")
        return Identity(FEATURES)
    if kind not in ("linear", "mlp"):
        raise SettingError(f"head must be none, linear or mlp; got {kind!r}")
    return MLP(FEATURES, output) if kind == "linear" else MLP(FEATURES, FEATURES, output, hidden_norm=True)


def fit(model: nn.Module, draw: Callable[[int], Pair], objective: nn.Module, *, steps: int) -> list[float]:
    """Train ``model`` and the objective's own weights by Adam, cosine to 0; the losses.

    The objective is called with the embeddings of two views (n, d); only :class:`Classified` sees labels, too.
    """

    def loss_at(step: int) -> Tensor:
        pair = draw(step)
        views = model(torch.cat([pair.first, pair.second])).chunk(2)
        loss: Tensor = objective(*views, pair.labels) if isinstance(objective, Classified) else objective(*views)
        return loss

    model.train()
    parameters = [*model.parameters(), *objective.parameters()]
    losses = list(descended(parameters, loss_at, steps=steps, learning_rate=2e-3))
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


def encoded(model: nn.Module, views: Tensor) -> Tensor:
    """What ``model`` makes of views, a block at a time, in eval mode."""
    with evaluating(model):
        return torch.cat([model(block) for block in torch.split(views, BLOCK)])


def four_encoded(model: nn.Module, images: ImageSet, *, seed: int) -> list[Tensor]:
    """What ``model`` makes of the training and the test images, and of two random views of the latter."""
    return [encoded(model, views) for views in (*images.fixed_views(), *images.held_out_pairs(seed=seed))]


def judged(model: nn.Module, images: ImageSet, *, seed: int) -> Judged:
    train, test, first, second = (normalize(rows, dim=1) for rows in four_encoded(model, images, seed=seed))
    linear, knn = accuracies(train, images.train_labels, test, images.test_labels)
    moved, even = alignment_figure(first, second), uniformity_figure(test).value
    return Judged(test, images.test_labels, (first - second).norm(dim=1), moved, even, linear, knn)


def accuracies(train: Tensor, train_labels: Tensor, test: Tensor, test_labels: Tensor) -> tuple[float, float]:
    """(linear, 5-NN) accuracy on the test rows of a classifier of the training rows.

    Linear: logistic regression with C = 1 on the rows as they are, so a collapsed spread shows. 5-NN: Euclidean,
    unweighted, which no change of scale touches.
    """
    linear = fit_logistic(train, train_labels).predict(test)
    voted = knn_predict(train, train_labels, test, k=(NEIGHBOURS,), metric="euclidean")[NEIGHBOURS]
    right = [float((predicted == test_labels).double().mean()) for predicted in (linear, voted)]
    return right[0], right[1]
