"""What the speed of a few steps here decides: how long a run is whose length nobody gave, and its precision."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import replace
from itertools import islice

import torch
import torch.distributed as dist
from torch import nn

from eigenview.batches import AnySource, ViewLoader
from eigenview.data import Source
from eigenview.devices import find_device
from eigenview.nn import in_micro_batches
from eigenview.progress import about
from eigenview.runs import TrainConfig
from eigenview.training.begun import begin
from eigenview.training.choices import Choice, Chosen
from eigenview.training.processor import works_in_half
from eigenview.views import Views

LONGEST = 10  # minutes of a run whose length nobody gave
TIMED = 3  # batches, after a first one, which is slow
ENOUGH = 5.0  # seconds after which fewer do
WORTHWHILE = 2.0  # minutes from which a run gains more by the faster precision than finding it takes
FASTER = 1.15  # times as fast: half precision below that is not worth its rounding


def bounded(chosen: Chosen, source: AnySource, *, encoder: nn.Module | None = None) -> Chosen:
    """What was chosen, with a length of at most ``LONGEST`` minutes; a length that the user gave is left alone.

    Several processes would each measure something else: they are given the minutes.
    """
    length = next((choice for choice in chosen.choices if choice.name in ("epochs", "steps")), None)
    if length is None or chosen.config.optimizer.schedule == "step":  # which needs epochs
        return chosen
    if chosen.config.encoder.locked:
        return _with(chosen, length, Choice("minutes", float(LONGEST), "a first result, after the images are seen"))
    reason = "several processes: a first result"
    if not dist.is_torchelastic_launched():
        seconds = _batches(chosen.config, source) * seconds_a_batch(chosen.config, source, encoder=encoder)
        if seconds <= 60 * LONGEST:
            return _with(chosen, length, replace(length, reason=f"{length.reason}, {about(seconds)} here"))
        reason = f"{length.value:,} {length.name} would take {about(seconds)} here"
    bound = Choice("minutes", float(LONGEST), f"{reason}; --epochs, --steps or --minutes say otherwise")
    return _with(chosen, length, bound)


def quickened(chosen: Chosen, source: AnySource, *, encoder: nn.Module | None = None) -> Chosen:
    """What was chosen, in half precision where a processor is measured to be faster so; for runs by the clock alone.

    Others are repeatable bit for bit, on any machine. Several processes would each measure something else.
    """
    config = chosen.config
    is_short = config.minutes is None or config.minutes < WORTHWHILE
    if is_short or config.encoder.locked or dist.is_torchelastic_launched() or find_device(config.device).type != "cpu":
        return chosen
    if not works_in_half("bf16"):
        return chosen
    half = config.model_copy(update={"precision": "bf16"})
    plain, quick = (seconds_a_batch(each, source, encoder=encoder) for each in (config, half))
    if plain < FASTER * quick:
        return chosen
    choice = Choice("precision", "bf16", f"{plain / quick:.1f} × as fast as 32 here")
    return Chosen(half, (*chosen.choices, choice))


def _batches(config: TrainConfig, source: AnySource) -> int:
    """Of the whole run; epochs are chosen for sources alone that know their items."""
    if config.epochs is not None and isinstance(source, Source):
        return config.epochs * (len(source) // config.batch_size)
    return (config.steps or 1) * config.accumulate


def _with(chosen: Chosen, before: Choice, after: Choice) -> Chosen:
    config = chosen.config.model_copy(update={before.name: None, after.name: after.value})
    return Chosen(config, tuple(after if choice is before else choice for choice in chosen.choices))


def seconds_a_batch(config: TrainConfig, source: AnySource, *, encoder: nn.Module | None = None) -> float:
    """To read, see and encode one, and to follow the gradient; what the loss itself takes is little beside it."""
    device = find_device(config.device)
    begun = begin(config, source, None if encoder is None else deepcopy(encoder))
    network = begun.encoder.to(device).train()
    loader = ViewLoader(
        source,
        Views(begun.recipe, seed=config.seed),
        batch_size=config.batch_size,
        seed=config.seed,
        steps_per_epoch=1 + TIMED,
        workers=config.workers,
        channels=network.channels,
    )
    times = [time.monotonic()]
    for seen in islice(loader.epoch(device=device), 1 + TIMED):
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
            features = [in_micro_batches(network, group, config.micro_batch) for group in seen.views.groups]
        torch.autograd.backward(torch.cat(features).float().square().mean())
        times.append(time.monotonic())
        if times[-1] - times[0] > ENOUGH:
            break
    timed = times[1:] if len(times) > 2 else times
    return (timed[-1] - timed[0]) / (len(timed) - 1)
