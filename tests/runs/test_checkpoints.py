"""Checkpoints: whole or not there, safe to read, damage is told."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle

import pytest
import torch

from eigenview.errors import DataError
from eigenview.runs import Checkpoint, checkpoints
from eigenview.runs.checkpoints import SEAL, STATE, WEIGHTS, Checkpoints


def some(value: float) -> Checkpoint:
    return Checkpoint({"w": torch.full((3, 2), value), "n": torch.tensor(7)}, {"step": 4, "m": {"a": torch.ones(2)}})


def test_what_is_saved_comes_back(tmp_path):
    folder = Checkpoints(tmp_path / "checkpoints")
    folder.save(some(1.5))
    folder.save(some(2.5))
    loaded = folder.load("last")
    assert torch.equal(loaded.weights["w"], torch.full((3, 2), 2.5))
    assert loaded.weights["n"].item() == 7
    assert loaded.state["step"] == 4
    assert torch.equal(loaded.state["m"]["a"], torch.ones(2))
    assert torch.equal(folder.weights("previous")["w"], torch.full((3, 2), 1.5))
    assert folder.names() == ["last", "previous"]
    assert sorted(path.name for path in folder.folder.iterdir()) == ["last", "previous"]


def test_what_is_kept_stays_while_last_moves_on(tmp_path):
    folder = Checkpoints(tmp_path)
    folder.save(some(1.0), also=["best", "epoch-00001"])
    folder.save(some(2.0), also=["epoch-00002"])
    folder.save(some(3.0))
    assert folder.names() == ["last", "previous", "best", "epoch-00001", "epoch-00002"]
    values = [folder.load(name).weights["w"][0, 0].item() for name in folder.names()]
    assert values == [3.0, 2.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("file_name", [WEIGHTS, STATE])
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-5], lambda data: data[:10] + bytes([data[10] ^ 1]) + data[11:], lambda data: b""],
)
def test_damage_is_told_with_what_else_there_is(tmp_path, file_name, damage):
    folder = Checkpoints(tmp_path)
    folder.save(some(1.0), also=["epoch-00001"])
    folder.save(some(2.0))
    file = tmp_path / "last" / file_name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DataError, match=r"cannot be used: .*cut short; take another one: previous, epoch-00001"):
        folder.load("last")
    assert folder.load("epoch-00001").weights["w"][0, 0] == 1.0


def test_a_later_format_is_refused_and_one_that_does_not_say_is_read(tmp_path):
    folder, seal = Checkpoints(tmp_path), tmp_path / "last" / SEAL
    folder.save(some(1.0))
    content = json.loads(seal.read_text())
    assert content.pop("format") == 1
    seal.write_text(json.dumps(content))
    assert folder.load("last").weights["w"][0, 0] == 1.0
    seal.write_text(json.dumps({"format": 2, **content}))
    for read in (folder.load, folder.weights):
        with pytest.raises(DataError, match=r"cannot be used: .* has format 2; this version reads up to 1: update"):
            read("last")


def test_a_missing_one_is_told(tmp_path):
    with pytest.raises(DataError, match=r"no checkpoint last in .*; there are: none"):
        Checkpoints(tmp_path).load("last")


def test_a_full_disk_keeps_the_one_before(tmp_path, monkeypatch):
    folder = Checkpoints(tmp_path)
    folder.save(some(1.0))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("eigenview.tensors.save_file", full)
    with pytest.raises(DataError, match=r"No space left on device; .*make room"):
        folder.save(some(2.0))
    assert folder.load("last").weights["w"][0, 0] == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_crash_between_the_two_renames_loses_nothing(tmp_path):
    folder = Checkpoints(tmp_path)
    folder.save(some(1.0))
    (tmp_path / "last").rename(tmp_path / ".last.old")
    assert folder.names() == ["last"]
    assert folder.load("last").weights["w"][0, 0] == 1.0
    folder.save(some(3.0))
    assert folder.load("last").weights["w"][0, 0] == 3.0
    assert folder.load("previous").weights["w"][0, 0] == 1.0


def test_a_pickle_with_code_is_not_executed(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    folder = Checkpoints(tmp_path)
    folder.save(some(1.0))
    data = pickle.dumps(Evil())
    (tmp_path / "last" / STATE).write_bytes(data)
    seal = json.loads((tmp_path / "last" / SEAL).read_text())
    seal[STATE] = hashlib.sha256(data).hexdigest()
    (tmp_path / "last" / SEAL).write_text(json.dumps(seal))
    with pytest.raises(DataError, match="cannot be used"):
        folder.load("last")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("wanted", ["load", "weights"])
def test_a_save_while_it_is_read_gives_the_new_one(tmp_path, monkeypatch, wanted):
    folder = Checkpoints(tmp_path)
    folder.save(some(1.0))
    digest = checkpoints.file_digest

    def swapped_meanwhile(path):
        monkeypatch.setattr(checkpoints, "file_digest", digest)
        folder.save(some(2.0))
        return digest(path)

    monkeypatch.setattr(checkpoints, "file_digest", swapped_meanwhile)
    content = getattr(folder, wanted)("last")
    tensors = content.weights if wanted == "load" else content
    assert tensors["w"][0, 0] == 2.0


@pytest.mark.parametrize("name", ["../last", "last/../last", "", ".", "..", "/etc"])
def test_a_name_leads_nowhere_else(tmp_path, name):
    folder = Checkpoints(tmp_path / "checkpoints")
    folder.save(some(1.0))
    with pytest.raises(DataError, match="no checkpoint"):
        folder.load(name)
