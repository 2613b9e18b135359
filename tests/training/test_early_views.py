"""Smaller views in the first part of a run: which part, what they are, and that a run goes on within it."""

from __future__ import annotations

import pytest
import torch

from eigenview.errors import SettingError
from eigenview.training import Listener
from eigenview.training.loop import Trainer
from eigenview.views import shrink
from tests.training.runs import assert_equal_runs, run_quietly, settings

EARLY = {"size": 24, "early_size": 12, "early_share": 0.5}


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of the views that each step meets."""
    met = []
    backward = Trainer._backward

    def watched(self, batch):
        met.append([group.shape[-1] for group in batch.groups])
        return backward(self, batch)

    monkeypatch.setattr(Trainer, "_backward", watched)
    return met


def test_the_first_part_has_smaller_views(sizes, tmp_path):
    run_quietly(settings("simclr", tmp_path / "run", views=EARLY, steps=4))
    assert sizes == [[12], [12], [24], [24]]


def test_crops_of_several_sizes_shrink_alike(sizes, tmp_path):
    crops = [{"size": 24, "count": 2}, {"size": 16, "count": 1}]
    run_quietly(settings("simclr", tmp_path / "run", views={"crops": crops, "early_size": 18}, steps=2))
    assert sizes == [[18, 12], [18, 12]]  # the second begins when half of the run is over, and 0.7 is the part


def test_a_run_by_the_clock_goes_by_its_time(sizes, tmp_path):
    run_quietly(settings("simclr", tmp_path / "run", views=EARLY, steps=None, minutes=0.05))
    assert sizes[0] == [12]
    assert sizes[-1] == [24]
    assert sizes == sorted(sizes)


class Stop(Exception):
    """The run is killed, as it were."""


class StopAt(Listener):
    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, seconds: float) -> None:
        if step == self.step:
            raise Stop


def test_a_run_goes_on_in_the_size_it_was_in(sizes, tmp_path):
    views = {**EARLY, "early_share": 0.7}
    run_quietly(settings("align-uniform", tmp_path / "whole", views=views, steps=6))
    assert sizes == [[12]] * 5 + [[24]]
    half = settings("align-uniform", tmp_path / "half", views=views, steps=6)
    with pytest.raises(Stop):
        run_quietly(half, listeners=[StopAt(4)])  # the last checkpoint is of the epoch's end, at step 3
    sizes.clear()
    run_quietly(half, resume=True)
    assert sizes == [[12]] * 2 + [[24]]
    assert_equal_runs(tmp_path / "whole", tmp_path / "half", steps=6)


def test_larger_views_to_begin_with_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"views.early_size shrinks views, which have 24 pixels; got 32"):
        run_quietly(settings("simclr", tmp_path / "run", views={"size": 24, "early_size": 32}))


def test_shrinking_is_the_triangle_filter_by_loops():
    views = torch.randn(2, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    size, scale = 4, 6 / 4
    weights = torch.zeros(size, 6, dtype=torch.float64)
    for out in range(size):
        centre = (out + 0.5) * scale
        for pixel in range(6):
            weights[out, pixel] = max(0.0, 1 - abs(pixel + 0.5 - centre) / scale)
        weights[out] /= weights[out].sum()
    torch.testing.assert_close(shrink(views, size), weights @ views @ weights.T)
