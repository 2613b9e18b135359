"""What the speed of a few steps here decides: how long a run is whose length nobody gave, precision and compiling."""

import time
from copy import deepcopy
from dataclasses import replace
from itertools import islice, pairwise
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from eigenview.batches import AnySource, ViewLoader, typical_shape
from eigenview.data import Source
from eigenview.devices import find_device
from eigenview.nn import in_micro_batches
from eigenview.progress import about
from eigenview.runs import TrainConfig
from eigenview.training.begun import begin
from eigenview.training.choices import Choice, Chosen, early_size
from eigenview.training.feed import early_views
from eigenview.training.processor import has_half_instructions, works_in_half
from eigenview.training.setup import put_channels_last
from eigenview.views import Views

LONGEST = 10  # minutes of a run whose length nobody gave
TIMED = 3  # batches, after a first one, which is slow; the middle one counts
ENOUGH = 5.0  # seconds after which fewer do
WORTHWHILE = 1.5  # minutes from which a run gains more by the faster precision than finding it takes
FASTER = 1.15  # times as fast: half precision below that is not worth its rounding
COMPILED = 15.0  # minutes from which compiling may pay: it takes up to a minute, and saves a tenth to a fifth
FEWEST_EPOCHS = 5  # that a run should have: below, views are made smaller
SMALLEST, EVEN = 32, 8  # pixels below which they are not; sizes are multiples
SAVED = 1.05  # times as fast: less than that is noise


class Timed(NamedTuple):
    """Seconds of the first batch, in which a network is compiled, and of one of those after it."""

    first: float
    batch: float


