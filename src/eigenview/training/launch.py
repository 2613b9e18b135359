"""From settings to a trained run: processes, a place, images, a method, the loop, and the look back.

What follows a run: it is diagnosed, and a sample of its images is kept, so that report and diagnose work at once.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import nn

from eigenview.batches import AnySource
from eigenview.data import Source, open_images
from eigenview.distributed import refusing_together
from eigenview.errors import EigenviewError, WriteError
from eigenview.evaluation import diagnose_run
from eigenview.methods import Method
from eigenview.nn import TextEncoder, Tokenizer
from eigenview.runs import OWN, RunDirectory, TrainConfig, data_facts, environment_facts, open_run
from eigenview.runs.lock import removing_unused
from eigenview.training.begun import Begun, begin, locked
from eigenview.training.feed import Feed
from eigenview.training.listeners import Listener, Record, TensorBoard
from eigenview.training.loop import Trainer
from eigenview.training.processes import Processes, check_same_data, check_same_step, start_processes
from eigenview.training.setup import build_method, resolve
from eigenview.training.words import begin_words, captioned, reads_captions

LOOKED_AT = 2000  # images: seconds, not minutes


def train(
    config: TrainConfig,
    *,
    source: AnySource | None = None,
    encoder: nn.Module | None = None,
    resume: bool = False,
    start: str | None = None,
    looks_back: bool = True,
    listeners: Sequence[Listener] = (),
    started: float | None = None,
) -> RunDirectory:
    """Train as ``config`` says, into ``config.out``; ``resume``: go on from its last checkpoint.

    One process, or as many as ``torchrun`` starts. ``source``: the images of ``config.source`` where they are open
    already. ``encoder``: a module of your own from images to rows, instead of one by name; ``open_run`` will want it
    too. ``start`` names the checkpoint to go on from; without it, the last one, or the one before where that is
    damaged. ``looks_back``: at the end, diagnose the run and keep a sample of its images for the report. Ctrl-C (or
    SIGTERM) saves a checkpoint after the step under way and raises KeyboardInterrupt. ``started``: by
    ``time.monotonic``, the moment from which a run's minutes count; this one unless given.
    """
    started = time.monotonic() if started is None else started
    processes, directory = start_processes(config), RunDirectory(config.out)
    with ExitStack() as held, processes.watched(directory), removing_unused():
        together = partial(refusing_together, processes.group, processes.device)
        with together():
            directory.make()
            if processes.is_first:
                held.enter_context(directory.lock())
            directory.check_free(resume=resume)
            images = open_images(config.source, log=directory.unreadable_log) if source is None else source
        check_same_data(config, images, processes)
        own = [TensorBoard(directory.folder)] if config.tensorboard else []
        record = Record(directory.metrics_file, [*listeners, *own], is_first=processes.is_first)
        chosen = reads_captions(config)
        with together():
            images = images if chosen is None else captioned(images, record.tell)
            begun = begin(config, images, encoder, before=directory.encoder if resume else None)
        words = None if chosen is None else begin_words(chosen, images, directory, processes, resume=resume)
        fed = locked(config, begun, images, processes, record.tell) if config.encoder.locked else images
        with together():
            config, feed, method = _assembled(config, fed, begun, words, processes, directory, encoder, resume=resume)
        trainer = Trainer(config, processes, directory, feed, method, record, started=started)
        with together():
            if resume:
                trainer.restore(start)
            else:
                record.forget_after(-1)
        check_same_step(config, trainer.state.progress.step, processes)
        is_known = False  # True: nothing was left to train, and the result has been looked at
        if not (resume and trainer.tell_if_finished()):
            trainer.fit()
        else:
            if processes.is_first:
                directory.checkpoints.tidy()  # a kill may have fallen into the last save
            is_known = directory.diagnosis() is not None and directory.sample() is not None
        if looks_back and not is_known and processes.is_first and isinstance(images, Source):
            look_back(directory, images, record, encoder=encoder, device=processes.device)
        processes.wait_for_all()
    return directory


def _assembled(
    config: TrainConfig,
    images: AnySource,
    begun: Begun,
    words: tuple[Tokenizer, TextEncoder | None] | None,
    processes: Processes,
    directory: RunDirectory,
    own: nn.Module | None,
    *,
    resume: bool,
) -> tuple[TrainConfig, Feed, Method]:
    """The parts of a run put together, and what it says about itself written down; nobody is waited for.

    ``own``: an encoder of the user's, which the settings cannot name.
    """
    named = config.encoder.built_as(begun.facts) if own is None else config.encoder.model_copy(update={"name": OWN})
    config = resolve(config, begun.recipe, processes.device, named)
    feed = Feed(config, images, begun.recipe, channels=begun.encoder.channels, group=processes.group)
    method = build_method(config, feed, begun.encoder, processes.group, words)
    if processes.is_first:
        facts = data_facts(images, begun.recipe, begun.shape, None)
        environment = environment_facts(processes.device, processes.count)
        directory.prepare(config, facts, environment, method.parts(), begun.record(config.encoder), resume=resume)
    return config, feed, method


def look_back(
    directory: RunDirectory, source: Source, record: Record, *, encoder: nn.Module | None, device: torch.device
) -> None:
    """The run's diagnosis and its sample; what cannot be had is said, and ends nothing but a full disk."""
    try:
        run = open_run(directory, encoder=encoder, device=device)
        seed, workers = directory.config.seed, directory.config.workers
        diagnosis = diagnose_run(run, source, items=LOOKED_AT, seed=seed, workers=workers, keeps=True)
    except WriteError as error:
        raise WriteError(f"the run is trained, but its diagnosis cannot be kept: {error}") from None
    except EigenviewError as error:
        record.tell(f"the result could not be looked at: {error}")
        return
    record.each(lambda listener: listener.diagnosed(diagnosis))
