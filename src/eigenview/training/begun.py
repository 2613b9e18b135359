"""What a run begins with: its encoder with starting weights, and views in the size and statistics that it wants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from eigenview.batches import AnySource, image_statistics, typical_shape
from eigenview.errors import SettingError
from eigenview.nn import Encoder, check_micro_batches, wrap
from eigenview.nn.batch_norm import keep_statistics
from eigenview.nn.inputs import EncoderFacts, InputSpec
from eigenview.nn.settings import EncoderSettings
from eigenview.optim import freeze_blocks
from eigenview.runs import EncoderRecord, TrainConfig
from eigenview.runs.opened import starting_encoder
from eigenview.views import CentreView, Recipe, centre_view
from eigenview.views.settings import Shape

COLOUR = 3  # channels


@dataclass(frozen=True)
class Begun:
    """An encoder in training mode, what it was to begin with, and how images are seen."""

    encoder: Encoder
    facts: EncoderFacts
    recipe: Recipe
    shape: Shape  # of the first image

    def record(self, settings: EncoderSettings) -> EncoderRecord:
        view = centre_view(self.recipe, side=min(self.shape[:2]))
        return EncoderRecord.of(settings, self.encoder.channels, self.facts, view)


def begin(
    config: TrainConfig,
    images: AnySource,
    encoder: nn.Module | None = None,
    *,
    before: EncoderRecord | None = None,
) -> Begun:
    """The encoder that the settings name, the same on every process, or a module of the user's; and its views.

    ``before``: what the run began with, where a checkpoint will fill the encoder: no library's or hub's weights are
    asked for then, and images are seen as they were.
    """
    shape = typical_shape(images)
    settings = config.encoder
    channels = COLOUR if encoder is None and settings.brings_input else shape[2]
    recipe = config.views.recipe((*shape[:2], channels), image_statistics(images) if channels == shape[2] else None)
    size = recipe.crops[0].size
    torch.manual_seed(config.seed)
    seen: InputSpec | CentreView | None
    if encoder is not None:
        if settings != EncoderSettings():
            raise SettingError("a module of your own is what it is: leave the encoder settings out")
        own = wrap(encoder, channels=channels, image_size=size)
        _check_micro_batches(config, own)
        return Begun(own, EncoderFacts(type(encoder).__name__, "of the user's"), recipe, shape)
    if before is not None:
        built = settings.build(channels=before.channels, image_size=size)
        facts = EncoderFacts(settings.name, before.library, before.weights, before.digest, settings.config)
        seen = before.view if settings.brings_input else None
    else:
        loaded = starting_encoder(settings, channels=channels, image_size=size)
        built, facts, seen = loaded.encoder, loaded.facts, loaded.input
    built.train()
    if settings.statistics == "kept":
        keep_statistics(built)
    _check_micro_batches(config, built)
    freeze_blocks(built, settings.frozen_blocks)
    if settings.locked:
        built.requires_grad_(False)
    return Begun(built, facts, recipe if seen is None else _as_it_wants(recipe, seen), shape)


def _check_micro_batches(config: TrainConfig, encoder: Encoder) -> None:
    if config.encoder.locked:  # it passes images once, before the training, and never learns
        return
    check_micro_batches(encoder, config.micro_batch, allows_batch_norm=config.micro_batch_norm == "per-micro-batch")


def _as_it_wants(recipe: Recipe, seen: InputSpec | CentreView) -> Recipe:
    """Views by the statistics and the interpolation that an encoder knows."""
    return replace(recipe, mean=seen.mean, std=seen.std, interpolation=seen.interpolation)
