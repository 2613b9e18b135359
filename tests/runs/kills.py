"""A process that ends, as by a kill, before its n-th call to the file system that changes or secures something."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

CHANGES = ("mkdir", "rename", "replace", "link", "unlink", "rmdir", "fsync")  # Path and shutil go through these
STOPPED = 9


def stop_before(call: int) -> None:
    """From now on, count such calls; nothing is tidied up when the process ends before the ``call``-th."""
    count = 0

    def counting(change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == call:
                os._exit(STOPPED)
            return change(*arguments, **options)

        return counted

    for name in CHANGES:
        setattr(os, name, counting(getattr(os, name)))


def was_stopped(work: Callable[[], None], call: int) -> bool:
    """Run ``work`` in a fork of this process that ends before its ``call``-th change; False if it made fewer."""
    process = os.fork()
    if process == 0:
        stop_before(call)
        work()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, STOPPED), f"it ended with {code}"
    return code == STOPPED
