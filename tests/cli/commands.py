"""Real commands for tests: the command line in a process of its own, or in this one where only words are tested."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tests.processes import command_output

COMMAND = [sys.executable, "-m", "eigenview"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "", "COLUMNS": "200"}
PHOTOS = "my photos – Möwe"  # spaces, and not ASCII
RUN = "runs/first run"


def eigenview(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``eigenview ARGUMENTS`` in ``folder``, without a terminal."""
    return command_output(arguments, folder=folder, environment={**ENVIRONMENT, **environment})


def succeeded(answer: subprocess.CompletedProcess[str]) -> str:
    """What it printed; it must have gone well, and without a traceback or warning."""
    assert answer.returncode == 0, answer.stderr
    assert "Traceback" not in answer.stderr
    assert "Warning" not in answer.stderr
    return answer.stdout


def write_photos(folder: Path, *, each: int = 24) -> Path:
    """Two classes of small pictures, reddish and bluish, in sub-folders; the last two are one and the same."""
    random = np.random.default_rng(0)
    for name, channel in (("gulls", 0), ("ïles", 2)):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            pixels = random.integers(0, 120, (24, 24, 3), dtype=np.uint8)
            pixels[..., channel] += 130
            Image.fromarray(pixels).save(folder / name / f"picture {number:02d}.png")
    (folder / "ïles" / "picture 99.png").write_bytes((folder / "ïles" / "picture 00.png").read_bytes())
    return folder
