"""Models of transformers, by name or from a folder: DINOv2, DINOv3, ViT, either tower of CLIP and SigLIP.

Nothing of a model's own code is ever run, and weights are read from safetensors only.
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from torch import Tensor, nn

from eigenview.errors import DataError, SettingError
from eigenview.files import from_json, read_object
from eigenview.names import printable
from eigenview.nn.inputs import RANDOM, EncoderFacts, InputSpec, LoadedEncoder, interpolation_named
from eigenview.nn.libraries import hugging_face_hub, library, loading
from eigenview.nn.wrapped import wrap

Side = Literal["vision", "text"]
NAMED: dict[Side, str] = {"vision": "image", "text": "text"}
TOWERS: dict[str, dict[Side, str]] = {  # models of two sides: the classes of their towers
    "clip": {"vision": "CLIPVisionModelWithProjection", "text": "CLIPTextModelWithProjection"},
    "siglip": {"vision": "SiglipVisionModel", "text": "SiglipTextModel"},
}
OUTPUTS = ("image_embeds", "pooler_output")  # the first that a model gives is its embedding; otherwise the class token
PREPROCESSOR = "preprocessor_config.json"
RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's numbers


class ImageTower(nn.Module):
    """Pixels → the model's image embedding: its projection, its pooled output, or the class token.

    A pooler with a layer of its own (ViT's) is left out: published weights seldom have one that means anything.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        if hasattr(getattr(model, "pooler", None), "dense"):
            model.pooler = None  # type: ignore[assignment]
        self.model = model
        self.size = getattr(model.config, "image_size", None)
        self.stretches = "interpolate_pos_encoding" in inspect.signature(model.forward).parameters

    def forward(self, images: Tensor) -> Tensor:
        is_other = self.stretches and images.shape[-1] != self.size
        answer = self.model(pixel_values=images, **({"interpolate_pos_encoding": True} if is_other else {}))
        for name in OUTPUTS:
            rows = getattr(answer, name, None)
            if rows is not None:
                return rows.flatten(1)  # type: ignore[no-any-return]
        states: Tensor = answer.last_hidden_state
        return states if states.ndim == 4 else states[:, 0]


def hf_model(name: str, *, channels: int, image_size: int | None, pretrained: bool, config: str = "") -> LoadedEncoder:
    """``name`` on the hub, or a local folder with ``config.json``, safetensors and ``preprocessor_config.json``.

    With random weights, the configuration alone is needed: ``config`` is its text, where it was kept.
    """
    called = f"hf:{name}"
    if channels != 3:
        raise SettingError(f"{called} takes 3 channels; got channels={channels}")
    with asking(name, asks=pretrained or not config) as transformers:
        model, read = built(transformers, name, "vision", pretrained=pretrained, config=config)
        file = _preprocessing(name) if pretrained or not config or Path(name).is_dir() else None
    given = None if file is None else input_of(read_object(file), called)
    if given is None and pretrained:
        raise DataError(f"{called} has no {PREPROCESSOR}, which says how its images must look")
    own_size = getattr(getattr(read, "vision_config", read), "image_size", None)
    side = image_size or (given.size if given is not None else own_size if isinstance(own_size, int) else 224)
    version, weights = f"transformers {transformers.__version__}", name if pretrained else RANDOM
    facts = EncoderFacts(called, version, weights, config=config_text(read))
    encoder = wrap(ImageTower(model), channels=3, image_size=side)
    return LoadedEncoder(encoder, None if given is None else given.at(image_size), facts)


@contextmanager
def asking(name: str, *, asks: bool) -> Iterator[ModuleType]:
    """The library, which within may read the folder ``name`` or, where it ``asks``, the hub."""
    transformers, is_local = transformers_for(name, asks=asks), Path(name).is_dir()
    hub = hugging_face_hub() if asks and not is_local else None
    with loading(f"hf:{name}", hub=hub), _without_bars(transformers, is_local):
        yield transformers


def transformers_for(name: str, *, asks: bool = True, **_others: bool) -> ModuleType:
    """The library; a name that can only be a folder must be there."""
    transformers = library("transformers", f"hf:{name}")
    if asks and not Path(name).is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise DataError(f"no such folder: {printable(name)}; is the path right?")
    return transformers


def built(transformers: ModuleType, name: str, side: Side, *, pretrained: bool, config: str) -> tuple[nn.Module, Any]:
    """One side of a model, and the configuration of the whole; ``config`` is its text, where it was kept."""
    if config:
        content = from_json(dict, config, "the configuration of a transformers model")
        read = type(transformers.AutoConfig.for_model(content["model_type"])).from_dict(content)
    else:
        read = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    kind, own = _tower(transformers, read, side)
    if not pretrained:
        return (kind.from_config if kind is transformers.AutoModel else kind)(own), read
    model, report = kind.from_pretrained(name, config=own, use_safetensors=True, output_loading_info=True)
    wrong = [key for key in (*report["missing_keys"], *report["mismatched_keys"]) if "pooler.dense" not in str(key)]
    if wrong:
        listed = ", ".join(map(str, wrong[:3]))
        raise DataError(
            f"the weights of hf:{name} do not fit its configuration: {len(wrong)} are missing ({listed}, …)"
        )
    return model, read


def config_text(config: Any) -> str:
    """A configuration to be kept: without the version of the library, which says nothing about the model."""
    content = from_json(dict, config.to_json_string(), "config.json")
    content.pop("transformers_version", None)
    return json.dumps(content, sort_keys=True)


def _tower(transformers: ModuleType, config: Any, side: Side) -> tuple[Any, Any]:
    """The class of a side and its configuration; AutoModel where the model has no other side."""
    if config.model_type in TOWERS:
        own = getattr(config, f"{side}_config")
        if hasattr(config, "projection_dim"):
            own.projection_dim = config.projection_dim  # that of the whole counts
        return getattr(transformers, TOWERS[config.model_type][side]), own
    if hasattr(config, "vision_config") and hasattr(config, "text_config"):
        raise SettingError(
            f"transformers' {config.model_type} is a model of images and text whose {NAMED[side]} side is not known "
            f"here, only those of {', '.join(TOWERS)}: compute its vectors and give the file of them"
        )
    return transformers.AutoModel, config


@contextmanager
def _without_bars(transformers: ModuleType, is_local: bool) -> Iterator[None]:
    """No progress of reading a local file, which takes a moment; that of a download stays."""
    said = transformers.utils.logging
    if not is_local or not said.is_progress_bar_enabled():
        yield
        return
    said.disable_progress_bar()
    try:
        yield
    finally:
        said.enable_progress_bar()


def _preprocessing(name: str) -> Path | None:
    """The file as it is written: transformers' own reading of it depends on what else is installed."""
    if Path(name).is_dir():
        file = Path(name) / PREPROCESSOR
        return file if file.is_file() else None
    hub = library("huggingface_hub", f"hf:{name}")
    try:
        return Path(hub.hf_hub_download(name, PREPROCESSOR))
    except hub.errors.EntryNotFoundError:
        return None


def input_of(settings: Mapping[str, Any], called: str) -> InputSpec:
    """The input that a ``preprocessor_config.json`` describes."""
    size, crop = settings.get("size", 224), settings.get("crop_size")
    shortest, height = _side(size, "shortest_edge"), _side(size, "height")
    is_squashed = shortest is None or (isinstance(size, int) and crop is None)
    resize = height if is_squashed else shortest
    if resize is None:
        raise DataError(f"{PREPROCESSOR} of {called} names no size; it has {size!r}")
    side = resize
    if settings.get("do_center_crop", False) and crop is not None:
        side = _side(crop, "height") or resize
    elif shortest is not None and settings.get("crop_pct"):  # ConvNeXt's: the square is a share of what was resized
        is_squashed = resize >= 384
        resize = resize if is_squashed else int(resize / float(settings["crop_pct"]))
    elif not is_squashed:
        raise SettingError(f"{called} keeps the shape of its images, and views here are square: give its vectors")
    if side > resize:
        raise SettingError(f"{called} pads its images of {resize} pixels to {side}, which no view here does")
    number = settings.get("resample", 3)
    resampling = interpolation_named(RESAMPLING.get(number, f"Pillow's filter {number}"), called)
    return InputSpec(side, resize, *_statistics(settings, called), resampling, is_squashed, rounds_down=True)


def _statistics(settings: Mapping[str, Any], called: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of pixels / 255, whatever scale the file gives them in."""
    scale = float(settings.get("rescale_factor", 1 / 255)) * 255 if settings.get("do_rescale", True) else 255.0
    mean, std = settings.get("image_mean"), settings.get("image_std")
    if not settings.get("do_normalize", True):
        mean, std = [0.0] * 3, [1.0] * 3
    if mean is None or std is None:
        raise DataError(f"{PREPROCESSOR} of {called} names no image_mean and image_std")
    return tuple(float(value) / scale for value in mean), tuple(float(value) / scale for value in std)


def _side(size: Any, name: str) -> int | None:
    """A side of ``size``: a number, or an object with ``shortest_edge`` or ``height`` and ``width``."""
    if isinstance(size, int):
        return size
    return int(size[name]) if isinstance(size, Mapping) and name in size else None
