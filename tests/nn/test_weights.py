"""Starting weights from files, of ours and of others."""

from __future__ import annotations

import pickle
from collections import OrderedDict

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from eigenview.errors import DataError
from eigenview.nn import build_encoder, load_weights, wrap
from eigenview.tensors import sealed


def encoder(seed: int, **options):
    torch.manual_seed(seed)
    return build_encoder("resnet18", width=0.125, stem="cifar", **options)


def same(first, second) -> bool:
    theirs = second.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in first.state_dict().items())


@pytest.mark.parametrize("prefix", ["", "encoder.", "module.encoder_q.", "online.encoder."])
@pytest.mark.parametrize("kind", ["safetensors", "pth", "nested"])
def test_weights_come_back_whatever_stood_before_their_names(tmp_path, kind, prefix):
    source, target = encoder(0), encoder(1)
    state = {prefix + name: value.clone() for name, value in source.state_dict().items()}
    state |= {prefix + "fc.weight": torch.zeros(10, 64), "queue": torch.zeros(3)}
    path = tmp_path / f"weights.{'safetensors' if kind == 'safetensors' else 'pth'}"
    if kind == "safetensors":
        save_file(state, path)
    else:
        torch.save({"epoch": 3, "state_dict": OrderedDict(state)} if kind == "nested" else state, path)
    report = load_weights(target, path)
    assert same(source, target)
    assert report.prefix == prefix
    assert report.missing == ()
    assert "fc.weight" in report.unexpected
    assert "tensors loaded" in str(report)
    assert "left out (fc.weight" in str(report)


def test_old_state_dicts_without_counters_load(tmp_path):
    state = {name: value for name, value in encoder(0).state_dict().items() if "num_batches" not in name}
    torch.save(state, tmp_path / "old.pth")
    report = load_weights(encoder(1), tmp_path / "old.pth")
    assert all(name.endswith("num_batches_tracked") for name in report.missing)


def test_missing_weights_need_a_word(tmp_path):
    state = {name: value for name, value in encoder(0).state_dict().items() if not name.startswith("layer4")}
    save_file(state, tmp_path / "part.safetensors")
    target = encoder(1)
    with pytest.raises(DataError, match=r"lacks .* tensors: layer4.0.conv1.weight"):
        load_weights(target, tmp_path / "part.safetensors")
    assert same(target, encoder(1))
    report = load_weights(target, tmp_path / "part.safetensors", allows_missing=True)
    assert "layer4.0.conv1.weight" in report.missing
    assert torch.equal(target.conv1.weight, encoder(0).conv1.weight)


def test_other_shapes_are_refused_and_nothing_changes(tmp_path):
    save_file(encoder(0, channels=1).state_dict(), tmp_path / "grey.safetensors")
    target = encoder(1)
    with pytest.raises(
        DataError, match=r"1 shapes differ \(conv1.weight is \(8, 1, 3, 3\) in the file, \(8, 3, 3, 3\)"
    ):
        load_weights(target, tmp_path / "grey.safetensors")
    assert same(target, encoder(1))


def test_two_encoders_in_a_file_need_a_choice(tmp_path):
    state = {
        f"{side}.{name}": value.clone() + number
        for number, side in enumerate(["left", "right"])
        for name, value in encoder(0).state_dict().items()
    }
    save_file(state, tmp_path / "two.safetensors")
    with pytest.raises(DataError, match=r"several such encoders, under left\., right\.; say which by prefix="):
        load_weights(encoder(1), tmp_path / "two.safetensors")
    target = encoder(1)
    load_weights(target, tmp_path / "two.safetensors", prefix="right.")
    torch.testing.assert_close(target.conv1.weight, encoder(0).conv1.weight + 1)
    with pytest.raises(DataError, match=r"no weight of this module under the prefix 'up\.'"):
        load_weights(encoder(1), tmp_path / "two.safetensors", prefix="up.")


class Harmful:
    def __reduce__(self):
        return (print, ("executed",))


def test_nothing_in_a_file_is_executed(tmp_path, capsys):
    (tmp_path / "harm.pth").write_bytes(pickle.dumps({"conv1.weight": Harmful()}, protocol=2))
    torch.save({"conv1.weight": Harmful()}, tmp_path / "harm2.pth")
    for name in ("harm.pth", "harm2.pth"):
        with pytest.raises(DataError, match="holds more than weights, and nothing in a foreign file is executed"):
            load_weights(encoder(0), tmp_path / name)
    assert capsys.readouterr().out == ""


def test_a_flipped_bit_in_a_file_of_ours_is_refused_and_nothing_changes(tmp_path):
    weights = encoder(0).state_dict()
    save_file(weights, tmp_path / "own.safetensors", metadata=sealed(weights))
    load_weights(encoder(1), tmp_path / "own.safetensors")
    spoilt = bytearray((tmp_path / "own.safetensors").read_bytes())
    spoilt[-1] ^= 0x40
    (tmp_path / "own.safetensors").write_bytes(spoilt)
    module = encoder(1)
    with pytest.raises(DataError, match=r"own\.safetensors is damaged: its checksum does not fit"):
        load_weights(module, tmp_path / "own.safetensors")
    assert all(torch.equal(tensor, encoder(1).state_dict()[name]) for name, tensor in module.state_dict().items())


def test_unreadable_files_are_refused(tmp_path):
    whole = tmp_path / "whole.pth"
    torch.save(encoder(0).state_dict(), whole)
    (tmp_path / "cut.pth").write_bytes(whole.read_bytes()[:1000])
    save_file(encoder(0).state_dict(), tmp_path / "whole.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "whole.safetensors").read_bytes()[:1000])
    (tmp_path / "noise.pth").write_bytes(b"\x80\x02}q\x00U\xffnot a state dict")
    for name in ("cut.pth", "cut.safetensors", "noise.pth"):
        with pytest.raises(DataError, match="is it cut short"):
            load_weights(encoder(0), tmp_path / name)
    with pytest.raises(DataError, match="is the path right"):
        load_weights(encoder(0), tmp_path / "none.pth")
    torch.save({"epoch": 3}, tmp_path / "empty.pth")
    with pytest.raises(DataError, match="holds no named tensors"):
        load_weights(encoder(0), tmp_path / "empty.pth")
    save_file({"other": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(DataError, match=r"it wants conv1.weight.*the file has other"):
        load_weights(encoder(0), tmp_path / "other.safetensors")


@pytest.mark.parametrize("before", ["", "module.", "encoder.module.", "backbone."])
def test_weights_of_a_model_go_into_its_wrapper_whatever_stands_before_their_names(before, tmp_path):
    def model() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    inner, wrapped = model(), wrap(model())
    torch.save({f"{before}{name}": tensor for name, tensor in inner.state_dict().items()}, tmp_path / "w.pth")
    assert load_weights(wrapped, tmp_path / "w.pth").loaded == len(inner.state_dict())
    assert all(torch.equal(value, inner.state_dict()[name]) for name, value in wrapped.module.state_dict().items())
