"""The processes of a run, their device and precision: this one, or as many as ``torchrun`` started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.amp import MixedPrecision
from lightning_fabric.plugins.precision.precision import Precision
from lightning_fabric.strategies.ddp import DDPStrategy

from eigenview.distributed import Group
from eigenview.errors import SettingError
from eigenview.runs import TrainConfig
from eigenview.training.processor import check_half_precision
from eigenview.training.scaling import INITIAL_SCALE, Scaling

Device = Literal["cpu", "cuda", "mps"]


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
    device = chosen_device(config.device)
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


def chosen_device(asked: str) -> Device:
    """The kind of device that is used: the one asked for, which must be there, or the best that is."""
    usable: dict[str, bool] = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    kinds: tuple[Device, ...] = ("cuda", "mps", "cpu")
    for kind in kinds:
        if asked == kind and not usable[kind]:
            raise SettingError(f"device {kind}: torch finds none here that it can use; take cpu, or auto")
        if asked in (kind, "auto") and usable[kind]:
            return kind
    raise SettingError(f"device must be one of auto, {', '.join(kinds)}; got {asked!r}")


def _precision(asked: str, device: Device) -> tuple[Precision, Scaling]:
    """Fabric's part for a precision; our own scaler in it, which goes into the checkpoints."""
    if asked == "32":
        return Precision(), Scaling(None)
    if asked == "bf16":
        return MixedPrecision("bf16-mixed", device), Scaling(None)
    scaler = torch.amp.GradScaler(device, init_scale=INITIAL_SCALE)
    return MixedPrecision("16-mixed", device, scaler=scaler), Scaling(scaler)
