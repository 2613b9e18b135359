"""Any module as an encoder."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError, ShapeError
from eigenview.nn import build_encoder, wrap


def module(*, flat: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if flat else []
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Conv2d(4, 7, 3), *tail
    )


@pytest.mark.parametrize("flat", [True, False])
def test_a_users_module_becomes_an_encoder(flat):
    mine = module(flat=flat)
    before, random_state = {name: value.clone() for name, value in mine.state_dict().items()}, torch.get_rng_state()
    encoder = wrap(mine)
    assert encoder.feature_width == 7
    assert torch.equal(torch.get_rng_state(), random_state)
    assert mine.training
    assert mine[1].training
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())
    images = torch.randn(5, 3, 12, 12)
    encoder.eval()
    outputs = encoder.features(images, ["1", "pooled", "4"])
    normalised = mine[1](mine[0](images))
    torch.testing.assert_close(outputs["1"], normalised)  # although the ReLU after it works in place
    torch.testing.assert_close(outputs["4"], mine[4](normalised.relu()))
    torch.testing.assert_close(outputs["pooled"], outputs["4"].mean(dim=(2, 3)))
    torch.testing.assert_close(encoder(images), outputs["pooled"])
    assert not mine[1]._forward_hooks


def test_an_encoder_stays_itself():
    encoder = build_encoder("small", width=0.25)
    assert wrap(encoder) is encoder


def test_what_is_no_encoder_is_refused():
    with pytest.raises(SettingError, match="feature_width says 8, but the module gives features of width 7"):
        wrap(module(), feature_width=8)
    with pytest.raises(SettingError, match=r"failed on a trial batch of shape \(2, 3, 4, 4\)"):
        wrap(module(flat=False), image_size=4)
    with pytest.raises(ShapeError, match=r"must return \(n, d\) or \(n, d, h, w\); got \(2, 3072, 1\)"):
        wrap(nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3072, 1))))
    with pytest.raises(SettingError, match=r"no layer 'conv9' in this encoder; it has 0, 1"):
        wrap(module()).features(torch.randn(2, 3, 8, 8), ["conv9"])


def test_tokens_come_with_channels_before_positions():
    class Tokens(nn.Module):
        def forward(self, images):
            tokens = images.flatten(2).transpose(1, 2)
            return tokens, images.new_zeros(1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = Tokens()

        def forward(self, images):
            return self.tokens(images)[0].mean(dim=1)

    images = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(wrap(Model()).features(images, ["tokens"])["tokens"], images.flatten(2))


@pytest.mark.parametrize("library", ["timm", "torchvision", "transformers", "open_clip"])
def test_a_missing_library_is_named(library, monkeypatch):
    for name in (library, f"{library}.models"):
        monkeypatch.setitem(sys.modules, name, None)  # what the import system takes for: not there
    prefix = "hf" if library == "transformers" else library
    why = r"which (is not installed|does not import here \(.*\)): pip install "
    with pytest.raises(SettingError, match=f"encoder {prefix}:some needs {library}, {why}") as caught:
        build_encoder(f"{prefix}:some")
    assert "\n" not in str(caught.value)
    with pytest.raises(SettingError, match="takes channels and image_size only"):
        build_encoder(f"{prefix}:some", width=2)
