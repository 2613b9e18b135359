"""Which images these are: told from a sketch of others, whatever they are called."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from eigenview.batches import identity as module
from eigenview.batches.identity import image_keys, share_within, sketch
from eigenview.data import ArraySource, FolderSource, decoded, subset

IMAGES = np.random.default_rng(0).integers(0, 256, (3000, 4, 4), dtype=np.uint8)


def test_a_key_follows_the_pixels_and_their_shape():
    whole = list(image_keys(ArraySource(IMAGES[:20])))
    assert len(set(whole)) == 20
    assert list(image_keys(subset(ArraySource(IMAGES), np.arange(5, 15)))) == whole[5:15]
    changed = IMAGES[:20].copy()
    changed[7, 0, 0] ^= 1
    assert [a == b for a, b in zip(whole, image_keys(ArraySource(changed)), strict=True)].count(False) == 1
    flat = ArraySource(IMAGES[:20].reshape(20, 2, 8))
    assert not set(whole) & set(image_keys(flat))


def test_photos_are_known_by_their_files_and_small_ones_by_their_pixels(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(6):
            Image.fromarray(IMAGES[number]).save(tmp_path / name / f"{number}.png")
    first, second = (FolderSource(tmp_path / name, channels=1) for name in ("a", "b"))
    assert len(set(image_keys(first))) == 6
    assert not set(image_keys(first)) & set(image_keys(second))
    labelled = FolderSource(tmp_path, labelled=True, channels=1)
    assert list(image_keys(labelled)) == [*image_keys(first), *image_keys(second)]
    mine, theirs = (decoded(source, workers=0, shows_progress=False) for source in (first, second))
    assert list(image_keys(mine)) == list(image_keys(theirs)) == list(image_keys(ArraySource(IMAGES[:6])))


@pytest.mark.parametrize("seen", [0, 30, 150, 300])
def test_the_share_is_exact_where_the_sketch_holds_all(seen):
    kept = sketch(ArraySource(IMAGES[:300]))
    assert len(kept) == 300 * 16
    assert share_within(ArraySource(IMAGES[300 - seen : 600 - seen]), kept) == pytest.approx(seen / 300)


def test_the_share_of_many_is_told_by_a_thousand():
    kept = sketch(ArraySource(IMAGES[:2500]))
    assert len(kept) == module.SKETCHED * 16
    assert share_within(ArraySource(IMAGES[:400]), kept) == 1
    assert share_within(ArraySource(IMAGES[2500:]), kept) == 0
    half = share_within(ArraySource(IMAGES[2300:2700]), kept)
    assert half == pytest.approx(0.5, abs=0.12)  # over about 160 keys: three deviations


def test_what_cannot_be_told_is_not_claimed():
    class Nameless(ArraySource):
        batch = None  # neither pixels at hand nor files

    assert share_within(ArraySource(IMAGES[:10]), "") == 0
    assert sketch(Nameless(IMAGES[:10])) == ""
    assert share_within(Nameless(IMAGES[:10]), sketch(ArraySource(IMAGES[:10]))) == 0
