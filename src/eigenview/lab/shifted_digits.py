"""Digits with a finite set of views, so that the graph of pairs is known exactly, and a small encoder trained on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eigenview.errors import DataError
from eigenview.lab.finite_views import shifted
from eigenview.lab.images import digits
from eigenview.losses import info_nce
from eigenview.nn import MLP

SHIFTS = ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0))  # as it is, and one pixel each way

Watch = Callable[[int, nn.Module, float], None]  # step, encoder, loss


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
        first = torch.randint(len(SHIFTS), item.shape, generator=generator)
        second = (first + torch.randint(1, len(SHIFTS), item.shape, generator=generator)) % len(SHIFTS)
        return self.views[first * self.items + item], self.views[second * self.items + item]


def shifted_digits(items: int) -> ShiftedDigits:
    """The first ``items`` training digits, as they are and shifted by a pixel each way, borders filled with 0."""
    images = digits().train
    if not 1 <= items <= len(images):
        raise DataError(f"there are {len(images)} training digits; got {items} items")
    views = [shifted(images[:items].float() / 255, *by) for by in SHIFTS]
    return ShiftedDigits(torch.cat(views).flatten(1), items)


def train_encoder(
    digits: ShiftedDigits, *, temperature: float, steps: int, batch: int, seed: int, watch: Watch
) -> nn.Module:
    """An MLP trained by sampled InfoNCE and Adam; ``watch(step, encoder, loss)`` before every step and after the last.

    The loss that ``watch`` sees is that of the step's batch (of a new one after the last).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = MLP(digits.views.shape[1], 256, 16)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for step in range(steps + 1):
        first, second = digits.draw(batch, generator)
        loss = info_nce(encoder(first), encoder(second), temperature=temperature)
        watch(step, encoder, float(loss.detach()))
        if step < steps:
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return encoder
