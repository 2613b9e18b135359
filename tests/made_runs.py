"""Small real runs for tests of what comes after training: each made once, and copied for whoever changes it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.training.runs import run_quietly, settings

METHODS: dict[str, dict[str, Any]] = {
    "simclr": {"head_output": 16},
    "swav": {"prototypes": 5, "head_hidden": 32, "head_output": 16, "queue": 0, "frozen_steps": 1},
    "deepcluster-v2": {"prototypes": [5, 9], "head_hidden": 32, "head_output": 16},
    "supervised": {},
}


class MadeRuns:
    """Runs on the digits, a few steps each, by method and seed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, method: str = "simclr", *, seed: int = 0) -> Path:
        """The run itself, for whoever only reads it."""
        place = self.folder / f"{method}-{seed}"
        if not place.exists():
            given = settings(method, place, source="digits", method_settings=METHODS[method], seed=seed)
            run_quietly({**given, "batch_size": 256, "log_every": 2, "steps": 4, "knn_every": 0})
        return place

    def copy(self, place: Path, method: str = "simclr", *, seed: int = 0) -> Path:
        """A copy of the run at ``place``."""
        shutil.copytree(self(method, seed=seed), place)
        return place
