"""The processes of a run, their device and precision: this one, or as many as ``torchrun`` started."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.amp import MixedPrecision
from lightning_fabric.plugins.precision.precision import Precision
from lightning_fabric.strategies.ddp import DDPStrategy

from eigenview.devices import find_device
from eigenview.distributed import Group
from eigenview.runs import TrainConfig
from eigenview.training.processor import check_half_precision
from eigenview.training.scaling import INITIAL_SCALE, Scaling


@dataclass(frozen=True)
class Processes:
    """``group`` is None for one process alone; the first one writes and speaks."""

    fabric: Fabric
    group: Group
    scaling: Scaling

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


def start_processes(config: TrainConfig) -> Processes:
    """Of ``config``, the seed, the device and the precision are used."""
    torch.manual_seed(config.seed)
    device = find_device(config.device).type
    check_half_precision(config.precision, device)
    precision, scaling = _precision(config.precision, device)
    if dist.is_torchelastic_launched():
        here, everywhere = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        strategy = DDPStrategy(broadcast_buffers=False)  # statistics are synchronised, or meant to differ
        nodes = everywhere // here
        fabric = Fabric(accelerator=device, devices=here, num_nodes=nodes, strategy=strategy, plugins=[precision])
    else:
        fabric = Fabric(accelerator=device, devices=1, plugins=[precision])
    fabric.launch()
    return Processes(fabric, dist.group.WORLD if fabric.world_size > 1 else None, scaling)


def _precision(asked: str, device: str) -> tuple[Precision, Scaling]:
    """Fabric's part for a precision; our own scaler in it, which goes into the checkpoints."""
    if asked == "32":
        return Precision(), Scaling(None)
    if asked == "bf16":
        return MixedPrecision("bf16-mixed", device), Scaling(None)
    scaler = torch.amp.GradScaler(device, init_scale=INITIAL_SCALE)
    return MixedPrecision("16-mixed", device, scaler=scaler), Scaling(scaler)
