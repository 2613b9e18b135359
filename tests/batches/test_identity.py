"""Hashes: they follow everything that they stand for, and nothing else."""

from __future__ import annotations

import os

import numpy as np
import torch
from PIL import Image

from eigenview.batches.identity import (
    data_identity,
    images_identity,
    labels_identity,
    settings_identity,
    source_identity,
    weights_identity,
)
from eigenview.data import ArraySource, FolderSource, subset
from eigenview.data.shards import ShardSource
from eigenview.nn import build_encoder
from tests.data.test_shards import write_shards

IMAGES = np.random.default_rng(0).integers(0, 256, (2100, 4, 4), dtype=np.uint8)


def encoder(**options):
    torch.manual_seed(0)
    return build_encoder("small", **{"width": 0.25, **options})


def test_weights_are_told_apart_by_every_tensor_and_how_they_are_built():
    moved, drifted = encoder(), encoder()
    with torch.no_grad():
        moved.conv1[0].weight[0, 0, 0, 0] += 1e-6
        drifted.conv1[1].running_mean[0] += 1e-6
    head = torch.nn.Linear(2, 2)
    given = [
        (encoder(),),
        (moved,),
        (drifted,),
        (encoder(normalization="group"),),
        (encoder(), head),
        (head, encoder()),
    ]
    assert len({weights_identity(*modules) for modules in given}) == len(given)
    assert weights_identity(encoder()) == weights_identity(encoder().train())


def test_images_are_told_apart_by_every_pixel_their_order_and_number():
    changed = IMAGES.copy()
    changed[2099, 3, 3] ^= 1
    given = [IMAGES, changed, IMAGES[::-1].copy(), IMAGES[:-1], IMAGES.reshape(-1, 2, 8)]
    assert len({images_identity(ArraySource(images)) for images in given}) == len(given)
    assert images_identity(ArraySource(IMAGES)) == images_identity(subset(ArraySource(IMAGES), np.arange(2100)))


def test_files_are_told_apart_by_their_bytes_and_an_unreadable_one_counts(tmp_path):
    for number in range(4):
        Image.fromarray(IMAGES[number]).save(tmp_path / f"{number}.png")
    before = images_identity(FolderSource(tmp_path))
    Image.fromarray(IMAGES[9]).save(tmp_path / "2.png")
    after = images_identity(FolderSource(tmp_path))
    (tmp_path / "2.png").unlink()
    os.mkfifo(tmp_path / "2.png")
    assert len({before, after, images_identity(FolderSource(tmp_path))}) == 3


def test_labels_and_settings_are_told_apart_by_value_alone():
    labels = torch.tensor([0, 1, 2])
    assert labels_identity(labels) == labels_identity(labels.int())
    assert labels_identity(labels) != labels_identity(labels.flip(0))
    source = ArraySource(IMAGES[:3])
    assert data_identity(source, labels) == f"3 of {images_identity(source)}/{labels_identity(labels)}"
    assert settings_identity({"a": 1, "b": [2.5, None]}) == settings_identity({"b": [2.5, None], "a": 1})
    assert settings_identity({"a": 1}) != settings_identity({"a": 1.5})
    assert settings_identity({"a": "1"}) != settings_identity({"a": 1})


def test_a_source_is_told_apart_without_reading_it_whole(tmp_path):
    for number in range(90):
        Image.fromarray(IMAGES[number]).save(tmp_path / f"{number:02}.png")

    def identity() -> str:
        return source_identity(FolderSource(tmp_path))

    seen = [identity()]
    assert identity() == seen[0]
    timeless = source_identity(FolderSource(tmp_path), with_times=False)
    os.utime(tmp_path / "31.png", ns=(1, 1))  # one that is not in the sample
    assert source_identity(FolderSource(tmp_path), with_times=False) == timeless
    seen.append(identity())
    (tmp_path / "31.png").rename(tmp_path / "31a.png")
    seen.append(identity())
    (tmp_path / "31a.png").unlink()
    seen.append(identity())
    (tmp_path / "cats").mkdir()
    (tmp_path / "00.png").rename(tmp_path / "cats" / "00.png")
    seen.append(identity())
    assert len(set(seen)) == len(seen)
    labelled, relabelled = (ArraySource(IMAGES[:9], labels=np.arange(9) % count) for count in (2, 3))
    assert source_identity(labelled) != source_identity(relabelled)
    shards = ShardSource(write_shards(tmp_path / "cats", 2, 2))
    before = source_identity(shards)
    os.utime(tmp_path / "cats" / "shard-001.tar", ns=(1, 1))
    assert source_identity(shards) != before
