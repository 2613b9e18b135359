"""Tensors and notes in a sealed file: back as they were, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eigenview.batches.sealed import read_sealed, save_sealed
from eigenview.errors import DataError

TENSORS = {"rows": torch.arange(12.0).view(3, 4), "index": torch.tensor([0, 2, 5]), "none": torch.empty(0, 0)}
NOTES = {"paths": '["a.jpg", "ü \\udce9"]'}


def test_what_was_sealed_comes_back(tmp_path):
    save_sealed(tmp_path / "a.safetensors", {**TENSORS, "turned": TENSORS["rows"].T}, NOTES)
    tensors, notes = read_sealed(tmp_path / "a.safetensors")
    assert notes == NOTES
    assert torch.equal(tensors.pop("turned"), TENSORS["rows"].T)
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())


def test_any_flipped_bit_is_noticed(tmp_path):
    file = tmp_path / "a.safetensors"
    save_sealed(file, TENSORS, NOTES)
    good = file.read_bytes()
    for place in range(len(good)):
        content = bytearray(good)
        content[place] ^= 1 << place % 8
        file.write_bytes(bytes(content))
        assert is_refused_or_right(file), place


def is_refused_or_right(file: Path) -> bool:
    """Right: the bit means nothing, such as one of a space in the header."""
    try:
        tensors, notes = read_sealed(file)
    except DataError as error:
        return "\n" not in str(error)
    return notes == NOTES and all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())


def test_a_file_without_a_seal_or_with_another_is_refused(tmp_path):
    file = tmp_path / "a.safetensors"
    save_file(TENSORS, file)
    with pytest.raises(DataError, match="is damaged: its checksum does not fit"):
        read_sealed(file)
    save_sealed(file, TENSORS, NOTES)
    save_file({**load_file(file), "more": torch.ones(1)}, file, metadata={**NOTES, "digest": "0" * 64})
    with pytest.raises(DataError, match="its checksum does not fit"):
        read_sealed(file)
    with pytest.raises(DataError, match=r"none\.safetensors is damaged: No such file"):
        read_sealed(tmp_path / "none.safetensors")
