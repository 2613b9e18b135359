"""The run directory: the interface between training and everything after it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigenview.errors import SettingError
from eigenview.training.checkpoint import Checkpoints
from eigenview.training.config import TrainConfig, load_config

FREE = {  # settings that may differ when a run goes on
    *("epochs", "steps", "minutes", "out", "workers", "log_every", "checkpoint_every", "keep_every", "knn_every"),
    *("best_by", "tensorboard"),
}


class Run:
    """``config.json``, ``data.json``, ``environment.json``, ``metrics.jsonl``, ``checkpoints/`` in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")

    @property
    def config(self) -> TrainConfig:
        return load_config(self.folder / "config.json")

    def prepare(self, config: TrainConfig, facts: Mapping[str, Mapping[str, Any]], *, resume: bool) -> None:
        """Make the folder, or check that what it holds is this very run; write the settings and ``facts`` by file."""
        file = self.folder / "config.json"
        self.make()
        try:
            if file.exists():
                self._check_same(config, resume=resume)
            write_atomically(file, config.model_dump_json(indent=2) + "\n")
            for name, content in facts.items():
                write_atomically(self.folder / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise SettingError(f"cannot write to the run directory {self.folder}: {error.strerror or error}") from None

    def make(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(f"cannot write to the run directory {self.folder}: {error.strerror or error}") from None

    def _check_same(self, config: TrainConfig, *, resume: bool) -> None:
        before, now = self.config.model_dump(mode="json"), config.model_dump(mode="json")
        changed = sorted(name for name in now if name not in FREE and before[name] != now[name])
        if changed:
            raise SettingError(
                f"{self.folder} holds a run with another {', '.join(changed)}: choose another out, or the same settings"
            )
        if not resume and self.checkpoints.names():
            raise SettingError(f"{self.folder} holds this run already: resume it, or choose another out")

    def metrics(self) -> list[dict[str, Any]]:
        """All lines written so far; a last line that a crash cut short is left out."""
        file = self.folder / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [found for line in lines if (found := _line(line)) is not None]

    def cut_metrics(self, step: int) -> None:
        """Forget lines beyond ``step``: a resumed run writes them again."""
        kept = [line for line in self.metrics() if line.get("step", 0) <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(self.folder / "metrics.jsonl", text)

    def append_metrics(self, line: Mapping[str, Any]) -> None:
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _line(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def write_atomically(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.writing")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
