"""Several processes agree before they train: on the data, on the settings, on where the run stands."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenview.batches import AnySource
from eigenview.batches.identity import settings_identity, source_identity
from eigenview.data import Source
from eigenview.distributed import gather_rows
from eigenview.errors import SettingError
from eigenview.runs import TrainConfig
from eigenview.training.processes import Processes

OWN = {"source", "out", "workers", "device", "tensorboard"}  # settings in which machines may differ
UNKNOWN = -1  # items of a stream


def check_same_data(config: TrainConfig, source: AnySource, processes: Processes) -> None:
    """Refuse, on every process, data or settings that are not the same on all; a collective call."""
    if processes.group is None:
        return
    count = len(source) if isinstance(source, Source) else source.describe().count
    hashes = source_identity(source, with_times=False), settings_identity(config.model_dump(mode="json", exclude=OWN))
    facts = [UNKNOWN if count is None else count, *(int(text, 16) >> 1 for text in hashes)]
    counts, images, settings = _everyones(facts, processes).unbind(dim=1)
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
    steps = _everyones([step], processes)[:, 0].tolist()
    for process, other in enumerate(steps):
        if other != steps[0]:
            where = f"process {process} stands at step {other}, process 0 at {steps[0]}"
            raise SettingError(f"{where}: does every machine see {config.out}?")


def _everyones(numbers: list[int], processes: Processes) -> Tensor:
    """(processes, n) whole numbers, in rank order."""
    mine = torch.tensor([numbers], dtype=torch.int64, device=processes.device)
    return gather_rows(mine, processes.group, counts=[1] * processes.count).cpu()
