"""Models of timm, torchvision and open_clip by name, with the weights and the input that their library has for them."""

import math
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from eigenview.errors import SettingError
from eigenview.names import did_you_mean
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
        try:
            model = create() if image_size is None else create(img_size=image_size)
        except TypeError as error:
            if "img_size" not in str(error):
                raise
            model = create()  # a network of convolutions, which takes any size
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


def open_clip_model(name: str, *, channels: int, image_size: int | None, pretrained: bool) -> LoadedEncoder:
    """The image embedding, before it is put on the sphere."""
    called = f"open_clip:{name}"
    if channels != 3:
        raise SettingError(f"{called} takes 3 channels; got channels={channels}")
    size = {} if image_size is None else {"force_image_size": image_size}
    model, library_version = whole_model(name, pretrained=pretrained, **size)
    if hasattr(model.visual, "output_tokens"):
        model.visual.output_tokens = False  # CoCa's would come along
    given = _input(model.visual.preprocess_cfg, called)
    tag = Path(name.partition("/")[2]).name if pretrained else RANDOM
    facts = EncoderFacts(called, f"open_clip {library_version}", tag)
    return LoadedEncoder(wrap(model.visual, channels=3, image_size=given.size), given, facts)


def whole_model(name: str, *, pretrained: bool, **options: Any) -> tuple[Any, str]:
    """``NAME/TAG`` with both of its towers, and the version of open_clip."""
    called = f"open_clip:{name}"
    open_clip = open_clip_with(name, pretrained=pretrained)
    model_name, _, tag = name.partition("/")
    is_file = pretrained and Path(tag).is_file()
    with loading(called, hub=hugging_face_hub() if pretrained and not is_file else None):
        model = open_clip.create_model(model_name, pretrained=tag if pretrained else None, **options)
    return model, open_clip.__version__


def open_clip_with(name: str, *, pretrained: bool) -> Any:
    """The library, which must have a model of that name, and the tag's weights where they are asked for."""
    open_clip = library("open_clip", f"open_clip:{name}")
    model_name, _, tag = name.partition("/")
    check_model(model_name, open_clip.list_models(), "open_clip")
    if pretrained and not Path(tag).is_file():
        tags = open_clip.list_pretrained_tags_by_model(model_name)
        if tag not in tags:
            raise SettingError(
                f"open_clip:{model_name}/TAG names its weights, a local file or one of {', '.join(tags) or 'none'}; "
                f"got {tag!r}{did_you_mean(tag, tags)}"
            )
    return open_clip


def _input(settings: dict[str, Any], called: str) -> InputSpec:
    if settings.get("resize_mode") == "longest":
        raise SettingError(f"{called} pads its images to a square, which no view here does: give its vectors instead")
    side = settings["size"] if isinstance(settings["size"], int) else settings["size"][0]
    return InputSpec(
        size=int(side),
        resize=int(side),
        mean=tuple(settings["mean"]),
        std=tuple(settings["std"]),
        interpolation="bilinear" if settings.get("interpolation") == "bilinear" else "bicubic",
        is_squashed=settings.get("resize_mode") == "squash",
    )
