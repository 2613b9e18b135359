"""Copies of one picture: confirmed on the pixels, and nothing else proposed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenview.data import ArraySource
from eigenview.errors import SettingError
from eigenview.search import DuplicateSets, candidates, duplicates, duplicates_sheet, embed, open_embeddings
from eigenview.search.stored import Embeddings
from tests.data.pictures import brightened, encoded, plain_fields, reencoded, resized, scene
from tests.search.encoders import VIEW, small_encoder

PLANTED = {  # which tile, and what became of it
    "copied.png": (3, encoded),
    "encoded.jpg": (41, lambda array: encoded(array, "JPEG", quality=92)),
    "encoded again.jpg": (41, lambda array: encoded(array, "JPEG", quality=88)),
    "smaller.png": (77, lambda array: encoded(resized(array, 0.75))),
    "larger.png": (120, lambda array: encoded(resized(array, 1.5))),
    "brighter.png": (200, lambda array: encoded(brightened(array, 1.06))),
}


@pytest.fixture(scope="module")
def tiles(tmp_path_factory) -> Embeddings:
    """400 fields that no untrained encoder tells apart, and six copies of some of them."""
    folder = tmp_path_factory.mktemp("tiles")
    fields = plain_fields(400)
    for number, array in enumerate(fields):
        Image.fromarray(array).save(folder / f"{number:03d}.png")
    for name, (number, change) in PLANTED.items():
        (folder / name).write_bytes(change(fields[number]))
    made = embed(small_encoder(), folder, folder.parent / "tiles.parquet", view=VIEW, workers=0)
    return open_embeddings(made.path)


def names(outcome: DuplicateSets) -> list[list[str]]:
    return sorted(sorted(Path(member.path).name for member in copies.members) for copies in outcome.sets)


def test_planted_copies_are_found_among_fields_that_are_all_alike_to_the_encoder(tiles):
    outcome = duplicates(tiles)
    assert names(outcome) == [
        ["003.png", "copied.png"],
        ["041.png", "encoded again.jpg", "encoded.jpg"],
        ["077.png", "smaller.png"],
        ["120.png", "larger.png"],
        ["200.png", "brighter.png"],
    ]
    assert (outcome.images, outcome.alike, outcome.copies) == (406, 406, 6)  # by vectors alone, one set of all
    assert (outcome.different, outcome.unclear, outcome.missing) == (0, 406 - 11, 0)
    matches = {Path(member.path).name: member.match for copies in outcome.sets for member in copies.members}
    assert matches["copied.png"] == "identical"
    assert {matches[name] for name in PLANTED} == {"identical", "same"}
    assert [copies.members[0].match for copies in outcome.sets] == ["first"] * 5


def test_what_is_not_confirmed_is_said_and_nothing_is_proposed_to_go(tiles, tmp_path):
    outcome = duplicates(tiles)
    text = "\n".join(outcome.lines())
    assert text.startswith("5 sets of copies among 406 images: 6 are copies of another, confirmed on the pixels\n")
    assert "395 other images are as close by their vectors" in text
    assert "395 have too little detail to tell: not confirmed" in text
    assert not any(word in text for word in ("could go", "delete", "remove"))
    written = json.loads(outcome.write(tmp_path / "sets.json").read_text())
    assert (written["unclear"], len(written["doubtful"]), len(written["sets"])) == (395, 100, 5)
    assert {pair["doubt"] for pair in written["doubtful"]} == {"unclear"}
    assert duplicates_sheet(outcome, tiles, tmp_path / "sheet.png").is_file()


def test_pictures_that_are_gone_confirm_nothing(tmp_path):
    rows = np.ones((4, 3), dtype=np.float32)
    np.save(tmp_path / "rows.npy", rows)
    outcome = duplicates(tmp_path / "rows.npy")
    assert (outcome.sets, outcome.alike, outcome.missing) == ((), 4, 4)
    assert outcome.lines()[0] == "no copies found among 4 images"
    assert "4 could not be compared, since a picture was not found: not confirmed" in outcome.lines()[-1]
    pictures = ArraySource(np.stack([scene(0, height=32, width=32)] * 2 + [scene(1, height=32, width=32)] * 2))
    outcome = duplicates(tmp_path / "rows.npy", source=pictures)
    assert [[member.row for member in copies.members] for copies in outcome.sets] == [[0, 1], [2, 3]]
    assert (outcome.missing, outcome.copies) == (0, 2)


def test_a_set_is_no_chain_each_is_compared_with_the_first(tmp_path):
    steps = np.stack([brightened(scene(0, height=64, width=64), 0.6, by) for by in (40, 60, 80)])  # 20 levels each
    np.save(tmp_path / "rows.npy", np.ones((3, 3), dtype=np.float32))
    outcome = duplicates(tmp_path / "rows.npy", source=ArraySource(steps))
    assert [[member.row for member in copies.members] for copies in outcome.sets] == [[0, 1]]
    assert (outcome.alike, outcome.different) == (3, 1)  # the last is the second's copy, not the first's


def test_a_copy_of_a_copy_joins_though_its_vector_is_too_far_from_the_first(tmp_path):
    angles = np.array([0.0, 0.03, 0.06])  # cosines 0.99955 from one to the next, 0.9982 from the first to the last
    np.save(tmp_path / "rows.npy", np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))
    outcome = duplicates(tmp_path / "rows.npy", source=ArraySource(np.stack([scene(0, height=32, width=32)] * 3)))
    (copies,) = outcome.sets
    assert [member.row for member in copies.members] == [0, 1, 2]
    assert [member.cosine for member in copies.members] == pytest.approx([1, np.cos(0.03), np.cos(0.06)], abs=1e-6)
    assert copies.lowest == pytest.approx(np.cos(0.06), abs=1e-6)


def test_where_too_many_are_alike_the_closest_are_compared(tiles):
    outcome = duplicates(tiles, most=500)
    assert outcome.threshold > 0.999
    assert outcome.is_complete
    assert ["003.png", "copied.png"] in names(outcome)
    assert len(duplicates(tiles, most=1, neighbours=0).sets) <= 1
    assert len(duplicates(tiles, most=1).sets) == 5  # they are among the nearest


def spread_rows(angles: list[float]) -> np.ndarray:
    """Unit vectors in a plane."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def test_copies_are_found_though_an_encoder_puts_them_far_apart(tmp_path):
    first, second = (scene(seed, height=64, width=64) for seed in (0, 1))
    pictures = np.stack([first, second, reencoded(first, 60), brightened(second, 1.08)])
    np.save(tmp_path / "rows.npy", spread_rows([0.0, 1.5, 0.4, 1.1]))  # cosines of the copies: 0.92
    outcome = duplicates(tmp_path / "rows.npy", neighbours=1, source=ArraySource(pictures))
    assert [[member.row for member in copies.members] for copies in outcome.sets] == [[0, 2], [1, 3]]
    assert [copies.lowest for copies in outcome.sets] == pytest.approx([np.cos(0.4)] * 2, abs=1e-6)
    assert (outcome.alike, outcome.different, outcome.doubtful) == (0, 0, ())  # what is not close is not mentioned
    assert duplicates(tmp_path / "rows.npy", neighbours=0, source=ArraySource(pictures)).sets == ()


