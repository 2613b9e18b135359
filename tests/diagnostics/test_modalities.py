"""Figures of images and their captions: by loops, and where both sides are one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

from eigenview.diagnostics import both_modalities, diagnose, effective_rank
from eigenview.diagnostics.diagnosis import diagnosed
from eigenview.errors import ShapeError


def sides(count: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(count, 4, generator=generator, dtype=torch.float64) + shift for shift in (0.0, 1.0))


def test_figures_by_loops():
    images, captions = sides()
    measured = both_modalities(images, captions, rewrites=(captions[:3], captions[3:6]))
    x, y = normalize(images, dim=1), normalize(captions, dim=1)
    count = len(x)
    distance = sum(float((x[i] - y[i]).square().sum()) for i in range(count)) / count
    assert measured.alignment == pytest.approx(distance)
    between = [sum(float(x[i, d] - y[i, d]) for i in range(count)) / count for d in range(4)]
    assert measured.gap == pytest.approx(math.hypot(*between))
    for side, rows in ((measured.images, x), (measured.captions, y)):
        pairs = [
            math.exp(-2 * float((rows[i] - rows[j]).square().sum()))
            for i in range(count)
            for j in range(count)
            if i != j
        ]
        assert side.uniformity.value == pytest.approx(math.log(sum(pairs) / len(pairs)))
    assert measured.images.effective_rank == pytest.approx(effective_rank(images))
    assert measured.images.alignment is None
    rewritten = sum(float((y[i] - y[i + 3]).square().sum()) for i in range(3)) / 3
    assert measured.captions.alignment == pytest.approx(rewritten)
    names = ["image and caption", "captions matched", "images alone", "captions alone"]
    assert [name for name, _ in measured.table()] == names
    nearest = [max(range(count), key=lambda j: float(x[i] @ y[j])) for i in range(count)]
    assert measured.matched.value == pytest.approx(sum(i == j for i, j in enumerate(nearest)) / count)
    assert measured.gap_share == pytest.approx(math.hypot(*between) ** 2 / distance)


def test_a_caption_that_comes_twice_is_matched_once():
    images, _ = sides()
    twice = torch.cat([images, images])
    measured = both_modalities(twice, twice, distinct=range(9))
    assert (measured.matched.value, measured.distinct) == (1, 9)


def test_words_that_find_no_images_are_the_verdict_and_the_gap_is_a_reason():
    generator = torch.Generator().manual_seed(0)
    images, others = (torch.randn(500, 16, generator=generator) for _ in range(2))
    figures = diagnose(images).figures
    near = diagnosed(replace(figures, modalities=both_modalities(images, images + 0.1 * others + 0.5)))
    assert "words apart" not in [finding.name for finding in near.findings]
    apart = diagnosed(replace(figures, modalities=both_modalities(images, others + 0.5)))
    finding = next(finding for finding in apart.findings if finding.name == "words apart")
    gap = apart.figures.modalities.gap
    assert f"the means of both sides are {gap:.3g} apart (the modality gap)" in finding.reasons[1]
    few = both_modalities(images[:300], others[:300])
    assert "words apart" not in [finding.name for finding in diagnosed(replace(figures, modalities=few)).findings]


def test_sides_that_are_one_have_no_gap_and_opposite_ones_the_widest():
    images, _ = sides()
    assert both_modalities(images, 3 * images).gap == pytest.approx(0)
    assert both_modalities(images, 3 * images).alignment == pytest.approx(0)
    point = torch.ones(5, 3, dtype=torch.float64)
    assert both_modalities(point, -point).gap == pytest.approx(2)


def test_sides_of_other_lengths_are_refused():
    images, captions = sides()
    with pytest.raises(ShapeError):
        both_modalities(images, captions[:4])
