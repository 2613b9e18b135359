"""How much memory reading takes: ``python -m tests.data.peak TEXT...`` reads sources in a process of its own.

Prints a JSON line for each: the peak of the process's memory while it was read, and what was refused.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

ITEMS = 5  # met of each source
ROOT = Path(__file__).parents[2]


def peaks_of(texts: list[str]) -> dict[str, tuple[int, list[str]]]:
    """For each source: peak memory in bytes, and the refusals, from a fresh process."""
    command = [sys.executable, "-m", "tests.data.peak", *texts]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert answer.returncode == 0, answer.stderr[-2000:]
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    return {row["text"]: (row["peak"], row["refusals"]) for row in rows}


def _measured(text: str) -> dict[str, object]:
    from tests.data.damage import read_everything

    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    refusals = list(read_everything(text, items=ITEMS))
    return {"text": text, "peak": 1024 * _status("VmHWM"), "refusals": sorted(set(refusals))}


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(json.dumps(_measured(argument)), flush=True)
