"""Small encoders of the digits, trained in seconds: some well, some made to fail on purpose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from eigenview.losses import align_uniform_loss, alignment, info_nce


@dataclass(frozen=True)
class Recipe:
    objective: Literal["info_nce", "align_uniform", "alignment"] = "info_nce"
    temperature: float = 0.2
    augmentation: float = 1.0  # 0: both views are the image itself
    learning_rate: float = 1e-3
    steps: int = 300
    batch: int = 256
    width: int = 64  # of the embedding
    matched: bool = True  # False: positives are views of different images
    seed: int = 0


@dataclass(frozen=True)
class Run:
    z_a: Tensor
    z_b: Tensor
    labels: Tensor
    loss: float
    chance: float | None


def train(recipe: Recipe) -> Run:
    generator = torch.Generator().manual_seed(recipe.seed)
    torch.manual_seed(recipe.seed)
    digits = load_digits()
    images, labels = torch.tensor(digits.images).float() / 16, torch.tensor(digits.target)
    encoder = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, recipe.width)
    )
    optimizer = torch.optim.Adam(encoder.parameters(), lr=recipe.learning_rate)
    losses = []
    for _ in range(recipe.steps):
        chosen = torch.randint(len(images), (recipe.batch,), generator=generator)
        first, second = (encoder(view(images[chosen], recipe.augmentation, generator)) for _ in range(2))
        second = second if recipe.matched else second.roll(1, dims=0)
        loss = objective(recipe, first, second)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        z_a, z_b = (encoder(view(images, recipe.augmentation, generator)) for _ in range(2))
    chance = math.log(2 * recipe.batch - 1) if recipe.objective == "info_nce" else None
    return Run(z_a, z_b, labels, sum(losses[-20:]) / 20, chance)


def objective(recipe: Recipe, first: Tensor, second: Tensor) -> Tensor:
    if recipe.objective == "info_nce":
        return info_nce(first, second, temperature=recipe.temperature)
    return align_uniform_loss(first, second) if recipe.objective == "align_uniform" else alignment(first, second)


def view(images: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Each image moved by up to a pixel, brighter or darker, with noise."""
    if not strength:
        return images
    shift = torch.randint(-1, 2, (len(images), 2), generator=generator)
    place = torch.arange(8)
    rows = (place[None] + shift[:, :1]).clamp(0, 7)
    columns = (place[None] + shift[:, 1:]).clamp(0, 7)
    moved = images[torch.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
    brightness = 1 + 0.4 * strength * (torch.rand(len(images), 1, 1, generator=generator) - 0.5)
    return brightness * moved + 0.15 * strength * torch.randn(images.shape, generator=generator)
