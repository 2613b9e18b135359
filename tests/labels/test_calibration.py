"""The calibration error of benchmarks/few_labels.py against its definition."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from eigenview.errors import ShapeError

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
calibration_error = import_module("few_labels").calibration_error


def test_the_error_is_that_of_the_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(64, generator=generator, dtype=torch.float64)
    is_right = torch.rand(64, generator=generator) < 0.6
    order = sorted(range(64), key=lambda row: float(confidence[row]))
    total = 0.0
    for start in range(0, 64, 16):
        rows = order[start : start + 16]
        total += abs(sum(float(confidence[row]) for row in rows) - sum(bool(is_right[row]) for row in rows)) / 64
    assert calibration_error(confidence, is_right, bins=4) == pytest.approx(total)


def test_certain_and_right_has_no_error_and_certain_and_wrong_all_of_it() -> None:
    certain = torch.ones(7)
    assert calibration_error(certain, certain) == 0
    assert calibration_error(certain, certain * 0) == 1


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"got \(3,\), \(2,\)"):
        calibration_error(torch.ones(3), torch.ones(2))
