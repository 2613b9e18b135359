"""A run opened for use: its encoder in eval mode, its head, its prototypes, and the view that fits its training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenview.errors import DataError
from eigenview.names import is_named, printable
from eigenview.nn import Encoder, build_head, fill_module, is_own_encoder, wrap
from eigenview.runs.checkpoints import LAST
from eigenview.runs.directory import RunDirectory
from eigenview.views import CentreView, Recipe

OWN = "own"  # what a run's settings call an encoder that the user gave as a module
ENCODER = "encoder."  # before the encoder's tensors in a checkpoint: every method calls it so


@dataclass(frozen=True)
class TrainedRun:
    """What evaluation, search, export and report use of a run."""

    directory: RunDirectory
    checkpoint: str
    encoder: Encoder
    tensors: dict[str, Tensor]  # of the checkpoint, all of the method's

    @property
    def folder(self) -> Path:
        return self.directory.folder

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def device(self) -> torch.device:
        """Where its encoder is; its head and untrained copies go there too."""
        return next(self.encoder.parameters(), torch.empty(0)).device

    @property
    def channels(self) -> int:
        return self.directory.data.image.channels

    @cached_property
    def recipe(self) -> Recipe:
        """Of the views it was trained on."""
        return self.directory.data.views

    @cached_property
    def view(self) -> CentreView:
        return self.directory.data.view

    @cached_property
    def head(self) -> nn.Module | None:
        """The projection head with the checkpoint's weights, in eval mode; None where the method has none."""
        described = self.directory.method_parts.head
        if described is None:
            return None
        widths = {name: width for name, width in (("hidden", described.hidden), ("output", described.output)) if width}
        head = build_head(described.name, self.encoder.feature_width, **widths)
        if next(head.parameters(), None) is not None:
            if not any(name.startswith(described.prefix) for name in self.tensors):
                return None
            fill_module(head, self.tensors, self.folder, prefix=described.prefix)
        return head.eval().to(self.device)

    @cached_property
    def prototypes(self) -> tuple[Tensor, ...]:
        """(K, d) of each set of prototypes that the method trains on its projections."""
        names = self.directory.method_parts.prototypes
        return tuple(self.tensors[name].float() for name in names if name in self.tensors)

    def needed_head(self) -> nn.Module:
        """The head; a run without one (supervised training, say) is refused: it has no layer ``projection``."""
        if self.head is None:
            raise DataError(f"{printable(self.folder)} has no projection head; leave the layer 'projection' out")
        return self.head

    def untrained(self, *, seed: int = 0) -> Encoder:
        """The same encoder before training."""
        settings = self.directory.config.encoder
        if settings.name == OWN:
            return fresh_copy(self.encoder, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return settings.build(channels=self.channels, image_size=self.view.size).eval().to(self.device)


def open_run(
    run: str | Path | RunDirectory,
    *,
    checkpoint: str = LAST,
    encoder: nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> TrainedRun:
    """The encoder of a run with a checkpoint's weights, whose hash is checked.

    ``encoder``: a module like the one given to ``train``, needed only where there was one.
    """
    directory = run if isinstance(run, RunDirectory) else RunDirectory.existing(run)
    settings, data = directory.config.encoder, directory.data
    if encoder is None and settings.name == OWN:
        raise DataError(f"{printable(directory.folder)} trained a module of its user's: give encoder=, one like it")
    if encoder is None and is_own_encoder(settings.name) and not is_named(settings.name):
        raise DataError(
            f"the encoder of {printable(directory.folder)} is {settings.name}, code of its user's, which no file makes "
            f"run: name it in this call (--encoder {settings.name}, or encoder=)"
        )
    size = data.view.size
    if encoder is None:
        built = settings.build(channels=data.image.channels, image_size=size)
    else:
        built = wrap(encoder, channels=data.image.channels, image_size=size)
    tensors = directory.checkpoints.weights(checkpoint)
    fill_module(built, tensors, directory.folder, prefix=ENCODER)
    return TrainedRun(directory, checkpoint, built.eval().to(device), tensors)


@torch.no_grad()
def fresh_copy(encoder: Encoder, *, seed: int = 0) -> Encoder:
    """A copy of the same shape with fresh weights: every part that knows how to start is started again.

    Parts with a special start (He et al.'s for our convolutions) get torch's ordinary one.
    """
    from copy import deepcopy

    fresh = deepcopy(encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for child in fresh.modules():
            start = getattr(child, "reset_parameters", None)
            if callable(start):
                start()
    return fresh
