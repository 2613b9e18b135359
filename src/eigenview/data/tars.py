"""Tar files read from a stream, member by member, without trust in what their headers claim."""

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from typing import IO

from eigenview.data.limits import MAX_BYTES, most_unpacked

GZIP = b"\x1f\x8b"
LARGEST_HEADER = 1 << 20  # bytes of a long name or of other facts about a member
HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)

Member = tuple[str, bytes | ValueError]  # a name and its content, or why that is not read


def is_packed(stream: IO[bytes]) -> bool:
    """Whether a stream that can be peeked into is compressed (gzip; no other way is read)."""
    peek = getattr(stream, "peek", None)
    return peek is not None and bytes(peek(2)[:2]) == GZIP


def read_members(stream: IO[bytes], largest: Callable[[str], int]) -> Iterator[Member]:
    """The regular files of an archive, in order; ``largest(name)`` bytes are read of each, 0 for none of it.

    Sparse files, which claim gigabytes in a few bytes, and a compressed archive that unpacks to far more than it is
    end the reading with an error.
    """
    plain = _Unpacked(stream) if is_packed(stream) else stream
    with tarfile.open(fileobj=plain, mode="r|", tarinfo=_Header) as archive:
        for facts in archive:
            if facts.issparse():
                raise tarfile.ReadError(f"{facts.name!r} is a sparse file")
            if not facts.isreg():
                continue
            most = min(largest(facts.name), MAX_BYTES)
            if facts.size > most > 0:
                yield facts.name, ValueError(f"{facts.size:,} bytes; the limit is {most:,}")
            else:
                file = archive.extractfile(facts) if most else None
                yield facts.name, b"" if file is None else file.read()
            archive.members = []  # type: ignore[attr-defined]  # it would keep all of them


class _Header(tarfile.TarInfo):
    """Facts about a member; tarfile reads a long one whole, however long it says it is."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in HEADERS and self.size > LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(f"{self.name!r} is a sparse file")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member

    def _proc_gnusparse_10(self, *_: object) -> None:  # would read on until a line ends
        raise tarfile.ReadError(f"{self.name!r} is a sparse file")


class _Unpacked(gzip.GzipFile):
    """What gzip gives, as long as it stays in proportion to what it was given."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = _Counted(packed)
        super().__init__(fileobj=self._packed)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        most = most_unpacked(self._packed.count)
        if self.tell() > most:
            raise tarfile.ReadError(f"it unpacks to more than {most / 1e6:,.0f} MB, the limit for its size")
        return data


class _Counted(io.RawIOBase):
    """A stream that knows how many bytes were read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.count = stream, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data
