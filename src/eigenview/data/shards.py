"""WebDataset shards: tar files read as streams, never extracted, with a shuffling buffer."""

from __future__ import annotations

import glob
import hashlib
import json
import random
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import numpy as np

from eigenview.data.archive import escapes
from eigenview.data.columns import as_captions
from eigenview.data.decode import EncodedImage, UnreadableImage
from eigenview.data.failures import reason_of, shown
from eigenview.data.folder import SUFFIXES
from eigenview.data.source import LARGEST_LABEL, Item, Share, SourceInfo
from eigenview.errors import DataError
from eigenview.extras import extra_module
from eigenview.names import printable

Sample = dict[str, Any]  # suffix -> bytes, and webdataset's __key__ and __url__
IMAGE_SUFFIXES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)


class ShardSource:
    """Samples of tar files: members of one name but different suffixes belong together.

    ``pattern`` is a path or http(s) address with ``{0000..0009}`` braces or * wildcards, or a list of them. A sample's
    image has a picture's suffix; ``.cls`` holds its label as a number, ``.txt`` a caption, ``.json`` any of ``label``,
    ``caption``, ``captions``. Nothing else is looked at, nothing is unpickled and nothing touches the disk. A member
    whose name is absolute or climbs out by ``..`` ends the reading: such a file is not trusted further.

    With at least as many shards as readers, readers take whole shards; with fewer, every reader takes every k-th
    sample of all. ``buffer`` samples (encoded) are held for shuffling, after the shards themselves were shuffled.
    """

    def __init__(self, pattern: str | Path | Sequence[str | Path], *, buffer: int = 1000, channels: int = 3) -> None:
        extra_module("webdataset", extra="shards", purpose="reading shards")
        patterns = [str(pattern)] if isinstance(pattern, (str, Path)) else [str(one) for one in pattern]
        self.shards = [shard for one in patterns for shard in _expanded(one)]
        self._place = printable(patterns[0]) + (f" and {len(patterns) - 1} more" if len(patterns) > 1 else "")
        self._buffer, self._channels = buffer, channels

    @property
    def classes(self) -> tuple[str, ...] | None:
        return None

    def describe(self) -> SourceInfo:
        return SourceInfo(kind="shards", place=f"{self._place} ({len(self.shards)} files)", count=None)

    def items(self, share: Share, *, shuffle: bool) -> Iterator[Item | UnreadableImage]:
        order = np.arange(len(self.shards))
        if shuffle:
            order = np.random.default_rng([share.seed, share.epoch]).permutation(order)
        shards = [self.shards[number] for number in order]
        if len(shards) >= share.readers:
            samples = self._samples(shards[share.number :: share.readers])
        else:
            samples = islice(self._samples(shards), share.number, None, share.readers)
        if shuffle and self._buffer > 1:
            filters = extra_module("webdataset.filters", extra="shards", purpose="reading shards")
            generator = random.Random(f"{share.seed} {share.epoch} {share.number} {share.readers}")
            samples = filters.shuffle(self._buffer, initial=self._buffer, rng=generator)(samples)
        return map(self._item, samples)

    def _samples(self, shards: Sequence[str]) -> Iterator[Sample | UnreadableImage]:
        for shard in shards:
            yield from _samples_of(shard)

    def _item(self, sample: Sample | UnreadableImage) -> Item | UnreadableImage:
        if isinstance(sample, UnreadableImage):
            return sample
        shard = sample["__url__"].rsplit("/", 1)[-1]
        name = f"{printable(shard)}/{printable(sample['__key__'])}"
        data = next((value for key, value in sample.items() if key.rsplit(".", 1)[-1] in IMAGE_SUFFIXES), None)
        if data is None:
            return UnreadableImage(name, "the sample has no image")
        try:
            label, captions = _annotations(sample)
            image = EncodedImage(data, name=name, channels=self._channels)
        except UnreadableImage as error:
            return error
        except (ValueError, RecursionError) as error:
            return UnreadableImage(name, f"its label or caption is damaged: {reason_of(error)}")
        return Item(stable_index(name), image, label, captions)


def _samples_of(shard: str) -> Iterator[Sample | UnreadableImage]:
    """Raw samples; where the shard breaks off, one error in the place of the rest of it."""
    tars = extra_module("webdataset.tariterators", extra="shards", purpose="reading shards")
    try:
        with _open_shard(shard) as stream:
            members = tars.tar_file_expander([{"url": shard, "stream": stream}])
            yield from tars.group_by_keys(_trusted(members, shard))
    except DataError:
        raise
    except Exception as error:  # a damaged archive makes tarfile raise nearly anything
        cause = error.args[0] if error.args else type(error).__name__  # webdataset adds its stream and its address
        yield UnreadableImage(printable(shard), f"the shard breaks off: {reason_of(Exception(cause))}")


def stable_index(name: str) -> int:
    """A 63-bit hash: the same for the same name, everywhere."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def _trusted(members: Iterator[dict[str, Any]], shard: str) -> Iterator[dict[str, Any]]:
    for member in members:
        name = member.get("fname")
        if name is not None and escapes(name):
            raise DataError(f"{printable(shard)} holds {name!r}, a path that leads out of the archive; it is not read")
        yield member


def _annotations(sample: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    label: object = None
    captions: tuple[str, ...] = ()
    if "json" in sample:
        found = json.loads(sample["json"])
        if isinstance(found, dict):
            label = found.get("label")
            captions = as_captions(found.get("captions", found.get("caption")))
    if "cls" in sample:
        label = int(sample["cls"].decode("ascii"))
    if "txt" in sample:
        captions = (*as_captions(sample["txt"].decode("utf-8")), *captions)
    if label is None:
        return None, captions
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label <= LARGEST_LABEL:
        return label, captions
    raise ValueError(f"the label {shown(label)} is not a whole number from 0")


def _open_shard(shard: str) -> IO[bytes]:
    if urlsplit(shard).scheme in ("http", "https"):
        response: IO[bytes] = urllib.request.urlopen(shard, timeout=60)
        return response
    return open(shard, "rb")


def _expanded(pattern: str) -> list[str]:
    braceexpand = extra_module("braceexpand", extra="shards", purpose="reading shards")
    if urlsplit(pattern).scheme in ("http", "https"):
        return list(braceexpand.braceexpand(pattern))
    found: list[str] = []
    for one in braceexpand.braceexpand(pattern):
        matches = sorted(glob.glob(one)) if not Path(one).exists() else [one]
        if not matches:
            raise DataError(f"no such shard: {printable(one)}; is the path right?")
        found.extend(matches)
    folders = [path for path in found if Path(path).is_dir()]
    if folders:
        raise DataError(
            f"{printable(folders[0])} is a folder; shards are tar files: name them, such as shard-{{000..099}}.tar"
        )
    return found
