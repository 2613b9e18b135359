"""ResNet and ResNeXt (He et al. 2016, Xie et al. 2017) with stems for large, middling and small images.

Parameter names and shapes are torchvision's, so that its weights load and ours load there; ``fc`` is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from torch import Tensor, nn

from eigenview.errors import SettingError
from eigenview.nn.encoder import POOLED, Encoder, Step, global_average, scaled_width, start_convolutions
from eigenview.nn.normalization import NORMALIZATIONS, Norm

Stem = Literal["imagenet", "stl", "cifar"]
STEMS: tuple[Stem, ...] = ("imagenet", "stl", "cifar")
LARGEST_CIFAR, LARGEST_STL = 48, 112  # image sizes up to which each stem is the automatic choice


@dataclass(frozen=True)
class Architecture:
    """One row of the papers' tables."""

    depths: tuple[int, int, int, int]  # blocks per stage
    has_bottlenecks: bool = True
    groups: int = 1
    group_width: int = 64  # channels per group in the first stage's 3×3 convolutions, when the planes are 64


class BasicBlock(nn.Module):
    """x ↦ ReLU(x + norm(conv3×3(ReLU(norm(conv3×3(x))))))."""

    expansion: ClassVar[int] = 1

    def __init__(self, incoming: int, planes: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(incoming, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = norm(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(incoming, planes, stride, norm)

    @property
    def last_norm(self) -> nn.Module:
        return self.bn2

    def forward(self, maps: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(maps)))
        out = self.bn2(self.conv2(out))
        out = out + (maps if self.downsample is None else self.downsample(maps))
        return self.relu(out)  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1×1 down, 3×3 (grouped in ResNeXt, and where the stride is), 1×1 up by four; a shortcut around."""

    expansion: ClassVar[int] = 4

    def __init__(self, incoming: int, planes: int, stride: int, norm: Norm, *, groups: int, group_width: int) -> None:
        super().__init__()
        inner = int(planes * group_width / 64) * groups
        if inner < 1:
            raise SettingError(f"{groups} groups need more than {planes} planes; use a larger width")
        outgoing = planes * self.expansion
        self.conv1 = nn.Conv2d(incoming, inner, 1, bias=False)
        self.bn1 = norm(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, groups=groups, bias=False)
        self.bn2 = norm(inner)
        self.conv3 = nn.Conv2d(inner, outgoing, 1, bias=False)
        self.bn3 = norm(outgoing)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(incoming, outgoing, stride, norm)

    @property
    def last_norm(self) -> nn.Module:
        return self.bn3

    def forward(self, maps: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(maps)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out = out + (maps if self.downsample is None else self.downsample(maps))
        return self.relu(out)  # type: ignore[no-any-return]


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
        if stem not in STEMS:
            raise SettingError(f"stem must be one of {', '.join(STEMS)}; got {stem!r}")
        self.channels = channels
        norm, planes = NORMALIZATIONS.find(normalization), scaled_width(64, width)
        if stem == "cifar":
            self.conv1 = nn.Conv2d(channels, planes, 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, planes, 7, stride=2, padding=3, bias=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if stem == "imagenet" else nn.Identity()
        stages, self.feature_width = _stages(architecture, planes, norm)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        start_convolutions(self)
        if zero_init_residual:
            for block in self.modules():
                if isinstance(block, (BasicBlock, Bottleneck)):
                    nn.init.zeros_(block.last_norm.weight)  # type: ignore[arg-type]

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


def _stages(architecture: Architecture, base: int, norm: Norm) -> tuple[list[nn.Sequential], int]:
    """The four stages and the width of the last."""
    incoming, stages = base, []
    build: Callable[..., BasicBlock | Bottleneck] = BasicBlock
    if architecture.has_bottlenecks:
        build = partial(Bottleneck, groups=architecture.groups, group_width=architecture.group_width)
    for number, depth in enumerate(architecture.depths):
        planes, blocks = base * 2**number, []
        for position in range(depth):
            stride = 2 if number > 0 and position == 0 else 1
            block = build(incoming, planes, stride, norm)
            blocks.append(block)
            incoming = planes * block.expansion
        stages.append(nn.Sequential(*blocks))
    return stages, incoming


def _shortcut(incoming: int, outgoing: int, stride: int, norm: Norm) -> nn.Sequential | None:
    if stride == 1 and incoming == outgoing:
        return None
    return nn.Sequential(nn.Conv2d(incoming, outgoing, 1, stride=stride, bias=False), norm(outgoing))
