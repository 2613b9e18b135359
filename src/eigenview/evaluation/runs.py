"""A run as evaluation sees it: its folder's files, and nothing of what made them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from eigenview.data import Source
from eigenview.errors import DataError
from eigenview.evaluation.baselines import untrained_like
from eigenview.nn import Encoder, build_encoder, load_weights, wrap
from eigenview.views import CentreView, Crop, Recipe, auto_recipe, centre_view, preset, recipe_from_json

OWN = "own"  # what a run's settings call an encoder that the user gave
PREFIX = "encoder."  # of the encoder's tensors in a checkpoint


@dataclass(frozen=True)
class EvaluatedRun:
    """The encoder of a run, in eval mode, and the view that fits how it was trained."""

    folder: Path
    encoder: Encoder
    view: CentreView
    config: Mapping[str, object]
    channels: int
    recipe: Recipe  # of the views it was trained on

    @property
    def name(self) -> str:
        return self.folder.name

    def untrained(self, *, seed: int = 0) -> Encoder:
        """The same encoder before training."""
        if _part(self.config, "encoder").get("name") == OWN:
            return untrained_like(self.encoder, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return _built(self.config, self.channels, self.view.size)


def open_run(
    folder: str | Path, like: Source | None = None, *, checkpoint: str = "last", encoder: nn.Module | None = None
) -> EvaluatedRun:
    """Read ``config.json``, ``data.json`` and ``checkpoints/CHECKPOINT/weights.safetensors`` of a run.

    ``like``, a source of the kind the run was trained on, is needed only where the run has no ``data.json``;
    ``encoder``, a module like the one given to ``train``, only where there was one.
    """
    folder = Path(folder)
    config = _json(folder / "config.json")
    if (folder / "data.json").is_file():
        facts = _json(folder / "data.json")
        recipe, channels = recipe_from_json(_part(facts, "recipe")), int(str(_part(facts, "image")["channels"]))
    elif like is not None:
        channels = like.image(0).pixels().shape[2]
        recipe = _recipe(_part(config, "views"), like)
    else:
        raise DataError(f"{folder} has no data.json, which says what its images are like; give a source like them")
    view = centre_view(recipe)
    if encoder is None and _part(config, "encoder").get("name") == OWN:
        raise DataError(f"{folder} trained a module of its user's: open_run(folder, encoder=a module like it)")
    built = (
        _built(config, channels, view.size)
        if encoder is None
        else wrap(encoder, channels=channels, image_size=view.size)
    )
    load_weights(built, folder / "checkpoints" / checkpoint / "weights.safetensors", prefix=PREFIX)
    return EvaluatedRun(folder, built.eval(), view, config, channels, recipe)


def _json(file: Path) -> dict[str, object]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {file}: {error}; is it a run directory?") from None
    if not isinstance(content, dict):
        raise DataError(f"{file} is not a file of a run; is it a run directory?")
    return content


def _part(config: Mapping[str, object], name: str) -> dict[str, object]:
    part = config.get(name)
    if not isinstance(part, dict):
        raise DataError(f"the run's files have no {name!r}; were they written by another version?")
    return part


def _built(config: Mapping[str, object], channels: int, size: int) -> Encoder:
    chosen = _part(config, "encoder")
    options = {name: chosen[name] for name in ("width", "stem", "normalization") if name in chosen}
    return build_encoder(str(chosen.get("name")), channels=channels, image_size=size, **options)  # type: ignore[arg-type]


def _recipe(views: Mapping[str, object], like: Source) -> Recipe:
    """The run's recipe, for runs that do not say it in their ``data.json``."""
    height, width, channels = like.image(0).pixels().shape
    name = str(views.get("preset", "auto"))
    recipe = auto_recipe(height, width, channels) if name == "auto" else preset(name)
    if channels == 1 and len(recipe.mean) == 3:
        recipe = replace(recipe, mean=recipe.mean[:1], std=recipe.std[:1])
    crops, size = views.get("crops"), views.get("size")
    if isinstance(crops, list) and crops:
        return recipe.with_crops([Crop(one["size"], one["count"], tuple(one["scale"])) for one in crops])
    if size is not None:
        return recipe.with_crops([replace(crop, size=int(str(size))) for crop in recipe.crops])
    return recipe
