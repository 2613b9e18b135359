"""Encoders by name, with random weights: the one way to get one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from eigenview.errors import SettingError
from eigenview.names import Table, is_code
from eigenview.nn.alexnet import SmallAlexNet
from eigenview.nn.efficientnet import EfficientNetLite0
from eigenview.nn.encoder import Encoder
from eigenview.nn.hugging_face import hf_model, transformers_for
from eigenview.nn.image_models import timm_model, timm_with, torchvision_model, torchvision_with
from eigenview.nn.inputs import LoadedEncoder
from eigenview.nn.onnx_frozen import onnx_model, onnxruntime_for
from eigenview.nn.open_clip_models import open_clip_model, open_clip_with
from eigenview.nn.resnet import STEMS, Architecture, ResNet, Stem, automatic_stem
from eigenview.nn.small import SmallEncoder
from eigenview.nn.vit import Transformer, VisionTransformer
from eigenview.nn.wrapped import own_encoder


def build_encoder(
    name: str,
    *,
    width: float = 1.0,
    stem: Literal["auto"] | Stem = "auto",
    channels: int = 3,
    normalization: str = "batch",
    image_size: int | None = None,
    zero_init_residual: bool = False,
    freezes_patches: bool = False,
    config: str = "",
) -> Encoder:
    """The encoder called ``name``, with random weights: one of ``ENCODERS``, ``timm:NAME``, ``torchvision:NAME``,
    ``hf:NAME_OR_FOLDER``, ``open_clip:NAME``, or ``module:attribute`` of a user's own.

    ``width`` multiplies the channels; ``normalization`` is ``batch`` or ``group``. ``stem`` and ``zero_init_residual``
    belong to the ResNets; ``auto`` picks the stem by ``image_size``: ``cifar`` up to 48 pixels, ``stl`` up to 112,
    else, or without a size, ``imagenet``. The size is also what alexnet is built for (64 unless given), and what the
    patches of our transformers go by; ``freezes_patches`` is theirs alone. Models of others take ``channels`` and
    ``image_size`` only; ``config`` is the text of an hf model's config.json, which otherwise comes from its hub.
    """
    _check(stem, channels, image_size)
    sizes: dict[str, Any] = {"channels": channels, "image_size": image_size}
    is_of_resnets = stem != "auto" or zero_init_residual
    is_own, library = is_own_encoder(name), library_of(name)
    if is_own or library:
        resnets = {"stem": stem, "zero_init_residual": zero_init_residual}
        refuse_options(name, width=width, normalization=normalization, freezes_patches=freezes_patches, **resnets)
        if is_own:
            return own_encoder(name, **sizes)
        more = {"config": config} if library == "hf" else {}
        return LIBRARIES[library](name.partition(":")[2], pretrained=False, **sizes, **more).encoder
    kind = ENCODERS.find(name)
    if is_of_resnets and not isinstance(kind, Architecture):
        raise SettingError(f"stem and zero_init_residual belong to the ResNets; leave them out for {name}")
    if isinstance(kind, Transformer):
        if normalization != "batch":
            raise SettingError(f"{name} normalises each token by itself (layer norm); leave normalization out")
        return VisionTransformer(kind, width=width, freezes_patches=freezes_patches, **sizes)
    if freezes_patches:
        raise SettingError(f"freezes_patches belongs to the transformers vit-…; leave it out for {name}")
    common: dict[str, Any] = {"width": width, "channels": channels, "normalization": normalization}
    if isinstance(kind, Architecture):
        chosen = automatic_stem(image_size) if stem == "auto" else stem
        return ResNet(kind, stem=chosen, zero_init_residual=zero_init_residual, **common)
    sized = {"image_size": image_size} if kind is SmallAlexNet and image_size is not None else {}
    return kind(**common, **sized)


def _check(stem: str, channels: int, image_size: int | None) -> None:
    if stem != "auto" and stem not in STEMS:
        raise SettingError(f"stem must be auto, {', '.join(STEMS)}; got {stem!r}")
    if isinstance(channels, bool) or channels not in (1, 3):
        raise SettingError(f"channels must be 1 or 3; got {channels}")
    if image_size is not None and image_size < 1:
        raise SettingError(f"image_size must be at least 1 pixel; got {image_size}")


def refuse_options(name: str, **options: object) -> None:
    """Refuse options of our own encoders for one that is not ours."""
    if any(given != PLAIN[option] for option, given in options.items()):
        raise SettingError(f"{name} takes channels and image_size only; leave the other encoder options out")


def library_of(name: str) -> str:
    """The library of ``LIBRARY:MODEL``; empty where a name is none such."""
    library, _, model = name.partition(":")
    return library if model and library in LIBRARIES else ""


def check_encoder_name(name: str, *, pretrained: bool = True) -> None:
    """Refuse what names no encoder, without building one: a library must be there, and have the model."""
    library = library_of(name)
    if library:
        CHECKS[library](name.partition(":")[2], pretrained=pretrained)
    elif not is_own_encoder(name):
        ENCODERS.find(name)


def is_own_encoder(name: str) -> bool:
    """Whether a name is ``module:attribute`` of a user's own code, not a library's model."""
    return is_code(name) and not library_of(name)


ENCODERS: Table[Architecture | Transformer | Callable[..., Encoder]] = Table(
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
        "vit-tiny": Transformer(heads=3),
        "vit-small": Transformer(heads=6),
        "efficientnet-lite0": EfficientNetLite0,
    },
    more=", timm:NAME, torchvision:NAME, hf:NAME_OR_FOLDER, open_clip:NAME/TAG, or module:attribute of your own",
)
PLAIN: dict[str, object] = {
    "width": 1.0,
    "stem": "auto",
    "normalization": "batch",
    "freezes_patches": False,
    "zero_init_residual": False,
}
LIBRARIES: dict[str, Callable[..., LoadedEncoder]] = {
    "timm": timm_model,
    "torchvision": torchvision_model,
    "hf": hf_model,
    "open_clip": open_clip_model,
    "onnx": onnx_model,
}
CHECKS: dict[str, Callable[..., object]] = {
    "timm": timm_with,
    "torchvision": torchvision_with,
    "hf": transformers_for,
    "open_clip": open_clip_with,
    "onnx": onnxruntime_for,
}
