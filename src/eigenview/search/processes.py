"""The processes that torchrun started, as a group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from eigenview.distributed import Group


@contextmanager
def started_processes(group: Group) -> Iterator[Group]:
    """``group`` if given; else all processes that torchrun started, if nothing has joined them yet; else None."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ
    if group is not None or not several or dist.is_initialized():
        yield group
        return
    dist.init_process_group("gloo")
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()
