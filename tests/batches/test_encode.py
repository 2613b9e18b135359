"""The one pass that encodes: what the encoder says of every view, in order, with modules left as they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from eigenview.batches import Extractor, ViewLoader, encode_source, encoded_batches, evaluating
from eigenview.data import ArraySource, FolderSource
from eigenview.errors import DataError, SettingError
from eigenview.nn import build_encoder, build_head, wrap
from eigenview.views import CentreView, Views, preset
from tests.processes import run_processes

VIEW = CentreView(16, 16)
RECIPE = preset("simclr-cifar", size=16)


def pictures(count: int = 30) -> ArraySource:
    return ArraySource(np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3), dtype=np.uint8))


def encoder():
    torch.manual_seed(0)
    return build_encoder("small", width=0.25)


def test_every_view_of_every_item_is_encoded_in_order():
    model, source, views = encoder(), pictures(), Views(RECIPE, seed=3)
    rows = encode_source(Extractor(model), source, views, epoch=5, batch_size=8, title=None)
    made = views(source.batch(np.arange(30)), torch.arange(30), epoch=5)
    with evaluating(model):
        expected = torch.stack([model(view) for view in made.views])
    assert torch.allclose(rows.layers["pooled"], expected, atol=1e-5)
    assert torch.equal(rows.index, torch.arange(30))
    assert rows.unreadable == ()
    other = encode_source(Extractor(model), source, views, epoch=6, title=None)
    assert not torch.allclose(other.layers["pooled"], expected, atol=1e-3)


def test_layers_come_together_and_the_projection_is_the_heads():
    model, source = encoder(), pictures(9)
    head = build_head("simclr-v1", model.feature_width, output=8)
    extractor = Extractor(model, ("projection", "conv3"), head, maps="keep")
    rows = encode_source(extractor, source, VIEW, title=None).layers
    assert list(rows) == ["projection", "conv3"]
    with evaluating(model, head):
        layers = model.features(VIEW(source.batch(np.arange(9))), ["conv3", "pooled"])
        assert torch.allclose(rows["projection"][0], head(layers["pooled"]), atol=1e-5)
    assert torch.allclose(rows["conv3"][0], layers["conv3"], atol=1e-5)
    assert all(not layer.requires_grad for layer in rows.values())


def test_names_and_failures_travel_with_the_batch(tmp_path):
    for number in range(5):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 24, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "1.png").write_bytes(b"no picture")
    (tmp_path / "2.png").write_bytes(b"none either")
    loader = ViewLoader.in_order(FolderSource(tmp_path), VIEW, batch_size=2, workers=0)
    batches = list(encoded_batches(Extractor(encoder()), loader))
    assert [batch.batch.names for batch in batches] == [("0.png",), ("3.png",), ("4.png",)]
    assert [[failure.name for failure in batch.batch.unreadable] for batch in batches] == [["1.png"], ["2.png"], []]
    rows = encode_source(Extractor(encoder()), FolderSource(tmp_path), VIEW, batch_size=2, workers=0, title=None)
    assert rows.index.tolist() == [0, 3, 4]
    assert [failure.name for failure in rows.unreadable] == ["1.png", "2.png"]
    for file in tmp_path.iterdir():
        file.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"0\.png cannot be read: .*, nor can 4 others"):
        encode_source(Extractor(encoder()), FolderSource(tmp_path), VIEW, workers=0, title=None)


class Failing(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        raise DataError("broken")


def test_modes_come_back_whatever_happens():
    model = encoder().train()
    model.conv2.eval()
    modes = [module.training for module in model.modules()]
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled()
    failing = nn.Sequential(nn.BatchNorm2d(3), Failing()).train()
    with pytest.raises(DataError, match="broken"), evaluating(failing):
        failing(torch.zeros(1, 3, 2, 2))
    assert all(module.training for module in failing.modules())


def test_what_is_not_finite_is_refused_by_item():
    class Dividing(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return 1 / images.flatten(1).sum(dim=1, keepdim=True).expand(-1, 2)

    images = np.full((12, 4, 4), 100, np.uint8)
    images[[3, 7]] = 0
    model = wrap(Dividing(), channels=1, image_size=4)
    with pytest.raises(DataError, match="layer pooled must be finite; NaN or Inf in 2 of 12 images, first 3, 7:"):
        encode_source(Extractor(model), ArraySource(images), CentreView(4, 4, (0.0,), (1.0,)), title=None)


def test_an_extractor_that_cannot_be_is_refused_at_once():
    model = encoder()
    with pytest.raises(SettingError, match=r"features need an Encoder; got Flatten: pass eigenview\.nn\.wrap"):
        Extractor(nn.Flatten())
    with pytest.raises(SettingError, match="no layer was asked for"):
        Extractor(model, ())
    with pytest.raises(SettingError, match="is the head's output: give head="):
        Extractor(model, ("projection",))
    with pytest.raises(SettingError, match="maps must be average, flatten or keep; got 'max'"):
        Extractor(model, maps="max")


def encoded_here(rank: int, group: object) -> Tensor:
    views = Views(RECIPE, seed=3)
    return encode_source(Extractor(encoder()), pictures(11), views, batch_size=4, title=None, group=group).layers[
        "pooled"
    ]


def refused_here(rank: int, group: object) -> str:
    with pytest.raises(DataError) as caught:
        encode_source(Extractor(encoder()), pictures(1), VIEW, batch_size=4, title=None, group=group)
    return str(caught.value)


def test_two_processes_encode_what_one_does_and_refuse_together():
    alone = encoded_here(0, None).numpy()
    for rows in run_processes(2, encoded_here):
        assert np.allclose(rows, alone, atol=1e-5)
    assert any("use fewer processes" in message for message in run_processes(2, refused_here))
