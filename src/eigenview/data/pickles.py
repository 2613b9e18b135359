"""The one kind of pickle that is read: plain containers and arrays of numbers, by a reader that knows nothing else."""

import io
import pickle
import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenview.data.failures import blamed_on

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

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> npt.NDArray[Any]:
        _, shape, kind, is_fortran, data = self.state
        flat: npt.NDArray[Any] = np.frombuffer(data, dtype=kind.dtype())
        filled: npt.NDArray[Any] = flat.reshape(shape, order="F" if is_fortran else "C")
        return filled


ADMITTED: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy.core.multiarray", "_reconstruct"): _StoredArray,
    ("numpy._core.multiarray", "_reconstruct"): _StoredArray,
    ("numpy", "ndarray"): _StoredArray,
    ("numpy", "dtype"): _StoredType,
}
# What such a pickle is made of. Others could make much of little: a set takes 200 bytes of memory and one of the file.
OPCODES = frozenset(
    "PROTO FRAME STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT SETITEM SETITEMS "
    "APPEND APPENDS NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT STRING BINSTRING "
    "SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES GET BINGET LONG_BINGET PUT BINPUT "
    "LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE BUILD".split()
)
MOST_OPCODES = 4_000_000  # CIFAR-100's 50,000 images take 450,000


def _plain(value: object) -> object:
    """An array, a word, a number, or a list of words and numbers: lists of lists could hold each other without end."""
    if isinstance(value, _StoredArray):
        return value.array()
    for held in value if isinstance(value, list) else [value]:
        if held is not None and not isinstance(held, (bytes, str, int, float)):
            raise pickle.UnpicklingError(f"it holds a {type(held).__name__}")
    return value


class _PlainUnpickler(pickle.Unpickler):
    """``data`` without a way to other code, or to more memory than about its own size."""

    def __init__(self, data: bytes) -> None:
        for number, (opcode, _, _) in enumerate(pickletools.genops(data)):
            if opcode.name not in OPCODES or number > MOST_OPCODES:
                raise pickle.UnpicklingError(f"it has {opcode.name} at place {number:,}")
        super().__init__(io.BytesIO(data), encoding="bytes")
        self._encoded = len(data)  # bytes that texts may yet be turned into

    def _latin_bytes(self, text: str, encoding: str) -> bytes:
        self._encoded -= len(text)
        if encoding not in ("latin1", b"latin1") or self._encoded < 0:
            raise pickle.UnpicklingError(f"too many bytes, or bytes in encoding {encoding!r}")
        return text.encode("latin-1")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return self._latin_bytes
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ADMITTED[module, name]


def read_plain_pickle(path: Path) -> dict[bytes, Any]:
    """A pickled dictionary of strings, numbers, lists and arrays; anything else is refused, and nothing is run.

    The published Python version of CIFAR was pickled by Python 2: its strings come as bytes.
    """
    with blamed_on(path, "is not a plain pickle of arrays, and is not read"):
        stored = _PlainUnpickler(path.read_bytes()).load()
        return {key.encode() if isinstance(key, str) else key: _plain(value) for key, value in stored.items()}
