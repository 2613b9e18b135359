"""A small convolutional encoder for CPUs and images of 8 to 64 pixels."""

from __future__ import annotations

from torch import nn

from eigenview.nn.encoder import POOLED, Encoder, Step, global_average, scaled_width, start_convolutions
from eigenview.nn.normalization import norm_layer

PLANES = (32, 64, 128, 256)
STRIDES = (2, 1, 2, 2)  # the full resolution is left at once: it is where the time goes


class SmallEncoder(Encoder):
    """Four 3×3 convolutions with norm and ReLU, 32–64–128–256 channels, then the global average.

    Layers: ``conv1`` … ``conv4``, ``pooled``.
    """

    def __init__(self, *, width: float = 1.0, channels: int = 3, normalization: str = "batch") -> None:
        super().__init__()
        norm, incoming = norm_layer(normalization), channels
        self.channels = channels
        for number, (planes, stride) in enumerate(zip(PLANES, STRIDES, strict=True), start=1):
            outgoing = scaled_width(planes, width)
            convolution = nn.Conv2d(incoming, outgoing, 3, stride=stride, padding=1, bias=False)
            self.add_module(f"conv{number}", nn.Sequential(convolution, norm(outgoing), nn.ReLU(inplace=True)))
            incoming = outgoing
        self.feature_width = incoming
        start_convolutions(self)

    def steps(self) -> list[Step]:
        stages: list[Step] = [(f"conv{number}", getattr(self, f"conv{number}")) for number in range(1, 5)]
        return [*stages, (POOLED, global_average)]
