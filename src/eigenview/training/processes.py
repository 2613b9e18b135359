"""The processes of a run, their device and precision: this one, or as many as ``torchrun`` started.

They agree before they train: on the data, on the settings, on where the run stands. Ctrl-C and SIGTERM end a run
between two steps, where everything is whole.
"""

import atexit
import hashlib
import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from eigenview.batches import AnySource
from eigenview.batches.identity import settings_identity, source_identity
from eigenview.data import Source
from eigenview.devices import find_device
from eigenview.distributed import Group, gather_rows, world_size
from eigenview.errors import EigenviewError, SettingError
from eigenview.extras import hidden
from eigenview.files import is_alive
from eigenview.runs import RunDirectory, TrainConfig
from eigenview.training.compiler import compiler_left_out, spare_optimizers
from eigenview.training.processor import check_half_precision
from eigenview.training.scaling import INITIAL_SCALE, Scaling

# Fabric imports torchmetrics for its version alone, and with it SciPy's signals and Matplotlib: 2 s.
with hidden("torchmetrics"), compiler_left_out():
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.precision.amp import MixedPrecision
    from lightning_fabric.plugins.precision.precision import Precision
    from lightning_fabric.strategies.ddp import DDPStrategy

LONGEST_WAIT = timedelta(minutes=10)  # for another process; only the first one works alone, and never so long
LOOKS = 10  # tenths of a second in which a process that closed its connections ends
SIGNS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "Broken pipe", "Timed out waiting")
OWN = {"source", "out", "workers", "device", "tensorboard"}  # settings in which machines may differ
UNKNOWN = -1  # items of a stream
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ProcessLost(EigenviewError):
    """Another process of the run ended, or no longer answers."""


@dataclass(frozen=True)
class Processes:
    """``group`` is None for one process alone; the first one writes and speaks."""

    fabric: Fabric
    group: Group
    scaling: Scaling
    numbers: tuple[int | None, ...] = ()  # the system's, by rank; None on another machine

    @property
    def device(self) -> torch.device:
        return self.fabric.device

    @property
    def is_first(self) -> bool:
        return self.fabric.is_global_zero

    @property
    def count(self) -> int:
        return self.fabric.world_size

    def wait_for_all(self) -> None:
        self.fabric.barrier()

    @contextmanager
    def watched(self, directory: RunDirectory) -> Iterator[None]:
        """Within, the loss of another process is one line, whatever a library says of its own connections.

        A process that went through it leaves the group before its interpreter ends: threads of gloo that still hold
        tensors then would abort it. One that failed does not: leaving waits for what others never send.
        """
        atexit.unregister(_leave_group)
        try:
            yield
            if self.group is not None:
                atexit.register(_leave_group)
        except RuntimeError as error:
            if self.group is None or not _is_connection_trouble(error):
                raise
            is_kept = bool(directory.checkpoints.names())
            remedy = "the last checkpoint is kept: start all again, with --resume" if is_kept else "start all again"
            raise ProcessLost(f"{self._lost()}; {remedy}") from None

    def _lost(self) -> str:
        for _ in range(LOOKS):
            gone = [rank for rank, number in enumerate(self.numbers) if number is not None and not _is_there(number)]
            if gone:
                return f"process {gone[0]} of {self.count} was lost"
            time.sleep(0.1)
        return f"one of {self.count} processes was lost, or did not answer for {LONGEST_WAIT.seconds:,} seconds"


