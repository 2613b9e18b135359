"""What a sweep found: every trial with its settings and its figure, which settings mattered; as JSON and Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eigenview.errors import SettingError
from eigenview.extras import extra_module
from eigenview.files import JSON, atomic_path, read_as, to_json, write_text

FILE, TABLE = "sweep.json", "trials.parquet"
FINISHED = "complete"


@dataclass(frozen=True)
class Trial:
    """``state``: complete, pruned (ended early), failed (``note`` says why), running or waiting."""

    number: int
    run: str  # the folder of its run, inside the sweep's
    state: str
    value: float | None  # of a pruned one, the last that was seen
    values: dict[str, JSON]  # what was tried, by the name of a setting
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Results:
    name: str
    objective: str
    trials: tuple[Trial, ...]
    importance: dict[str, float]  # share of the figure's variance that a setting explains; empty while there are few

    @property
    def ranked(self) -> list[Trial]:
        """Finished trials, the best first."""
        done = [trial for trial in self.trials if trial.state == FINISHED and trial.value is not None]
        return sorted(done, key=lambda trial: (-(trial.value or 0.0), trial.number))

    @property
    def best(self) -> Trial:
        if not self.ranked:
            raise SettingError(f"no trial of {self.name} has finished")
        return self.ranked[0]

    @property
    def names(self) -> list[str]:
        """The settings that were searched."""
        return sorted({name for trial in self.trials for name in trial.values})

    def counts(self) -> Mapping[str, int]:
        states = [trial.state for trial in self.trials]
        return {state: states.count(state) for state in sorted(set(states))}

    def save(self, folder: Path) -> None:
        """``sweep.json``, and ``trials.parquet`` where pyarrow is installed."""
        write_text(folder / FILE, to_json(self))
        with suppress(SettingError):  # the library is missing: the JSON file holds the same
            self.write_parquet(folder / TABLE)

    def write_parquet(self, file: Path) -> None:
        """One row a trial: number, run, state, value, seconds, note, and a column for each setting."""
        arrow = extra_module("pyarrow", extra="tables", purpose="writing Parquet")
        parquet = extra_module("pyarrow.parquet", extra="tables", purpose="writing Parquet")
        columns = {
            name: arrow.array([getattr(trial, name) for trial in self.trials])
            for name in ("number", "run", "state", "value", "seconds", "note")
        }
        for name in self.names:
            column = [trial.values.get(name) for trial in self.trials]
            is_mixed = len({type(value) for value in column if value is not None} - {int, float}) > 1
            columns[name] = arrow.array([None if v is None else str(v) for v in column] if is_mixed else column)
        with atomic_path(file) as path:
            parquet.write_table(arrow.table(columns), path)


def is_sweep(folder: str | Path) -> bool:
    return (Path(folder) / FILE).is_file()


def read_results(folder: str | Path) -> Results:
    return read_as(Results, Path(folder) / FILE)
