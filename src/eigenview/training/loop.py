"""The training loop. It knows no method: it feeds views, follows gradients, keeps checkpoints and watches."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import torch

from eigenview.data import Source
from eigenview.distributed import any_process, from_first_process
from eigenview.errors import DataError, EigenviewError, NotFiniteError
from eigenview.methods import Method, StepOutput, ViewedBatch
from eigenview.names import counted, printable
from eigenview.optim import set_learning_rate
from eigenview.runs import BEST, LAST, PREVIOUS, RunDirectory, TrainConfig
from eigenview.training.feed import Feed
from eigenview.training.listeners import Plan, Record
from eigenview.training.processes import Interruption, Processes
from eigenview.training.setup import RunState, build_updates
from eigenview.training.watchdog import NOT_FINITE, Look, OnlineKnn, Watchdog, embedding_figures, gradient_norm
from eigenview.views import centre_view


class TrainingDiverged(EigenviewError):
    """Training met NaN or Inf and stopped; the last checkpoint is good."""


class Trainer:
    """One run, from where its state stands to its end."""

    def __init__(
        self,
        config: TrainConfig,
        processes: Processes,
        directory: RunDirectory,
        feed: Feed,
        method: Method,
        record: Record,
        *,
        started: float | None = None,
    ) -> None:
        self.config, self.processes, self.directory, self.feed = config, processes, directory, feed
        self.device, self.group = processes.device, processes.group
        self.record, self.watchdog = record, Watchdog()
        self.raw, self.updates = method, build_updates(config, method, len(feed))
        self.chance = method.chance_level(config.batch_size) if method.has_chance_level else None
        self.knn: OnlineKnn | None = None
        if config.knn_every and isinstance(feed.source, Source) and not config.encoder.locked:
            view, seed, workers = centre_view(feed.recipe), config.seed, config.workers
            self.knn = OnlineKnn.if_possible(feed.source, view, seed=seed, workers=workers, group=self.group)
        self.method, self.optimizer = processes.fabric.setup(method, self.updates.optimizer)
        self.state = RunState(method, self.updates.optimizer, feed, processes.scaling, self.device)
        self.interruption = Interruption()
        self.started = time.monotonic()  # from here on minutes count; what came before is theirs, up to half of them
        if started is not None and config.minutes is not None and not config.encoder.locked:
            self.started = max(started, self.started - 30 * config.minutes)
        self.rank = 0.0  # effective, at the last look
        self.saved = -1  # step of the last checkpoint
        self.told: set[str] = set()  # notes of the method

    def fit(self) -> None:
        self.method.train()
        plan = self._plan()
        self.record.each(lambda listener: listener.started(plan))
        try:
            with self.interruption:
                if self.saved < 0:
                    self._save()  # from its first step on, a run can go on
                while not self._is_done():
                    self._epoch()
                if self.saved != self.state.progress.step:
                    self._save()
        finally:
            self.feed.loader.close()  # or what follows would inherit its workers
            if count := self.directory.unreadable:
                log = printable(self.directory.unreadable_log)
                self.record.tell(
                    f"{counted(count, 'image')} could not be read, and others took their place: listed in {log}"
                )
            self.record.each(lambda listener: listener.ended())

    def _plan(self) -> Plan:
        config = self.config
        return Plan(
            folder=self.directory.folder,
            method=config.method,
            encoder=config.encoder.name,
            items=self.feed.items,
            views=sum(self.feed.views),
            batch_size=config.batch_size * config.accumulate,
            steps_per_epoch=self.updates.steps_per_epoch,
            total_steps=self.updates.total if config.minutes is None else None,
            minutes=config.minutes,
            done_steps=self.state.progress.step,
            chance=self.chance,
        )

    def _seconds(self) -> float:
        return self.state.progress.seconds + time.monotonic() - self.started

    def _share_of_time(self) -> float | None:
        """How much of a run measured in minutes is over, by the first process's clock; None for other runs."""
        if self.config.minutes is None:
            return None
        share = torch.tensor(self._seconds() / (60 * self.config.minutes), device=self.device)
        return float(from_first_process(share, self.group))

    def tell_if_finished(self) -> bool:
        """Whether a run that goes on has nothing left to do; it is said then, with what would give it more."""
        if not self._is_done():
            return False
        longer = "--minutes" if self.config.minutes is not None else "--epochs" if self.config.epochs else "--steps"
        self.record.tell(
            f"this run is finished, at step {self.state.progress.step:,}: nothing is left to train; {longer} N with a "
            "larger N goes on"
        )
        return True

    def _share(self) -> float:
        """Of the run that is over."""
        share = self._share_of_time()
        return self.state.progress.step / self.updates.total if share is None else share

    def _is_done(self) -> bool:
        return self._share() >= 1

    def _epoch(self) -> None:
        progress, device = self.state.progress, self.device
        epoch = progress.epoch
        if self.feed.loader.step == 0:
            self.raw.start_epoch(epoch, lambda: self.feed.whole_pass(epoch, device=device))
        waiting: list[StepOutput] = []
        for batch in self._batches(epoch):
            waiting.append(self._backward(batch))
            if len(waiting) == self.config.accumulate:
                self._update(waiting)
                waiting = []
                if any_process(self.interruption.is_asked, self.group, device):
                    self._save()
                    raise KeyboardInterrupt
                if self._is_done():
                    break
        if len(self.feed) - self.feed.loader.step < self.config.accumulate:
            progress.epoch += 1
            self.feed.loader.loader.set_epoch(progress.epoch)
        self._end_epoch()

    def _batches(self, epoch: int) -> Iterator[ViewedBatch]:
        """The epoch's batches. Ctrl-C ends the data's workers too: their death is then no error of its own."""
        try:
            for batch in self.feed.epoch(epoch, device=self.device, step=self.state.progress.step):
                is_early = self.feed.early_share > 0 and self._share() < self.feed.early_share
                groups = self.feed.shrunk(batch.groups) if is_early else batch.groups
                yield batch._replace(step=self.state.progress.step, groups=groups)
        except DataError:
            if not self.interruption.is_asked or self.group is not None:
                raise
            self._save()
            raise KeyboardInterrupt from None

    def _end_epoch(self) -> None:
        """Look back at an epoch, or at the part of one that ended the run, and keep what is to be kept."""
        progress, config, is_over = self.state.progress, self.config, self._is_done()
        line: dict[str, Any] = {"step": progress.step, "epoch": progress.epoch, "seconds": self._seconds()}
        line["epoch_loss"] = progress.loss_sum / max(1, progress.loss_count)
        if self.knn is not None and (progress.epoch % config.knn_every == 0 or is_over):
            line["knn_accuracy"] = self.knn(self.raw.encoder)
        self.record.write(line)
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
            self._stop(str(error))
        if output.note is not None and output.note not in self.told:
            self.told.add(output.note)
            self.record.tell(output.note)
        self.processes.fabric.backward(output.loss / self.config.accumulate)
        return output

    def _update(self, outputs: list[StepOutput]) -> None:
        progress, scaling = self.state.progress, self.processes.scaling
        set_learning_rate(self.optimizer, self.updates.share_of_rate(progress.step, self._share_of_time()))
        self.raw.before_update(progress.step)
        scaling.unscale(self.updates.optimizer)
        gradient = float(gradient_norm(self.raw))
        loss = float(torch.stack([output.loss.detach() for output in outputs]).mean())
        if not math.isfinite(loss) or not (math.isfinite(gradient) or scaling.can_overflow):
            self._stop(f"the loss ({loss:.4g}) or its gradient (norm {gradient:.4g}) is not finite")
        scale = scaling.scale
        self.optimizer.step()
        self.raw.after_update()
        self.optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        is_skipped = scaling.scale < scale
        if is_skipped:
            progress.skipped += 1
            self.record.tell(
                f"step {progress.step}: the gradient overflowed in half precision; the step was left out and "
                f"the scale lowered to {scaling.scale:g}"
            )
        progress.loss_sum, progress.loss_count = progress.loss_sum + loss, progress.loss_count + 1
        if progress.step % self.config.log_every == 0 or progress.step == self.updates.total:
            self._look(outputs[-1], loss, None if is_skipped else gradient)
        seconds = self._seconds()
        self.record.each(lambda listener: listener.stepped(progress.step, seconds))

    def _look(self, output: StepOutput, loss: float, gradient: float | None) -> None:
        """Measure, let the watchdog see it, write a line. ``gradient`` is None where the step was left out."""
        figures = embedding_figures(output.embeddings, self.group)
        self.rank = figures["effective_rank"] or 0.0
        used = None if output.prototypes_used is None else float(output.prototypes_used)
        step = self.state.progress.step
        alarms = self.watchdog(Look(step, loss, self.chance, self.rank, gradient, used))
        seconds, plan = self._seconds(), self._plan()
        self.record.write(
            {
                "step": step,
                "epoch": self.state.progress.epoch,
                "loss": loss,
                "chance": self.chance,
                "learning_rate": self.optimizer.param_groups[0]["lr"],
                "gradient_norm": gradient,
                **figures,
                "seconds": seconds,
                "views_per_second": plan.views * plan.batch_size * step / seconds,
                **({} if used is None else {"prototypes_used": used}),
                **({} if self.config.precision != "16" else {"skipped_steps": self.state.progress.skipped}),
                **{name: float(value) for name, value in output.logs.items()},
                "alarms": list(alarms.values()),
            }
        )

    def _stop(self, why: str) -> NoReturn:
        """End a run that cannot go on: written down, then raised, by every process alike."""
        progress = self.state.progress
        message = f"step {progress.step}: {why}; {NOT_FINITE}"
        self.record.write({"step": progress.step, "epoch": progress.epoch, "alarms": [message]})
        raise TrainingDiverged(message)

    def _save(self, *, also: Sequence[str] = ()) -> None:
        """The run as it stands becomes ``last``, and is kept under other names too."""
        if self.processes.is_first:
            self.directory.checkpoints.save(self.state.checkpoint(seconds=self._seconds()), also=also)
        self.saved = self.state.progress.step
        self.processes.wait_for_all()

    def restore(self, start: str | None) -> None:
        """From the checkpoint ``start``, or from the newest that can be read; what was measured since is forgotten."""
        there = self.directory.checkpoints.names()
        names = [start] if start is not None else [name for name in (LAST, PREVIOUS) if name in there]
        if start is None and names == [PREVIOUS]:
            self.record.tell(f"the checkpoint {LAST} is gone; going on from {PREVIOUS}")
        if there and not names:
            lost = f"{self.directory.folder} has lost its last checkpoint; there are {', '.join(there)}"
            raise DataError(f"{lost}: go on from one of them (--from {there[0]})")
        for name in names:
            try:
                self.state.restore(self.directory.checkpoints.load(name))
                self.saved = self.state.progress.step
                break
            except DataError as error:
                if name == names[-1]:
                    raise self._nor_others(names, there, error) from None
                self.record.tell(f"{error}; going on from {names[-1]}")
        self.record.forget_after(self.state.progress.step)

    def _nor_others(self, names: Sequence[str], there: Sequence[str], error: DataError) -> DataError:
        """``error`` about the last of ``names``, none of which can be used, with those that can in its remedy."""
        if names[-1] not in there:
            return error
        readable = []
        for name in there:
            with suppress(DataError):
                self.directory.checkpoints.load(name)
                readable.append(name)
        why = str(error).partition("; take another one")[0] + "".join(f", nor can {name}" for name in names[:-1])
        remedy = f"take another one: {', '.join(readable)} (--from {readable[0]})" if readable else "none can be read"
        return DataError(f"{why}; {remedy}")
