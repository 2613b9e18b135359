"""Models of open_clip, by ``NAME/TAG``; TAG is one of its pretrained sets, or a local file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eigenview.errors import SettingError
from eigenview.names import did_you_mean
from eigenview.nn.inputs import RANDOM, EncoderFacts, InputSpec, LoadedEncoder
from eigenview.nn.libraries import check_model, hugging_face_hub, library, loading
from eigenview.nn.wrapped import wrap


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
