"""Small graphs whose classes are known."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenview.labels import image_graph
from eigenview.labels.graph import ImageGraph


def clouds(classes: int = 3, each: int = 30, *, spread: float = 0.6, seed: int = 0) -> tuple[ImageGraph, Tensor]:
    """The graph of clouds around as many corners, and which cloud each row is of."""
    truth = torch.arange(classes).repeat_interleave(each)
    noise = torch.randn(len(truth), 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return image_graph(3 * torch.eye(8, dtype=torch.float64)[truth] + spread * noise, neighbours=6), truth


def some_labels(truth: Tensor, rows: list[int]) -> Tensor:
    labels = torch.full_like(truth, -1)
    labels[rows] = truth[rows]
    return labels
