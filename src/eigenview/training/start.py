"""From what a user gave to a run that can begin: settings completed, the place free, the images open."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from eigenview.batches import AnySource
from eigenview.data import open_images
from eigenview.devices import find_device
from eigenview.errors import SettingError
from eigenview.files import free_path
from eigenview.methods import DEFAULT_METHOD, find_method
from eigenview.names import slug
from eigenview.nn import ENCODERS
from eigenview.nn.build import check_encoder_name, library_of
from eigenview.nn.settings import EncoderSettings
from eigenview.runs import RunDirectory, TrainConfig, encoder_named, is_run, merge_settings, read_config
from eigenview.training.choices import Choice, choose, chosen_method
from eigenview.training.trial import bounded, fitted, quickened
from eigenview.views import PRESETS

BUILT = {"name", "width", "stem", "normalization", "freezes_patches", "config", "weights"}  # what a network goes by


@dataclass(frozen=True)
class Prepared:
    """``choices`` are the settings that nobody gave, with their reasons; empty for a run that goes on.

    ``started``: when this began, from which a run's minutes count.
    """

    config: TrainConfig
    source: AnySource
    choices: tuple[Choice, ...]
    started: float


def prepare(
    given: Mapping[str, Any],
    *,
    resume: bool = False,
    encoder: nn.Module | None = None,
    images: AnySource | None = None,
) -> Prepared:
    """The settings in ``given``, completed for these images and this machine, or by those of the run to go on with.

    Names that do not exist and a place that is taken are refused before any image is opened. ``encoder`` is a module of
    the user's, to tell how long a run takes; ``images`` are those of the source where it is open already.
    """
    started = time.monotonic()
    if encoder is not None:
        given = {**given, "encoder": EncoderSettings().model_dump()}  # it is what it is: nothing is chosen
    if resume:
        if "out" not in given:
            raise SettingError("to go on, a run must be named: out, the run directory")
        directory = RunDirectory(given["out"])
        directory.lock().check()
        directory.check_free(resume=True)
        before = {name: value for name, value in directory.config.model_dump(mode="json").items() if value is not None}
        config = read_config(merge_settings(before, given))
        opened = config.source if images is None else images
        source = open_images(opened, log=directory.unreadable_log, network="source" in given)
        return Prepared(config, source, (), started)
    if "source" not in given:
        raise SettingError("the images to learn from are missing: give a folder, say")
    given = _encoder_of_file(given)
    _check_names(given)
    find_device(str(given.get("device", "auto")))
    if given.get("out"):
        _check_place(Path(given["out"]))
    source = open_images(str(given["source"]) if images is None else images)
    method = given.get("method") or chosen_method(source).value
    place = str(given["source"]).partition("?")[0].rstrip("/\\")
    stem = "-".join(slug(word) or "run" for word in (Path(place).stem, str(method)))
    out = Path(given.get("out") or free_path(f"runs/{stem}", ""))  # runs/SOURCE-METHOD, numbered where that is taken
    _check_place(out)
    settled = bounded(choose(source, {**given, "out": str(out)}), source, encoder=encoder)
    settled = quickened(fitted(settled, source, encoder=encoder), source, encoder=encoder)
    return Prepared(settled.config, source, settled.choices, started)


def _check_place(out: Path) -> None:
    """Refuse a place where somebody writes, or where a run is."""
    directory = RunDirectory(out)
    directory.lock().check()  # who writes there now says more than what is there
    directory.check_free(resume=False)


def _check_names(given: Mapping[str, Any]) -> None:
    find_method(str(given.get("method", DEFAULT_METHOD)))
    encoder = given.get("encoder")
    if isinstance(encoder, Mapping) and encoder.get("name") is not None:
        name = str(encoder["name"])
        if library_of(name) == "onnx":
            raise SettingError(
                f"{name} is frozen and cannot be trained: name the network that it was made of, or use it as it is "
                f"(eigenview look SOURCE --encoder {name})"
            )
        check_encoder_name(name, pretrained=encoder.get("pretrained", True) and not encoder.get("weights"))
    views = given.get("views")
    preset = views.get("preset", "auto") if isinstance(views, Mapping) else "auto"
    if preset != "auto":
        PRESETS.find(str(preset))


def _encoder_of_file(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A run or a file in the place of an encoder's name: its network, which begins with its weights."""
    encoder = given.get("encoder")
    name = str(encoder.get("name", "")) if isinstance(encoder, Mapping) else ""
    if not isinstance(encoder, Mapping) or name in ENCODERS or not (is_run(name) or Path(name).is_file()):
        return given
    built = encoder_named(name, weights=encoder.get("weights")).model_dump(include=BUILT)
    return {**given, "encoder": {**built, **{option: value for option, value in encoder.items() if option != "name"}}}
