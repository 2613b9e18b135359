"""Sensible settings from the data and the machine, each with its reason; what the user says always wins."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from eigenview.batches import AnySource, typical_shape
from eigenview.data import StreamSource
from eigenview.devices import find_device
from eigenview.errors import SettingError
from eigenview.extras import is_installed
from eigenview.methods import DEFAULT_METHOD, find_method
from eigenview.names import counted
from eigenview.nn.build import EFFICIENTNET, has_pretrained_efficientnet
from eigenview.nn.settings import EncoderSettings
from eigenview.runs import TrainConfig, read_config
from eigenview.runs.by_name import fitting_size
from eigenview.views.settings import Shape

FEWEST_IMAGES = 8  # below this, views can only be told apart, not learnt from
STEPS = {"cpu": 3000, "cuda": 20000}  # optimizer steps of a run whose length nobody gave
ADAPTED_CPU_PIXELS = 128  # at most, of a pretrained encoder on a CPU
LOCKED_PIXELS = 160  # size of the images that a locked encoder sees, once each
CPU_PIXELS = 64  # size of the views of photos on a CPU, where 224 would take days
EARLY, FEWEST_EARLY = 0.75, 24  # of the views' size in the first part of a run; pixels below which they stay whole
SMALL = "small-deep"


@dataclass(frozen=True)
class Choice:
    """A setting that was chosen, by its dotted name, and why."""

    name: str
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.reason}"


@dataclass(frozen=True)
class Chosen:
    config: TrainConfig
    choices: tuple[Choice, ...]


MUON = (
    Choice("optimizer.name", "muon", "it learns more than AdamW in equal time"),
    Choice("optimizer.learning_rate", 0.05, "Muon's, with warm-up and a cosine"),  # its momentum is the settings' 0.9
)
ADAPTING = (
    Choice("optimizer.encoder_rate", 0.1, "its weights are worth keeping: a tenth of the head's rate"),
    Choice("optimizer.depth_decay", 0.8, "and less with every block towards the input"),
    Choice("encoder.statistics", "kept", "its batch norms' too: 20-NN on STL-10 has 75.0 % so, 70.5 % adapted"),
)


def choose(source: AnySource, given: Mapping[str, Any], *, device: str | None = None) -> Chosen:
    """The settings in ``given`` (nested, as ``read_config`` takes them), completed for ``source`` and this machine.

    ``device`` is "cpu" or "cuda"; by the settings, and found, unless given.
    """
    kind = device or ("cpu" if find_device(str(given.get("device", "auto"))).type == "cpu" else "cuda")
    count = source.describe().count if isinstance(source, StreamSource) else len(source)
    if count is not None and count < FEWEST_IMAGES:
        raise SettingError(
            f"learning from images needs at least {FEWEST_IMAGES} of them, and hundreds to be of use; "
            f"{source.describe().place} has {count}"
        )
    settings: dict[str, Any] = deepcopy(dict(given))
    method = chosen_method(source)
    made = [method] if _put(settings, method) else []
    wishes = _wishes(settings, count, typical_shape(source), kind, is_stream=isinstance(source, StreamSource))
    made += [choice for choice in wishes if _put(settings, choice)]
    if not any(settings.get(name) is not None for name in ("epochs", "steps", "minutes")):
        length = _length(count, int(settings["batch_size"]), STEPS[kind], isinstance(source, StreamSource))
        _put(settings, length)
        made.append(length)
    return Chosen(read_config(settings), tuple(made))


def chosen_method(source: AnySource) -> Choice:
    """CLIP where images come with captions and the library that reads them is installed."""
    if source.describe().is_captioned and is_installed("tokenizers"):
        return Choice("method", "clip", "the images come with captions")
    return Choice("method", DEFAULT_METHOD, "it learnt most in equal time, of the methods without labels")


def _wishes(
    settings: Mapping[str, Any], count: int | None, shape: Shape, device: str, *, is_stream: bool
) -> list[Choice]:
    kind = find_method(settings.get("method", DEFAULT_METHOD))
    reads_captions = kind.text_settings(kind.settings_type()) is not None
    wishes = _locked_wishes(settings, device) if reads_captions and not is_stream else []
    is_locked = bool(wishes) or bool(settings.get("encoder", {}).get("locked"))
    wishes += view_wishes(settings, shape, device, is_locked=is_locked, reads_captions=reads_captions)
    side, views = min(shape[:2]), settings.get("views", {})
    size = int(views.get("size") or (CPU_PIXELS if device == "cpu" else 224))
    if device == "cpu":
        wishes.append(Choice("encoder.name", SMALL, "a small convolutional network, made for CPUs"))
        wishes += [] if reads_captions else _early_wishes(settings, min(side, size))
    else:
        name = "resnet18" if min(side, size) <= 96 else "resnet50"
        wishes.append(Choice("encoder.name", name, f"views of {min(side, size)} pixels and an accelerator"))
    wishes.append(_batch(count, device))
    if _is_begun(settings) and not is_locked:
        wishes += ADAPTING
    elif settings.get("method") == DEFAULT_METHOD and _takes_small(settings):  # what Muon was measured with
        wishes += [] if {"name", "learning_rate"} & set(settings.get("optimizer", {})) else MUON
    if settings.get("optimizer", {}).get("name") == "muon":
        wishes += MUON[1:]
    rate = Choice("optimizer.learning_rate", 2e-3, "AdamW with warm-up and a cosine suits every method here")
    wishes.append(replace(rate, value=1e-3) if reads_captions else rate)
    if reads_captions:
        wishes.append(Choice("optimizer.weight_decay", 0.2, "CLIP's: captions are soon learnt by heart"))
    if reads_captions and device == "cpu":
        wishes.append(Choice("method_settings.text.depth", 1, "one block reads short captions, and is quick"))
    wishes.append(Choice("optimizer.warmup_epochs", 1.0 if (count or 10**6) < 5000 else 0.2, "a gentle start"))
    return wishes


def _takes_small(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("encoder", {}).get("name", SMALL) == SMALL)


def _early_wishes(settings: Mapping[str, Any], size: int) -> list[Choice]:
    """Smaller views to begin with, where views are chosen here, for an encoder that takes any size."""
    views = settings.get("views", {})
    if size < FEWEST_EARLY or not _takes_small(settings) or views.get("preset", "auto") != "auto" or "crops" in views:
        return []
    return [Choice("views.early_size", early_size(size), "the first 70 % of the run: more views in the same time")]


def early_size(size: int) -> int:
    """Pixels of the views in the first part of a run."""
    return round(EARLY * size)


def _locked_wishes(settings: Mapping[str, Any], device: str) -> list[Choice]:
    """On a CPU, where nobody named an encoder: a good one that is at hand, which need not learn."""
    if device != "cpu" or settings.get("encoder") or not has_pretrained_efficientnet():
        return []
    return [
        Choice("encoder.name", EFFICIENTNET, "pretrained on ImageNet, and installed here"),
        Choice("encoder.locked", True, "only the text side learns, in minutes; --encoder.no-locked trains both"),
    ]


def view_wishes(
    settings: Mapping[str, Any], shape: Shape, device: str, *, is_locked: bool = False, reads_captions: bool = False
) -> list[Choice]:
    """Preset and size of the views of such images, where the settings name no preset and no crops."""
    height, width, _ = shape
    side, views = min(height, width), settings.get("views", {})
    if views.get("preset", "auto") != "auto" or "crops" in views:
        return []
    wishes = []
    if reads_captions:
        wishes.append(Choice("views.preset", "laclip", "one view of each image, mostly whole, beside a caption"))
    if is_locked:
        size = fitting_size(side, LOCKED_PIXELS)
        wishes.append(Choice("views.size", size, f"images are {width} × {height}, and each is seen once"))
    elif _is_begun(settings) and EncoderSettings(**settings.get("encoder", {})).brings_input:
        fitting = fitting_size(side, ADAPTED_CPU_PIXELS if device == "cpu" else 224)
        wishes.append(
            Choice("views.size", fitting, f"images are {width} × {height}, and its encoder knows larger ones")
        )
    elif device == "cpu" and side > CPU_PIXELS:
        reason = f"images are {width} × {height}; on a CPU larger views would take too long"
        wishes.append(Choice("views.size", CPU_PIXELS, reason))
    elif reads_captions:
        wishes.append(Choice("views.size", min(side, 224), f"images are {width} × {height}"))
    return wishes


def _is_begun(settings: Mapping[str, Any]) -> bool:
    """Whether the encoder comes with weights worth keeping: of its makers, of a file or of a run."""
    chosen = EncoderSettings(**settings.get("encoder", {}))
    return chosen.weights is not None or (chosen.brings_input and chosen.pretrained)


def _batch(count: int | None, device: str) -> Choice:
    """A power of two: at most an eighth of the images, so that an epoch has several steps."""
    most = 256 if device == "cpu" else 512
    if count is None:
        return Choice("batch_size", most, "a stream of unknown length")
    size = most
    while size > 4 and size > count // 8:
        size //= 2
    return Choice("batch_size", size, counted(count, "image"))


def _length(count: int | None, batch: int, steps: int, is_stream: bool) -> Choice:
    if count is None or is_stream:
        return Choice("steps", steps, "a first result")
    per_epoch = max(1, count // batch)
    epochs = min(400, max(1, round(steps / per_epoch)))
    return Choice("epochs", epochs, f"{epochs * per_epoch:,} steps: a first result")


def _put(settings: dict[str, Any], choice: Choice) -> bool:
    """Put the choice in its place unless the user said something there; True if it was put."""
    *outer, name = choice.name.split(".")
    place = settings
    for step in outer:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            return False  # which read_config refuses, by its name
    if place.get(name) is not None:
        return False
    place[name] = choice.value
    return True
