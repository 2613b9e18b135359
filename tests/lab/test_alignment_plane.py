"""The circle's densities by loops and limits; the plane's objectives; a quick run of it all."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from eigenview.errors import SettingError, ShapeError
from eigenview.lab import LabSettings
from eigenview.lab.alignment_plane import WIDTH, angle_density, angles, plane_density, put_on_circle, run, weighted
from eigenview.lab.images import digits
from eigenview.losses import alignment, uniformity, uniformity_floor

TURN = torch.linspace(-math.pi, math.pi, 721, dtype=torch.float64)


def some_angles(n: int = 30, seed: int = 0) -> torch.Tensor:
    return 2 * math.pi * torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) - math.pi


def test_the_angles_density_is_a_mean_of_von_mises_by_loops():
    centres, at = some_angles(5), TURN[::90]
    measured = angle_density(at, centres, concentration=7.0)
    for place, theta in enumerate(at.tolist()):
        expected = sum(stats.vonmises.pdf(theta, 7.0, loc=centre) for centre in centres.tolist()) / 5
        assert float(measured[place]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("concentration", [0.5, 40.0, 2000.0])
def test_the_angles_density_has_mass_one_and_no_seam(concentration):
    measured = angle_density(TURN, some_angles(), concentration=concentration)
    assert float(torch.trapezoid(measured, TURN)) == pytest.approx(1, abs=1e-6)
    assert float(measured[0]) == pytest.approx(float(measured[-1]), rel=1e-9)


def test_without_concentration_every_angle_is_alike():
    torch.testing.assert_close(
        angle_density(TURN, some_angles(), concentration=0.0), torch.full_like(TURN, 1 / (2 * math.pi))
    )


def test_the_planes_density_is_scipys():
    centres = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    at = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = [
        sum(stats.multivariate_normal.pdf(x, mean=z, cov=0.3**2) for z in centres.numpy()) / 40 for x in at.numpy()
    ]
    assert plane_density(at, centres, bandwidth=0.3).tolist() == pytest.approx(expected, rel=1e-9)


def test_angles_are_those_of_the_points():
    theta = some_angles()
    torch.testing.assert_close(angles(torch.stack([theta.cos(), theta.sin()], dim=1)), theta)


def test_the_ends_of_the_sweep_are_each_metric_alone():
    x, y = torch.randn(2, 12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(weighted(0.0)(x, y), alignment(x, y))
    torch.testing.assert_close(weighted(1.0)(x, y), (uniformity(x) + uniformity(y)) / 2)
    middle = 0.75 * alignment(x, y) + 0.25 * (uniformity(x) + uniformity(y)) / 2
    torch.testing.assert_close(weighted(0.25)(x, y), middle)


def test_training_fills_the_circle_and_tells_digits_apart():
    """Contrastive against untrained, two seeds: more uniform and more accurate each time."""
    images = digits()
    for seed in range(2):
        before, after = (put_on_circle(images, kind, steps=40, seed=seed) for kind in ("untrained", "contrastive"))
        assert uniformity_floor(2, items=len(images.test)) <= after.uniformity < before.uniformity
        assert after.linear > before.linear
        assert float(after.embeddings.norm(dim=1).sub(1).abs().max()) < 1e-5


def test_a_quick_run_has_its_figures_and_collapses_by_alignment_alone():
    outcome = run(LabSettings(is_quick=True))
    assert set(outcome.figures) == {"", "circle-digits", "classes-digits"}
    sweep = outcome.data["sweep"]
    alone, both = sweep[0], sweep[1]
    assert alone["uniformity"]["mean"] > both["uniformity"]["mean"] + 1
    assert alone["linear"]["mean"] < both["linear"]["mean"] - 0.3
    for point in outcome.data["encoders"]:
        assert uniformity_floor(WIDTH) - 0.1 < point["uniformity"] <= 0
    shares = outcome.data["circle"]["digits"]["contrastive"]
    assert sum(shares["distance_counts"]) == 359


def test_bad_input_is_refused():
    with pytest.raises(ShapeError, match=r"are \(n, 2\)"):
        angles(torch.ones(4, 3))
    with pytest.raises(SettingError, match="concentration must not be negative"):
        angle_density(TURN, TURN, concentration=-1.0)
    with pytest.raises(SettingError, match="bandwidth must be positive"):
        plane_density(torch.ones(1, 2), torch.ones(1, 2), bandwidth=0.0)
    with pytest.raises(SettingError, match=r"in \[0, 1\]; got 1.5"):
        weighted(1.5)
    with pytest.raises(SettingError, match="kind of encoder must be one of"):
        put_on_circle(digits(), "random", steps=1)  # type: ignore[arg-type]
