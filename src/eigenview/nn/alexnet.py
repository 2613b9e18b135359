"""The small AlexNet of Wang & Isola's STL-10 experiments (2020)."""

from functools import partial

from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.errors import SettingError, ShapeError
from eigenview.nn.encoder import POOLED, Encoder, Step, scaled_width
from eigenview.nn.normalization import NORMALIZATIONS, Norm

CONVOLUTIONS = (96, 192, 384, 384, 192)
POOLED_AFTER = (1, 2, 5)  # 3×3/2 max pool after these convolutions
HIDDEN, OUTPUT = 4096, 128
START_DEVIATION = 0.02  # of every weight


class SmallAlexNet(Encoder):
    """Five 3×3 convolutions, fc6 and fc7 (all with norm and ReLU, no bias), fc8; weights N(0, 0.02).

    Made for one ``image_size`` (theirs is 64). Layers: ``conv1`` … ``conv5`` (pooled where they pool), ``fc6``,
    ``fc7``, ``fc8`` = ``pooled``, the encoder's output, and ``output``, the same on the sphere, as their probes use it.
    """

    aliases = {"fc8": POOLED}  # noqa: RUF012

    def __init__(
        self, *, width: float = 1.0, channels: int = 3, normalization: str = "batch", image_size: int = 64
    ) -> None:
        super().__init__()
        norm = NORMALIZATIONS.find(normalization)
        self.channels, self.image_size, self.feature_width = channels, image_size, OUTPUT
        side, incoming = image_size, channels
        for number, planes in enumerate(CONVOLUTIONS, start=1):
            outgoing, pools = scaled_width(planes, width), number in POOLED_AFTER
            self.add_module(f"conv{number}", _convolution(incoming, outgoing, norm, pools=pools))
            incoming, side = outgoing, (side - 3) // 2 + 1 if pools else side
        if side < 1:
            raise SettingError(f"alexnet needs images of at least 15 pixels; got image_size={image_size}")
        hidden = scaled_width(HIDDEN, width)
        self.fc6 = _dense(incoming * side**2, hidden, norm)
        self.fc7 = _dense(hidden, hidden, norm)
        self.fc8 = nn.Linear(hidden, OUTPUT)
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.normal_(layer.weight, std=START_DEVIATION)
        nn.init.zeros_(self.fc8.bias)

    def steps(self) -> list[Step]:
        stages: list[Step] = [(f"conv{number}", getattr(self, f"conv{number}")) for number in range(1, 6)]
        return [
            *stages,
            ("fc6", self.fc6),
            ("fc7", self.fc7),
            (POOLED, self.fc8),
            ("output", partial(normalize, dim=1)),
        ]

    def _check(self, images: Tensor) -> None:
        super()._check(images)
        if images.shape[2:] != (self.image_size, self.image_size):
            raise ShapeError(
                f"this alexnet was built for images of {self.image_size} pixels; got {tuple(images.shape[2:])}: "
                "build it with image_size=, and give it crops of one size only"
            )


def _convolution(incoming: int, planes: int, norm: Norm, *, pools: bool) -> nn.Sequential:
    layers = [nn.Conv2d(incoming, planes, 3, padding=1, bias=False), norm(planes), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *([nn.MaxPool2d(3, stride=2)] if pools else []))


def _dense(incoming: int, outgoing: int, norm: Norm) -> nn.Sequential:
    """Linear, norm, ReLU. Batch normalisation of (n, c) rows is the one-dimensional kind."""
    row_norm = nn.BatchNorm1d(outgoing) if norm is nn.BatchNorm2d else norm(outgoing)
    return nn.Sequential(nn.Flatten(), nn.Linear(incoming, outgoing, bias=False), row_norm, nn.ReLU(inplace=True))
