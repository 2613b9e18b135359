"""Small files that claim, or unpack to, gigabytes."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GIGABYTE = 10**9
PLAIN = {"compression": "zstd", "store_schema": False}  # without a word about dictionaries


def write_bombs(root: Path) -> list[str]:
    """One of every kind, each under 10 MB; returns the texts that open them."""
    pictures = root / "pictures"
    pictures.mkdir(parents=True)
    (pictures / "one-bit.png").write_bytes(flat_png(11_500, 11_500, depth=1, colour=0))
    (pictures / "deep.png").write_bytes(flat_png(9_900, 9_900, depth=16, colour=0))
    (pictures / "colour.png").write_bytes(flat_png(10_500, 10_500, depth=8, colour=2))
    (pictures / "alpha.png").write_bytes(flat_png(9_000, 9_000, depth=8, colour=6))
    (pictures / "tiles.tif").write_bytes(tiled_tiff(40, 40_000))
    texts = [str(pictures), *_shards(root), *_tables(root), *_others(root)]
    texts.append(str(root / "differences.parquet"))  # the last: pyarrow gives memory back late
    assert all(path.stat().st_size < 10_000_000 for path in root.rglob("*") if path.is_file())
    return texts


def flat_png(width: int, height: int, *, depth: int, colour: int) -> bytes:
    """A PNG of one colour, made row by row."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    channels = {0: 1, 2: 3, 6: 4}[colour]
    body = zeros(height * (1 + (width * depth * channels + 7) // 8))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def tiled_tiff(side: int, tile: int) -> bytes:
    """A small picture in one compressed tile that is far larger."""
    body = zeros(tile * tile)
    tags = [(256, side), (257, side), (258, 8), (259, 8), (262, 1), (277, 1), (322, tile), (323, tile),
            (324, 8), (325, len(body))]  # fmt: skip
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(body)) + body + directory + bytes(4)


def zeros(count: int) -> bytes:
    """As many zeros in zlib's format."""
    return b"\x78\x9c" + deflated(b"", count) + LAST + struct.pack(">HH", count % 65521, 1)  # the checksum of zeros


LAST = b"\x03\x00"  # an empty block, which ends what deflate writes


def deflated(head: bytes, count: int) -> bytes:
    """``head`` and so many zeros as deflate writes them, without an end: such pieces may stand one after the other.

    One piece of 16 MB is repeated: compressing gigabytes would take a minute.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    many, few = divmod(count, 1 << 24)
    start = packer.compress(head + bytes(few)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + (packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)) * many if many else start


def gzipped(*pieces: bytes) -> bytes:
    """A gzip file of such pieces; its checksum is wrong, and nobody reads as far."""
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"".join(pieces) + LAST + bytes(8)


def _header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    facts = tarfile.TarInfo(name)
    facts.size, facts.type = size, kind
    return facts.tobuf(tarfile.GNU_FORMAT)


def _sparse(size: int) -> bytes:
    """GNU's old way to write a file of ``size`` bytes, none of which are there."""
    block = bytearray(_header("a.png", 0, tarfile.GNUTYPE_SPARSE))
    block[483:495] = size.to_bytes(12, "big")
    block[483] = 0x80
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _shards(root: Path) -> list[str]:
    (root / "sparse.tar").write_bytes(_sparse(8 << 30) + bytes(1024))
    facts = tarfile.TarInfo("a.png")
    facts.pax_headers = {"GNU.sparse.size": str(8 << 30), "GNU.sparse.map": "0,0", "GNU.sparse.name": "a.png"}
    (root / "pax-sparse.tar").write_bytes(facts.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    large, small = 2_400_000_000 // 512 * 512, 2_400_000 // 512 * 512
    (root / "member.tar.gz").write_bytes(gzipped(deflated(_header("a.bmp", large), large + 1024)))
    (root / "header.tar.gz").write_bytes(gzipped(deflated(_header("a", large, tarfile.XHDTYPE), large + 1024)))
    content = deflated(b"", small)
    samples = [deflated(_header(f"{number:04d}.bmp", small), 0) + content for number in range(1000)]
    (root / "buffer.tar.gz").write_bytes(gzipped(*samples, deflated(b"", 1024)))
    return [str(root / name) for name in (
        "sparse.tar", "pax-sparse.tar", "member.tar.gz", "header.tar.gz", "buffer.tar.gz")]  # fmt: skip


def _repeated(value: bytes | str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))


def _tables(root: Path) -> list[str]:
    picture = flat_png(600, 600, depth=16, colour=6)
    pq.write_table(pa.table({"image": _repeated(bytes(25_000), 100_000)}), root / "rows.parquet", **PLAIN)
    labels = pa.table({"image": _repeated(picture, 25_000), "label": _repeated("x" * 100_000, 25_000)})
    pq.write_table(labels, root / "labels.parquet", **PLAIN)
    pq.write_table(pa.table({"image": _repeated(picture, 5_000_000)}), root / "many.parquet", **PLAIN)
    schema = pa.schema({"image": pa.binary()})
    value = pa.table({"image": [bytes(100_000_000)]}, schema=schema)
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(root / "values.parquet", schema, **options) as writer:
        for _ in range(12):
            writer.write_table(value)
    lists = pa.ListArray.from_arrays(pa.array([0, 1_500_000], pa.int32()), _repeated("y" * 100_000, 1_500_000))
    pq.write_table(pa.table({"image": [picture], "captions": lists}), root / "captions.parquet", **PLAIN)
    pq.write_table(
        pa.table({"image": [bytes(1_000_000)] * 300}),
        root / "differences.parquet",
        **options,
        column_encoding={"image": "DELTA_BYTE_ARRAY"},
    )
    _understate(root / "values.parquet", root / "lies.parquet")
    return [str(root / f"{name}.parquet") for name in ("rows", "labels", "many", "values", "lies", "captions")]


def _understate(table: Path, copy: Path) -> None:
    """A copy whose footer says that the columns unpack to nothing; each number keeps its length."""
    content, facts = table.read_bytes(), pq.read_metadata(table)
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:]
    for group in range(facts.num_row_groups):
        number, said = 2 * facts.row_group(group).column(0).total_uncompressed_size, b""
        while number:
            said, number = said + bytes([number & 127 | (128 if number > 127 else 0)]), number >> 7
        footer = footer.replace(said, b"\x80" * (len(said) - 1) + b"\0")
    assert footer != content[start:]
    copy.write_bytes(content[:start] + footer)


