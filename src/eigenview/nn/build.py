"""Encoders by name: the one way to get one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from eigenview.errors import SettingError
from eigenview.names import Table, is_code
from eigenview.nn.alexnet import SmallAlexNet
from eigenview.nn.encoder import Encoder
from eigenview.nn.resnet import STEMS, Architecture, ResNet, Stem, automatic_stem
from eigenview.nn.small import SmallEncoder
from eigenview.nn.wrapped import own_encoder, timm_encoder, torchvision_encoder


@dataclass(frozen=True)
class EncoderOptions:
    """The options of :func:`build_encoder`."""

    width: float
    stem: Literal["auto"] | Stem
    channels: int
    normalization: str
    image_size: int | None
    zero_init_residual: bool


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
    options = EncoderOptions(width, stem, channels, normalization, image_size, zero_init_residual)
    _check(options)
    library, _, model = name.partition(":")
    is_own = is_own_encoder(name)
    if not model or not (is_own or library in LIBRARIES):
        return ENCODERS.find(name)(options)
    if width != 1 or normalization != "batch" or stem != "auto" or zero_init_residual:
        raise SettingError(f"{name} takes channels and image_size only; leave the other encoder options out")
    if is_own:
        return own_encoder(name, channels=channels, image_size=image_size)
    return LIBRARIES[library](model, channels=channels, image_size=image_size)


def is_own_encoder(name: str) -> bool:
    """Whether a name is ``module:attribute`` of a user's own code, not a library's model."""
    return is_code(name) and name.partition(":")[0] not in LIBRARIES


def _check(options: EncoderOptions) -> None:
    if options.stem != "auto" and options.stem not in STEMS:
        raise SettingError(f"stem must be auto, {', '.join(STEMS)}; got {options.stem!r}")
    if isinstance(options.channels, bool) or options.channels not in (1, 3):
        raise SettingError(f"channels must be 1 or 3; got {options.channels}")
    if options.image_size is not None and options.image_size < 1:
        raise SettingError(f"image_size must be at least 1 pixel; got {options.image_size}")


def _resnet(
    options: EncoderOptions,
    *,
    depths: tuple[int, int, int, int],
    has_bottlenecks: bool,
    groups: int = 1,
    group_width: int = 64,
) -> Encoder:
    return ResNet(
        Architecture(depths, has_bottlenecks=has_bottlenecks, groups=groups, group_width=group_width),
        width=options.width,
        stem=automatic_stem(options.image_size) if options.stem == "auto" else options.stem,
        channels=options.channels,
        normalization=options.normalization,
        zero_init_residual=options.zero_init_residual,
    )


def _small(options: EncoderOptions) -> Encoder:
    _refuse_resnet_options("small", options)
    return SmallEncoder(width=options.width, channels=options.channels, normalization=options.normalization)


def _alexnet(options: EncoderOptions) -> Encoder:
    _refuse_resnet_options("alexnet", options)
    return SmallAlexNet(
        width=options.width,
        channels=options.channels,
        normalization=options.normalization,
        image_size=64 if options.image_size is None else options.image_size,
    )


def _refuse_resnet_options(name: str, options: EncoderOptions) -> None:
    if options.stem != "auto" or options.zero_init_residual:
        raise SettingError(f"stem and zero_init_residual belong to the ResNets; leave them out for {name}")


_bottlenecks = partial(_resnet, has_bottlenecks=True)

ENCODERS: Table[Callable[[EncoderOptions], Encoder]] = Table(
    "encoder",
    {
        "small": _small,
        "alexnet": _alexnet,
        "resnet18": partial(_resnet, depths=(2, 2, 2, 2), has_bottlenecks=False),
        "resnet34": partial(_resnet, depths=(3, 4, 6, 3), has_bottlenecks=False),
        "resnet50": partial(_bottlenecks, depths=(3, 4, 6, 3)),
        "resnet101": partial(_bottlenecks, depths=(3, 4, 23, 3)),
        "resnext50_32x4d": partial(_bottlenecks, depths=(3, 4, 6, 3), groups=32, group_width=4),
        "resnext101_32x8d": partial(_bottlenecks, depths=(3, 4, 23, 3), groups=32, group_width=8),
    },
    more=", timm:NAME, torchvision:NAME, or module:attribute of your own",
)
LIBRARIES: dict[str, Callable[..., Encoder]] = {"timm": timm_encoder, "torchvision": torchvision_encoder}
