"""What every representation must beat: the pixels themselves, and the same encoder before any training."""

from __future__ import annotations

import torch

from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import Step


class RawPixels(Encoder):
    """The evaluation view, flattened: what a classifier gets without a representation."""

    def __init__(self, size: int, *, channels: int = 3) -> None:
        super().__init__()
        self.channels, self.feature_width = channels, channels * size**2

    def steps(self) -> list[Step]:
        return [(POOLED, lambda images: images.flatten(1))]

    def extra_repr(self) -> str:
        return f"{self.feature_width} values"


@torch.no_grad()
def untrained_like(encoder: Encoder, *, seed: int = 0) -> Encoder:
    """A copy of the same shape with fresh weights: every part that knows how to start is started again.

    Parts with a special start (He et al.'s for our convolutions) get torch's ordinary one; for a run's own encoder,
    ``Run.untrained`` builds it anew and is exact.
    """
    from copy import deepcopy

    fresh = deepcopy(encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in fresh.modules():
            start = getattr(part, "reset_parameters", None)
            if callable(start):
                start()
    return fresh
