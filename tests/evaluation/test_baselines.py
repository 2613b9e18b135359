"""Baselines without training: pixels averaged down, and the colours alone."""

from __future__ import annotations

import torch

from eigenview.evaluation.subjects import ColourStatistics, RawPixels


def test_large_views_are_averaged_down_to_sixteen_pixels():
    images = torch.rand(2, 3, 64, 64, dtype=torch.float64)
    encoder = RawPixels(64)
    rows = encoder(images)
    assert rows.shape == (2, 768)
    assert encoder.feature_width == 768
    means = [
        images[1, c, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean() for c, i, j in ((0, 0, 0), (2, 15, 3), (1, 7, 8))
    ]
    places = [c * 256 + i * 16 + j for c, i, j in ((0, 0, 0), (2, 15, 3), (1, 7, 8))]
    assert torch.allclose(rows[1, places], torch.stack(means))


def test_small_views_stay_as_they_are():
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(RawPixels(8, channels=1)(images), images.flatten(1))


def test_colour_statistics_are_six_numbers():
    images = torch.rand(3, 3, 5, 7, dtype=torch.float64)
    rows = ColourStatistics()(images)
    for image, row in zip(images, rows, strict=True):
        for channel in range(3):
            values = [float(value) for value in image[channel].flatten()]
            mean = sum(values) / len(values)
            variance = sum((value - mean) ** 2 for value in values) / len(values)
            assert abs(float(row[channel]) - mean) < 1e-12
            assert abs(float(row[3 + channel]) - variance**0.5) < 1e-12
