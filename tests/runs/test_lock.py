"""The lock of a run: one writer, known to whoever comes second; a killed one leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from eigenview.errors import SettingError
from eigenview.runs.lock import RunLock
from tests.processes import exit_codes_of, forking


def hold(folder: str) -> None:
    with RunLock(Path(folder)):
        Path(folder, "held").touch()
        time.sleep(60)


def hold_and_die(rank: int, folder: str) -> None:
    RunLock(Path(folder)).__enter__()
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_second_is_told_who_holds_it(tmp_path):
    holder = forking().Process(target=hold, args=(str(tmp_path),))
    holder.start()
    try:
        while not (tmp_path / "held").exists():
            assert holder.is_alive()
            time.sleep(0.01)
        who = f"process {holder.pid} on {socket.gethostname()} since 20"
        with pytest.raises(SettingError, match=f"is being written by {who}.*: wait for it, or choose another out"):
            RunLock(tmp_path).__enter__()
    finally:
        holder.kill()
        holder.join()
    with RunLock(tmp_path):
        pass


def hold_with_a_child_and_die(rank: int, folder: str) -> None:
    RunLock(Path(folder)).__enter__()
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    Path(folder, "child").write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_holders_children_hold_nothing(tmp_path):
    assert exit_codes_of(1, hold_with_a_child_and_die, str(tmp_path)) == [-signal.SIGKILL]
    child = int((tmp_path / "child").read_text())
    try:
        with RunLock(tmp_path):
            os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_killed_holder_leaves_no_lock(tmp_path):
    assert exit_codes_of(1, hold_and_die, str(tmp_path)) == [-signal.SIGKILL]
    assert (tmp_path / ".lock").exists()
    with RunLock(tmp_path):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"process": "x"}', b"\xff" * 100])
def test_a_lock_file_that_says_nothing_is_still_held(tmp_path, content):
    with RunLock(tmp_path):
        (tmp_path / ".lock").write_bytes(content)
        with pytest.raises(SettingError, match="is being written by another process"):
            RunLock(tmp_path).__enter__()


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingError, match="cannot lock"):
        RunLock(tmp_path / "run").__enter__()
    assert not (tmp_path / "elsewhere").exists()
