"""The processes of a run, their device and precision: this one, or as many as ``torchrun`` started."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.amp import MixedPrecision
from lightning_fabric.plugins.precision.precision import Precision
from lightning_fabric.strategies.ddp import DDPStrategy

from eigenview.devices import find_device
from eigenview.distributed import Group, gather_rows, world_size
from eigenview.errors import EigenviewError
from eigenview.files import is_alive
from eigenview.runs import RunDirectory, TrainConfig
from eigenview.training.processor import check_half_precision
from eigenview.training.scaling import INITIAL_SCALE, Scaling

LONGEST_WAIT = timedelta(minutes=10)  # for another process; only the first one works alone, and never so long
LOOKS = 10  # tenths of a second in which a process that closed its connections ends
SIGNS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "Broken pipe", "Timed out waiting")


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
        """Within, the loss of another process is one line, whatever a library says of its own connections."""
        try:
            yield
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
    torch.manual_seed(config.seed)
    device = find_device(config.device).type
    check_half_precision(config.precision, device)
    precision, scaling = _precision(config.precision, device)
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
    mine = torch.tensor([[os.getpid(), machine]], device=device)
    everyone = gather_rows(mine, group, counts=[1] * world_size(group)).tolist()
    return tuple(number if where == machine else None for number, where in everyone)


def _is_connection_trouble(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in SIGNS)


def _is_there(number: int) -> bool:
    """Whether a process runs; one that ended, and nobody asked how, does not."""
    try:
        state = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return is_alive(number)
    return state not in ("Z", "X")


def _precision(asked: str, device: str) -> tuple[Precision, Scaling]:
    """Fabric's part for a precision; our own scaler in it, which goes into the checkpoints."""
    if asked == "32":
        return Precision(), Scaling(None)
    if asked == "bf16":
        return MixedPrecision("bf16-mixed", device), Scaling(None)
    scaler = torch.amp.GradScaler(device, init_scale=INITIAL_SCALE)
    return MixedPrecision("16-mixed", device, scaler=scaler), Scaling(scaler)
