"""A small file of vectors with names, whose classes are known: three clouds."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

CLASSES = ("cat", "dog", "gull")
EACH = 12


def names() -> list[str]:
    return [f"{CLASSES[row // EACH]}s/{row:02d}.jpg" for row in range(len(CLASSES) * EACH)]


def write_vectors(file: Path, *, seed: int = 0, numbers: bool = False, change: dict[int, float] | None = None) -> Path:
    """``numbers``: with labels as whole numbers; ``change``: rows filled with one number instead."""
    random = np.random.default_rng(seed)
    truth = np.arange(len(CLASSES) * EACH) // EACH
    rows = (3 * np.eye(8)[truth] + 0.4 * random.normal(size=(len(truth), 8))).astype(np.float32)
    for row, value in (change or {}).items():
        rows[row] = value
    np.savez(file, x=rows, names=np.array(names()), **({"y": truth} if numbers else {}))
    return file


def write_answers(file: Path, lines: list[tuple[str, str]], header: tuple[str, str] = ("name", "label")) -> Path:
    with file.open("w", encoding="utf-8", newline="") as text:
        csv.writer(text).writerows([header, *lines])
    return file


def read_rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


FEW = [("00.jpg", "cat"), ("dogs/13.jpg", "dog"), ("gulls/24.jpg", "gull")]
