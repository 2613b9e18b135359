"""Encoders by name: the one way to get one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from eigenview.errors import SettingError
from eigenview.names import Table, is_code
from eigenview.nn.alexnet import SmallAlexNet
from eigenview.nn.encoder import Encoder
from eigenview.nn.resnet import STEMS, Architecture, ResNet, Stem, automatic_stem
from eigenview.nn.small import SmallEncoder
from eigenview.nn.wrapped import own_encoder, timm_encoder, torchvision_encoder


def build_encoder(
    name: str,
    *,
    width: float = 1.0,
    stem: Literal["auto"] | Stem = "auto",
    channels: int = 3,
    normalization: str = "batch",
    image_size: int | None = None,
    zero_init_residual: bool = False,
) -> Encoder:
    """The encoder called ``name``, with random weights: one of ``ENCODERS``, ``timm:NAME``, ``torchvision:NAME``, or
    ``module:attribute`` of a user's own.

    ``width`` multiplies the channels; ``normalization`` is ``batch`` or ``group``. ``stem`` and ``zero_init_residual``
    belong to the ResNets; ``auto`` picks the stem by ``image_size``: ``cifar`` up to 48 pixels, ``stl`` up to 112,
    else, or without a size, ``imagenet``. The size is also what alexnet is built for (64 unless given). Models of
    others take ``channels`` and ``image_size`` only.
    """
    if stem != "auto" and stem not in STEMS:
        raise SettingError(f"stem must be auto, {', '.join(STEMS)}; got {stem!r}")
    if isinstance(channels, bool) or channels not in (1, 3):
        raise SettingError(f"channels must be 1 or 3; got {channels}")
    if image_size is not None and image_size < 1:
        raise SettingError(f"image_size must be at least 1 pixel; got {image_size}")
    library, _, model = name.partition(":")
    is_own, is_of_resnets = is_own_encoder(name), stem != "auto" or zero_init_residual
    if is_own or (model and library in LIBRARIES):
        if width != 1 or normalization != "batch" or is_of_resnets:
            raise SettingError(f"{name} takes channels and image_size only; leave the other encoder options out")
        build = partial(own_encoder, name) if is_own else partial(LIBRARIES[library], model)
        return build(channels=channels, image_size=image_size)
    kind = ENCODERS.find(name)
    common: dict[str, Any] = {"width": width, "channels": channels, "normalization": normalization}
    if isinstance(kind, Architecture):
        chosen = automatic_stem(image_size) if stem == "auto" else stem
        return ResNet(kind, stem=chosen, zero_init_residual=zero_init_residual, **common)
    if is_of_resnets:
        raise SettingError(f"stem and zero_init_residual belong to the ResNets; leave them out for {name}")
    sized = {"image_size": image_size} if kind is SmallAlexNet and image_size is not None else {}
    return kind(**common, **sized)


def is_own_encoder(name: str) -> bool:
    """Whether a name is ``module:attribute`` of a user's own code, not a library's model."""
    return is_code(name) and name.partition(":")[0] not in LIBRARIES


ENCODERS: Table[Architecture | Callable[..., Encoder]] = Table(
    "encoder",
    {
        "small": SmallEncoder,
        "alexnet": SmallAlexNet,
        "resnet18": Architecture((2, 2, 2, 2), has_bottlenecks=False),
        "resnet34": Architecture((3, 4, 6, 3), has_bottlenecks=False),
        "resnet50": Architecture((3, 4, 6, 3)),
        "resnet101": Architecture((3, 4, 23, 3)),
        "resnext50_32x4d": Architecture((3, 4, 6, 3), groups=32, group_width=4),
        "resnext101_32x8d": Architecture((3, 4, 23, 3), groups=32, group_width=8),
    },
    more=", timm:NAME, torchvision:NAME, or module:attribute of your own",
)
LIBRARIES: dict[str, Callable[..., Encoder]] = {"timm": timm_encoder, "torchvision": torchvision_encoder}
