"""The training loop. It knows no method: it feeds views, follows gradients, keeps checkpoints and watches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from torch import Tensor, nn

from eigenview.data import StreamSource
from eigenview.distributed import Group, from_first_process
from eigenview.errors import DataError, EigenviewError, NotFiniteError
from eigenview.evaluation.runs import OWN
from eigenview.methods import Method, StepOutput, ViewedBatch
from eigenview.optim import set_learning_rate
from eigenview.training.checkpoint import Checkpoint
from eigenview.training.config import TrainConfig
from eigenview.training.facts import data_facts, environment_facts
from eigenview.training.feed import Feed, first_shape, open_for_training, recipe_for
from eigenview.training.interrupt import Interruption
from eigenview.training.listeners import Listener, Listeners, Plan
from eigenview.training.measure import embedding_figures, gradient_norm
from eigenview.training.online import OnlineKnn
from eigenview.training.run import Run
from eigenview.training.setup import build_method, build_updates, encoder_for, own_encoder, resolve, start_processes
from eigenview.training.tensorboard import TensorBoard
from eigenview.training.watchdog import NOT_FINITE, Look, Watchdog
from eigenview.views import centre_view

LAST, PREVIOUS, BEST = "last", "previous", "best"


class TrainingDiverged(EigenviewError):
    """Training met NaN or Inf and stopped; the last checkpoint is good."""


def train(
    config: TrainConfig,
    *,
    encoder: nn.Module | None = None,
    resume: bool = False,
    falls_back: bool = False,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Train as ``config`` says, into ``config.out``; ``resume``: go on from its last checkpoint, if there is one.

    One process, or as many as ``torchrun`` starts. ``encoder``: a module of your own from images to rows, instead of
    one by name; ``open_run`` will want it too. ``falls_back``: where the last checkpoint is damaged, go on from the
    one before. Ctrl-C (or SIGTERM) saves a checkpoint after the step under way and raises KeyboardInterrupt.
    """
    fabric = start_processes(config)
    group = dist.group.WORLD if fabric.world_size > 1 else None
    source = open_for_training(config.source)
    recipe = recipe_for(config.views, source)
    shape = first_shape(source)
    size = recipe.crops[0].size
    run = Run(config.out)
    run.make()
    feed = Feed(config, source, recipe, group=group, log=run.folder / "unreadable.jsonl")
    if encoder is None:
        config = resolve(config, recipe, fabric.device)
        chosen = encoder_for(config, shape, size)
    else:
        chosen = own_encoder(encoder, config, shape, size)
        config = resolve(config, recipe, fabric.device, encoder=OWN)
    method = build_method(config, feed, chosen, group)
    if fabric.is_global_zero:
        facts = {
            "data.json": data_facts(source, recipe, shape),
            "environment.json": environment_facts(fabric.device, fabric.world_size),
        }
        run.prepare(config, facts, resume=resume)
    fabric.barrier()
    told = [*listeners, *([TensorBoard(run.folder)] if config.tensorboard else [])] if fabric.is_global_zero else []
    trainer = _Trainer(config, fabric, run, feed, method, group, Listeners(told))
    trainer.begin(resume=resume, falls_back=falls_back)
    trainer.fit()
    return run


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
        run: Run,
        feed: Feed,
        method: Method,
        group: Group,
        listener: Listener,
    ) -> None:
        self.config, self.fabric, self.run, self.feed, self.group = config, fabric, run, feed, group
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
        if not self.config.knn_every or isinstance(source, StreamSource):
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
            folder=self.run.folder,
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
            self.feed.loader.set_epoch(self.progress.epoch)
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
            line["knn_accuracy"] = self.knn(self.raw.encoder, self.fabric.device)
        self._write(line)
        progress.loss_sum, progress.loss_count = 0.0, 0
        if not is_over and progress.epoch % config.checkpoint_every:
            return
        worth = {"loss": -line["epoch_loss"], "effective_rank": self.rank, "knn_accuracy": line.get("knn_accuracy")}
        value = worth[config.best_by]
        is_best = value is not None and (progress.best is None or value > progress.best)
        if is_best:
            progress.best = value
        self._save()
        if is_best:
            self._copy(BEST)
        if config.keep_every and progress.epoch % config.keep_every == 0:
            self._copy(f"epoch-{progress.epoch:05d}")

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
        look = Look(
            self.progress.step, float(loss), self.chance, self.rank, float(gradient), logs.get("prototypes used")
        )
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
            **logs,
            "alarms": [alarm.message for alarm in alarms],
        }
        self._write(line)
        fatal = next((alarm for alarm in alarms if alarm.is_fatal), None)
        if fatal is not None:
            raise TrainingDiverged(fatal.message)

    def _write(self, line: dict[str, Any]) -> None:
        if self.fabric.is_global_zero:
            self.run.append_metrics(line)
            self.listener.measured(line)
            for message in line.get("alarms", []):
                self.listener.told(message)

    def _stop(self, message: str) -> NoReturn:
        self._write({"step": self.progress.step, "epoch": self.progress.epoch, "alarms": [message]})
        raise TrainingDiverged(message)

    def _save(self) -> None:
        """The run as it stands becomes ``last``; what was ``last`` becomes ``previous``."""
        if self.fabric.is_global_zero:
            state = {
                "optimizer": self.optimizer.state_dict(),
                "feed": self.feed.state(),
                "progress": {**asdict(self.progress), "seconds": self._seconds()},
                "generator": torch.get_rng_state(),
            }
            kept = self.run.checkpoints
            if LAST in kept.names():
                kept.copy(LAST, PREVIOUS)
            kept.save(LAST, Checkpoint(dict(self.raw.state_dict()), state))
        self.saved = self.progress.step
        self.fabric.barrier()

    def _copy(self, name: str) -> None:
        if self.fabric.is_global_zero:
            self.run.checkpoints.copy(LAST, name)
        self.fabric.barrier()

    def begin(self, *, resume: bool, falls_back: bool) -> None:
        """From the last checkpoint, or from the one before where that cannot be read; from the start without any."""
        there = [name for name in (LAST, PREVIOUS) if resume and name in self.run.checkpoints.names()]
        for name in there:
            try:
                self._restore(self.run.checkpoints.load(name))
                break
            except DataError as error:
                if not falls_back or name == there[-1]:
                    raise
                self.listener.told(f"{error}; going on from {PREVIOUS}")
        if self.fabric.is_global_zero:
            self.run.cut_metrics(self.progress.step if there else -1)

    def _restore(self, checkpoint: Checkpoint) -> None:
        try:
            self.raw.load_state_dict(checkpoint.weights)
            self.optimizer.load_state_dict(checkpoint.state["optimizer"])
            self.progress = _Progress(**checkpoint.state["progress"])
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            first = str(error).splitlines()[0]
            raise DataError(f"the checkpoint does not fit this method and encoder: {first}") from None
        self.feed.restore(checkpoint.state["feed"])
        torch.set_rng_state(checkpoint.state["generator"])
        self.saved = self.progress.step
