"""What a run begins with: its encoder with starting weights, and views in the size and statistics that it wants.

The features of a locked encoder are computed once, kept in the run, and fed in the place of images (LiT).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from eigenview.batches import AnySource, LockedSource, image_statistics, typical_shape
from eigenview.data import Source
from eigenview.distributed import refusing_together
from eigenview.errors import SettingError
from eigenview.evaluation import extract
from eigenview.evaluation.features import keep_only
from eigenview.methods import find_method
from eigenview.names import printable
from eigenview.nn import POOLED, Encoder, check_micro_batches, wrap
from eigenview.nn.batch_norm import keep_statistics
from eigenview.nn.inputs import EncoderFacts, InputSpec
from eigenview.nn.settings import EncoderSettings
from eigenview.optim import freeze_blocks
from eigenview.runs import EncoderRecord, RunDirectory, TrainConfig
from eigenview.runs.opened import OWN, starting_encoder
from eigenview.training.processes import Processes
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
        if settings not in (EncoderSettings(), EncoderSettings(name=OWN)):  # the other is what its run calls it
            raise SettingError("a module of your own is what it is: leave the encoder settings out")
        built, seen = wrap(encoder, channels=channels, image_size=size), None
        facts = EncoderFacts(type(encoder).__name__, "of the user's")
    elif settings.name == OWN:
        raise SettingError(f"{printable(config.out)} trained a module of its user's: give encoder=, one like it")
    elif before is not None:
        built = settings.build(channels=before.channels, image_size=size)
        facts = EncoderFacts(settings.name, before.library, before.weights, before.digest, settings.config)
        seen = before.view if settings.brings_input else None
    else:
        loaded = starting_encoder(settings, channels=channels, image_size=size)
        built, facts, seen = loaded.encoder, loaded.facts, loaded.input
    built.train()
    if settings.statistics == "kept":
        keep_statistics(built)
    if not settings.locked:  # which passes images once, before the training, and never learns
        is_allowed = config.micro_batch_norm == "per-micro-batch"
        check_micro_batches(built, config.micro_batch, allows_batch_norm=is_allowed)
    freeze_blocks(built, settings.frozen_blocks)
    if settings.locked:
        built.requires_grad_(False)
    if seen is not None:  # views by the statistics and the interpolation that an encoder knows
        recipe = replace(recipe, mean=seen.mean, std=seen.std, interpolation=seen.interpolation)
    return Begun(built, facts, recipe, shape)


def locked(
    config: TrainConfig, begun: Begun, images: AnySource, processes: Processes, told: Callable[[str], None]
) -> LockedSource:
    """The readable images with the features of the view that evaluation sees too; a collective call.

    A run keeps one file of them: where its images or the library have changed, the former one goes.
    """
    with refusing_together(processes.group, processes.device):
        if not isinstance(images, Source):
            raise SettingError(
                "features of a locked encoder are kept by index; a stream has none: use an indexed source"
            )
        if find_method(config.method).fewest_views > 1:
            raise SettingError(f"{config.method} compares views; a locked encoder sees one: leave encoder.locked out")
    assert isinstance(images, Source)
    view = centre_view(begun.recipe, side=min(begun.shape[:2]))
    folder = RunDirectory(config.out).features
    features = extract(
        begun.encoder.to(processes.device),
        images,
        view=view,
        cache=folder,
        workers=config.workers,
        title="features of the locked encoder",
        group=processes.group,
    )
    if processes.is_first:
        size = keep_only(folder, features).stat().st_size
        told(f"features of {len(features.index):,} images are kept in {printable(folder)} ({size / 1e6:,.1f} MB)")
    return LockedSource(images, features.index, features[POOLED])
