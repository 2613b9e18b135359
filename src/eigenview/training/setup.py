"""From settings to the parts of a run, method, optimizer and schedule; and all that a checkpoint holds of them."""

from dataclasses import asdict, dataclass, field
from functools import partial

import torch
from torch import nn
from torch.optim import Optimizer

from eigenview.devices import GeneratorStates, generator_states, set_generator_states
from eigenview.distributed import Group, world_size
from eigenview.errors import DataError, EigenviewError, SettingError
from eigenview.methods import Method, MethodContext, find_method
from eigenview.names import reason_of
from eigenview.nn import Encoder, TextEncoder, Tokenizer, synchronise
from eigenview.nn.resnet import automatic_stem
from eigenview.nn.settings import EncoderSettings
from eigenview.optim import (
    Apart,
    build_optimizer,
    build_schedule,
    depth_rates,
    parameter_groups,
    scaled_learning_rate,
)
from eigenview.optim.schedules import Schedule, warm_up
from eigenview.runs import Checkpoint, TrainConfig
from eigenview.runs.opened import ENCODER
from eigenview.training.feed import Feed
from eigenview.training.scaling import Scaling
from eigenview.training.words import captions_of
from eigenview.views import Recipe

FOREVER = 10**9  # steps of a run measured in minutes
TICKS = 10**6  # into which such a run's time is divided for the schedule


def resolve(config: TrainConfig, recipe: Recipe, device: torch.device, encoder: EncoderSettings) -> TrainConfig:
    """The settings with everything decided that "auto" left open; docs/training.md has the measurements behind it.

    ``encoder``: the settings to be written in the place of those given.
    """
    if encoder.stem == "auto" and encoder.name.startswith(("resnet", "resnext")):
        encoder = encoder.model_copy(update={"stem": automatic_stem(recipe.crops[0].size)})
    changes = {
        "encoder": encoder,
        "channels_last": True if config.channels_last == "auto" else config.channels_last,
        "compile": device.type == "cuda" if config.compile == "auto" else config.compile,
    }
    return config.model_copy(update=changes)


def build_method(
    config: TrainConfig, feed: Feed, encoder: Encoder, group: Group, words: tuple[Tokenizer, TextEncoder | None] | None
) -> Method:
    """The method around its encoder, the same on every process where the generator is."""
    tokenizer, text = (None, None) if words is None else words
    context = MethodContext(
        items=feed.items,
        classes=feed.class_count,
        views=feed.views,
        steps_per_epoch=max(1, len(feed) // config.accumulate),
        seed=config.seed,
        tokenizer=tokenizer,
        text=text,
        captions=None if words is None else partial(captions_of, feed.source),
        group=group,
        micro_batch=config.micro_batch,
    )
    method = find_method(config.method)(encoder, config.method_settings, context)
    if world_size(group) > 1 and method.synchronises_batch_norm:
        synchronise(method, group, but_not_in=() if config.micro_batch is None else (Encoder,))
    if config.compile:
        method.encoder.compile(dynamic=False)  # a program for each size of views
    if config.channels_last:
        put_channels_last(method)
    return method


def put_channels_last(module: nn.Module) -> None:
    """The memory layout of its filters, which the maps then take over."""
    for parameter in module.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class Updates:
    """How parameters move."""

    optimizer: Optimizer
    schedule: Schedule
    warmup: int  # steps of it that are not in the schedule: only where the schedule follows time
    total: int
    steps_per_epoch: int

    def share_of_rate(self, step: int, share_of_time: float | None) -> float:
        """What the learning rate of this step is multiplied by. ``share_of_time``: of a run measured in minutes."""
        if share_of_time is None:
            return self.schedule(step)
        return self.schedule(int(min(1.0, share_of_time) * TICKS)) * warm_up(step, steps=self.warmup)


def build_updates(config: TrainConfig, method: Method, batches: int) -> Updates:
    steps_per_epoch = max(1, batches // config.accumulate)
    total = config.steps or (FOREVER if config.epochs is None else config.epochs * steps_per_epoch)
    chosen, follows_time = config.optimizer, config.minutes is not None
    if follows_time and chosen.schedule == "step":
        raise SettingError("a run measured in minutes has no epochs to step at: use the cosine or constant schedule")
    batch = config.batch_size * config.accumulate
    rate = scaled_learning_rate(chosen.learning_rate, batch=batch, rule=chosen.scaling)
    by_depth = {}
    if (chosen.encoder_rate != 1 or chosen.depth_decay != 1) and not config.encoder.locked:
        by_depth = depth_rates(method.encoder, ENCODER, top=rate * chosen.encoder_rate, decay=chosen.depth_decay)
    apart = (
        by_depth
        | {
            module: Apart(scaled_learning_rate(own, batch=batch, rule=chosen.scaling))
            for module, own in chosen.learning_rates.items()
        }
        | {module: Apart(rate, is_scheduled=False) for module in method.constant_rate_parts()}
    )
    groups = parameter_groups(
        method,
        learning_rate=rate,
        weight_decay=chosen.weight_decay,
        exclude=(*chosen.exclude, *method.undecayed_parts()),
        apart=apart,
    )
    options = chosen.model_dump(include={"momentum", "nesterov", "betas", "trust"})
    optimizer = build_optimizer(chosen.name, groups, **options)
    warmup = min(total, round(chosen.warmup_epochs * steps_per_epoch))
    schedule = build_schedule(
        chosen.schedule,
        total=TICKS if follows_time else total,
        warmup=0 if follows_time else warmup,
        start=chosen.warmup_start,
        final=chosen.final,
        milestones=[epoch * steps_per_epoch for epoch in chosen.milestones],
        factor=chosen.factor,
    )
    return Updates(optimizer, schedule, warmup if follows_time else 0, total, steps_per_epoch)


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0  # optimizer steps done
    epoch: int = 0  # the one under way
    seconds: float = 0.0  # trained before this process
    loss_sum: float = 0.0  # over the steps of this epoch
    loss_count: int = 0
    best: float | None = None  # of what best_by names; larger is better
    skipped: int = 0  # steps left out because the gradient overflowed in half precision


@dataclass
class RunState:
    """The method with its state, the optimizer, the position in the data, the generators, the scale, the progress."""

    method: Method
    optimizer: Optimizer
    feed: Feed
    scaling: Scaling
    device: torch.device
    progress: Progress = field(default_factory=Progress)

    def checkpoint(self, *, seconds: float) -> Checkpoint:
        """The run as it stands after so many seconds of training."""
        generators = generator_states(self.device)
        state = {
            "optimizer": self.optimizer.state_dict(),
            "feed": self.feed.loader.state(),
            "progress": {**asdict(self.progress), "seconds": seconds},
            "generator": generators.processor,
            "device_generator": generators.device,
            "scaling": self.scaling.state(),
        }
        return Checkpoint(dict(self.method.state_dict()), state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Bring everything to where it was."""
        state = checkpoint.state
        try:
            self.method.load_state_dict(checkpoint.weights)
            self.optimizer.load_state_dict(state["optimizer"])
            self.progress = Progress(**state["progress"])
            self.feed.loader.restore(state["feed"])
            self.scaling.restore(state.get("scaling", {}))
            set_generator_states(self.device, GeneratorStates(state["generator"], state.get("device_generator")))
        except EigenviewError:  # another number of images, say
            raise
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(f"the checkpoint does not fit this method and encoder: {reason_of(error)}") from None
