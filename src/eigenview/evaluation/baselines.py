"""What every representation must beat without any training."""

from __future__ import annotations

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
