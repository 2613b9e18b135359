"""WebDataset shards: tar files read as streams, never extracted, with a shuffling buffer."""

import hashlib
import json
import os
import random
import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import numpy as np

from eigenview.data.columns import as_captions, caption_columns, listed_texts
from eigenview.data.decode import EncodedImage, UnreadableImage
from eigenview.data.failures import shown
from eigenview.data.folder import SUFFIXES
from eigenview.data.limits import MAX_BYTES, ROOM, most_unpacked, room_for_image
from eigenview.data.places import escapes, file_system, is_address, matching, open_place
from eigenview.data.source import LARGEST_LABEL, Item, Share, SourceInfo
from eigenview.data.tars import is_packed, read_members
from eigenview.errors import DataError, EigenviewError
from eigenview.extras import extra_module
from eigenview.names import counted, printable, reason_of

Sample = dict[str, Any]  # suffix -> bytes, and webdataset's __key__ and __url__
LOOKED_AT = 100  # samples, to know whether there are captions
LARGEST_TEXT = 1 << 20  # bytes of a label or of captions
MOST_HELD = 1 << 29  # bytes of samples held for shuffling
META = re.compile(r"__[^/]*__($|/)")  # what webdataset keeps for itself
IMAGE_SUFFIXES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)


class ShardSource:
    """Samples of tar files: members of one name but different suffixes belong together.

    ``pattern`` is a path or an address (https://, s3://, …) with ``{0000..0009}`` braces or * wildcards, or a list of
    them. A sample's image has a picture's suffix; ``.cls`` holds its label as a number, ``.txt`` a caption, ``.json``
    ``label`` and, under keys that begin with ``caption`` or ``rewrite``, captions or lists of them. Nothing else is
    looked at, nothing is unpickled and nothing touches the disk. A member whose name is absolute or climbs out by
    ``..`` ends the reading: such a file is not trusted further.

    With at least as many shards as readers, readers take whole shards; with fewer, every reader takes every k-th
    sample of all. ``buffer`` samples (encoded, 512 MB at most) are held for shuffling, after the shards themselves
    were shuffled.
    """

    def __init__(self, pattern: str | Path | Sequence[str | Path], *, buffer: int = 1000, channels: int = 3) -> None:
        extra_module("webdataset", extra="shards", purpose="reading shards")
        patterns = [str(pattern)] if isinstance(pattern, (str, Path)) else list(map(str, pattern))
        self.shards = [shard for text in patterns for shard in _expanded(text)]
        self._place = printable(patterns[0]) + (f" and {len(patterns) - 1} more" if len(patterns) > 1 else "")
        self._buffer, self._channels = buffer, channels

    @property
    def classes(self) -> tuple[str, ...] | None:
        return None

    def describe(self) -> SourceInfo:
        place = f"{self._place} ({counted(len(self.shards), 'file')})"
        return SourceInfo(kind="shards", place=place, count=None, is_captioned=self._is_captioned)

    @cached_property
    def _is_captioned(self) -> bool:
        """Whether one of the first samples has a caption."""
        first = islice(self.items(Share(seed=0, epoch=0), shuffle=False), LOOKED_AT)
        return any(isinstance(item, Item) and item.captions for item in first)

    def items(self, share: Share, *, shuffle: bool) -> Iterator[Item | UnreadableImage]:
        order = np.arange(len(self.shards))
        if shuffle:
            order = np.random.default_rng([share.seed, share.epoch]).permutation(order)
        shards = [self.shards[number] for number in order]
        if len(shards) >= share.readers:
            samples = _samples_of(shards[share.number :: share.readers])
        else:
            samples = islice(_samples_of(shards), share.number, None, share.readers)
        if shuffle and self._buffer > 1:
            generator = random.Random(f"{share.seed} {share.epoch} {share.number} {share.readers}")
            samples = _shuffled(samples, self._buffer, generator)
        return map(self._item, samples)

    def _item(self, sample: Sample | UnreadableImage) -> Item | UnreadableImage:
        if isinstance(sample, UnreadableImage):
            return sample
        shard = sample["__url__"].rsplit("/", 1)[-1]
        name = f"{printable(shard)}/{printable(sample['__key__'])}"
        data = next((value for key, value in sample.items() if key.rsplit(".", 1)[-1] in IMAGE_SUFFIXES), None)
        if data is None or isinstance(data, ValueError):
            return UnreadableImage(name, "the sample has no image" if data is None else str(data))
        try:
            label, captions = _annotations(sample)
            image = EncodedImage(data, name=name, channels=self._channels, room=sample["__room__"])
        except UnreadableImage as error:
            return error
        except (ValueError, RecursionError) as error:
            return UnreadableImage(name, f"its label or caption is damaged: {reason_of(error)}")
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()  # the same for the same name, everywhere
        return Item(int.from_bytes(digest, "big") >> 1, image, label, captions)


