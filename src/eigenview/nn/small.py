"""A small convolutional encoder for CPUs and images of 8 to 64 pixels."""

from torch import Tensor, nn

from eigenview.nn.encoder import POOLED, Encoder, Step, global_average, scaled_width, start_convolutions
from eigenview.nn.normalization import NORMALIZATIONS, Norm

PLANES = (32, 64, 128, 256)
STRIDES = (2, 2, 2, 1)  # large maps are left at once: they are where the time goes
DEEPER = (0, 1, 1, 0)  # residual layers after each convolution of ``small-deep``


class SmallEncoder(Encoder):
    """Four 3×3 convolutions with norm and ReLU, 32–64–128–256 channels, then the global average.

    ``residuals``: so many layers x + ReLU(norm(conv(x))) after each of them. Of the shapes raced at 32 × 32 for equal
    time, the plain one learnt most by AdamW, the one with a layer each at 64 and 128 channels (``DEEPER``) by Muon.
    Layers: ``conv1`` … ``conv4``, ``pooled``.
    """

    def __init__(
        self,
        *,
        width: float = 1.0,
        channels: int = 3,
        normalization: str = "batch",
        residuals: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        super().__init__()
        norm, incoming = NORMALIZATIONS.find(normalization), channels
        self.channels = channels
        for number, (planes, stride, more) in enumerate(zip(PLANES, STRIDES, residuals, strict=True), start=1):
            outgoing = scaled_width(planes, width)
            layers = [*_layers(incoming, outgoing, stride, norm), *(Residual(outgoing, norm) for _ in range(more))]
            self.add_module(f"conv{number}", nn.Sequential(*layers))
            incoming = outgoing
        self.feature_width = incoming
        start_convolutions(self)

    def steps(self) -> list[Step]:
        stages: list[Step] = [(f"conv{number}", getattr(self, f"conv{number}")) for number in range(1, 5)]
        return [*stages, (POOLED, global_average)]


class Residual(nn.Sequential):
    """x ↦ x + ReLU(norm(conv3×3(x)))."""

    def __init__(self, planes: int, norm: Norm) -> None:
        super().__init__(*_layers(planes, planes, 1, norm))

    def forward(self, maps: Tensor) -> Tensor:
        out = maps
        for layer in self:
            out = layer(out)
        return maps + out


def _layers(incoming: int, outgoing: int, stride: int, norm: Norm) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(incoming, outgoing, 3, stride=stride, padding=1, bias=False)
    return convolution, norm(outgoing), nn.ReLU(inplace=True)
