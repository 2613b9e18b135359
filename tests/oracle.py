"""The slow oracle: couplings written with plain loops over pairs, in float64, differentiated by autograd.

Nothing here is shared with the library: kernels are formulas on Python level, graphs are dense matrices of 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

PairKernel = Callable[[Tensor, Tensor], Tensor]  # log k of two vectors


def unit(rows: Tensor) -> Tensor:
    return torch.stack([row / row.square().sum().sqrt() for row in rows])


def distance(x: Tensor, y: Tensor) -> Tensor:
    return (x - y).square().sum().sqrt()


def similarities(kernel: PairKernel, anchors: Tensor, candidates: Tensor) -> list[list[Tensor]]:
    return [[kernel(x, y) for y in candidates] for x in anchors]


def coupling(
    log_k: list[list[Tensor]],
    target: Tensor,
    inside: Tensor,
    *,
    prior: str,
    divergence: str = "cross_entropy",
    reduction: str = "mean",
) -> Tensor:
    """``target`` (n, m) weights or indicators, ``inside`` (n, m) True where an edge is in the partition set."""
    n, m = target.shape
    if prior == "edges":
        total = sum(log_k[i][j].exp() for i in range(n) for j in range(m) if inside[i, j])
        mass = target.sum()
        return sum(
            -target[i, j] / mass * (log_k[i][j] - total.log()) for i in range(n) for j in range(m) if target[i, j]
        )
    loss = torch.zeros((), dtype=torch.float64)
    for i in range(n):
        if prior == "bernoulli":
            for j in range(m):
                if inside[i, j]:
                    q = 1 / (1 + (-log_k[i][j]).exp())
                    loss = loss - target[i, j] * q.log() - (1 - target[i, j]) * (1 - q).log()
            continue
        partition = sum(log_k[i][j].exp() for j in range(m) if inside[i, j])
        for j in range(m):
            if divergence == "cross_entropy":
                if target[i, j]:
                    loss = loss - target[i, j] * (log_k[i][j] - partition.log())
            elif inside[i, j]:
                gap = target[i, j] - log_k[i][j].exp() / partition
                loss = loss + (gap.abs() if divergence == "absolute" else gap**2)
    if reduction == "mean":
        loss = loss / int((target.sum(1) > 0).sum())
    return loss


def same_item(ids: list[int], candidate_ids: list[int] | None = None, *, indicators: bool = False) -> Tensor:
    columns = ids if candidate_ids is None else candidate_ids
    target = torch.zeros(len(ids), len(columns), dtype=torch.float64)
    for i, own in enumerate(ids):
        positives = [j for j, other in enumerate(columns) if own == other and not (candidate_ids is None and i == j)]
        for j in positives:
            target[i, j] = 1.0 if indicators else 1.0 / len(positives)
    return target


def all_but_self(n: int) -> Tensor:
    return ~torch.eye(n, dtype=torch.bool)


def gradients(loss: Tensor, *inputs: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, inputs, retain_graph=True))


KERNELS: dict[str, tuple[str, PairKernel]] = {  # how it is written in Eigenview, and its formula
    "inner product": ("InnerProduct(temperature=0.5, bias=0.3)", lambda x, y: (x * y).sum() / 0.5 + 0.3),
    "cosine": (
        "Cosine(temperature=0.2, bias=0.0)",
        lambda x, y: (x * y).sum() / (x.square().sum().sqrt() * y.square().sum().sqrt()) / 0.2,
    ),
    "gaussian": ("Gaussian(temperature=0.3)", lambda x, y: -(x - y).square().sum() / (2 * 0.3)),
    "laplacian": ("Laplacian(temperature=0.4)", lambda x, y: -distance(x, y) / 0.4),
    "exponential half": ("Exponential(gamma=0.5, temperature=0.6)", lambda x, y: -(distance(x, y) ** 0.5) / 0.6),
    "exponential 1.3": ("Exponential(gamma=1.3, temperature=0.6)", lambda x, y: -(distance(x, y) ** 1.3) / 0.6),
    "exponential two": ("Exponential(gamma=2.0, temperature=0.6)", lambda x, y: -(distance(x, y) ** 2) / 0.6),
    "cauchy": ("Cauchy(temperature=0.7)", lambda x, y: -(1 + distance(x, y) ** 2 / 0.7).log()),
    "student t": (
        "StudentT(degrees=3.0, temperature=0.7)",
        lambda x, y: -2 * (1 + distance(x, y) ** 2 / (3 * 0.7)).log(),
    ),
    "simple sum": (
        "(Gaussian(temperature=0.3) + Laplacian(temperature=0.4))",
        lambda x, y: ((-(distance(x, y) ** 2) / 0.6).exp() + (-distance(x, y) / 0.4).exp()).log(),
    ),
    "weighted sum": (
        "(0.25 * Gaussian(temperature=0.3) + 0.75 * Cauchy(temperature=1.0))",
        lambda x, y: (0.25 * (-(distance(x, y) ** 2) / 0.6).exp() + 0.75 / (1 + distance(x, y) ** 2)).log(),
    ),
    "product": (
        "(Gaussian(temperature=0.9) * Laplacian(temperature=0.8))",
        lambda x, y: -(distance(x, y) ** 2) / 1.8 - distance(x, y) / 0.8,
    ),
    "concatenation sum": (
        "concat(Gaussian(temperature=0.3), Laplacian(temperature=0.4))",
        lambda x, y: (
            (-((x[: len(x) // 2] - y[: len(x) // 2]).square().sum()) / 0.6).exp()
            + (-distance(x[len(x) // 2 :], y[len(x) // 2 :]) / 0.4).exp()
        ).log(),
    ),
}

LN = math.log
