"""Models of timm and torchvision by name, with the weights and the input that their library has for them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from torch import nn

from eigenview.errors import SettingError
from eigenview.nn.inputs import RANDOM, EncoderFacts, InputSpec, LoadedEncoder, interpolation_named
from eigenview.nn.libraries import check_model, hugging_face_hub, library, loading
from eigenview.nn.wrapped import wrap

CLASSIFIERS = ("fc", "classifier", "head", "heads")  # where torchvision's models keep their last layer


def timm_model(name: str, *, channels: int, image_size: int | None, pretrained: bool) -> LoadedEncoder:
    """A timm model without its classifier. One that is built for a size is built for ``image_size``."""
    called = f"timm:{name}"
    timm = timm_with(name)
    with loading(called, hub=hugging_face_hub() if pretrained else None):
        create = partial(timm.create_model, name, pretrained=pretrained, num_classes=0, in_chans=channels)
        model = _created(create, image_size)
        settings = timm.data.resolve_model_data_config(model)
    given = _timm_input(settings, called)
    origin = getattr(model, "pretrained_cfg", {}) if pretrained else {}
    weights = origin.get("hf_hub_id") or origin.get("url") or "timm" if pretrained else RANDOM
    encoder = wrap(model, channels=channels, image_size=image_size or given.size)
    return LoadedEncoder(encoder, given.at(image_size), EncoderFacts(called, f"timm {timm.__version__}", str(weights)))


def timm_with(name: str, **_others: bool) -> Any:
    """The library, which must have a model of that name, and the tag's weights where it names some."""
    timm = library("timm", f"timm:{name}")
    base, _, tag = name.partition(".")
    check_model(base, timm.list_models(), "timm")
    if tag:
        check_model(name, timm.list_pretrained(f"{base}.*"), "timm")
    return timm


def _created(create: partial[nn.Module], image_size: int | None) -> nn.Module:
    if image_size is None:
        return create()
    try:
        return create(img_size=image_size)
    except TypeError as error:
        if "img_size" not in str(error):
            raise
        return create()  # a network of convolutions, which takes any size


def _timm_input(settings: dict[str, Any], called: str) -> InputSpec:
    if settings.get("crop_mode") == "border":
        raise SettingError(f"{called} pads its images to a square, which no view here does: give its vectors instead")
    side = int(settings["input_size"][-1])
    return InputSpec(
        size=side,
        resize=math.floor(side / float(settings["crop_pct"])),  # as timm rounds
        mean=tuple(map(float, settings["mean"])),
        std=tuple(map(float, settings["std"])),
        interpolation=interpolation_named(str(settings["interpolation"]), called),
        is_squashed=settings.get("crop_mode") == "squash",
    )


def torchvision_model(name: str, *, channels: int, image_size: int | None, pretrained: bool) -> LoadedEncoder:
    """A torchvision model with its last layer replaced by the identity."""
    called = f"torchvision:{name}"
    if channels != 3:
        raise SettingError(f"torchvision's models take 3 channels; got channels={channels}: use ours or timm's")
    models = torchvision_with(name)
    with loading(called):
        weights = models.get_model_weights(name).DEFAULT
        model = models.get_model(name, weights=weights if pretrained else None)
        seen = weights.transforms()
    for classifier in CLASSIFIERS:
        if isinstance(getattr(model, classifier, None), nn.Module):
            setattr(model, classifier, nn.Identity())
    given = InputSpec(
        size=int(seen.crop_size[0]),
        resize=int(seen.resize_size[0]),
        mean=tuple(seen.mean),
        std=tuple(seen.std),
        interpolation=interpolation_named(str(seen.interpolation.value), called),
    )
    version = f"torchvision {library('torchvision', called).__version__}"
    encoder = wrap(model, channels=3, image_size=image_size or given.size)
    return LoadedEncoder(
        encoder, given.at(image_size), EncoderFacts(called, version, str(weights) if pretrained else RANDOM)
    )


def torchvision_with(name: str, **_others: bool) -> Any:
    """The library's models, among which must be that name."""
    models = library("torchvision.models", f"torchvision:{name}")
    check_model(name, models.list_models(module=models), "torchvision")
    return models
