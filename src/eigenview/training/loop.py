"""The training loop. It knows no method: it feeds views, follows gradients, keeps checkpoints and watches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.diagnostics import effective_rank
from eigenview.distributed import Group, gather_rows, world_size
from eigenview.errors import DataError, EigenviewError, NotFiniteError
from eigenview.losses import alignment, uniformity
from eigenview.methods import Method, Setting, StepOutput, find_method
from eigenview.nn import build_encoder, load_weights, synchronise
from eigenview.optim import (
    Apart,
    build_optimizer,
    build_schedule,
    parameter_groups,
    scaled_learning_rate,
    set_learning_rate,
)
from eigenview.training.checkpoint import Checkpoint
from eigenview.training.config import TrainConfig
from eigenview.training.feed import Feed, open_for_training, recipe_for
from eigenview.training.run import Run
from eigenview.training.watchdog import NOT_FINITE, Look, Watchdog

LAST = "last"
WATCHED_ROWS = 1024  # embeddings that alignment, uniformity and rank are taken of
PRECISIONS: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {
    "32": "32-true",
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}
Listener = Callable[[dict[str, Any]], None]


class NotFinite(EigenviewError):
    """Training met NaN or Inf and stopped; the last checkpoint is good."""


def train(config: TrainConfig, *, resumes: bool = False, listener: Listener | None = None) -> Run:
    """Train as ``config`` says, into ``config.out``; ``resumes``: go on from its last checkpoint, if there is one.

    One process, or as many as ``torchrun`` starts. ``listener`` gets every line of ``metrics.jsonl``. Ctrl-C saves a
    checkpoint before it ends the run.
    """
    fabric = _start(config)
    group = dist.group.WORLD if fabric.world_size > 1 else None
    source = open_for_training(config.source)
    recipe = recipe_for(config.views, source)
    run = Run(config.out)
    if fabric.is_global_zero:
        run.prepare(config, resumes=resumes)
    fabric.barrier()
    feed = Feed(config, source, recipe, group=group, log=run.folder / "unreadable.jsonl")
    trainer = _Trainer(config, fabric, run, feed, _build(config, feed, group), group, listener)
    if resumes and LAST in run.checkpoints.names():
        trainer.restore(run.checkpoints.load(LAST))
    trainer.fit()
    return run


def _start(config: TrainConfig) -> Fabric:
    torch.manual_seed(config.seed)
    precision = PRECISIONS[config.precision]
    if dist.is_torchelastic_launched():  # torchrun says how many processes there are
        here, everywhere = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        strategy = DDPStrategy(broadcast_buffers=False)  # statistics are synchronised, or meant to differ
        fabric = Fabric(devices=here, num_nodes=everywhere // here, strategy=strategy, precision=precision)
    else:
        fabric = Fabric(devices=1, precision=precision)
    fabric.launch()
    return fabric


def _build(config: TrainConfig, feed: Feed, group: Group) -> Method:
    """The method with a fresh encoder, the same on every process."""
    torch.manual_seed(config.seed)
    chosen = config.encoder
    channels = feed.source.image(0).pixels().shape[2]
    encoder = build_encoder(
        chosen.name,
        width=chosen.width,
        stem=chosen.stem,
        channels=channels,
        normalization=chosen.normalization,
        image_size=feed.recipe.crops[0].size,
    )
    if chosen.weights is not None:
        load_weights(encoder, chosen.weights)
    labels = feed.source.labels
    setting = Setting(
        items=len(feed.source),
        classes=None if labels is None else int(labels.max()) + 1,
        views=tuple(crop.count for crop in feed.recipe.crops),
        steps_per_epoch=max(1, len(feed) // config.accumulate),
        seed=config.seed,
        group=group,
    )
    method = find_method(config.method)(encoder, config.method_settings, setting)
    if world_size(group) > 1 and method.synchronises_batch_norm:
        synchronise(method, group)
    if config.compile:
        method.encoder.compile()
    if config.channels_last:
        for parameter in method.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return method


@dataclass
class _Progress:
    """Optimiser steps done, the epoch under way, seconds trained before this process."""

    step: int = 0
    epoch: int = 0
    seconds: float = 0.0


class _Trainer:
    def __init__(
        self,
        config: TrainConfig,
        fabric: Fabric,
        run: Run,
        feed: Feed,
        method: Method,
        group: Group,
        listener: Listener | None,
    ) -> None:
        self.config, self.fabric, self.run, self.feed, self.group = config, fabric, run, feed, group
        self.listener, self.watchdog, self.progress = listener, Watchdog(), _Progress()
        self.raw = method
        self.steps_per_epoch = max(1, len(feed) // config.accumulate)
        self.total = config.steps or (config.epochs or 10**6) * self.steps_per_epoch
        chosen = config.optimiser
        rate = scaled_learning_rate(
            chosen.learning_rate, batch=config.batch_size * config.accumulate, rule=chosen.scaling
        )
        groups = parameter_groups(
            method,
            learning_rate=rate,
            weight_decay=chosen.weight_decay,
            exclude=chosen.exclude,
            apart={part: Apart(rate, is_scheduled=False) for part in method.constant_rate_parts()},
        )
        optimizer = build_optimizer(
            chosen.name,
            groups,
            momentum=chosen.momentum,
            nesterov=chosen.nesterov,
            betas=chosen.betas,
            trust=chosen.trust,
        )
        warmup = min(self.total, round(chosen.warmup_epochs * self.steps_per_epoch))
        self.schedule = build_schedule(
            chosen.schedule,
            total=self.total,
            warmup=warmup,
            start=chosen.warmup_start,
            final=chosen.final,
            milestones=[epoch * self.steps_per_epoch for epoch in chosen.milestones],
            factor=chosen.factor,
        )
        self.method, self.optimizer = fabric.setup(method, optimizer)
        self.started = time.monotonic()

    def fit(self) -> None:
        self.method.train()
        try:
            while not self._is_done():
                self._epoch()
        except KeyboardInterrupt:
            self._save(LAST)
            raise
        self._save(LAST)

    def _is_done(self) -> bool:
        if self.config.minutes is not None:
            late = torch.tensor(float(self._seconds() >= 60 * self.config.minutes), device=self.fabric.device)
            return bool(self.fabric.broadcast(late))
        return self.progress.step >= self.total

    def _seconds(self) -> float:
        return self.progress.seconds + time.monotonic() - self.started

    def _epoch(self) -> None:
        epoch, device = self.progress.epoch, self.fabric.device
        if self.feed.state()["step"] == 0:
            self.raw.start_epoch(epoch, lambda: self.feed.whole_pass(epoch, device=device))
        waiting: list[StepOutput] = []
        for batch in self.feed.epoch(epoch, device=device, step=self.progress.step):
            waiting.append(self._backward(batch._replace(step=self.progress.step)))
            if len(waiting) == self.config.accumulate:
                self._update(waiting)
                waiting = []
                if self._is_done():
                    break
        else:
            self.progress.epoch += 1
            self.feed.loader.set_epoch(self.progress.epoch)
            if self.progress.epoch % self.config.checkpoint_every == 0 and not self._is_done():
                self._save(LAST)
            if self.config.keep_every and self.progress.epoch % self.config.keep_every == 0:
                self._save(f"epoch-{self.progress.epoch:05d}")

    def _backward(self, batch: Any) -> StepOutput:
        try:
            output: StepOutput = self.method(batch)
        except NotFiniteError as error:
            self._stop(f"step {self.progress.step}: {error}; {NOT_FINITE}")
        self.fabric.backward(output.loss / self.config.accumulate)
        return output

    def _update(self, outputs: list[StepOutput]) -> None:
        step = self.progress.step
        set_learning_rate(self.optimizer, self.schedule(step))
        self.raw.before_update(step)
        size = gradient_norm(self.raw)
        loss = torch.stack([output.loss.detach() for output in outputs]).mean()
        if not bool(loss.isfinite() & size.isfinite()):
            self._look(outputs[-1], loss, size)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.step += 1
        if self.progress.step % self.config.log_every == 0 or self.progress.step == self.total:
            self._look(outputs[-1], loss, size)

    def _look(self, output: StepOutput, loss: Tensor, gradient: Tensor) -> None:
        """Measure, write a line, and let the watchdog see it."""
        line = self._measured(output, float(loss), float(gradient))
        chance = self.raw.chance_level(self.config.batch_size) if self.raw.has_chance_level else None
        look = Look(
            self.progress.step,
            line["loss"],
            chance,
            line["effective_rank"],
            line["gradient_norm"],
            line.get("prototypes used"),
        )
        alarms = self.watchdog(look)
        line |= {"chance": chance, "alarms": [alarm.message for alarm in alarms]}
        if self.fabric.is_global_zero:
            self.run.append_metrics(line)
            if self.listener is not None:
                self.listener(line)
        fatal = next((alarm for alarm in alarms if alarm.is_fatal), None)
        if fatal is not None:
            raise NotFinite(fatal.message)

    def _stop(self, message: str) -> NoReturn:
        if self.fabric.is_global_zero:
            self.run.append_metrics({"step": self.progress.step, "epoch": self.progress.epoch, "alarms": [message]})
        raise NotFinite(message)

    def _measured(self, output: StepOutput, loss: float, gradient: float) -> dict[str, Any]:
        rows = [gather_rows(view, self.group)[:WATCHED_ROWS].float() for view in output.embeddings]
        usable = all(bool(view.isfinite().all() & (view.norm(dim=1) > 0).all()) for view in rows)
        seconds = self._seconds()
        views = sum(crop.count for crop in self.feed.recipe.crops)
        return {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "loss": loss,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": gradient,
            "alignment": float(alignment(*rows)) if usable and len(rows) > 1 else None,
            "uniformity": float(uniformity(rows[0])) if usable and len(rows[0]) > 1 else None,
            "effective_rank": float(effective_rank(normalize(rows[0], dim=1))) if usable else 0.0,
            "seconds": seconds,
            "views_per_second": views * self.config.batch_size * self.config.accumulate * self.progress.step / seconds,
            **{name: float(value) for name, value in output.logs.items()},
        }

    def _save(self, name: str) -> None:
        if self.fabric.is_global_zero:
            state = {
                "optimizer": self.optimizer.state_dict(),
                "feed": self.feed.state(),
                "step": self.progress.step,
                "epoch": self.progress.epoch,
                "seconds": self._seconds(),
                "generator": torch.get_rng_state(),
            }
            self.run.checkpoints.save(name, Checkpoint(dict(self.raw.state_dict()), state))
        self.fabric.barrier()

    def restore(self, checkpoint: Checkpoint) -> None:
        try:
            self.raw.load_state_dict(checkpoint.weights)
            self.optimizer.load_state_dict(checkpoint.state["optimizer"])
        except (RuntimeError, KeyError, ValueError) as error:
            first = str(error).splitlines()[0]
            raise DataError(f"the checkpoint does not fit this method and encoder: {first}") from None
        self.feed.restore(checkpoint.state["feed"])
        self.progress = _Progress(checkpoint.state["step"], checkpoint.state["epoch"], checkpoint.state["seconds"])
        torch.set_rng_state(checkpoint.state["generator"])
        if self.fabric.is_global_zero:
            self.run.cut_metrics(self.progress.step)


def gradient_norm(module: nn.Module) -> Tensor:
    """The norm of all gradients together."""
    norms = [torch.linalg.vector_norm(p.grad) for p in module.parameters() if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())
