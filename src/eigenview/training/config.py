"""The settings of a run: strict, typed, JSON both ways. What is "auto" is resolved and written to the run directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, model_validator

from eigenview.errors import SettingError
from eigenview.methods import MethodSettings, find_method


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EncoderSettings(Strict):
    name: str = "small"  # one of nn.ENCODERS, timm:NAME, torchvision:NAME
    width: float = Field(1.0, gt=0)
    stem: Literal["auto", "imagenet", "stl", "cifar"] = "auto"
    normalization: Literal["batch", "group"] = "batch"
    weights: str | None = None  # to start from: a run directory, a safetensors file or a torch state dict


class CropSettings(Strict):
    size: int = Field(ge=1)
    count: int = Field(2, ge=1)
    scale: tuple[float, float] = (0.08, 1.0)


class ViewSettings(Strict):
    preset: str = "auto"  # one of views.PRESETS
    size: int | None = Field(None, ge=1)  # pixels of the views; None: the preset's
    crops: tuple[CropSettings, ...] | None = None  # several resolutions, large ones first


class OptimizerSettings(Strict):
    name: Literal["sgd", "lars", "larc", "adam", "adamw"] = "adamw"
    learning_rate: float = Field(1e-3, ge=0)
    learning_rates: dict[str, float] = {}  # of parts with one of their own, such as {"head": 0.01}
    scaling: Literal["linear", "sqrt", "none"] = "none"  # linear: learning_rate is per 256 images of the global batch
    weight_decay: float = Field(1e-4, ge=0)
    exclude: tuple[str, ...] = ("bias", "norm")  # from decay and adaptation
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    trust: float = Field(0.001, gt=0)  # LARS and LARC
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    warmup_epochs: float = Field(0.0, ge=0)
    warmup_start: float = Field(0.0, ge=0)  # as a share of the learning rate
    final: float = Field(0.0, ge=0)  # where the cosine ends, as a share of the learning rate
    milestones: tuple[int, ...] = ()  # epochs at which the step schedule drops
    factor: float = Field(0.1, gt=0)


class TrainConfig(Strict):
    """Everything that decides what a run computes, and where it goes."""

    source: str  # a folder, a table, shards or a named set (data.open_source)
    out: Path  # the run directory
    method: str = "simclr"
    method_settings: SerializeAsAny[MethodSettings] = MethodSettings()
    encoder: EncoderSettings = EncoderSettings()
    views: ViewSettings = ViewSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    batch_size: int = Field(256, ge=2)  # images over all processes
    accumulate: int = Field(1, ge=1)  # batches per optimizer step
    epochs: int | None = Field(None, ge=1)
    steps: int | None = Field(None, ge=1)  # instead of epochs
    minutes: float | None = Field(None, gt=0)  # instead of epochs; not repeatable bit for bit
    seed: int = Field(0, ge=0)
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
        kind = find_method(given.get("method", "simclr")).settings_type
        settings = given.get("method_settings", {})
        if isinstance(settings, MethodSettings) and not isinstance(settings, kind):
            settings = settings.model_dump(exclude_unset=True)
        return {**given, "method_settings": settings if isinstance(settings, kind) else kind(**settings)}

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        lengths = [name for name in ("epochs", "steps", "minutes") if getattr(self, name) is not None]
        if len(lengths) != 1:
            raise ValueError(f"a run's length is one of epochs, steps, minutes; got {' and '.join(lengths) or 'none'}")
        return self


def read_config(given: Mapping[str, Any]) -> TrainConfig:
    """The settings in ``given``; what is wrong is said in one line, with what was probably meant."""
    try:
        return TrainConfig(**given)
    except ValidationError as error:
        raise SettingError(_first_problem(error)) from None


def load_config(path: Path) -> TrainConfig:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise SettingError(f"cannot read the settings in {path}: {error}") from None
    if not isinstance(given, dict):
        raise SettingError(f"settings are a JSON object; {path} holds {type(given).__name__}")
    return read_config(given)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"]) or "settings"
    if problem["type"] == "extra_forbidden":
        name = str(problem["loc"][-1])
        close = get_close_matches(name, _known_names(), n=1)
        return f"no setting is called {place}" + (f"; did you mean {close[0]}?" if close else "")
    if problem["type"] == "missing":
        return f"the setting {place} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}; got {problem['input']!r}" if problem["type"] != "value_error" else message


def _known_names() -> list[str]:
    models: list[type[BaseModel]] = [TrainConfig, EncoderSettings, ViewSettings, CropSettings, OptimizerSettings]
    from eigenview.methods import METHODS

    models += [method.settings_type for method in METHODS.values()]
    return sorted({name for model in models for name in model.model_fields})
