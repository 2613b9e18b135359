"""The examples run, as a user would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_your_own_loop_trains_and_reports():
    script = EXAMPLES / "your_own_loop.py"
    assert len(script.read_text().splitlines()) < 60
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(script), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["epoch", "epoch", "1-NN,", "1-NN,"]
    first, last = (float(line.split()[3]) for line in lines[:2])
    assert last < first  # it learns
