"""`eigenview evaluate` on 50,000 rows: by itself, and while another process keeps one core busy.

    python benchmarks/busy.py --json busy.json

Vectors of 256 columns in ten classes that overlap, in a file, as a user brings them: nearest neighbours and the linear
probe by the real command, start and reading included. Rounds take turns; the best quiet and the worst busy one count.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bars import Bar, all_times, finish

ROWS, WIDTH, CLASSES = 50_000, 256, 10
BUSY = "while True: pass"


def write_vectors(file: Path) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=ROWS)
    vectors = random.normal(size=(CLASSES, WIDTH))[labels] * 0.2 + random.normal(size=(ROWS, WIDTH))
    np.savez(file, vectors=vectors.astype(np.float32), labels=labels)


def contenders(file: Path) -> dict[str, Callable[[], object]]:
    command = [sys.executable, "-m", "eigenview", "evaluate", str(file)]

    def quiet() -> None:
        shutil.rmtree(file.parent / "runs", ignore_errors=True)  # nothing is known yet
        subprocess.run(command, check=True, capture_output=True, cwd=file.parent)

    def beside_another() -> None:
        with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
            try:
                quiet()
            finally:
                busy.kill()

    return {"quiet": quiet, "beside a busy core": beside_another}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npz"
        write_vectors(file)
        times = all_times(contenders(file), options.rounds)
    for name, seconds in times.items():
        print(f"{name:20s} {min(seconds):6.1f} to {max(seconds):.1f} s")
    slower = max(times["beside a busy core"]) / min(times["quiet"])
    finish([Bar("evaluate-beside-a-busy-core", slower, 2.5, at_most=True)], times, options.json)


if __name__ == "__main__":
    main()
