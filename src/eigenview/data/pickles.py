"""The one kind of pickle that is read: plain containers and arrays of numbers, by a reader that knows nothing else."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenview.data.failures import reason_of
from eigenview.errors import DataError
from eigenview.names import printable

NUMBERS = re.compile(r"[uif][1248]")  # dtype codes that can hold neither objects nor structures


class _StoredType:
    """Stands in for numpy.dtype while the pickle is read."""

    def __init__(self, code: bytes | str, *_: object) -> None:
        self.code = code.decode("ascii") if isinstance(code, bytes) else str(code)
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else str(state[1])
        self.order = order if order in ("<", ">") else "="

    def dtype(self) -> np.dtype[Any]:
        if not NUMBERS.fullmatch(self.code):
            raise pickle.UnpicklingError(f"an array of type {self.code}")
        return np.dtype(self.order + self.code)


class _StoredArray:
    """Stands in for numpy.ndarray: keeps shape, type and bytes, from which a fresh array is made."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> npt.NDArray[Any]:
        _, shape, kind, is_fortran, data = self.state
        flat: npt.NDArray[Any] = np.frombuffer(data, dtype=kind.dtype())
        filled: npt.NDArray[Any] = flat.reshape(shape, order="F" if is_fortran else "C")
        return filled


def _new_array(*_: object) -> _StoredArray:
    return _StoredArray()


def _latin_bytes(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"bytes in encoding {encoding!r}")
    return text.encode("latin-1")


ADMITTED: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy._core.multiarray", "_reconstruct"): _new_array,
    ("numpy", "ndarray"): _StoredArray,
    ("numpy", "dtype"): _StoredType,
    ("_codecs", "encode"): _latin_bytes,
}


def _plain(value: object) -> object:
    if isinstance(value, _StoredArray):
        return value.array()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, (bytes, str, int, float)):
        return value
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__}")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ADMITTED[module, name]


def read_plain_pickle(path: Path) -> dict[bytes, Any]:
    """A pickled dictionary of strings, numbers, lists and arrays; anything else is refused, and nothing is run.

    The published Python version of CIFAR was pickled by Python 2: its strings come as bytes.
    """
    try:
        found = _PlainUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        return {key.encode() if isinstance(key, str) else key: _plain(value) for key, value in found.items()}
    except Exception as error:  # a damaged pickle raises nearly anything
        raise DataError(
            f"{printable(path)} is not a plain pickle of arrays: {reason_of(error)}; it is not read"
        ) from error
