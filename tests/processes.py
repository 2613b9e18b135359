"""Real processes for tests: a function on W gloo ranks with what each returns, processes to be killed, commands.

Each is forked from one server that has imported torch and Eigenview: an import costs seconds, a fork nothing.
"""

from __future__ import annotations

import os
import queue as queues
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

PRELOADED = ["torch.distributed", "sklearn.datasets", "eigenview.cli.train", "eigenview.cli.evaluate"]


def forking() -> Any:
    """The context of such processes: clean ones, each with what ``PRELOADED`` names imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def exit_codes_of(world: int, work: Callable[..., Any], *arguments: Any, timeout: float = 120.0) -> list[int]:
    """How ``work(rank, *arguments)`` ended on each of ``world`` processes: 0, or minus the signal that killed it.

    Where several meet is in their environment; whether they do is up to ``work``.
    """
    port = free_port()
    return _ends(
        [
            forking().Process(target=_alone, args=(index, port, list(sys.path), work, arguments))
            for index in range(world)
        ],
        timeout,
    )


def _ends(processes: list[Any], timeout: float) -> list[int]:
    for process in processes:
        process.start()
    deadline = time.monotonic() + timeout
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    late = [process for process in processes if process.exitcode is None]
    for process in late:
        process.kill()
        process.join()
    assert not late, f"{len(late)} of {len(processes)} processes had not ended after {timeout} s"
    return [int(process.exitcode or 0) for process in processes]


def command_output(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """``eigenview ARGUMENTS`` in ``folder`` and in a process of its own, without a terminal."""
    with tempfile.TemporaryDirectory() as place:
        said = [Path(place) / name for name in ("stdout", "stderr")]
        given = (list(arguments), str(folder), dict(environment), [str(file) for file in said])
        code = _ends([forking().Process(target=_command, args=(list(sys.path), *given))], timeout)[0]
        return subprocess.CompletedProcess(list(arguments), code, *(file.read_text(encoding="utf-8") for file in said))


def _command(path: list[str], arguments: list[str], folder: str, environment: dict[str, str], said: list[str]) -> None:
    _prepare(free_port(), path)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, file in enumerate([os.devnull, *said]):
        descriptor = os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, number)
        os.close(descriptor)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding=encoding, closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    sys.argv = ["eigenview", *arguments]
    from eigenview.cli import main

    sys.exit(main())


def _alone(index: int, port: int, path: list[str], work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _prepare(port, path)
    work(index, *arguments)


def _prepare(port: int, path: list[str]) -> None:
    sys.path[:] = path
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    multiprocessing.set_start_method("fork", force=True)  # of its own workers, as in a process of a user
    torch.set_num_threads(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_processes(world: int, work: Callable[..., Any], *arguments: Any, timeout: float = 120.0) -> list[Any]:
    """``work(rank, group, *arguments)`` on ``world`` gloo processes; the results in rank order.

    ``work`` must be importable (a module-level function). Tensors come back as NumPy-free plain tensors.
    """
    context = forking()
    results: Any = context.Queue()
    port = free_port()
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
    _prepare(port, path)
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
        return type(value)(_plain(entry) for entry in value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return value