def start_processes(config: TrainConfig) -> Processes:
    """Of ``config``, the seed, the device and the precision are used."""
    warnings.filterwarnings("ignore", module="lightning_fabric")  # advice about its own use, which is not the user's
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    spare_optimizers()
    torch.manual_seed(config.seed)
    device = find_device(config.device).type
    check_half_precision(config.precision, device)
    scaler = torch.amp.GradScaler(device, init_scale=INITIAL_SCALE) if config.precision == "16" else None
    scaling = Scaling(scaler)  # our own in Fabric's part, which goes into the checkpoints
    precision = Precision()
    if config.precision != "32":
        precision = MixedPrecision("bf16-mixed" if scaler is None else "16-mixed", device, scaler=scaler)
    if not dist.is_torchelastic_launched():
        fabric = Fabric(accelerator=device, devices=1, plugins=[precision])
        fabric.launch()
        return Processes(fabric, None, scaling)
    here, everywhere = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    strategy = DDPStrategy(timeout=LONGEST_WAIT, broadcast_buffers=False)  # they are synchronised, or meant to differ
    nodes = everywhere // here
    fabric = Fabric(accelerator=device, devices=here, num_nodes=nodes, strategy=strategy, plugins=[precision])
    try:
        fabric.launch()
        group = dist.group.WORLD if everywhere > 1 else None
        return Processes(fabric, group, scaling, _numbers(group, fabric.device))
    except RuntimeError as error:
        if not _is_connection_trouble(error):
            raise
        raise ProcessLost(
            f"not all of {everywhere} processes met within {LONGEST_WAIT.seconds:,} seconds: were all started, and can "
            "they reach each other?"
        ) from None


def _numbers(group: Group, device: torch.device) -> tuple[int | None, ...]:
    """The system's number of every process that runs on this machine; a collective call."""
    machine = int.from_bytes(hashlib.sha256(socket.gethostname().encode()).digest()[:7], "big")
    everyone = _everyones([os.getpid(), machine], group, device).tolist()
    return tuple(number if where == machine else None for number, where in everyone)


def _leave_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _is_connection_trouble(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in SIGNS)


def _is_there(number: int) -> bool:
    """Whether a process runs; one that ended, and nobody asked how, does not."""
    try:
        state = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return is_alive(number)
    return state not in ("Z", "X")


def check_same_data(config: TrainConfig, source: AnySource, processes: Processes) -> None:
    """Refuse, on every process, data or settings that are not the same on all; a collective call."""
    if processes.group is None:
        return
    count = len(source) if isinstance(source, Source) else source.describe().count
    hashes = source_identity(source, with_times=False), settings_identity(config.model_dump(mode="json", exclude=OWN))
    facts = [UNKNOWN if count is None else count, *(int(text, 16) >> 1 for text in hashes)]
    counts, images, settings = _everyones(facts, processes.group, processes.device).unbind(dim=1)
    for process in range(1, processes.count):
        if settings[process] != settings[0]:
            raise SettingError(f"process {process} was started with other settings than process 0: give all the same")
        if counts[process] != counts[0]:
            raise SettingError(
                f"process {process} sees {int(counts[process]):,} images at {config.source}, process 0 "
                f"{int(counts[0]):,}: every process needs the same data"
            )
        if images[process] != images[0]:
            raise SettingError(
                f"process {process} sees other images or labels at {config.source} than process 0: every process needs "
                "the same data"
            )


def check_same_step(config: TrainConfig, step: int, processes: Processes) -> None:
    """Refuse, on every process, to go on from different places; a collective call."""
    steps = _everyones([step], processes.group, processes.device)[:, 0].tolist()
    for process, other in enumerate(steps):
        if other != steps[0]:
            where = f"process {process} stands at step {other}, process 0 at {steps[0]}"
            raise SettingError(f"{where}: does every machine see {config.out}?")


def _everyones(numbers: list[int], group: Group, device: torch.device) -> Tensor:
    """(processes, n) whole numbers, in rank order."""
    mine = torch.tensor([numbers], dtype=torch.int64, device=device)
    return gather_rows(mine, group, counts=[1] * world_size(group)).cpu()


class Interruption:
    """While entered, the first SIGINT or SIGTERM is only remembered; a second one acts at once.

    Outside the main thread, where Python allows no handlers, signals keep their ordinary effect.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler is not signal.SIG_IGN:  # a shell told its background job not to listen
                    self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
