"""Embeddings made to be judged: seeded, float64."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian(n: int, d: int, *, seed: int = 0) -> Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def clustered(clusters: int, each: int, d: int, *, noise: float = 0.05, seed: int = 0) -> Tensor:
    """``each`` rows around each of so many orthonormal centres, cluster by cluster."""
    centres = torch.linalg.qr(gaussian(d, d, seed=seed))[0][:clusters]
    return centres.repeat_interleave(each, dim=0) + noise * gaussian(clusters * each, d, seed=seed + 1)


def rotated(rows: Tensor, *, seed: int = 9) -> Tensor:
    return rows @ torch.linalg.qr(gaussian(rows.shape[1], rows.shape[1], seed=seed))[0]


def cosines_by_loops(rows: Tensor, others: Tensor | None = None) -> list[list[float]]:
    others = rows if others is None else others
    return [[float((x * y).sum() / (x.square().sum().sqrt() * y.square().sum().sqrt())) for y in others] for x in rows]


def nearest_by_loops(rows: Tensor, neighbours: int) -> list[list[int]]:
    """Each row's nearest others, most similar first."""
    measured = []
    for i, line in enumerate(cosines_by_loops(rows)):
        others = [j for j in range(len(line)) if j != i]
        measured.append(sorted(others, key=lambda j: -line[j])[:neighbours])
    return measured
