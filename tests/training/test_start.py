"""What a run begins from, and what is refused before any image is opened: no/such/folder is never looked for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from eigenview.errors import EigenviewError, SettingError
from eigenview.export import export
from eigenview.names import named_code
from eigenview.runs import open_run
from eigenview.training.start import prepare
from tests.training.runs import run_quietly, settings


def refusal(encoder: str, **settings: object) -> str:
    with pytest.raises(EigenviewError) as caught, named_code(encoder):
        prepare({"source": "no/such/folder", "encoder": {"name": encoder, **settings}})
    return str(caught.value)


def test_a_frozen_file_is_not_trained(tmp_path):
    (tmp_path / "lite.onnx").touch()
    name = f"onnx:{tmp_path / 'lite.onnx'}"
    told = f"{name} is frozen and cannot be trained: name the network that it was made of, or use it as it is "
    assert refusal(name) == f"{told}(eigenview look SOURCE --encoder {name})"


def test_names_that_a_library_does_not_have_are_refused_first(monkeypatch):
    models = SimpleNamespace(list_models=lambda: ["resnet18"], list_pretrained=lambda _: ["resnet18.a1_in1k"])
    clip = SimpleNamespace(list_models=lambda: ["RN50"], list_pretrained_tags_by_model=lambda _: ["openai"])
    for name, module in {"timm": models, "open_clip": clip, "transformers": SimpleNamespace()}.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert refusal("timm:resnet81") == (
        "timm has no model 'resnet81'; did you mean resnet18? timm.list_models() lists them"
    )
    assert refusal("timm:resnet18.a1_in2k").startswith("timm has no model 'resnet18.a1_in2k'; did you mean resnet18.a1")
    assert refusal("open_clip:RN50/openia").endswith("one of openai; got 'openia'; did you mean openai?")
    assert refusal("hf:./nowhere") == "no such folder: ./nowhere; is the path right?"
    for others in ({"pretrained": False}, {"weights": "some.pth"}):  # where no tag is needed, none is asked for
        assert refusal("open_clip:RN50", **others).startswith("no such folder or file: no/such/folder")


def test_a_library_that_is_not_there_is_named_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.delitem(sys.modules, "torchvision.models", raising=False)
    assert refusal("torchvision:resnet18").startswith("encoder torchvision:resnet18 needs torchvision, which ")
    assert refusal("no_such_module:net").startswith("encoder no_such_module:net: the module no_such_module cannot be")
    with pytest.raises(SettingError, match=r"'smal' is no encoder; did you mean small\?"):
        prepare({"source": "no/such/folder", "encoder": {"name": "smal"}})


def test_a_run_and_an_exported_file_are_encoders_to_begin_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_quietly(settings("simclr", tmp_path / "first", steps=1))
    file = export(run.folder, "safetensors", "first.safetensors").path
    for name, length in ((str(run.folder), {"steps": 1}), (str(file), {"epochs": 1})):
        begun = prepare({"source": "shapes?count=96&size=24", "encoder": {"name": name, "frozen_blocks": 1}, **length})
        encoder = begun.config.encoder
        assert (encoder.name, encoder.width, encoder.frozen_blocks) == ("small", 0.25, 1)
        assert encoder.weights == str((tmp_path / name).absolute())
        assert begun.config.optimizer.encoder_rate == 0.1  # chosen for weights that are worth keeping
    (tmp_path / "bare.pth").touch()
    assert refusal("bare.pth").endswith("name that, and give it as weights (--weights, of train --encoder.weights)")


def test_the_look_back_computes_where_the_run_was_trained(tmp_path, monkeypatch):
    devices = []

    def opening(directory, *, device="none was told", **options):
        devices.append(device)
        return open_run(directory, device=device, **options)

    monkeypatch.setattr("eigenview.training.launch.open_run", opening)
    run_quietly(settings("simclr", tmp_path / "run", steps=1, device="cpu"), looks_back=True)
    assert devices == [torch.device("cpu")]
