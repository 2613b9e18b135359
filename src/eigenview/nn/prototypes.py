"""Prototypes: unit vectors that embeddings are scored against, trained (SwAV) or set (DeepCluster-v2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.errors import SettingError, ShapeError


class Prototypes(nn.Module):
    """Scores s = z·Cᵀ for one or several heads of prototypes C (K, d), without bias.

    ``counts``: the K of each head. Prototypes start on the sphere; training moves them off it, so call
    :meth:`normalize_` before each forward, as SwAV does.
    """

    def __init__(self, width: int, counts: int | Sequence[int]) -> None:
        super().__init__()
        numbers = [counts] if isinstance(counts, int) else list(counts)
        if width < 1 or not numbers or min(numbers) < 1:
            raise SettingError(f"prototypes need a width and counts of at least 1; got width {width}, counts {counts}")
        self.heads = nn.ModuleList(nn.Linear(width, count, bias=False) for count in numbers)
        self.normalize_()

    def forward(self, embeddings: Tensor) -> list[Tensor]:
        """One (n, K) per head; cosines when the embeddings (n, d) are on the sphere."""
        return [head(embeddings) for head in self.heads]

    def weight(self, head: int = 0) -> nn.Parameter:
        """The prototypes (K, d) of one head."""
        return self.heads[head].weight  # type: ignore[return-value]

    @torch.no_grad()
    def normalize_(self) -> None:
        """Put every prototype back on the sphere, in place."""
        for weight in self.heads.parameters():
            weight.copy_(normalize(weight, dim=1))

    @torch.no_grad()
    def set_(self, head: int, centroids: Tensor) -> None:
        """Overwrite one head's prototypes, as DeepCluster-v2 does with its centroids each epoch."""
        weight = self.weight(head)
        if centroids.shape != weight.shape:
            raise ShapeError(
                f"head {head} has prototypes {tuple(weight.shape)}; got centroids {tuple(centroids.shape)}"
            )
        weight.copy_(centroids)

    def freeze_gradients(self) -> None:
        """Forget the gradients: None, not zero, so that neither momentum nor weight decay moves the prototypes.

        Call it between the backward pass and the optimizer's step.
        """
        for weight in self.heads.parameters():
            weight.grad = None
