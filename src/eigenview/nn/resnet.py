"""ResNet and ResNeXt (He et al. 2016, Xie et al. 2017) with stems for large, middling and small images.

Parameter names and shapes are torchvision's, so that its weights load and ours load there; ``fc`` is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor, nn

from eigenview.errors import SettingError
from eigenview.names import Table
from eigenview.nn.encoder import POOLED, Encoder, Step, global_average, scaled_width, start_convolutions
from eigenview.nn.normalization import NORMALIZATIONS, Norm

Stem = Literal["imagenet", "stl", "cifar"]
STEMS = Table("stem", {"imagenet": (7, 2, True), "stl": (7, 2, False), "cifar": (3, 1, False)})  # kernel, stride, pool
LARGEST_CIFAR, LARGEST_STL = 48, 112  # image sizes up to which each stem is the automatic choice


@dataclass(frozen=True)
class Architecture:
    """One row of the papers' tables."""

    depths: tuple[int, int, int, int]  # blocks per stage
    has_bottlenecks: bool = True
    groups: int = 1
    group_width: int = 64  # channels per group in the first stage's 3×3 convolutions, when the planes are 64


class Block(nn.Module):
    """x ↦ ReLU(x + convolutions(x)), each with a norm, ReLU between them; 1×1 in the place of x where shapes differ."""

    def __init__(self, incoming: int, stride: int, norm: Norm, *convolutions: nn.Conv2d) -> None:
        super().__init__()
        for number, convolution in enumerate(convolutions, start=1):
            self.add_module(f"conv{number}", convolution)
            self.add_module(f"bn{number}", norm(convolution.out_channels))
        self.count, self.outgoing = len(convolutions), convolutions[-1].out_channels
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or incoming != self.outgoing:
            shortcut = nn.Conv2d(incoming, self.outgoing, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, norm(self.outgoing))

    def forward(self, maps: Tensor) -> Tensor:
        out = maps
        for number in range(1, self.count + 1):
            out = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(out))
            out = self.relu(out) if number < self.count else out
        return self.relu(out + (maps if self.downsample is None else self.downsample(maps)))  # type: ignore[no-any-return]


class BasicBlock(Block):
    """Two of 3×3."""

    def __init__(self, incoming: int, planes: int, stride: int, norm: Norm) -> None:
        first = nn.Conv2d(incoming, planes, 3, stride=stride, padding=1, bias=False)
        super().__init__(incoming, stride, norm, first, nn.Conv2d(planes, planes, 3, padding=1, bias=False))


class Bottleneck(Block):
    """1×1 down, 3×3 (grouped in ResNeXt, and where the stride is), 1×1 up by four; a shortcut around."""

    def __init__(self, incoming: int, planes: int, stride: int, norm: Norm, *, groups: int, group_width: int) -> None:
        inner = int(planes * group_width / 64) * groups
        if inner < 1:
            raise SettingError(f"{groups} groups need more than {planes} planes; use a larger width")
        down = nn.Conv2d(incoming, inner, 1, bias=False)
        middle = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, groups=groups, bias=False)
        super().__init__(incoming, stride, norm, down, middle, nn.Conv2d(inner, 4 * planes, 1, bias=False))


class ResNet(Encoder):
    """Stem, four stages of residual blocks, global average pool.

    ``width`` multiplies every number of channels (SimCLR's and SwAV's ×2, ×4). ``stem``: ``imagenet`` 7×7/2 and
    3×3/2 max pool, ``stl`` the same without the pool, ``cifar`` 3×3/1 without it. ``zero_init_residual`` starts every
    block as the identity (its last normalisation has weight 0), as SimSiam does.

    Layers: ``conv1`` (the stem), ``layer1`` … ``layer4`` (also ``conv2`` … ``conv5``, the paper's names), ``pooled``.
    """

    aliases = {f"conv{stage + 1}": f"layer{stage}" for stage in range(1, 5)}  # noqa: RUF012

    def __init__(
        self,
        architecture: Architecture,
        *,
        width: float = 1.0,
        stem: Stem = "imagenet",
        channels: int = 3,
        normalization: str = "batch",
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        kernel, stride, has_pool = STEMS.find(stem)
        self.channels = channels
        norm, planes = NORMALIZATIONS.find(normalization), scaled_width(64, width)
        self.conv1 = nn.Conv2d(channels, planes, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if has_pool else nn.Identity()
        build: Callable[..., Block] = BasicBlock
        if architecture.has_bottlenecks:
            build = partial(Bottleneck, groups=architecture.groups, group_width=architecture.group_width)
        self.feature_width = planes
        for number, depth in enumerate(architecture.depths):
            blocks = list[Block]()
            for position in range(depth):
                stride = 2 if number > 0 and position == 0 else 1
                blocks.append(build(self.feature_width, planes * 2**number, stride, norm))
                self.feature_width = blocks[-1].outgoing
            self.add_module(f"layer{number + 1}", nn.Sequential(*blocks))
        start_convolutions(self)
        if zero_init_residual:
            for block in self.modules():
                if isinstance(block, Block):
                    nn.init.zeros_(block.get_parameter(f"bn{block.count}.weight"))

    def steps(self) -> list[Step]:
        stages: list[Step] = [(f"layer{number}", getattr(self, f"layer{number}")) for number in range(1, 5)]
        return [("conv1", self._stem), *stages, (POOLED, global_average)]

    def _stem(self, images: Tensor) -> Tensor:
        return self.maxpool(self.relu(self.bn1(self.conv1(images))))  # type: ignore[no-any-return]


def automatic_stem(image_size: int | None) -> Stem:
    """The stem that suits square images of this size; without one, ImageNet's."""
    if image_size is None or image_size > LARGEST_STL:
        return "imagenet"
    return "cifar" if image_size <= LARGEST_CIFAR else "stl"
