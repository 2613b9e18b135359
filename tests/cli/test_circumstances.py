"""Ctrl-C, a closed pipe, no terminal, a terminal without colours, places that cannot be written, a single image."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image

from eigenview.cli import main
from tests.cli.commands import COMMAND, ENVIRONMENT, PHOTOS

LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told its background jobs to ignore it
from eigenview.cli import main
sys.exit(main())
"""


def test_ctrl_c_keeps_a_checkpoint_and_says_how_to_go_on(shop: Path):
    words = ["train", PHOTOS, "--minutes", "5", "--out", "stopped", "--encoder.width", "0.25", "--log-every", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING, *words, "--workers", "0"],
        cwd=shop,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (shop / "stopped" / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "Go on with: eigenview train --resume --out stopped" in said
    assert (shop / "stopped" / "checkpoints" / "last" / "weights.safetensors").exists()


def test_a_closed_pipe_is_quiet(shop: Path):
    process = subprocess.Popen(
        [*COMMAND, "lab", "list"], cwd=shop, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()  # as head does when it has seen enough
    assert process.stderr is not None
    with process.stderr as said:
        assert said.read() == b""
    assert process.wait(60) == 141


def test_a_terminal_without_colours_gets_none(shop: Path):
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "NO_COLOR": "1", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*COMMAND, "data", "check", "--help"], cwd=shop, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    assert process.wait(60) == 0
    assert b"eigenview data check photos/" in said
    assert b"\x1b[" not in said


def test_places_that_cannot_be_written_are_named_in_one_line(shop: Path, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    assert main(["views", "show", PHOTOS, "-o", "/proc/nowhere/views.png"]) == 2
    assert main(["train", PHOTOS, "--steps", "1", "--out", "/proc/nowhere/run", "--workers", "0"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert all("/proc/nowhere" in line for line in said)


def test_a_folder_with_one_image_gets_advice(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one").mkdir()
    Image.new("RGB", (32, 32)).save(tmp_path / "one" / "only.png")
    assert main(["data", "check", "one"]) == 0
    assert "add pictures, hundreds at least" in capsys.readouterr().out
    assert main(["train", "one", "--epochs", "1", "--out", "run"]) == 2
    said = capsys.readouterr().err
    assert "needs at least 8" in said
    assert said.count("\n") == 1
    assert main(["evaluate", "run", "one"]) == 2
    assert "run is no run directory" in capsys.readouterr().err
