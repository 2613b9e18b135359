"""What the verbs share that compute with the encoder of a run: its options, how it is opened, how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import Word
from eigenview.devices import Device
from eigenview.errors import DataError, SettingError
from eigenview.names import did_you_mean, printable
from eigenview.progress import about
from eigenview.settings import Strict

if TYPE_CHECKING:
    from eigenview.batches import AnySource
    from eigenview.cli.output import Output
    from eigenview.data import Source
    from eigenview.runs import OpenedRun, RunDirectory

VECTORS = (".parquet", ".npy", ".npz")  # files of embeddings
TRIED = 16  # images that are encoded to tell how long all will take
PASSES = 3  # of an image in a diagnosis: two views, and the one for evaluation
SHORT = 10.0  # seconds that nobody needs to be told of


class OpenOptions(Strict):
    """What of a run is opened."""

    checkpoint: Annotated[str, Word("NAME")] = "last"  # of the run: last, previous, best, or an epoch that was kept
    encoder: Annotated[str | None, Word("MODULE:NAME")] = None  # of a run that was trained with code of your own: its
    # name, without which it is not run
    text_encoder: Annotated[str | None, Word("MODULE:NAME")] = None  # likewise, of a run that learnt from captions


class EncoderOptions(Strict):
    """Where an encoder computes; and of one by name, how it sees images and where what is measured is kept."""

    device: Device = "auto"  # where to compute; auto: an accelerator if there is one
    size: Annotated[int | None, Word("PIXELS")] = Field(None, ge=1)  # at which an encoder by name sees images; by its
    # makers and the images unless given
    weights: Annotated[Path | None, Word("FILE")] = None  # of an encoder by name, instead of its makers'
    keep_in: Annotated[Path | None, Word("DIR")] = None  # what is measured of an encoder by name or a file of vectors;
    # runs/SOURCE-ENCODER or runs/FILE unless given


class RunOptions(OpenOptions, EncoderOptions):
    """A run or an encoder by name."""


def open_with(
    options: RunOptions,
    given: str | Path,
    output: Output,
    source: str | None = None,
    opening: Callable[[], AnySource] | None = None,
) -> OpenedRun:
    """The run in a folder, or an encoder by name that looks at ``source``; what it is and where it computes is said.

    ``opening`` is how whoever calls opens the source; it is asked only of an encoder that exists.
    """
    from eigenview.devices import device_text, find_device
    from eigenview.runs import is_run, open_run

    if not is_run(given):
        return open_named(options, str(given), output, source, opening)
    device = find_device(options.device)
    run = open_run(given, checkpoint=options.checkpoint, device=device)
    output.say(f"{run.name}, checkpoint {run.checkpoint}, on {device_text(device)}", style="dim")
    return run


def open_named(
    options: EncoderOptions,
    name: str,
    output: Output,
    spec: str | None,
    source: AnySource | Callable[[], AnySource] | None = None,
) -> OpenedRun:
    """An encoder by name, a run or a weights file, to look at ``spec`` with; ``source`` is that, or what opens it."""
    from eigenview.data import open_source
    from eigenview.devices import device_text, find_device
    from eigenview.runs import encoder_named, folder_for, open_encoder
    from eigenview.search.makers import anchored

    device = find_device(options.device)
    check_named(name)
    settings = encoder_named(name, weights=None if options.weights is None else str(options.weights.absolute()))
    if spec is None:
        raise SettingError(f"{name} is an encoder, and looks at images: give them (SOURCE or --source)")
    folder = options.keep_in or folder_for(name, spec, size=options.size)
    images = open_source(spec) if source is None else source() if callable(source) else source
    run = open_encoder(settings, images, folder, spec=anchored(spec), size=options.size, device=device)
    record = run.directory.encoder
    assert record is not None
    origin = f"weights {record.weights}, {record.library}" if record.weights != "random" else "random weights"
    output.say(f"{name} ({origin}), on {device_text(device)}; kept in {folder}", style="dim")
    output.say(f"at {run.view.size} pixels: {'as asked' if options.size else _size_reason(name, run)}", style="dim")
    return run


def _size_reason(name: str, run: OpenedRun) -> str:
    """Why an encoder by name sees images in the size that it does, where nobody asked for another."""
    from eigenview.nn.build import EFFICIENTNET, EFFICIENTNET_INPUT

    image, size = run.directory.data.image, run.view.size
    said = f"images are {image.width} × {image.height}"
    if Path(name).exists():
        return f"{said}, and it was trained so"
    if name == EFFICIENTNET and size < EFFICIENTNET_INPUT.size:
        return f"{said}; enlarged by half it sees more in them, larger still takes time by the square (--size)"
    return f"{said}, and its makers trained it so" if run.directory.encoder_settings.brings_input else said


def check_named(name: str) -> None:
    """Refuse a word that names nothing, before anything is computed."""
    from eigenview.nn import ENCODERS

    if not is_encoder(name) and not Path(name).exists():
        meant = did_you_mean(name, ENCODERS) or "; is the path right?"
        raise DataError(f"{printable(name)} is no run directory, no file and no encoder{meant}")


def is_encoder(name: str) -> bool:
    """Whether a word has the form of an encoder's name."""
    from eigenview.nn import ENCODERS

    return ":" in name or name in ENCODERS or Path(name).is_file()


def vectors_folder(options: EncoderOptions, file: Path, source: str | None = None) -> RunDirectory:
    """Where what is measured of a file of vectors is kept: runs/NAME unless told otherwise."""
    from eigenview.runs import folder_of_vectors
    from eigenview.search.stored import embeddings_file

    return folder_of_vectors(embeddings_file(file), options.keep_in, spec=source or "")


def seconds_an_image(run: OpenedRun, source: Source) -> float:
    """Measured on a few images of the source: reading, decoding, encoding."""
    import numpy as np

    from eigenview.batches import Extractor, encode_source
    from eigenview.data import subset

    extractor, spread = Extractor(run.encoder), np.linspace(0, len(source) - 1, min(TRIED, len(source)))
    places = np.unique(spread.round().astype(np.int64))
    for tried in (places[:2], places):  # the first call of a network is slow
        start = time.monotonic()
        encode_source(extractor, subset(source, tried), run.view, workers=0, title=None)
    return (time.monotonic() - start) / len(places)


def say_wait(output: Output, what: str, seconds: float) -> None:
    """How long something will take, unless it is next to nothing."""
    if seconds >= SHORT:
        output.say(f"{what}: {about(seconds)}")
