"""What the verbs share that compute with the encoder of a run: its options, how it is opened, how long it will take."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenview.cli.options import Word
from eigenview.devices import Device
from eigenview.progress import about
from eigenview.settings import Strict

if TYPE_CHECKING:
    from eigenview.cli.output import Output
    from eigenview.data import Source
    from eigenview.runs import TrainedRun

TRIED = 16  # images that are encoded to tell how long all will take
SHORT = 10.0  # seconds that nobody needs to be told of


class OpenOptions(Strict):
    """What of a run is opened."""

    checkpoint: Annotated[str, Word("NAME")] = "last"  # of the run: last, previous, best, or an epoch that was kept
    encoder: Annotated[str | None, Word("MODULE:NAME")] = None  # of a run that was trained with code of your own: its
    # name, without which it is not run


class RunOptions(OpenOptions):
    """And where it computes."""

    device: Device = "auto"  # where to compute; auto: an accelerator if there is one


def open_with(options: RunOptions, folder: Path, output: Output) -> TrainedRun:
    """The run in ``folder``, as the options say; where it computes is said."""
    from eigenview.devices import device_text, find_device
    from eigenview.runs import open_run

    device = find_device(options.device)
    run = open_run(folder, checkpoint=options.checkpoint, device=device)
    output.say(f"{run.name}, checkpoint {run.checkpoint}, on {device_text(device)}", style="dim")
    return run


def seconds_an_image(run: TrainedRun, source: Source) -> float:
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
