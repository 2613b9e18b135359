"""Encoders of a user's own, named module:attribute, from a file outside the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from eigenview.errors import SettingError
from eigenview.names import named_code
from eigenview.nn import Encoder, SmallEncoder, build_encoder, is_own_encoder
from eigenview.nn.build import check_encoder_name
from eigenview.nn.wrapped import WrappedEncoder

CODE = """
import torch
from torch import nn
from eigenview.nn import SmallEncoder

class Flat(nn.Module):
    def __init__(self, channels, image_size=32):
        super().__init__()
        self.linear = nn.Linear(channels * image_size * image_size, 5)

    def forward(self, images):
        return self.linear(images.flatten(1))

def plain():
    return nn.Conv2d(3, 6, 3)

def ours(channels):
    return SmallEncoder(channels=channels, width=0.25)

def needy(depth):
    return nn.Identity()

def text():
    return "no module"

module = nn.Conv2d(3, 6, 3)
"""


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "own_encoders.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_encoders", None)


def built(attribute: str, **options: object) -> Encoder:
    with named_code(f"own_encoders:{attribute}"):
        return build_encoder(f"own_encoders:{attribute}", **options)  # type: ignore[arg-type]


def test_a_class_is_built_with_the_channels_and_the_size_it_asks_for():
    encoder = built("Flat", channels=1, image_size=12)
    assert isinstance(encoder, WrappedEncoder)
    images = torch.randn(2, 1, 12, 12)
    torch.testing.assert_close(encoder(images), encoder.module(images))
    assert encoder.feature_width == 5
    assert built("Flat", channels=1).module.linear.in_features == 32 * 32  # its own size where none is given


def test_a_function_without_arguments_is_averaged_over_positions():
    encoder = built("plain")
    images = torch.randn(2, 3, 9, 9)
    torch.testing.assert_close(encoder(images), encoder.module(images).mean(dim=(2, 3)))


def test_an_encoder_of_ours_passes_as_it_is():
    assert isinstance(built("ours", channels=1), SmallEncoder)


def test_code_that_this_call_does_not_name_is_never_imported():
    with pytest.raises(SettingError, match="runs only if this very call names it"):
        build_encoder("own_encoders:plain")
    assert "own_encoders" not in sys.modules


def test_a_mistyped_library_is_told_what_was_meant():
    with named_code("tmm:resnet18"), pytest.raises(SettingError, match=r"cannot be imported .*; did you mean timm\?$"):
        check_encoder_name("tmm:resnet18")


def test_a_librarys_model_is_no_code_of_ones_own():
    for library in ("timm", "torchvision", "hf", "open_clip", "onnx"):
        assert not is_own_encoder(f"{library}:resnet18")
    assert not is_own_encoder("resnet18")
    assert is_own_encoder("own_encoders:plain")


@pytest.mark.parametrize(
    ("attribute", "options", "message"),
    [
        ("module", {}, "must be a class or a function that builds a module; got a Conv2d"),
        ("needy", {}, "called with channels= and image_size= at most: missing a required argument: 'depth'"),
        ("text", {}, "must build a torch module; got a str"),
        ("plain", {"width": 2}, "takes channels and image_size only"),
        ("plan", {}, "own_encoders has no plan; did you mean plain"),
    ],
)
def test_what_builds_no_module_is_refused(attribute, options, message):
    with pytest.raises(SettingError, match=message):
        built(attribute, **options)
