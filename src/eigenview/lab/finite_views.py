"""Digits with finitely many views, all of them known, so that the graph of pairs is, too, exactly.

Shifted by a pixel each way, for a small encoder to be trained on; or shifts and small turns, seen coarsely:

27 views an image: nine shifts by at most a pixel × three turns. At full resolution hardly any two digits share a view,
and the augmentation graph is one island an image. So views are coarse: averaged over squares, and each average rounded
down to a few levels. Then different digits do meet, π is a table, and everything about it can be computed exactly.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, affine_grid, grid_sample, pad

from eigenview.data import open_source
from eigenview.errors import DataError, SettingError
from eigenview.lab.images import Pair, digits, labelled
from eigenview.lab.view_graph import ViewGraph
from eigenview.losses import info_nce
from eigenview.nn import MLP

TURN = 12.0  # degrees
SHIFTS = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1))
VIEWS = 3 * len(SHIFTS)
CROSS = ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0))  # as it is, and one pixel each way

DARK = 0.35  # a square is dark when its mean is above this, where there are two levels


@dataclass(frozen=True)
class FiniteViews:
    """Every view of every image: which of the distinct patterns it is."""

    patterns: Tensor  # (V, side²) float32, the distinct coarse views
    place: Tensor  # (n, 27), the pattern of each view
    labels: Tensor  # (n,)

    def graph(self) -> ViewGraph:
        """Exact: A(x|x̄) is the share of the 27 views of x̄ that are the pattern x."""
        images, views = self.place.shape
        rows = np.repeat(np.arange(images), views)
        shares = sparse.coo_array(
            (np.full(images * views, 1 / views), (rows, self.place.numpy().ravel())), shape=(images, len(self.patterns))
        )
        return ViewGraph(sparse.csr_array(shares))

    def pairs(self, *, batch: int, seed: int = 0) -> Callable[[int], Pair]:
        """step → pairs of patterns drawn from π: an image, and two of its views, independently."""

        def draw(step: int) -> Pair:
            generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
            image = torch.randint(len(self.place), (batch,), generator=generator)
            first, second = torch.randint(self.place.shape[1], (2, batch), generator=generator)
            return Pair(self.at(image, first), self.at(image, second), self.labels[image])

        return draw

    def at(self, image: Tensor, view: Tensor) -> Tensor:
        return self.patterns[self.place[image, view]]

    def of_images(self, values: Tensor) -> Tensor:
        """(n, d) the mean over an image's views of what each pattern has, ``values`` (V, d)."""
        return values[self.place].mean(dim=1)


def digit_views(*, side: int, levels: int, classes: Sequence[int] = range(10), items: int = 1797) -> FiniteViews:
    """The first ``items`` digits of these classes, seen as ``side`` × ``side`` squares of ``levels`` levels."""
    if side < 1 or levels < 2:
        raise SettingError(f"coarse views need side >= 1 and levels >= 2; got {side} and {levels}")
    images, labels = labelled("digits", open_source("digits"))
    chosen = torch.isin(labels, torch.tensor(list(classes))).nonzero()[:items, 0]
    images = images[chosen].double() / 255
    views = torch.stack([shifted(_turned(images, degrees), *by) for degrees in (-TURN, 0.0, TURN) for by in SHIFTS], 1)
    squares = adaptive_avg_pool2d(views.flatten(0, 1), side).flatten(1)
    level = (squares > DARK).double() if levels == 2 else (squares * levels).floor().clamp(0, levels - 1)
    patterns, place = np.unique(level.numpy().astype(np.int8), axis=0, return_inverse=True)
    return FiniteViews(
        torch.from_numpy(patterns).float() / (levels - 1),
        torch.from_numpy(place.reshape(len(images), VIEWS).astype(np.int64)),
        labels[chosen],
    )


def _turned(images: Tensor, degrees: float) -> Tensor:
    if not degrees:
        return images
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = images.new_tensor([[cosine, -sine, 0], [sine, cosine, 0]]).expand(len(images), 2, 3)
    return grid_sample(images, affine_grid(turn, list(images.shape), align_corners=False), align_corners=False)


def shifted(images: Tensor, down: int, right: int, *, step: int = 1, mode: str = "constant") -> Tensor:
    """Images (n, c, h, w) moved by ``step`` times (``down``, ``right``) pixels; black comes in, or what ``pad`` calls
    ``mode``: "replicate" repeats the border."""
    height, width = images.shape[2:]
    wide = pad(images, (step,) * 4, mode=mode)
    top, left = step * (1 - down), step * (1 - right)
    return wide[:, :, top : top + height, left : left + width]


@dataclass(frozen=True)
class ShiftedDigits:
    """All views of some digits, view by view: view v of item i is row v·items + i."""

    views: Tensor  # (5·items, 64) in [0, 1]
    items: int

    @property
    def pairs(self) -> Tensor:
        """π (n, n), total 1: a pair is two different views of one item, all equally likely. Float64."""
        item = torch.arange(len(self.views)) % self.items
        together = (item[:, None] == item).double().fill_diagonal_(0)
        return together / together.sum()

    def draw(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Two different views of each of ``batch`` different items, drawn from π but that no item comes twice."""
        item = torch.randperm(self.items, generator=generator)[:batch]
        first = torch.randint(len(CROSS), item.shape, generator=generator)
        second = (first + torch.randint(1, len(CROSS), item.shape, generator=generator)) % len(CROSS)
        return self.views[first * self.items + item], self.views[second * self.items + item]


def shifted_digits(items: int) -> ShiftedDigits:
    """The first ``items`` training digits, as they are and shifted by a pixel each way, borders filled with 0."""
    images = digits().train
    if not 1 <= items <= len(images):
        raise DataError(f"there are {len(images)} training digits; got {items} items")
    views = [shifted(images[:items].float() / 255, *by) for by in CROSS]
    return ShiftedDigits(torch.cat(views).flatten(1), items)


def train_encoder(
    digits: ShiftedDigits, *, temperature: float, steps: int, batch: int, seed: int
) -> Iterator[tuple[int, nn.Module, float]]:
    """An MLP trained by sampled InfoNCE and Adam: (step, encoder, loss) before every step and after the last.

    The loss is that of the step's batch (of a new one after the last).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = MLP(digits.views.shape[1], 256, 16)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for step in range(steps + 1):
        first, second = digits.draw(batch, generator)
        loss = info_nce(encoder(first), encoder(second), temperature=temperature)
        yield step, encoder, float(loss.detach())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