def _samples_of(shards: Sequence[str]) -> Iterator[Sample | UnreadableImage]:
    """Raw samples; where a shard breaks off, one error in the place of the rest of it."""
    tars = extra_module("webdataset.tariterators", extra="shards", purpose="reading shards")
    for shard in shards:
        try:
            with _open_shard(shard) as stream:
                room = _room(shard) if is_packed(stream) else None
                for sample in tars.group_by_keys(_members(stream, shard)):
                    yield {**sample, "__room__": room}
        except EigenviewError:
            raise
        except Exception as error:  # a damaged archive makes tarfile raise nearly anything
            cause = error.args[0] if error.args else type(error).__name__  # webdataset adds its stream and its address
            yield UnreadableImage(printable(shard), f"the shard breaks off: {reason_of(Exception(cause))}")


def _members(stream: IO[bytes], shard: str) -> Iterator[dict[str, Any]]:
    """As webdataset groups them into samples; an empty one at the end."""
    for name, content in read_members(stream, _most_read):
        if escapes(name):
            raise DataError(
                f"{printable(shard)} holds {shown(name)}, a path that leads out of the archive; it is not read"
            )
        if not META.match(name):
            yield {"fname": name, "data": content, "__url__": shard}
    yield {}


def _most_read(name: str) -> int:
    """Bytes of a member that are read: of an image any number, of what says something about it few, of others none."""
    suffix = name.rsplit(".", 1)[-1].lower()
    return MAX_BYTES if suffix in IMAGE_SUFFIXES else LARGEST_TEXT if suffix in ("cls", "txt", "json") else 0


def _room(shard: str) -> int:
    """Bytes of memory that decoding an image of a compressed shard may take."""
    size = os.stat(shard).st_size if os.path.isfile(shard) else 0
    return max(ROOM // 4, room_for_image(size) - most_unpacked(size))


def _shuffled(
    samples: Iterator[Sample | UnreadableImage], count: int, generator: random.Random
) -> Iterator[Sample | UnreadableImage]:
    """The samples in another order: ``count`` are held, or as many as memory is there for, and any of them is next."""
    held: list[Sample | UnreadableImage] = []
    bytes_held = 0
    for sample in samples:
        held.append(sample)
        bytes_held += _bytes_of(sample)
        while len(held) >= count or (bytes_held > MOST_HELD and held):
            bytes_held -= _bytes_of(chosen := _taken(held, generator))
            yield chosen
    while held:
        yield _taken(held, generator)


def _taken(held: list[Sample | UnreadableImage], generator: random.Random) -> Sample | UnreadableImage:
    place = generator.randint(0, len(held) - 1)
    held[place], held[-1] = held[-1], held[place]
    return held.pop()


def _bytes_of(sample: Sample | UnreadableImage) -> int:
    return 0 if isinstance(sample, UnreadableImage) else sum(len(v) for v in sample.values() if isinstance(v, bytes))


def _annotations(sample: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    label: object = None
    captions: list[object] = []
    for suffix in ("json", "cls", "txt"):
        if isinstance(sample.get(suffix), ValueError):
            raise sample[suffix]
    if "json" in sample:
        facts = json.loads(sample["json"])
        if isinstance(facts, dict):
            label = facts.get("label")
            captions = [text for key in caption_columns(None, list(facts), "") for text in listed_texts(facts[key])]
    if "cls" in sample:
        label = int(sample["cls"].decode("ascii"))
    if "txt" in sample:
        first = sample["txt"].decode("utf-8")
        same = as_captions(first)
        others = (text for text in captions if not same or as_captions(text) != same)
        captions = [first, *others]  # where a tool has written the same caption to .json, it counts once
    if label is None:
        return None, as_captions(captions)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label <= LARGEST_LABEL:
        return label, as_captions(captions)
    raise ValueError(f"the label {shown(label)} is not a whole number from 0")


def _open_shard(shard: str) -> IO[bytes]:
    if _is_web(shard):
        response: IO[bytes] = urllib.request.urlopen(shard, timeout=60)
        return response
    return BufferedReader(open_place(shard)) if is_address(shard) else open(shard, "rb")  # type: ignore[type-var]


def _is_web(shard: str) -> bool:
    return urlsplit(shard).scheme in ("http", "https")


def _expanded(pattern: str) -> list[str]:
    braceexpand = extra_module("braceexpand", extra="shards", purpose="reading shards")
    if _is_web(pattern):
        return list(braceexpand.braceexpand(pattern))
    if is_address(pattern):
        file_system(pattern)  # refuses it where something must be installed first
    shards: list[str] = []
    for text in braceexpand.braceexpand(pattern):
        matches = matching(text)
        if not matches:
            raise DataError(f"no such shard: {printable(text)}; is the path right?")
        shards.extend(matches)
    folders = [path for path in shards if os.path.isdir(path)]
    if folders:
        raise DataError(
            f"{printable(folders[0])} is a folder; shards are tar files: name them, such as shard-{{000..099}}.tar"
        )
    return shards