def test_many_copies_are_one_set_though_each_has_few_neighbours(tmp_path):
    picture = scene(0, height=64, width=64)
    pictures = np.stack([reencoded(picture, quality) for quality in range(71, 95, 2)])
    order = np.random.default_rng(0).permutation(12)
    np.save(tmp_path / "rows.npy", spread_rows(0.2 * order))  # a chain of vectors, in another order than the rows
    outcome = duplicates(tmp_path / "rows.npy", neighbours=2, source=ArraySource(pictures))
    (copies,) = outcome.sets
    assert [member.row for member in copies.members] == list(range(12))
    assert copies.lowest == pytest.approx(min(np.cos(0.2 * abs(order - order[0]))), abs=1e-6)


def test_a_picture_that_is_gone_is_counted_however_far_its_vector(tmp_path):
    for number in range(4):
        Image.fromarray(scene(number, height=32, width=32)).save(tmp_path / f"{number}.png")
    names = [str(tmp_path / name) for name in ("0.png", "gone.png", "1.png", "2.png", "3.png")]
    np.savez(tmp_path / "rows.npz", vectors=spread_rows([0, 0.3, 0.6, 0.9, 1.2]), names=np.array(names))
    outcome = duplicates(tmp_path / "rows.npz")
    assert (outcome.sets, outcome.missing, outcome.different) == ((), 1, 0)
    assert outcome.lines()[-1] == "1 could not be compared, since a picture was not found: not confirmed"


def test_pictures_are_read_by_workers_where_there_are_many(tiles, monkeypatch):
    expected = duplicates(tiles)
    monkeypatch.setattr(candidates, "ALONE", 100)
    assert duplicates(tiles) == expected


def test_mistakes_are_refused(tiles):
    with pytest.raises(SettingError, match="neighbours to compare with are 0 or more; got -1"):
        duplicates(tiles, neighbours=-1)
    with pytest.raises(SettingError, match="cosine of near-duplicates"):
        duplicates(tiles, cosine=2)
