"""Either side of a projection head, and the small encoders it is measured on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.lab import LabSettings
from eigenview.lab.finite_views import SHIFTS, shifted
from eigenview.lab.images import cifar10, digits
from eigenview.lab.projection_head import layers_of, run, trained
from eigenview.lab.small_encoders import accuracies, build_branch, encoded, fit
from eigenview.losses import InfoNCE


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("shift", SHIFTS)
def test_a_shift_moves_pixels_and_repeats_the_border_by_loops(shift, step):
    views = torch.arange(2 * 36, dtype=torch.float32).view(2, 1, 6, 6)
    measured = shifted(views, *shift, step=step, mode="replicate")
    for row in range(6):
        for column in range(6):
            source = min(max(row - step * shift[0], 0), 5), min(max(column - step * shift[1], 0), 5)
            assert torch.equal(measured[:, 0, row, column], views[:, 0, source[0], source[1]])


def test_layers_run_from_the_features_to_the_embeddings():
    images = digits()
    branch = build_branch(images, output=8).eval()
    layers, views = layers_of(branch), images.fixed_views()[1][:5]
    assert list(layers) == ["features", "head layer 1", "projection"]
    torch.testing.assert_close(layers["features"](views), branch.encoder(views))
    torch.testing.assert_close(layers["projection"](views), branch(views))
    assert list(layers_of(build_branch(images, output=256, head="none"))) == ["features"]
    assert list(layers_of(build_branch(images, output=8, head="linear"))) == ["features", "projection"]


def test_the_same_seed_trains_the_same_encoder():
    images = digits()
    first, second = (encoded(trained(images, "mlp", steps=5, seed=3), images.fixed_views()[1]) for _ in range(2))
    assert torch.equal(first, second)
    other = encoded(trained(images, "mlp", steps=5, seed=4), images.fixed_views()[1])
    assert not torch.allclose(first, other)


def test_pairs_are_a_pure_function_of_the_step():
    images = digits()
    for versions in (0, 4):
        draw = images.random_pairs(batch=16, seed=1, versions=versions)
        early, late = draw(0), draw(7)
        again = draw(0)
        assert torch.equal(early.first, again.first)
        assert torch.equal(early.second, again.second)
        assert not torch.equal(early.first, late.first)
        assert not torch.equal(early.first, early.second)


def test_fitting_lowers_the_loss_and_leaves_global_randomness_alone():
    images = digits()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    branch = build_branch(images, output=16)
    draw = images.random_pairs(versions=8)
    losses = fit(branch, draw, InfoNCE(temperature=0.5), steps=30)
    assert sum(losses[-5:]) < sum(losses[:5]) - 1
    assert torch.equal(torch.rand(3), expected)


def test_accuracies_are_those_of_separable_and_of_constant_rows():
    labels = torch.arange(3).repeat(10)
    rows = nn.functional.one_hot(labels, 3).float()
    assert accuracies(rows, labels, rows, labels) == (1.0, 1.0)
    assert accuracies(torch.ones(30, 2), labels, torch.ones(30, 2), labels)[0] == pytest.approx(1 / 3)


def test_a_quick_run_measures_every_layer():
    outcome = run(LabSettings(is_quick=True))
    table = outcome.data["digits"]
    assert [name for name in table if name.startswith("mlp")] == [
        "mlp head: features",
        "mlp head: head layer 1",
        "mlp head: projection",
    ]
    for row in table.values():
        assert 1 <= row["rank"]["mean"] <= row["width"]["mean"]
        assert row["shift"]["mean"] > 2 / 9
    spread = [table[f"mlp head: {layer}"]["uniformity"]["mean"] for layer in ("features", "projection")]
    assert spread[1] < spread[0]  # the loss spreads what it sees, not what comes before


def test_what_is_missing_or_wrong_is_said(tmp_path):
    assert cifar10(None) is None
    assert cifar10(tmp_path) is None
    with pytest.raises(SettingError, match="head must be none, linear or mlp"):
        build_branch(digits(), output=4, head="deep")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="without a head the embeddings are the 256 features"):
        build_branch(digits(), output=4, head="none")
    with pytest.raises(SettingError, match="steps must be at least 1"):
        trained(digits(), "mlp", steps=0, seed=0)
