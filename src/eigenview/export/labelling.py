"""An encoder with a head on it: from images to the probabilities of a user's own classes, as one module."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenview.batches.identity import weights_identity
from eigenview.errors import DataError, SettingError
from eigenview.labels import Head, Labeller, Projection
from eigenview.nn import POOLED, Encoder
from eigenview.nn.encoder import Step


class LabellingEncoder(Encoder):
    """Images (n, channels, height, width) → probabilities (n, K)."""

    def __init__(self, encoder: Encoder, labeller: Labeller) -> None:
        super().__init__()
        self.encoder, self.least = encoder, labeller.projection.least
        self.channels, self.feature_width = encoder.channels, len(labeller.classes)
        head, projection = labeller.head, labeller.projection
        held: dict[str, Tensor | None] = {"weight": head.weight, "bias": head.bias, "mean": projection.mean}
        held |= {"centre": projection.centre, "directions": projection.directions}
        for name, tensor in held.items():
            self.register_buffer(name, None if tensor is None else tensor.float())

    def steps(self) -> list[Step]:
        return [("features", self.encoder), (POOLED, self._labelled)]

    def _labelled(self, vectors: Tensor) -> Tensor:
        centre, directions = self._buffers["centre"], self._buffers["directions"]  # None where there are few columns
        rows = Projection(self.get_buffer("mean"), self.least, centre, directions).at_once(vectors)
        return Head(self.get_buffer("weight"), self.get_buffer("bias")).probabilities(rows)


def with_head(encoder: Encoder, labeller: Labeller) -> LabellingEncoder:
    """The two in one; a head that was made on the vectors of another encoder, or of another layer, is refused."""
    if labeller.layer != POOLED:
        raise SettingError(f"this head reads the layer {labeller.layer}; only heads on {POOLED} are exported")
    if labeller.encoder and labeller.encoder != (own := weights_identity(encoder)):
        raise DataError(
            f"this head reads vectors of {labeller.run} ({labeller.encoder}), not of this encoder ({own}): "
            "export the one whose embeddings were labelled"
        )
    if len(labeller.projection.mean) != encoder.feature_width:
        raise DataError(
            f"this head reads vectors of {len(labeller.projection.mean)} numbers; the encoder gives "
            f"{encoder.feature_width}"
        )
    device = next((tensor.device for tensor in encoder.parameters()), torch.device("cpu"))
    return LabellingEncoder(encoder, labeller).to(device)
