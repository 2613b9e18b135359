"""Files of every kind that is read, ways to damage them, and a reader that meets everything in them.

The tests here and the long run in benchmarks/ share it: ``write_good_files``, ``damaged``, ``texts_with``,
``read_everything``.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import shutil
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pillow_heif
import pyarrow as pa
import pyarrow.parquet as pq

from eigenview.data import Source, UnreadableImage, open_source
from eigenview.data.source import Share
from eigenview.errors import EigenviewError
from tests.data.pictures import HAS_AVIF, encoded, gradient

PICTURES = ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM", "JPEG2000", "HEIF", *["AVIF"] * HAS_AVIF]


def write_good_files(root: Path) -> list[str]:
    """A source of every kind, small; returns the texts that open them."""
    root.mkdir(parents=True, exist_ok=True)
    texts = [_write_pictures(root / "pictures")]
    np.save(root / "x.npy", np.zeros((3, 8, 8, 3), dtype=np.uint8))
    np.savez_compressed(root / "xy.npz", images=np.zeros((3, 8, 8, 3), dtype=np.uint8), labels=np.arange(3))
    (root / "list.csv").write_text("path,caption,label\npictures/0.png,a cat,cat\npictures/1.png,ein Hund,dog\n")
    rows = [{"path": "pictures/0.png", "captions": ["a", "b"], "label": 4}, {"path": "pictures/1.png", "label": None}]
    (root / "list.jsonl").write_text("\n".join(map(json.dumps, rows)))
    texts += [str(root / name) for name in ("x.npy", "xy.npz", "list.csv", "list.jsonl")]
    texts += [*_write_tables(root), *_write_shards(root), *_write_sets(root)]
    return texts


def damaged(data: bytes, chance: random.Random) -> bytes:
    """``data`` with one kind of damage: flipped bits, other bytes, a piece gone, doubled, overwritten, cut off."""
    spoilt = bytearray(data)
    kind = chance.randrange(8)
    start = chance.randrange(len(data))
    stop = min(len(data), start + chance.choice((1, 2, 4, 16, 100, 1000)))
    if kind == 0:
        for _ in range(chance.choice((1, 2, 8))):
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        spoilt[start:stop] = chance.randbytes(stop - start)
    elif kind == 2:
        del spoilt[start:stop]
    elif kind == 3:
        spoilt[start:start] = spoilt[start:stop]
    elif kind == 4:
        spoilt[start:stop] = chance.choice((b"\0", b"\xff", b"\x7f", b"[", b'"')) * (stop - start)
    elif kind == 5:
        del spoilt[start:]
    elif kind == 6:
        spoilt[start:stop] = chance.choice((b"\xff\xff\xff\x7f", b"\x80", b"-1", b"1e999", b"\x1b[2J", b"\xc3("))
    else:
        spoilt[-min(len(data), chance.choice((4, 8, 64))) :] = chance.randbytes(8)
    return bytes(spoilt)


def read_everything(text: str, *, items: int | None = None) -> Iterator[str]:
    """Opens a source and meets all that it has. Yields each refusal in words; whatever else is raised is a defect.

    ``items`` are met at most, from the first on.
    """
    try:
        source = open_source(text)
        str(source.describe())
        if not isinstance(source, Source):
            for item in islice(source.items(Share(0, 0), shuffle=True), items):
                yield from _refusal(item) if isinstance(item, Exception) else _decoded(item.image)
            return
        for index in islice(range(len(source)), items):
            source.name(index), source.path(index), source.label(index), source.captions(index)
            try:
                source.depth(index)
                yield from _decoded(source.image(index))
            except UnreadableImage as error:
                yield from _refusal(error)
    except EigenviewError as error:
        yield from _refusal(error)


def texts_with(file: Path, texts: list[str], folder: Path) -> list[str]:
    """What opens this file: a picture in a folder of its own, otherwise the source that it belongs to."""
    if file.parent.name == "pictures":
        shutil.rmtree(folder)
        folder.mkdir()
        shutil.copy(file, folder)
        return [str(folder)]
    places = {text: text.split(":", 1)[-1].split("?")[0] for text in texts}
    return [text for text, place in places.items() if file == Path(place) or Path(place) in file.parents]


def _decoded(image: object) -> Iterator[str]:
    try:
        image.pixels()
        image.pixels(2)
        image.digest()
    except UnreadableImage as error:
        yield from _refusal(error)


def _refusal(error: Exception) -> Iterator[str]:
    if not isinstance(error, EigenviewError):
        raise error
    assert str(error).isprintable(), f"more than a line of plain text: {error!r}"
    yield str(error)


def _write_pictures(folder: Path) -> str:
    folder.mkdir()
    pillow_heif.register_heif_opener()
    for number, kind in enumerate(PICTURES):  # the content decides what they are, and not the name
        (folder / f"{number}.png").write_bytes(encoded(gradient(20, 24, seed=number), kind))
    deep = np.arange(400, dtype=np.uint16).reshape(20, 20)
    (folder / "deep.png").write_bytes(encoded(deep, "PNG"))
    (folder / "deep.tiff").write_bytes(encoded(deep.astype(np.float32), "TIFF"))
    turned = encoded(
        gradient(20, 24), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    )
    (folder / "turned.jpg").write_bytes(turned)
    return str(folder)


def _write_tables(root: Path) -> list[str]:
    images = [encoded(gradient(seed=number), "PNG") for number in range(6)]
    depth = [encoded(np.full((24, 32), 700 + number, dtype=np.uint16), "PNG") for number in range(6)]
    columns = {
        "image": [{"bytes": image, "path": f"{number}.png"} for number, image in enumerate(images)],
        "label": ["cat", "dog", "cat", None, "dog", "cat"],
        "captions": [["a", "b"], [], None, ["c"], ["d"], ["e"]],
        "depth": [{"bytes": image, "path": None} for image in depth],
    }
    texts = []
    for codec in ("snappy", "zstd", "none"):
        path = root / f"{codec}.parquet"
        pq.write_table(pa.table(columns), path, compression=codec, row_group_size=4)
        texts.append(str(path))
    plain = pa.table({"img": images, "fine_label": list(range(6)), "text": list("abcdef")})
    info = {"info": {"features": {"fine_label": {"names": list("uvwxyz")}}}}
    plain = plain.replace_schema_metadata({"huggingface": json.dumps(info)})
    pq.write_table(plain, root / "plain.parquet", compression="gzip")
    return [*texts, str(root / "plain.parquet")]


def _write_shards(root: Path) -> list[str]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(4):
            members = {
                "jpg": encoded(gradient(seed=number), "JPEG"),
                "cls": str(number).encode(),
                "txt": b"ein Bild",
                "json": json.dumps({"label": number, "captions": ["one", "two"]}).encode(),
            }
            for suffix, data in members.items():
                facts = tarfile.TarInfo(f"größe/{number:04d}.{suffix}")
                facts.size = len(data)
                archive.addfile(facts, io.BytesIO(data))
    (root / "shard.tar").write_bytes(buffer.getvalue())
    (root / "shard.tar.gz").write_bytes(gzip.compress(buffer.getvalue()))
    return [str(root / "shard.tar"), str(root / "shard.tar.gz")]


def _write_sets(root: Path) -> list[str]:
    pixels = np.zeros((5, 3072), dtype=np.uint8)
    cifar = root / "cifar" / "cifar-10-batches-py"
    cifar.mkdir(parents=True)
    batch = {"data": pixels, "labels": [0, 1, 2, 3, 4], "filenames": ["a.png"] * 5}
    (cifar / "test_batch").write_bytes(pickle.dumps(batch, protocol=2))
    (cifar / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}, protocol=2))
    binary = root / "binary" / "cifar-10-batches-bin"
    binary.mkdir(parents=True)
    (binary / "test_batch.bin").write_bytes(
        np.concatenate([np.arange(5)[:, None], pixels], 1).astype(np.uint8).tobytes()
    )
    (binary / "batches.meta.txt").write_text("\n".join("abcdefghij"))
    fashion = root / "fashion"
    fashion.mkdir()
    head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (5, 28, 28))
    (fashion / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(5 * 784)))
    (fashion / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x05" + bytes(range(5))))
    tiny = root / "tiny-imagenet-200"
    (tiny / "val" / "images").mkdir(parents=True)
    (tiny / "val" / "images" / "val_0.JPEG").write_bytes(encoded(gradient(64, 64), "JPEG"))
    (tiny / "wnids.txt").write_text("n01\nn02\n")
    (tiny / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn01\t0\t0\t1\t1\n")
    stl = root / "stl" / "stl10_binary"
    stl.mkdir(parents=True)
    (stl / "test_X.bin").write_bytes(bytes(2 * 3 * 96 * 96))
    (stl / "test_y.bin").write_bytes(b"\x01\x02")
    (stl / "class_names.txt").write_text("\n".join("abcdefghij"))
    return [
        f"cifar10:{root / 'cifar'}?split=test",
        f"cifar10:{root / 'binary'}?split=test",
        f"fashion-mnist:{fashion}?split=test",
        f"tiny-imagenet:{root}?split=val",
        f"stl10:{root / 'stl'}?split=test",
    ]