def bounded(chosen: Chosen, source: AnySource, *, encoder: nn.Module | None = None) -> Chosen:
    """What was chosen, with a length of at most ``LONGEST`` minutes; a length that the user gave is left alone.

    Several processes would each measure something else: they are given the minutes.
    """
    length = next((choice for choice in chosen.choices if choice.name in ("epochs", "steps")), None)
    if length is None or chosen.config.optimizer.schedule == "step":  # which needs epochs
        return chosen
    if chosen.config.encoder.locked:
        after = Choice("minutes", float(LONGEST), "a first result, after the images are seen")
        return _with(chosen, after, before=length)
    reason = "several processes: a first result"
    if not dist.is_torchelastic_launched():
        batches = (chosen.config.steps or 1) * chosen.config.accumulate
        if chosen.config.epochs is not None and isinstance(source, Source):  # for sources alone that know their items
            batches = chosen.config.epochs * (len(source) // chosen.config.batch_size)
        seconds = batches * seconds_a_batch(chosen.config, source, encoder=encoder)
        if seconds <= 60 * LONGEST:
            told = replace(length, reason=f"{length.reason}, {about(seconds)} here")
            return _with(chosen, told, before=length)
        reason = f"{length.value:,} {length.name} would take {about(seconds)} here"
    bound = Choice("minutes", float(LONGEST), f"{reason}; --epochs, --steps or --minutes say otherwise")
    return _with(chosen, bound, before=length)


def fitted(chosen: Chosen, source: AnySource, *, encoder: nn.Module | None = None) -> Chosen:
    """What was chosen, with smaller views where the time given would not do for ``FEWEST_EPOCHS`` of them.

    For runs by the clock alone, on images whose number is known, where neither size of the views is the user's.
    """
    config, views = chosen.config, chosen.config.views
    named = {choice.name for choice in chosen.choices}
    is_given = (views.size is not None and "views.size" not in named) or "views.early_size" not in named
    if config.minutes is None or is_given or not isinstance(source, Source):
        return chosen  # smaller views to begin with are chosen for the encoder that takes any size
    size = views.size or min(typical_shape(source)[:2])
    if views.early_size is None or size <= SMALLEST or dist.is_torchelastic_launched():
        return chosen
    saved = views.early_share * (1 - (views.early_size / size) ** 2)  # by smaller views to begin with
    seconds = (1 - saved) * seconds_a_batch(config, source, encoder=encoder) * (len(source) / config.batch_size)
    epochs = 60 * config.minutes / seconds
    if epochs >= FEWEST_EPOCHS:
        return chosen
    smaller = max(SMALLEST, int(size * (epochs / FEWEST_EPOCHS) ** 0.5) // EVEN * EVEN)
    if smaller >= size:
        return chosen
    reason = f"at {size} pixels the time would do for {epochs:.1f} epochs"
    sizes = {"size": smaller, "early_size": early_size(smaller)}
    kept = tuple(choice for choice in chosen.choices if choice.name not in ("views.size", "views.early_size"))
    early = [
        replace(choice, value=sizes["early_size"]) for choice in chosen.choices if choice.name == "views.early_size"
    ]
    changed = config.model_copy(update={"views": views.model_copy(update=sizes)})
    return Chosen(changed, (*kept, Choice("views.size", smaller, reason), *early))


def quickened(chosen: Chosen, source: AnySource, *, encoder: nn.Module | None = None) -> Chosen:
    """What was chosen, in half precision and compiled where a processor is measured to be faster so.

    For runs by the clock alone: others are repeatable bit for bit, on any machine. Several processes would each measure
    something else. ``bf16`` and ``compile`` that the user gave are left alone.
    """
    config = chosen.config
    is_short = config.minutes is None or config.minutes < WORTHWHILE
    if is_short or config.encoder.locked or dist.is_torchelastic_launched() or find_device(config.device).type != "cpu":
        return chosen
    seconds = None
    if "precision" not in config.model_fields_set and has_half_instructions() and works_in_half("bf16"):
        half = config.model_copy(update={"precision": "bf16"})
        plain, quick = (timed_batches(each, source, encoder=encoder, is_early=True).batch for each in (config, half))
        seconds = plain
        if plain >= FASTER * quick:
            chosen = _with(chosen, Choice("precision", "bf16", f"{plain / quick:.1f} × as fast as 32 here"))
            seconds = quick
    if chosen.config.compile == "auto" and (config.minutes or 0) >= COMPILED:
        if seconds is None:
            seconds = timed_batches(chosen.config, source, encoder=encoder, is_early=True).batch
        compiled = chosen.config.model_copy(update={"compile": True})
        try:  # what was compiled is kept, and found again by the run
            after = timed_batches(compiled, source, encoder=encoder, is_early=True)
        except (RuntimeError, OSError):  # no compiler, say: torch's own errors are RuntimeErrors
            return chosen
        saved = 60 * (config.minutes or 0) * (1 - after.batch / seconds)
        cost = after.first * (1 if config.views.early_size is None else 2)  # a program for each size of views
        if seconds >= SAVED * after.batch and saved > cost:
            reason = f"{seconds / after.batch:.2f} × as fast here: it saves {about(saved)} and takes {about(cost)}"
            return _with(chosen, Choice("compile", True, reason))
    return chosen


def _with(chosen: Chosen, after: Choice, *, before: Choice | None = None) -> Chosen:
    """What was chosen and ``after``, in the place of ``before`` where that is given."""
    gone = {} if before is None else {before.name: None}
    config = chosen.config.model_copy(update={**gone, after.name: after.value})
    if before is None:
        return Chosen(config, (*chosen.choices, after))
    return Chosen(config, tuple(after if choice is before else choice for choice in chosen.choices))


def seconds_a_batch(config: TrainConfig, source: AnySource, *, encoder: nn.Module | None = None) -> float:
    """Of the views' whole size."""
    return timed_batches(config, source, encoder=encoder).batch


def timed_batches(
    config: TrainConfig, source: AnySource, *, encoder: nn.Module | None = None, is_early: bool = False
) -> Timed:
    """To read, see and encode one, and to follow the gradient; what the loss itself takes is little beside it.

    ``is_early``: at the size that views have in the first part of a run, if that is the longer one.
    """
    device = find_device(config.device)
    begun = begin(config, source, None if encoder is None else deepcopy(encoder))
    network, is_compiled = begun.encoder.to(device).train(), config.compile is True
    if config.channels_last:
        put_channels_last(network)
    if is_compiled:  # in the first batch
        network.compile(dynamic=False)
    loader = ViewLoader(
        source,
        Views(begun.recipe, seed=config.seed),
        batch_size=config.batch_size,
        seed=config.seed,
        steps_per_epoch=1 + TIMED,
        workers=config.workers,
        channels=network.channels,
    )
    times, size = [time.monotonic()], config.views.early_size
    smaller = (
        1.0 if size is None or not is_early or config.views.early_share < 0.5 else size / begun.recipe.crops[0].size
    )
    for seen in islice(loader.epoch(device=device), 1 + TIMED):
        groups = early_views(seen.views.groups, smaller)
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
            features = [in_micro_batches(network, group, config.micro_batch) for group in groups]
        torch.autograd.backward(torch.cat(features).float().square().mean())
        times.append(time.monotonic())
        if len(times) > 1 + is_compiled and times[-1] - times[is_compiled] > ENOUGH:
            break
    timed = times[1:] if len(times) > 2 else times
    return Timed(times[1] - times[0], median(after - before for before, after in pairwise(timed)))
