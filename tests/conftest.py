"""How tests are spread over workers (``make test`` uses as many as there are cores), and how long one may take.

A file's tests stay together, so that its fixtures are made once. Whatever starts processes, a browser or a command
takes turns with its like on one worker: each has a core to itself, and none times out because of the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: threads would only wait for each other
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # some machines advertise AMX, which then kills them

import pytest
import torch

from tests.made_runs import MadeRuns

torch.set_num_threads(1)

LONGEST = 600  # seconds of a test that is not slow: it has hung
FOLDERS = {"cli": "commands", "report": "browser", "app": "browser"}  # their tests share a run or a browser
STARTERS = {"tests.processes", "tests.cli.commands"}  # and whoever imports subprocess


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test its group, and put the longest groups first: the short files fill up what is left."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    long = ("processes", "commands", "browser")
    items.sort(key=lambda item: long.index(group_of(item)) if group_of(item) in long else len(long))


def group_of(item: pytest.Item) -> str:
    file = item.path.relative_to(Path(__file__).parent)
    if file.parts[0] in FOLDERS:
        return FOLDERS[file.parts[0]]
    names = vars(item.module).values() if isinstance(item, pytest.Function) else ()
    starts_processes = any(value is subprocess or getattr(value, "__module__", "") in STARTERS for value in names)
    return "processes" if starts_processes else str(file)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    with time_limit(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with time_limit(item):
        return (yield)


@contextmanager
def time_limit(item: pytest.Item) -> Iterator[None]:
    """A test that hangs fails with the line it hangs in, instead of holding up all the others for ever."""
    if item.get_closest_marker("slow"):
        yield
        return

    def give_up(*_: object) -> None:
        pytest.fail(f"not over after {LONGEST} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def half_precision() -> None:
    """For tests that compute in it: left out where the processor cannot, which is tried in another process."""
    from eigenview.errors import SettingError
    from eigenview.training.processor import check_half_precision

    for precision in ("bf16", "16"):
        try:
            check_half_precision(precision, "cpu")
        except SettingError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> MadeRuns:
    return MadeRuns(tmp_path_factory.mktemp("made"))
