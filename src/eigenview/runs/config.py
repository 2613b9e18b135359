"""The settings of a run, assembled from their owners' models: strict, JSON both ways, stored with a version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, field_validator, model_validator

from eigenview.devices import Device
from eigenview.methods import DEFAULT_METHOD, METHODS, MethodSettings, find_method
from eigenview.names import is_code, is_named
from eigenview.nn.settings import EncoderSettings
from eigenview.optim.settings import OptimizerSettings
from eigenview.runs.stored import stored_object, write_stored
from eigenview.settings import Strict, read_settings
from eigenview.views.settings import CropSettings, ViewSettings

FORMAT = 2  # of config.json; 1 had no such number, and wrote optimiser
LENGTHS = ("epochs", "steps", "minutes")


class TrainConfig(Strict):
    """Everything that decides what a run computes, and where it goes."""

    source: str  # a folder, a table, shards or a named set (data.open_source)
    out: Path  # the run directory
    method: str = DEFAULT_METHOD  # one of methods.METHODS, or module:attribute of your own
    method_settings: SerializeAsAny[MethodSettings] = MethodSettings()
    encoder: EncoderSettings = EncoderSettings()
    views: ViewSettings = ViewSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    batch_size: int = Field(256, ge=2)  # images over all processes
    micro_batch: int | None = Field(None, ge=1)  # views that pass the encoder at a time, on each process: the memory of
    # so many, the loss and the gradients of the whole batch (docs/training.md); None: all at once
    micro_batch_norm: Literal["refused", "per-micro-batch"] = "refused"  # batch norms inside the encoder under it:
    # refused, or with the statistics of each micro-batch, which are not the batch's
    accumulate: int = Field(1, ge=1)  # batches per optimizer step, whose losses are averaged: each keeps to its own
    # negatives; micro_batch lowers the memory and keeps them all
    epochs: int | None = Field(None, ge=1)
    steps: int | None = Field(None, ge=1)  # instead of epochs
    minutes: float | None = Field(None, gt=0)  # instead of epochs; not repeatable bit for bit
    seed: int = Field(0, ge=0)
    device: Device = "auto"  # auto: an accelerator if there is one
    precision: Literal["32", "bf16", "16"] = "32"
    channels_last: bool | Literal["auto"] = "auto"  # the memory layout of images; auto: docs/training.md
    compile: bool | Literal["auto"] = "auto"  # the encoder by torch.compile
    workers: int | Literal["auto"] = "auto"  # processes that decode; auto: one a core
    steps_per_epoch: int | None = Field(None, ge=1)  # of a stream, whose length nobody knows
    log_every: int = Field(10, ge=1)  # optimizer steps
    knn_every: int = Field(1, ge=0)  # epochs between looks at online kNN, where labels exist; 0: never
    checkpoint_every: int = Field(1, ge=1)  # epochs
    keep_every: int | None = Field(None, ge=1)  # epochs whose checkpoints are kept for good
    best_by: Literal["loss", "effective_rank", "knn_accuracy"] = "loss"  # what the checkpoint "best" has the best of
    tensorboard: bool = False  # write RUN/tensorboard too

    @model_validator(mode="before")
    @classmethod
    def _settings_of_the_method(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        method, settings = given.get("method", DEFAULT_METHOD), given.get("method_settings", {})
        if not isinstance(method, str) or not isinstance(settings, Mapping | MethodSettings):
            return given  # which the fields refuse
        kind = settings_type(method)
        if isinstance(settings, MethodSettings) and not isinstance(settings, kind):
            settings = settings.model_dump(exclude_unset=True)
        return {**given, "method_settings": settings if isinstance(settings, kind) else kind(**settings)}

    @field_validator("precision", mode="before")
    @classmethod
    def _precision_in_words(cls, given: Any) -> Any:
        return str(given) if type(given) is int else given  # 32, as one writes it

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        lengths = [name for name in LENGTHS if getattr(self, name) is not None]
        if len(lengths) != 1:
            raise ValueError(f"a run's length is one of epochs, steps, minutes; got {' and '.join(lengths) or 'none'}")
        return self


class UnknownSettings(MethodSettings):
    """Of a method whose code this call did not name: kept as they are, so that the run's encoder can be used."""

    model_config = ConfigDict(extra="allow", frozen=True)


def settings_type(method: str) -> type[MethodSettings]:
    """The model of a method's own settings; code of a user's own is imported only if this call names it."""
    if is_code(method) and not is_named(method):
        return UnknownSettings
    return find_method(method).settings_type


def read_config(given: Mapping[str, Any]) -> TrainConfig:
    """The settings in ``given``; what is wrong is said in one line, with what was probably meant."""
    models: list[type[BaseModel]] = [EncoderSettings, ViewSettings, CropSettings, OptimizerSettings]
    models += [method.settings_type for method in METHODS.values()]
    return read_settings(TrainConfig, given, known=sorted({name for model in models for name in model.model_fields}))


def load_config(file: Path) -> TrainConfig:
    """The settings in a run's ``config.json``, of this version or an earlier one."""
    return read_config(stored_settings(file))


def stored_settings(file: Path) -> dict[str, Any]:
    """What ``config.json`` holds, in the names of this version."""
    written, content = stored_object(file, newest=FORMAT)
    if written == 1 and "optimiser" in content:
        content["optimizer"] = content.pop("optimiser")
    return content


def merge_settings(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` wins, setting by setting; a length there replaces whichever length ``base`` has."""
    kept = dict(base)
    if any(name in over for name in LENGTHS):
        kept = {name: value for name, value in kept.items() if name not in LENGTHS}
    if "method" in over and over["method"] != kept.get("method"):
        kept.pop("method_settings", None)  # they were another method's
    return _merged(kept, over)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(base)
    for name, value in over.items():
        before = kept.get(name)
        kept[name] = _merged(before, value) if isinstance(value, Mapping) and isinstance(before, Mapping) else value
    return kept


def save_config(file: Path, config: TrainConfig) -> None:
    write_stored(file, config.model_dump(mode="json"), version=FORMAT)
