"""The training loop. It knows no method: it feeds views, follows gradients, keeps checkpoints and watches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from torch import Tensor, nn

from eigenview.batches import AnySource, first_shape, image_statistics
from eigenview.data import Source, open_images
from eigenview.distributed import Group, from_first_process
from eigenview.errors import DataError, EigenviewError, NotFiniteError
from eigenview.methods import Method, StepOutput, ViewedBatch
from eigenview.optim import set_learning_rate
from eigenview.runs import (
    BEST,
    OWN,
    UNREADABLE,
    Checkpoint,
    RunDirectory,
    TrainConfig,
    data_facts,
    environment_facts,
)
from eigenview.training.afterwards import look_back
from eigenview.training.feed import Feed
from eigenview.training.interrupt import Interruption
from eigenview.training.listeners import Listener, Listeners, Plan
from eigenview.training.measure import embedding_figures, gradient_norm
from eigenview.training.online import OnlineKnn
from eigenview.training.setup import build_method, build_updates, encoder_for, own_encoder, resolve, start_processes
from eigenview.training.tensorboard import TensorBoard
from eigenview.training.watchdog import NOT_FINITE, Look, Watchdog
from eigenview.views import centre_view


class TrainingDiverged(EigenviewError):
    """Training met NaN or Inf and stopped; the last checkpoint is good."""


def train(
    config: TrainConfig,
    *,
    source: AnySource | None = None,
    encoder: nn.Module | None = None,
    resume: bool = False,
    start: str | None = None,
    looks_back: bool = True,
    listeners: Sequence[Listener] = (),
) -> RunDirectory:
    """Train as ``config`` says, into ``config.out``; ``resume``: go on from its last checkpoint.

    One process, or as many as ``torchrun`` starts. ``source``: the images of ``config.source`` where they are open
    already. ``encoder``: a module of your own from images to rows, instead of one by name; ``open_run`` will want it
    too. ``start`` names the checkpoint to go on from; without it, the last one, or the one before where that is
    damaged. ``looks_back``: at the end, diagnose the run and keep a sample of its images for the report. Ctrl-C (or
    SIGTERM) saves a checkpoint after the step under way and raises KeyboardInterrupt.
    """
    fabric = start_processes(config)
    group = dist.group.WORLD if fabric.world_size > 1 else None
    directory = RunDirectory(config.out)
    directory.make()
    with directory.lock() if fabric.is_global_zero else nullcontext():
        directory.check_free(resume=resume)
        images = open_images(config.source, log=config.out / UNREADABLE) if source is None else source
        shape = first_shape(images)
        recipe = config.views.recipe(shape, image_statistics(images))
        feed = Feed(config, images, recipe, group=group)
        size = recipe.crops[0].size
        if encoder is None:
            config = resolve(config, recipe, fabric.device)
            chosen = encoder_for(config, shape, size)
        else:
            chosen = own_encoder(encoder, config, shape, size)
            config = resolve(config, recipe, fabric.device, encoder=OWN)
        method = build_method(config, feed, chosen, group)
        if fabric.is_global_zero:
            facts = data_facts(images, recipe, shape, None)
            environment = environment_facts(fabric.device, fabric.world_size)
            directory.prepare(config, facts, environment, method.parts(), resume=resume)
        fabric.barrier()
        own = [TensorBoard(directory.folder)] if config.tensorboard else []
        told = Listeners([*listeners, *own] if fabric.is_global_zero else [])
        trainer = _Trainer(config, fabric, directory, feed, method, group, told)
        if resume:
            trainer.restore(start)
        elif fabric.is_global_zero:
            directory.metrics_file.cut(-1)
        trainer.fit()
        if looks_back and fabric.is_global_zero and isinstance(images, Source):
            look_back(directory, images, told, encoder=encoder)
        fabric.barrier()
    return directory


@dataclass
class _Progress:
    """Where a run stands; all of it goes into a checkpoint."""

    step: int = 0  # optimizer steps done
    epoch: int = 0  # the one under way
    seconds: float = 0.0  # trained before this process
    loss_sum: float = 0.0  # over the steps of this epoch
    loss_count: int = 0
    best: float | None = None  # of what best_by names; larger is better


class _Trainer:
    def __init__(
        self,
        config: TrainConfig,
        fabric: Fabric,
        directory: RunDirectory,
        feed: Feed,
        method: Method,
        group: Group,
        listener: Listener,
    ) -> None:
        self.config, self.fabric, self.directory, self.feed, self.group = config, fabric, directory, feed, group
        self.listener, self.watchdog, self.progress = listener, Watchdog(), _Progress()
        self.raw, self.updates = method, build_updates(config, method, len(feed))
        self.chance = method.chance_level(config.batch_size) if method.has_chance_level else None
        self.knn = self._online_knn()
        self.method, self.optimizer = fabric.setup(method, self.updates.optimizer)
        self.interruption = Interruption()
        self.started = time.monotonic()
        self.rank = 0.0  # effective, at the last look
        self.saved = -1  # step of the last checkpoint

    def _online_knn(self) -> OnlineKnn | None:
        source = self.feed.source
        if not self.config.knn_every or not isinstance(source, Source):
            return None
        view = centre_view(self.feed.recipe)
        seed, workers = self.config.seed, self.config.workers
        return OnlineKnn.if_possible(source, view, seed=seed, workers=workers, group=self.group)

    def fit(self) -> None:
        self.method.train()
        self.listener.started(self._plan())
        try:
            with self.interruption:
                while not self._is_done():
                    self._epoch()
                if self.saved != self.progress.step:
                    self._save()
        finally:
            self.listener.ended()

    def _plan(self) -> Plan:
        config = self.config
        return Plan(
            folder=self.directory.folder,
            method=config.method,
            encoder=config.encoder.name,
            items=self.feed.items,
            views=sum(crop.count for crop in self.feed.recipe.crops),
            batch_size=config.batch_size * config.accumulate,
            steps_per_epoch=self.updates.steps_per_epoch,
            total_steps=self.updates.total if config.minutes is None else None,
            minutes=config.minutes,
            done_steps=self.progress.step,
            chance=self.chance,
        )

    def _seconds(self) -> float:
        return self.progress.seconds + time.monotonic() - self.started

    def _share_of_time(self) -> float | None:
        """How much of a run measured in minutes is over, by the first process's clock; None for other runs."""
        if self.config.minutes is None:
            return None
        share = torch.tensor(self._seconds() / (60 * self.config.minutes), device=self.fabric.device)
        return float(from_first_process(share, self.group))

    def _is_done(self) -> bool:
        share = self._share_of_time()
        return self.progress.step >= self.updates.total if share is None else share >= 1

    def _epoch(self) -> None:
        epoch, device = self.progress.epoch, self.fabric.device
        if self.feed.is_at_start_of_epoch:
            self.raw.start_epoch(epoch, lambda: self.feed.whole_pass(epoch, device=device))
        waiting: list[StepOutput] = []
        for batch in self._batches(epoch):
            waiting.append(self._backward(batch))
            if len(waiting) == self.config.accumulate:
                self._update(waiting)
                waiting = []
                if self.interruption.is_asked_anywhere(self.group, device):
                    self._save()
                    raise KeyboardInterrupt
                if self._is_done():
                    break
        if self.feed.batches_left < self.config.accumulate:
            self.progress.epoch += 1
            self.feed.loader.loader.set_epoch(self.progress.epoch)
        self._end_epoch()

    def _batches(self, epoch: int) -> Iterator[ViewedBatch]:
        """The epoch's batches. Ctrl-C ends the data's workers too: their death is then no error of its own."""
        try:
            for batch in self.feed.epoch(epoch, device=self.fabric.device, step=self.progress.step):
                yield batch._replace(step=self.progress.step)
        except DataError:
            if not self.interruption.is_asked or self.group is not None:
                raise
            self._save()
            raise KeyboardInterrupt from None

    def _end_epoch(self) -> None:
        """Look back at an epoch, or at the part of one that ended the run, and keep what is to be kept."""
        progress, config, is_over = self.progress, self.config, self._is_done()
        line: dict[str, Any] = {"step": progress.step, "epoch": progress.epoch, "seconds": self._seconds()}
        line["epoch_loss"] = progress.loss_sum / max(1, progress.loss_count)
        if self.knn is not None and (progress.epoch % config.knn_every == 0 or is_over):
            line["knn_accuracy"] = self.knn(self.raw.encoder)
        self._write(line)
        progress.loss_sum, progress.loss_count = 0.0, 0
        if not is_over and progress.epoch % config.checkpoint_every:
            return
        worth = {"loss": -line["epoch_loss"], "effective_rank": self.rank, "knn_accuracy": line.get("knn_accuracy")}
        value = worth[config.best_by]
        is_best = value is not None and (progress.best is None or value > progress.best)
        if is_best:
            progress.best = value
        is_kept = bool(config.keep_every) and progress.epoch % (config.keep_every or 1) == 0
        self._save(also=[*([BEST] if is_best else []), *([f"epoch-{progress.epoch:05d}"] if is_kept else [])])

    def _backward(self, batch: ViewedBatch) -> StepOutput:
        try:
            output: StepOutput = self.method(batch)
        except NotFiniteError as error:
            self._stop(f"step {self.progress.step}: {error}; {NOT_FINITE}")
        self.fabric.backward(output.loss / self.config.accumulate)
        return output

    def _update(self, outputs: list[StepOutput]) -> None:
        progress = self.progress
        set_learning_rate(self.optimizer, self.updates.share_of_rate(progress.step, self._share_of_time()))
        self.raw.before_update(progress.step)
        size = gradient_norm(self.raw)
        loss = torch.stack([output.loss.detach() for output in outputs]).mean()
        is_finite = loss.isfinite() if self.config.precision == "16" else loss.isfinite() & size.isfinite()
        if not bool(is_finite):  # in half precision a gradient may overflow: its step is left out, the scale lowered
            self._look(outputs[-1], loss, size)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        progress.loss_sum, progress.loss_count = progress.loss_sum + float(loss), progress.loss_count + 1
        if progress.step % self.config.log_every == 0 or progress.step == self.updates.total:
            self._look(outputs[-1], loss, size)
        self.listener.stepped(progress.step, self._seconds())

    def _look(self, output: StepOutput, loss: Tensor, gradient: Tensor) -> None:
        """Measure, write a line, and let the watchdog see it."""
        figures = embedding_figures(output.embeddings, self.group)
        self.rank = figures["effective_rank"] or 0.0
        logs = {name: float(value) for name, value in output.logs.items()}
        used = None if output.prototypes_used is None else float(output.prototypes_used)
        look = Look(self.progress.step, float(loss), self.chance, self.rank, float(gradient), used)
        alarms = self.watchdog(look)
        seconds, plan = self._seconds(), self._plan()
        line = {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "loss": look.loss,
            "chance": self.chance,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": look.gradient,
            **figures,
            "seconds": seconds,
            "views_per_second": plan.views * plan.batch_size * self.progress.step / seconds,
            **({} if used is None else {"prototypes_used": used}),
            **logs,
            "alarms": [alarm.message for alarm in alarms],
        }
        self._write(line)
        fatal = next((alarm for alarm in alarms if alarm.is_fatal), None)
        if fatal is not None:
            raise TrainingDiverged(fatal.message)

    def _write(self, line: dict[str, Any]) -> None:
        if self.fabric.is_global_zero:
            self.directory.metrics_file.append(line)
            self.listener.measured(line)
            for message in line.get("alarms", []):
                self.listener.told(message)

    def _stop(self, message: str) -> NoReturn:
        self._write({"step": self.progress.step, "epoch": self.progress.epoch, "alarms": [message]})
        raise TrainingDiverged(message)

    def _save(self, *, also: Sequence[str] = ()) -> None:
        """The run as it stands becomes ``last``, and is kept under other names too."""
        if self.fabric.is_global_zero:
            state = {
                "optimizer": self.optimizer.state_dict(),
                "feed": self.feed.loader.state(),
                "progress": {**asdict(self.progress), "seconds": self._seconds()},
                "generator": torch.get_rng_state(),
            }
            self.directory.checkpoints.save(Checkpoint(dict(self.raw.state_dict()), state), also=also)
        self.saved = self.progress.step
        self.fabric.barrier()

    def restore(self, start: str | None) -> None:
        """From the checkpoint ``start``, or from the newest that can be read; what was measured since is forgotten."""
        names = [start] if start is not None else [*self.directory.checkpoints.names()[:2]]
        for name in names:
            try:
                self._restore(self.directory.checkpoints.load(name))
                break
            except DataError as error:
                if name == names[-1]:
                    raise
                self.listener.told(f"{error}; going on from {names[-1]}")
        if self.fabric.is_global_zero:
            self.directory.metrics_file.cut(self.progress.step)

    def _restore(self, checkpoint: Checkpoint) -> None:
        try:
            self.raw.load_state_dict(checkpoint.weights)
            self.optimizer.load_state_dict(checkpoint.state["optimizer"])
            self.progress = _Progress(**checkpoint.state["progress"])
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            first = str(error).splitlines()[0]
            raise DataError(f"the checkpoint does not fit this method and encoder: {first}") from None
        self.feed.loader.restore(checkpoint.state["feed"])
        torch.set_rng_state(checkpoint.state["generator"])
        self.saved = self.progress.step
