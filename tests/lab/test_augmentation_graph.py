"""What encoders learn of an exact augmentation graph; the experiment in short; real photographs where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from eigenview.lab import LabSettings
from eigenview.lab.augmentation_graph import DIMENSIONS, judged, learn, run
from eigenview.lab.finite_views import digit_views
from eigenview.lab.images import cifar10
from eigenview.lab.smoothed_views import compare, features_of, nearest_stranger, sample_views, smoothed_graph
from eigenview.lab.smoothed_views import squared_distances as all_distances

SHARED = Path(os.environ.get("EIGENVIEW_DATA", Path(__file__).parents[3] / "shared" / "data"))


def test_the_exact_minimiser_is_the_spectral_embedding():
    views = digit_views(side=4, levels=2, items=150)
    graph = views.graph()
    spectrum = graph.spectrum(DIMENSIONS)
    measured = judged(learn(views, graph, "free", steps=0, seed=0), views, graph, spectrum, views.labels)
    assert measured["cka"] == pytest.approx(1, abs=1e-9)
    assert min(measured["captured"]) == pytest.approx(1, abs=1e-9)
    assert measured["loss"] == pytest.approx(-float((1 - spectrum.eigenvalues).square().sum()), abs=1e-9)


def test_training_takes_an_encoder_towards_the_spectral_embedding():
    """Two seeds: every one lowers the exact loss, which no encoder takes below its floor, and explains more."""
    views = digit_views(side=4, levels=2, items=150)
    graph = views.graph()
    spectrum = graph.spectrum(DIMENSIONS)
    floor = -float((1 - spectrum.eigenvalues).square().sum())
    for seed in range(2):
        before, after = (
            judged(learn(views, graph, name, steps=120, seed=seed), views, graph, spectrum, views.labels)
            for name in ("untrained", "spectral")
        )
        assert floor < after["loss"] < before["loss"] - 1
        assert sum(after["captured"]) > sum(before["captured"])


def test_a_quick_run_counts_parts_and_says_what_was_left_out():
    outcome = run(LabSettings(is_quick=True))
    exact = outcome.data["digits"]
    for row in exact["coarseness"]:
        zeros = sum(value < 1e-9 for value in row["eigenvalues"])
        assert zeros == row["components"]
    assert exact["encoders"]["free"]["loss"]["mean"] == pytest.approx(exact["loss_floor"], abs=1e-9)
    assert set(outcome.figures) == {""}
    assert "CIFAR-10 was left out" in outcome.lines[-1]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no data in {SHARED}; set EIGENVIEW_DATA")
def test_photographs_are_islands_until_they_are_smoothed():
    images = cifar10(SHARED, train=200, test=50)
    assert images.train.shape == (200, 3, 32, 32)
    assert images.classes == 10
    sampled = sample_views(images, items=100, pairs=2)
    squared = all_distances(sampled.pixels)
    unit = nearest_stranger(squared, sampled.image)
    features = {"pixels": features_of(sampled, None)}
    sharp, wide = (
        compare(sampled, smoothed_graph(squared, sampled.image, share * unit), features, share) for share in (0.05, 1.0)
    )
    assert sharp["components"] > 90
    assert wide["components"] == 1
    assert torch.tensor(wide["eigenvalues"]).diff().min() > -1e-12
    assert wide["agreement"]["pixels"]["cka"] > sharp["agreement"]["pixels"]["cka"]
