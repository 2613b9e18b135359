"""Tensors and notes in a sealed file, and mapped arrays: back as they were, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from eigenview.errors import DataError
from eigenview.tensors import map_array, read_sealed, save_sealed

TENSORS = {
    "rows": torch.arange(12.0).view(3, 4),
    "index": torch.tensor([0, 2, 5]),
    "none": torch.empty(0, 0),
    "half": torch.linspace(-1, 1, 6, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False]),
    "count": torch.tensor(7),
}
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
    assert read_sealed(file, from_anywhere=True)[0]["index"].tolist() == [0, 2, 5]
    save_sealed(file, TENSORS, NOTES)
    save_file({**load_file(file), "more": torch.ones(1)}, file, metadata={**NOTES, "digest": "0" * 64})
    for from_anywhere in (False, True):
        with pytest.raises(DataError, match="its checksum does not fit"):
            read_sealed(file, from_anywhere=from_anywhere)
    with pytest.raises(DataError, match=r"none\.safetensors is no readable safetensors file \(No such file"):
        read_sealed(tmp_path / "none.safetensors")


def test_a_file_in_the_place_of_another_is_refused(tmp_path):
    save_sealed(tmp_path / "a.safetensors", TENSORS, NOTES)
    (tmp_path / "a.safetensors").rename(tmp_path / "b.safetensors")
    with pytest.raises(DataError, match="its checksum does not fit"):
        read_sealed(tmp_path / "b.safetensors")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4',",
        b"\x93NUMPY\x01\x00\x08\x00((((((((",
        b"\x93NUMPY\x01\x00\x02\x00[]",
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (10, 100000000000)}  ",
        b"PK\x05\x06" + bytes(18),
    ],
)
def test_a_damaged_array_is_one_line(tmp_path, header):
    (tmp_path / "x.npy").write_bytes(header)
    with pytest.raises(DataError, match=r"x\.npy must be an \.npy file") as caught:
        map_array(tmp_path / "x.npy")
    assert str(caught.value).isprintable()


def test_an_array_is_mapped_and_not_written_to(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    array = map_array(tmp_path / "x.npy")
    array[0, 0] = 9
    assert map_array(tmp_path / "x.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
