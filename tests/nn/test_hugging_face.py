"""Vision models of transformers in local folders, against the library itself; skipped where it is not installed."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from eigenview.errors import DataError, SettingError
from eigenview.nn import build_encoder, load_encoder
from eigenview.nn.inputs import LoadedEncoder
from tests.nn.library_checks import assert_same, grey_levels_apart, noise, refuses, stirred

transformers = pytest.importorskip("transformers", reason="transformers is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library about itself

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TEXT = {**SMALL, "vocab_size": 50, "max_position_embeddings": 8}


def hf_models() -> dict[str, tuple[nn.Module, object, str]]:
    """For each kind a tiny model with its preprocessor (None: torchvision only), and where its embedding is."""
    t = transformers
    vision = {**SMALL, "image_size": 56, "patch_size": 14}
    clip = t.CLIPConfig(vision_config=vision, text_config=TEXT, projection_dim=24)
    siglip = t.SiglipConfig(vision_config=vision, text_config=TEXT)
    square = {"size": {"height": 56, "width": 56}}
    bit = {"size": {"shortest_edge": 64}, "crop_size": {"height": 56, "width": 56}}
    return {
        "vit": (t.ViTModel(t.ViTConfig(**vision)), t.ViTImageProcessorPil(**square), "class token"),
        "dinov2": (t.Dinov2Model(t.Dinov2Config(**vision)), t.BitImageProcessorPil(**bit), "pooler_output"),
        "registers": (
            t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**vision)),
            t.BitImageProcessorPil(**bit),
            "pooler_output",
        ),
        "dinov3": (
            t.DINOv3ViTModel(t.DINOv3ViTConfig(**vision)),
            t.DINOv3ViTImageProcessor(**square),
            "pooler_output",
        ),
        "clip": (
            t.CLIPModel(clip),
            t.CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size=square["size"]),
            "image_embeds",
        ),
        "siglip": (t.SiglipModel(siglip), t.SiglipImageProcessorPil(**square), "pooler_output"),
    }


def hf_embedding(kind: str, folder: Path, where: str, images: Tensor) -> Tensor:
    """The library's own forward pass."""
    if kind == "clip":
        whole = transformers.CLIPModel.from_pretrained(folder).eval()
        with torch.no_grad():
            return whole.visual_projection(whole.vision_model(pixel_values=images).pooler_output)
    if kind == "siglip":
        model = transformers.SiglipVisionModel.from_pretrained(folder)
    else:
        model = transformers.AutoModel.from_pretrained(folder)
    with torch.no_grad():
        answer = model.eval()(pixel_values=images)
    return answer.last_hidden_state[:, 0] if where == "class token" else answer[where]


@pytest.mark.parametrize("kind", ["vit", "dinov2", "registers", "dinov3", "clip", "siglip"])
def test_a_transformers_model_in_a_folder(kind, tmp_path, photos):
    model, processor, where = hf_models()[kind]
    folder = tmp_path / "model"
    stirred(model).save_pretrained(folder)
    processor.save_pretrained(folder)
    loaded = load_encoder(f"hf:{folder}")
    assert isinstance(loaded, LoadedEncoder)
    assert loaded.input.size == 56
    images = noise(56)
    theirs = hf_embedding(kind, folder, where, images)
    with torch.no_grad():
        assert_same(loaded.encoder(images), theirs)
    assert len(loaded.facts.digest) == 64
    again = transformers.AutoImageProcessor.from_pretrained(folder)  # whichever of its two transformers prefers
    for chosen in (processor, again):
        transform = lambda image, chosen=chosen: chosen(images=image, return_tensors="pt")["pixel_values"][0]  # noqa: E731
        assert grey_levels_apart(photos, loaded.input, transform) <= 1.001

    layer = next(name for name in loaded.encoder.layer_names if name.endswith(("layer.1", "layers.1")))
    with torch.no_grad():
        tokens = loaded.encoder.features(images, [layer])[layer]
    assert tokens.shape[:2] == (2, 32)
    assert bool(torch.isfinite(loaded.encoder(noise(70))).all())  # positions for another size

    assert transformers.__version__ in loaded.facts.library
    assert transformers.__version__ not in loaded.facts.config
    for file in folder.iterdir():
        file.unlink()
    rebuilt = build_encoder(f"hf:{folder}", config=loaded.facts.config).eval()  # as a run opens: nothing but the text
    assert not torch.allclose(rebuilt(images), theirs)
    rebuilt.load_state_dict(loaded.encoder.state_dict())
    with torch.no_grad():
        assert_same(rebuilt(images), theirs)


def test_a_folder_that_lacks_something_is_refused_in_a_line(tmp_path):
    model, processor, _ = hf_models()["dinov2"]
    model.save_pretrained(tmp_path)
    refuses(f"hf:{tmp_path}", "has no preprocessor_config.json, which says how its images must look")
    processor.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    refuses(f"hf:{tmp_path}", "do not fit its configuration")
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "bert", "vocab_size": 10}))
    refuses(f"hf:{tmp_path}", "hf:")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config))
    refuses(f"hf:{tmp_path}", "cannot be built")
    refuses(f"hf:{tmp_path}/nowhere", "no such folder")
    (tmp_path / "config.json").write_text("{")
    refuses(f"hf:{tmp_path}", "cannot be built")


def test_a_kept_configuration_is_all_that_is_needed(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    config = transformers.Dinov2Config(**SMALL, image_size=28, patch_size=14).to_json_string()
    assert build_encoder("hf:facebook/dinov2-small", config=config).feature_width == 32


def test_bad_kept_configurations_are_refused():
    with pytest.raises(DataError):
        build_encoder("hf:some/model", config="{")
    with pytest.raises(SettingError, match="cannot be built"):
        build_encoder("hf:some/model", config='{"model_type": "no-such"}')
    with pytest.raises(SettingError, match="image side is not known here"):
        build_encoder("hf:some/model", config=transformers.ChineseCLIPConfig().to_json_string())
