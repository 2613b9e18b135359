"""A run opened for use: its encoder in eval mode, its head, its prototypes, and the view that fits its training."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenview.batches.identity import weights_identity
from eigenview.errors import DataError, EigenviewError
from eigenview.methods import HeadPart
from eigenview.names import is_named, printable
from eigenview.nn import Encoder, TextTower, build_head, fill_module, is_own_encoder, wrap
from eigenview.nn.inputs import RANDOM, EncoderFacts, LoadedEncoder
from eigenview.nn.settings import EncoderSettings
from eigenview.nn.text import build_text_encoder
from eigenview.runs.checkpoints import LAST
from eigenview.runs.directory import RunDirectory, is_run
from eigenview.views import CentreView, Recipe

HUBS = ("timm", "torchvision", "hf", "open_clip")  # libraries that fetch weights
PUBLISHED = "published"  # the checkpoint of an encoder that was not trained here
OWN = "own"  # what a run's settings call an encoder that the user gave as a module
ENCODER = "encoder."  # before the encoder's tensors in a checkpoint: every method calls it so


@dataclass(frozen=True)
class OpenedRun:
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
    def settings(self) -> EncoderSettings | None:
        """By which its encoder is built; None where its user gave a module."""
        chosen = self.directory.encoder_settings
        return None if chosen.name == OWN else chosen

    @property
    def device(self) -> torch.device:
        """Where its encoder is; its head and untrained copies go there too."""
        return next(self.encoder.parameters(), torch.empty(0)).device

    @property
    def channels(self) -> int:
        return self.directory.channels

    @cached_property
    def recipe(self) -> Recipe:
        """Of the views it was trained on."""
        return self.directory.data.views

    @cached_property
    def view(self) -> CentreView:
        return self.directory.view

    @cached_property
    def head(self) -> nn.Module | None:
        """The projection head with the checkpoint's weights, in eval mode; None where the method has none."""
        described = self.directory.method_parts.head
        return None if described is None else self._filled_head(described, self.encoder.feature_width)

    def _filled_head(self, described: HeadPart, features: int) -> nn.Module | None:
        widths = {name: width for name, width in (("hidden", described.hidden), ("output", described.output)) if width}
        head = build_head(described.name, features, **widths)
        if next(head.parameters(), None) is not None:
            if not any(name.startswith(described.prefix) for name in self.tensors):
                return None
            fill_module(head, self.tensors, self.folder, prefix=described.prefix)
        return head.eval().to(self.device)

    @cached_property
    def text(self) -> TextTower | None:
        """What embeds words beside the projections of images, in eval mode; None where it learnt from images alone."""
        described = self.directory.method_parts.text
        if described is None:
            return None
        _check_named(described.name, self.folder, "text encoder")
        tokenizer = self.directory.tokenizer
        encoder = build_text_encoder(
            described.name, tokenizer, width=described.width, depth=described.depth, config=described.config
        )
        fill_module(encoder, self.tensors, self.folder, prefix=described.prefix)
        head = self._filled_head(described.head, encoder.feature_width)
        if head is None:
            raise DataError(f"the checkpoint {self.checkpoint} of {printable(self.folder)} lacks the head of its texts")
        return TextTower(tokenizer, encoder, head).eval().to(self.device)

    def needed_text(self) -> TextTower:
        """The text tower; a run that learnt from images alone is refused."""
        if self.text is None:
            raise DataError(
                f"{printable(self.folder)} learnt from images alone and knows no words: train one on images with "
                "captions (eigenview train captions.parquet)"
            )
        return self.text

    @property
    def scale(self) -> Tensor | None:
        """What cosines of images and words are multiplied with, float64; None where the method has not learnt it."""
        log = self.tensors.get(self.directory.method_parts.log_scale)
        return None if log is None else log.double().exp()

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

    def starting_point(self) -> Encoder | None:
        """The encoder as training found it, where it came with weights of its makers, a file or a run.

        None where it began at random, and where those weights cannot be had any more, are others by now, or may have to
        be fetched while this call does not name the encoder.
        """
        record = self.directory.encoder
        if not self.directory.is_trained or record is None or record.weights == RANDOM or _may_fetch(record.settings):
            return None
        try:
            loaded = starting_encoder(record.settings, channels=record.channels, image_size=self.view.size)
        except EigenviewError:
            return None
        return loaded.encoder.to(self.device) if loaded.facts.digest == record.digest else None

    def untrained(self, *, seed: int = 0) -> Encoder:
        """The same encoder before training."""
        settings = self.directory.encoder_settings
        if settings.name == OWN:
            return fresh_copy(self.encoder, seed=seed)
        with seeded(seed):
            return settings.build(channels=self.channels, image_size=self.view.size).eval().to(self.device)


