"""Projection heads: what stands between the features that are kept and the embeddings that the loss sees.

Each takes the encoder's feature width first and its own widths by name, with the paper's as defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from eigenview.errors import SettingError, ShapeError
from eigenview.names import Table

OutputNorm = Literal["none", "affine", "no_shift", "plain"]


class MLP(nn.Sequential):
    """Linear layers of the given widths with ReLU (and batch normalisation, if asked) between them.

    ``widths`` (input, hidden …, output). ``output_norm``: ``affine`` has scale and shift, ``no_shift`` a scale only,
    ``plain`` neither. ``hidden_bias`` and ``output_bias`` are the linear layers' own.
    """

    def __init__(
        self,
        *widths: int,
        hidden_norm: bool = False,
        output_norm: OutputNorm = "none",
        hidden_bias: bool = True,
        output_bias: bool = True,
    ) -> None:
        if len(widths) < 2 or min(widths) < 1:
            raise SettingError(f"a head needs an input and an output width of at least 1; got {widths}")
        layers: list[nn.Module] = []
        for incoming, outgoing in pairwise(widths[:-1]):
            layers.append(nn.Linear(incoming, outgoing, bias=hidden_bias))
            if hidden_norm:
                layers.append(nn.BatchNorm1d(outgoing))
            layers.append(nn.ReLU(inplace=True))
        layers.append(nn.Linear(widths[-2], widths[-1], bias=output_bias))
        layers.extend(_output_norm(output_norm, widths[-1]))
        super().__init__(*layers)
        self.input_width, self.output_width = widths[0], widths[-1]

    def forward(self, features: Tensor) -> Tensor:
        if features.ndim != 2 or features.shape[1] != self.input_width:
            raise ShapeError(f"this head takes features (n, {self.input_width}); got {tuple(features.shape)}")
        for layer in self:
            features = layer(features)
        return features


class Identity(nn.Module):
    """The features themselves as embeddings."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.input_width = self.output_width = features

    def forward(self, features: Tensor) -> Tensor:
        return features


def _output_norm(kind: OutputNorm, width: int) -> list[nn.Module]:
    if kind not in ("none", "affine", "no_shift", "plain"):
        raise SettingError(f"output_norm must be none, affine, no_shift or plain; got {kind!r}")
    if kind == "none":
        return []
    norm = nn.BatchNorm1d(width, affine=kind != "plain")
    if kind == "no_shift":
        norm.register_parameter("bias", None)
    return [norm]


def simclr_v1(features: int, *, hidden: int | None = None, output: int = 128) -> MLP:
    """SimCLR's two layers, each with batch normalisation, the last without shift; hidden = feature width."""
    return MLP(
        features,
        hidden or features,
        output,
        hidden_norm=True,
        output_norm="no_shift",
        hidden_bias=False,
        output_bias=False,
    )


def simclr_v2(features: int, *, hidden: int | None = None, output: int = 128) -> MLP:
    """The three layers of SimCLR's repository: as :func:`simclr_v1`, one hidden layer more."""
    inner = hidden or features
    return MLP(
        features,
        inner,
        inner,
        output,
        hidden_norm=True,
        output_norm="no_shift",
        hidden_bias=False,
        output_bias=False,
    )


def kernel_infonce(features: int, *, hidden: int | None = None, output: int = 128) -> MLP:
    """Linear, batch norm, ReLU, linear without bias (Tan et al.); hidden = feature width. Concatenation sum: 256."""
    return MLP(features, hidden or features, output, hidden_norm=True, output_bias=False)


def random_walk(features: int, *, hidden: int = 512, output: int = 512) -> MLP:
    """CLRW's 512-512-512: ReLU, no batch normalisation."""
    return MLP(features, hidden, output)


def spectral(features: int, *, hidden: int = 2048, output: int = 1000) -> MLP:
    """HaoChen et al. on CIFAR: 2048 (batch norm, ReLU), 1000 (batch norm)."""
    return MLP(features, hidden, output, hidden_norm=True, output_norm="affine")


def spectral_imagenet(features: int, *, hidden: int = 8192, output: int = 8192) -> MLP:
    """HaoChen et al. on ImageNet: three layers of 8192 with batch norm, ReLU except after the last."""
    return MLP(features, hidden, hidden, output, hidden_norm=True, output_norm="affine")


def moco_v1(features: int, *, output: int = 128) -> MLP:
    """MoCo's linear head."""
    return MLP(features, output)


def moco_v2(features: int, *, hidden: int | None = None, output: int = 128) -> MLP:
    """MoCo v2's two layers without batch normalisation; hidden = feature width."""
    return MLP(features, hidden or features, output)


def kernel_moco(features: int, *, hidden: int = 512, output: int = 128) -> MLP:
    """Kernel-InfoNCE's MoCo: 512-512-128 without batch normalisation."""
    return MLP(features, hidden, output)


def swav(features: int, *, hidden: int = 2048, output: int = 128) -> MLP:
    """SwAV, DeepCluster-v2 and SeLa-v2: 2048 (batch norm, ReLU), 128."""
    return MLP(features, hidden, output, hidden_norm=True)


def simsiam(features: int, *, hidden: int = 2048, output: int = 2048, layers: int = 3) -> MLP:
    """SimSiam's projector: batch norm after each of three layers (two for CIFAR), the last without scale and shift."""
    if layers not in (2, 3):
        raise SettingError(f"simsiam's projector has 2 (CIFAR) or 3 layers; got {layers}")
    widths = [features, *[hidden] * (layers - 1), output]
    return MLP(*widths, hidden_norm=True, output_norm="plain", hidden_bias=False, output_bias=False)


def simsiam_cifar(features: int, *, hidden: int = 2048, output: int = 2048) -> MLP:
    """SimSiam's projector of two layers."""
    return simsiam(features, hidden=hidden, output=output, layers=2)


def simsiam_predictor(embeddings: int, *, hidden: int = 512) -> MLP:
    """SimSiam's predictor: 512 (batch norm, ReLU), then back to the embeddings' width, without batch norm."""
    return MLP(embeddings, hidden, embeddings, hidden_norm=True, hidden_bias=False)


def linear(features: int, *, output: int = 128) -> MLP:
    """One linear layer with bias."""
    return MLP(features, output)


def clip(features: int, *, output: int = 512) -> MLP:
    """CLIP's projection: one linear layer without bias, N(0, 1/features)."""
    head = MLP(features, output, output_bias=False)
    with torch.no_grad():
        for weight in head.parameters():
            weight.normal_(std=features**-0.5)
    return head


def identity(features: int) -> Identity:
    """No head."""
    return Identity(features)


HEADS: Table[Callable[..., MLP | Identity]] = Table(
    "head",
    {
        "simclr-v1": simclr_v1,
        "simclr-v2": simclr_v2,
        "kernel-infonce": kernel_infonce,
        "random-walk": random_walk,
        "spectral": spectral,
        "spectral-imagenet": spectral_imagenet,
        "moco-v1": moco_v1,
        "moco-v2": moco_v2,
        "kernel-moco": kernel_moco,
        "swav": swav,
        "simsiam": simsiam,
        "simsiam-cifar": simsiam_cifar,
        "clip": clip,
        "linear": linear,
        "identity": identity,
    },
)


def build_head(name: str, features: int, **widths: int) -> MLP | Identity:
    """The head called ``name`` on features of this width; ``hidden`` and ``output`` replace the paper's widths."""
    build = HEADS.find(name)
    try:
        return build(features, **widths)
    except TypeError as error:
        raise SettingError(f"head {name!r} has no option {', '.join(widths)}: {error}") from error
