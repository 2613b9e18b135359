"""What is killed: training, evaluating, embedding; how each goes on, and what must be as if nobody had disturbed it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path

import torch

from eigenview.errors import EigenviewError
from eigenview.runs import RunDirectory, open_run
from eigenview.search import open_embeddings

SOURCE = "shapes?count=96&size=24"
SMALL = {"swav": ("--method-settings.prototypes", "12"), "moco": ("--method-settings.queue", "96")}


class Job(ABC):
    """A command that works in a folder of its own."""

    name: str

    def prepare(self, folder: Path) -> None:
        """The empty folder, with what the command starts from."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    @abstractmethod
    def words(self, folder: Path) -> list[str]:
        """Begins, or goes on after a kill."""

    def unreadable(self, folder: Path) -> list[str]:
        """What a reader is refused right after a kill although it was finished."""
        return []

    @abstractmethod
    def differences(self, whole: Path, folder: Path) -> list[str]:
        """What is not as in the folder that nobody disturbed."""


class Train(Job):
    """Six epochs of three steps, each with a checkpoint, every second one kept."""

    def __init__(self, method: str) -> None:
        self.name = f"train {method}"
        self._method = method

    def words(self, folder: Path) -> list[str]:
        out = folder / "run"
        if RunDirectory(out).checkpoints.names():
            return ["train", "--resume", "--out", str(out)]
        return [
            *("train", SOURCE, "--method", self._method, *SMALL.get(self._method, ()), "--out", str(out)),
            *("--epochs", "6", "--batch-size", "32", "--encoder", "small", "--encoder.width", "0.25"),
            *("--keep-every", "2", "--log-every", "1", "--workers", "0", "--no-look", "--seed", "3"),
        ]

    def unreadable(self, folder: Path) -> list[str]:
        """Readers find a checkpoint, or say in one line that there is none yet."""
        try:
            open_run(folder / "run")
        except EigenviewError as error:
            names = RunDirectory(folder / "run").checkpoints.names()
            return [f"a reader was refused: {error}"] if names else []
        return []

    def differences(self, whole: Path, folder: Path) -> list[str]:
        ours, theirs = RunDirectory(whole / "run"), RunDirectory(folder / "run")
        lost = []
        if ours.checkpoints.names() != theirs.checkpoints.names():
            lost.append(f"checkpoints {theirs.checkpoints.names()}")
        for name in set(ours.checkpoints.names()) & set(theirs.checkpoints.names()):
            expected, reached = (run.checkpoints.load(name) for run in (ours, theirs))
            unequal = [key for key in expected.weights if not torch.equal(expected.weights[key], reached.weights[key])]
            if unequal or expected.weights.keys() != reached.weights.keys():
                lost.append(f"{name}: {len(unequal)} tensors differ")
            if expected.state["progress"]["step"] != reached.state["progress"]["step"]:
                lost.append(f"{name}: another step")
        if ours.metrics.series("loss") != theirs.metrics.series("loss"):
            lost.append("metrics differ")
        return [*lost, *left_behind(folder)]


class Evaluate(Job):
    """Scores of a finished run, with a cache of features."""

    name = "evaluate"

    def __init__(self, run: Path) -> None:
        self._run = run

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        shutil.copytree(self._run, folder / "run")

    def words(self, folder: Path) -> list[str]:
        cache = ("--cache", str(folder / "cache"))
        return ["evaluate", str(folder / "run"), SOURCE, "--protocol", "knn", "few-label", *cache]

    def unreadable(self, folder: Path) -> list[str]:
        try:
            RunDirectory(folder / "run").scores()
        except EigenviewError as error:
            return [f"a reader was refused: {error}"]
        return []

    def differences(self, whole: Path, folder: Path) -> list[str]:
        ours, theirs = (sorted(map(repr, RunDirectory(place / "run").scores())) for place in (whole, folder))
        return [*(["scores differ"] if ours != theirs else []), *left_behind(folder)]


class Embed(Job):
    """The vectors of a source, in several parts."""

    def __init__(self, run: Path, suffix: str) -> None:
        self.name = f"embed to {suffix}"
        self._run, self._file = run, f"vectors{suffix}"

    def words(self, folder: Path) -> list[str]:
        return ["embed", str(self._run), SOURCE, "--out", str(folder / self._file), "--batch-size", "8"]

    def unreadable(self, folder: Path) -> list[str]:
        if not (folder / self._file).exists():
            return []
        try:
            open_embeddings(folder / self._file)
        except EigenviewError as error:
            return [f"a reader was refused: {error}"]
        return []

    def differences(self, whole: Path, folder: Path) -> list[str]:
        ours, theirs = (
            {file.name: file.is_file() and file.read_bytes() for file in place.glob("vectors*")}
            for place in (whole, folder)
        )
        lost = [f"{name} differs" for name in ours if theirs.get(name) != ours[name]]
        return [*lost, *(f"left behind: {name}" for name in sorted(theirs.keys() - ours.keys())), *left_behind(folder)]


def left_behind(folder: Path) -> list[str]:
    return [f"left behind: {path.name}" for path in folder.rglob(".*") if path.name != ".lock"]