def open_run(
    run: str | Path | RunDirectory,
    *,
    checkpoint: str = LAST,
    encoder: nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> OpenedRun:
    """The encoder of a run with a checkpoint's weights, whose hash is checked.

    ``encoder``: a module like the one given to ``train``, needed only where there was one.
    """
    directory = run if isinstance(run, RunDirectory) else RunDirectory.existing(run)
    settings = directory.encoder_settings
    if encoder is None and settings.name == OWN:
        raise DataError(f"{printable(directory.folder)} trained a module of its user's: give encoder=, one like it")
    if encoder is None:
        _check_named(settings.name, directory.folder, "encoder")
    if not directory.is_trained:
        return _by_name(directory, encoder, device)
    channels, size = directory.channels, directory.view.size
    if encoder is None:
        built = settings.build(channels=channels, image_size=size)
    else:
        built = wrap(encoder, channels=channels, image_size=size)
    tensors = directory.checkpoints.weights(checkpoint)
    fill_module(built, tensors, directory.folder, prefix=ENCODER)
    return OpenedRun(directory, checkpoint, built.eval().to(device), tensors)


def _check_named(name: str, folder: Path, kind: str) -> None:
    """Refuse code of a user's own that only the run in ``folder`` names."""
    if is_own_encoder(name) and not is_named(name):
        raise DataError(
            f"the {kind} of {printable(folder)} is {name}, code of its user's, which no file makes run: name it in "
            f"this call (--{kind.replace(' ', '-')} {name}, or {kind.replace(' ', '_')}=)"
        )


def starting_encoder(settings: EncoderSettings, *, channels: int, image_size: int | None) -> LoadedEncoder:
    """An encoder before it is trained here: with its makers' weights, a file's, those of a run, or random ones."""
    place = settings.weights
    if place is None or not is_run(place):
        return settings.load(channels=channels, image_size=image_size)
    directory = RunDirectory.existing(place)
    if not directory.is_trained:
        further = directory.encoder_settings
        if further.weights is not None and is_run(further.weights):
            raise DataError(f"{printable(directory.folder)} takes its weights from another run: name that one")
        return starting_encoder(further, channels=channels, image_size=image_size)
    built = settings.build(channels=channels, image_size=image_size or directory.view.size)
    fill_module(built, directory.checkpoints.weights(LAST), directory.folder, prefix=ENCODER)
    facts = EncoderFacts(settings.name, "eigenview", directory.name, weights_identity(built))
    return LoadedEncoder(built.eval(), None, facts)


def unchanging_encoder(settings: EncoderSettings, *, channels: int, image_size: int | None) -> LoadedEncoder:
    """:func:`starting_encoder` with the same weights whenever it is opened, random ones too: its vectors are kept."""
    with seeded(0):
        return starting_encoder(settings, channels=channels, image_size=image_size)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within, random weights are those of ``seed``; the global generator is as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _may_fetch(settings: EncoderSettings) -> bool:
    """Whether opening the encoder could ask a hub for its weights, though this very call has not named it."""
    library, _, model = settings.name.partition(":")
    is_remote = library in HUBS and not (library == "hf" and Path(model).is_dir())
    return is_remote and settings.pretrained and settings.weights is None and not is_named(settings.name)


def _by_name(directory: RunDirectory, encoder: nn.Module | None, device: str | torch.device) -> OpenedRun:
    """An encoder that was not trained here, loaded as the folder says; other weights than it says are refused."""
    record = directory.encoder
    assert record is not None
    if encoder is not None:
        return OpenedRun(directory, PUBLISHED, wrap(encoder, channels=record.channels).eval().to(device), {})
    if _may_fetch(record.settings):
        raise DataError(
            f"the encoder of {printable(directory.folder)} is {record.settings.name}, whose weights may have to be "
            f"fetched, which no file asks for: name it in this call (--encoder {record.settings.name}, or encoder=)"
        )
    loaded = unchanging_encoder(record.settings, channels=record.channels, image_size=directory.view.size)
    if record.digest and loaded.facts.digest != record.digest:
        raise DataError(
            f"the weights of {record.settings.name} are not those that {printable(directory.folder)} was made with "
            f"({record.weights}, {record.digest[:12]}…): choose another folder"
        )
    return OpenedRun(directory, PUBLISHED, loaded.encoder.to(device), {})


@torch.no_grad()
def fresh_copy(encoder: Encoder, *, seed: int = 0) -> Encoder:
    """A copy of the same shape with fresh weights: every part that knows how to start is started again.

    Parts with a special start (He et al.'s for our convolutions) get torch's ordinary one.
    """
    fresh = deepcopy(encoder)
    with seeded(seed):
        for child in fresh.modules():
            start = getattr(child, "reset_parameters", None)
            if callable(start):
                start()
    return fresh
