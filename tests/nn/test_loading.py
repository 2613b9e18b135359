"""While a library loads: no hanging, no foreign code, one line for whatever goes wrong; then all is as before."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import urllib.error

import pytest
import torch

from eigenview.errors import DataError, SettingError
from eigenview.nn import libraries
from eigenview.nn.libraries import check_model, library, loading


def state() -> tuple[object, ...]:
    return socket.getdefaulttimeout(), os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), logging.root.manager.disable


def test_errors_of_a_library_become_one_line_and_all_is_as_before():
    before = state()
    with pytest.raises(SettingError, match=r"^encoder timm:x cannot be built: first$"), loading("timm:x"):
        raise RuntimeError("first\nsecond")
    with pytest.raises(SettingError, match=r"^encoder timm:x cannot be built: KeyError$"), loading("timm:x"):
        raise KeyError
    with pytest.raises(DataError, match="ours stays"), loading("timm:x"):
        raise DataError("ours stays")
    with (
        pytest.raises(SettingError, match=r"of torchvision:x cannot be fetched \(timed out\): give a local file"),
        loading("torchvision:x"),
    ):
        raise urllib.error.URLError(TimeoutError("timed out"))
    assert state() == before


def test_a_hub_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(libraries, "WAIT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        hub = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with (
            pytest.raises(SettingError, match=rf"cannot be fetched \({hub} does not answer") as caught,
            loading("hf:some/model", hub=hub),
        ):
            raise OSError("not in the cache")
    assert "\n" not in str(caught.value)
    assert "(--weights FILE, of train --encoder.weights FILE)" in str(caught.value)
    assert "(--encoder.no-pretrained)" in str(caught.value)


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_no_file_that_a_library_reads_runs_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Trap()}, "trap.pth")
    with pytest.raises(SettingError, match="cannot be built"), loading("timm:x"):
        torch.load("trap.pth")  # a library that names no weights_only
    assert not (tmp_path / "trapped").exists()
    with pytest.raises((pickle.UnpicklingError, RuntimeError, SettingError)), loading("timm:x"):
        torch.load("trap.pth", weights_only=False)  # or one that asks for all
    assert not (tmp_path / "trapped").exists()


def test_a_library_that_fails_to_import_is_told_from_one_that_is_not_there(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("raise RuntimeError('operator torchvision::nms does not exist\\nmore')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match=r"does not import here \(operator torchvision::nms does not exist\): pip"):
        library("broken_library", "x:y")


def test_a_name_that_nobody_has():
    check_model("resnet18", ["resnet18"], "timm")
    with pytest.raises(
        SettingError, match=r"^timm has no model 'resnet81'; did you mean resnet18\? timm\.list_models\(\) "
    ):
        check_model("resnet81", ["resnet18", "vit"], "timm")
    with pytest.raises(SettingError, match=r"no model 'nothing'; torchvision\.models\.list_models\(\) lists them$"):
        check_model("nothing", ["resnet18", "vit"], "torchvision")
