"""Real gloo processes for tests: run a function on W ranks and collect what each returns."""

from __future__ import annotations

import os
import queue as queues
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def run_processes(world: int, work: Callable[..., Any], *arguments: Any, timeout: float = 120.0) -> list[Any]:
    """``work(rank, group, *arguments)`` on ``world`` gloo processes; the results in rank order.

    ``work`` must be importable (a module-level function). Tensors come back as NumPy-free plain tensors.
    """
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        context.Process(target=_entry, args=(index, world, port, list(sys.path), results, work, arguments))
        for index in range(world)
    ]
    for process in processes:
        process.start()
    collected: dict[int, Any] = {}
    try:
        while len(collected) < world:
            try:
                index, ok, value = results.get(timeout=timeout)
            except queues.Empty:
                raise AssertionError(f"only {len(collected)} of {world} processes answered in {timeout} s") from None
            if not ok:
                raise AssertionError(f"process {index} failed:\n{value}")
            collected[index] = value
    finally:
        for process in processes:
            process.join(timeout=10)
            if process.is_alive():
                process.kill()
    return [collected[index] for index in range(world)]


def _entry(
    index: int, world: int, port: int, path: list[str], results: Any, work: Callable[..., Any], arguments: tuple[Any]
) -> None:
    sys.path[:] = path
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", rank=index, world_size=world)
        answer = work(index, dist.group.WORLD, *arguments)
        results.put((index, True, _plain(answer)))
    except BaseException:
        results.put((index, False, traceback.format_exc()))
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _plain(value: Any) -> Any:
    """Tensors travel as NumPy arrays: no shared-memory handles that die with the sender."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(part) for part in value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value
