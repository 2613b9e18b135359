"""What Parquet files say about their columns, read here: pyarrow ends the process over some damaged footers.

A footer, and the header of each page, are structures in Thrift's compact form: fields with a number, a type and a
value. Only a few of them are needed; the rest is passed over. In small files the pages are asked, and not the footer,
which may say anything about them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

MAGIC = b"PAR1"
MOST_SCANNED = 1 << 26  # bytes of a file whose pages are looked at one by one
DEEPEST = 16  # structures within structures; Parquet's have six
BYTE_ARRAY, FIXED_LENGTH = 6, 7  # physical types
DELTA_BYTE_ARRAY, RLE_DICTIONARY = 7, 8  # encodings
SIMPLE = frozenset({0, 2, 3, 4, RLE_DICTIONARY})  # those that pyarrow can read as a dictionary

# Fields that are needed, by their numbers in parquet.thrift; a dictionary is a structure, or a list of them.
Fields = Mapping[int, Any]
CHUNK: Fields = {1: True, 2: True, 3: True, 5: True, 6: True, 7: True, 9: True, 11: True}
FOOTER: Fields = {4: {1: {3: CHUNK}, 3: True}}
PAGE: Fields = {2: True, 3: True, 5: {1: True, 2: True}, 8: {1: True, 4: True}}


@dataclass(frozen=True)
class Leaf:
    """A column of a row group as it is stored: of a nested column there are several."""

    path: str
    kind: int  # its physical type
    encodings: frozenset[int]
    values: int
    unpacked: int  # bytes


@dataclass(frozen=True)
class Group:
    """Rows that are stored together."""

    rows: int
    leaves: tuple[Leaf, ...]

    @property
    def unpacked(self) -> int:
        """Bytes that its columns unpack to."""
        return sum(leaf.unpacked for leaf in self.leaves)


def read_groups(file: IO[bytes], size: int) -> list[Group]:
    """The row groups of a Parquet file of ``size`` bytes; raises ValueError where it is damaged."""
    file.seek(max(0, size - 8))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if len(end) < 8 or end[4:] != MAGIC or length + 8 > size:
        raise ValueError("it does not end as a Parquet file does")
    file.seek(size - 8 - length)
    footer = _Thrift(file.read(length)).structure(FOOTER)
    groups = [
        (group.get(3) or 0, [column.get(3) or {} for column in group.get(1) or []]) for group in footer.get(4) or []
    ]
    if sum(max(0, chunk.get(7) or 0) for _, chunks in groups for chunk in chunks) > size:
        raise ValueError("its columns overlap")
    file.seek(0)
    data = file.read() if size <= MOST_SCANNED else None
    return [Group(max(0, rows), tuple(_leaf(data, chunk) for chunk in chunks)) for rows, chunks in groups]


def _leaf(data: bytes | None, chunk: Mapping[int, Any]) -> Leaf:
    path = ".".join(name.decode("utf-8", "replace") for name in chunk.get(3) or [])
    encodings, values, unpacked = frozenset(chunk.get(2) or ()), chunk.get(5) or 0, chunk.get(6) or 0
    if data is not None:
        pages = list(_pages(data, chunk))
        encodings |= {page.get(5, {}).get(2, page.get(8, {}).get(4, 0)) for page in pages}
        values = sum(max(0, page.get(5, {}).get(1, page.get(8, {}).get(1, 0))) for page in pages)
        unpacked = sum(max(0, page.get(2) or 0) for page in pages)
    return Leaf(path, chunk.get(1, -1), encodings, values, max(0, unpacked))


def _pages(data: bytes, chunk: Mapping[int, Any]) -> Iterator[Mapping[int, Any]]:
    """The headers of a column's pages, which stand one after the other."""
    place, left = min((start for start in (chunk.get(11), chunk.get(9)) if start), default=0), chunk.get(7) or 0
    while left > 0 and 0 < place < len(data):
        reader = _Thrift(data, place)
        page = reader.structure(PAGE)
        step = reader.place - place + max(0, page.get(3) or 0)
        place, left = place + step, left - step
        yield page


class _Thrift:
    """Reads a structure that begins at ``place`` of ``data``, and moves on to its end."""

    def __init__(self, data: bytes, place: int = 0) -> None:
        self.data, self.place = data, place

    def structure(self, fields: Fields, depth: int = 0) -> dict[int, Any]:
        """The fields that are asked for, by number; all others are passed over."""
        if depth > DEEPEST:
            raise ValueError("its metadata is nested too deeply")
        values: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._signed()
            value = kind == 1 if kind in (1, 2) else self._value(kind, fields.get(number), depth + 1)
            if number in fields:
                values[number] = value
        return values

    def _value(self, kind: int, wanted: Any, depth: int) -> Any:
        """A value of this kind; what is not wanted comes back empty."""
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (7, 8, 13):
            data = self._bytes({7: 8, 13: 16}.get(kind) or self._varint())
            return data if wanted else b""
        if kind in (9, 10):
            return self._list(wanted, depth)
        if kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, None, depth), self._value(kinds & 15, None, depth)
            return None
        if kind == 12:
            return self.structure(wanted if isinstance(wanted, Mapping) else {}, depth)
        raise ValueError(f"its metadata has a value of unknown type {kind}")

    def _list(self, wanted: Any, depth: int) -> list[Any]:
        head = self._byte()
        count = self._varint() if head >> 4 == 15 else head >> 4
        values = []
        for _ in range(count):  # each takes a byte at least, so that this ends where the data does
            value = self._value(head & 15, wanted, depth)
            if wanted:
                values.append(value)
        return values

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        start, self.place = self.place, self.place + count
        if self.place > len(self.data):
            raise ValueError("its metadata breaks off")
        return self.data[start : self.place]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("its metadata has a number without end")

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