def _others(root: Path) -> list[str]:
    with (root / "list.csv").open("w") as file:
        file.write("path,label\n" + "x" * 100_000 + ".png,a\n")
        file.writelines(f"{number}.png,b\n" for number in range(20_000))
    with (root / "rows.csv").open("w") as file:
        file.write("path,label\n")
        file.writelines(f"{number:x},{number:x}\n" for number in range(800_000))
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "|u1", "fortran_order": False, "shape": (300, 2000, 2000, 3)}
    )
    _zip_of_zeros(root / "images.npz", "images.npy", buffer.getvalue(), 3_600_000_000)
    fashion = root / "fashion"
    fashion.mkdir()
    head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (3_000_000, 28, 28))
    (fashion / "t10k-images-idx3-ubyte.gz").write_bytes(gzipped(deflated(head, 3_000_000 * 784)))
    (fashion / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x05" + bytes(5)))
    texts = [str(root / name) for name in ("list.csv", "rows.csv", "images.npz")]
    return [*texts, f"fashion-mnist:{fashion}?split=test", *_pickles(root)]


def _pickles(root: Path) -> list[str]:
    texts = []
    nested = b"(" + b"]" * 9_000_000 + b"t"
    sets = b"(" + b"\x8f" * 9_000_000 + b"t"
    laughs = b"](" + b"K\x01" * 10 + b"eq\x00"  # a list of ten, then a list of ten of those, and so on
    for depth in range(1, 12):
        laughs += b"sU\x01%c](" % (64 + depth) + b"h%c" % (depth - 1) * 10 + b"eq%c" % depth
    text = (
        b"X"
        + struct.pack("<I", 1_000_000)
        + b"y" * 1_000_000
        + b"q\x00X\x06\x00\x00\x00latin1q\x01c_codecs\nencode\nq\x02"
    )
    encoded = text + b"(" + b"h\x02h\x00h\x01\x86R" * 1_000_000 + b"l"
    for name, body in {"nested": nested, "sets": sets, "laughs": laughs, "encoded": encoded}.items():
        folder = root / name / "cifar-10-batches-py"
        folder.mkdir(parents=True)
        (folder / "test_batch").write_bytes(b"\x80\x04}U\x04data" + body + b"s.")
        texts.append(f"cifar10:{root / name}?split=test")
    return texts


def _zip_of_zeros(path: Path, name: str, head: bytes, count: int) -> None:
    """A zip file with one member of so many zeros, written by hand: zipfile would take a minute."""
    body = deflated(head, count) + LAST
    size = len(head) + count
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(body), size, len(name), 0)
    local = b"PK\x03\x04" + fields + name.encode()
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name.encode()
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(body), 0)
    path.write_bytes(local + body + central + end)
