"""Embeddings from damaged files: the right ones, or one line."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenview.errors import DataError
from eigenview.search import embed, open_embeddings, parts
from eigenview.search.parts import Parts, Piece
from eigenview.search.stored import save_embeddings
from tests.search.encoders import PART, VIEW, small_encoder, write_pictures

NAMES = [f"{number:02d}.png" for number in range(21)]
DEEP = "[" * 200_000


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A folder with embeddings in both forms."""
    monkeypatch.setattr(parts, "PART_ITEMS", PART)
    pictures = write_pictures(tmp_path / "pictures", NAMES)
    for suffix in (".npy", ".parquet"):
        embed(small_encoder(), pictures, tmp_path / f"out{suffix}", view=VIEW, workers=0)
    return tmp_path


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_late_vectors_are_read_and_checked_when_asked_for(written, suffix):
    place = written / f"out{suffix}"
    late, whole = open_embeddings(place, is_late=True), open_embeddings(place)
    assert (len(late), late.width) == (len(whole), whole.width)
    assert "vectors" not in vars(late)
    assert (late.paths, late.labels, late.about) == (whole.paths, whole.labels, whole.about)
    assert torch.equal(late.index, whole.index)
    assert torch.equal(replace(late, index=late.index).vectors, whole.vectors)
    late = open_embeddings(place, is_late=True)
    spoilt = bytearray(place.read_bytes())
    start = spoilt.index(whole.vectors[0].numpy().tobytes()[:16])
    spoilt[start : start + 4] = np.float32("nan").tobytes()
    place.write_bytes(spoilt)
    with pytest.raises(DataError, match=place.name):
        late.vectors  # noqa: B018


@pytest.mark.parametrize("is_ours", [True, False])
def test_new_vectors_with_the_names_of_earlier_ones_are_refused(written, is_ours):
    """As a kill between the two renames leaves them."""
    stored = open_embeddings(written / "out.npy")
    stored = stored if is_ours else replace(stored, about=None)
    before, after = written / "before.npy", written / "after.npy"
    save_embeddings(stored, before)
    save_embeddings(replace(stored, vectors=stored.vectors.flip(0), paths=stored.paths[::-1]), after)
    assert torch.equal(open_embeddings(after).vectors, stored.vectors.flip(0))
    after.replace(before)
    with pytest.raises(DataError, match=r"before\.npy is damaged: its checksum does not fit; make it anew"):
        open_embeddings(before)


@pytest.mark.parametrize("name", ["index", "label", "path"])
@pytest.mark.parametrize("value", [None, 3, [[]] * 21, [None] * 21, ["x"], list(range(20)), [10**30] * 21, {}])
def test_a_side_file_of_other_types_is_refused(written, name, value):
    side = written / "out.npy.json"
    side.write_text(json.dumps({**json.loads(side.read_text()), name: value}))
    with pytest.raises(DataError, match=r"out\.npy"):
        open_embeddings(written / "out.npy")


@pytest.mark.parametrize("text", [DEEP, '{"rows": ', "[]", '{"rows": 21, "width": 64}', "\ud800"])
def test_a_side_file_that_is_none_is_refused(written, text):
    (written / "out.npy.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(DataError, match=r"out\.npy"):
        open_embeddings(written / "out.npy")


def test_a_table_with_a_damaged_page_is_refused_or_has_every_row(written):
    good = (written / "out.parquet").read_bytes()
    refusals = []
    for place in range(4, len(good), 97):
        spoilt = bytearray(good)
        spoilt[place] ^= 0xFF
        (written / "out.parquet").write_bytes(spoilt)
        try:
            assert len(open_embeddings(written / "out.parquet")) == 21
        except DataError as error:
            refusals.append(str(error))
    assert refusals
    assert all(message.isprintable() for message in refusals)


def unfinished(folder):
    """All parts of embeddings that were not joined yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "remove", lambda _: None)
        embed(small_encoder(), folder / "pictures", folder / "again.npy", view=VIEW, workers=0)
    for name in ("again.npy", "again.npy.json"):
        (folder / name).unlink()
    return sorted((folder / "again.npy.parts").glob("part-*"))


def test_a_flipped_bit_in_a_finished_part_is_refused_not_joined(written):
    file = unfinished(written)[1]
    spoilt = bytearray(file.read_bytes())
    spoilt[-1] ^= 0x40  # of the last vector
    file.write_bytes(spoilt)
    with pytest.raises(DataError, match=r"part-000001.* is damaged: .*; remove it and run again"):
        embed(small_encoder(), written / "pictures", written / "again.npy", view=VIEW, workers=0)
    file.unlink()
    embed(small_encoder(), written / "pictures", written / "again.npy", view=VIEW, workers=0)
    assert (written / "again.npy").read_bytes() == (written / "out.npy").read_bytes()


def test_a_part_without_one_of_its_pieces_is_not_finished(tmp_path):
    parts = Parts(tmp_path / "parts")
    parts.begin({"encoder": "x"}, resume=True)
    piece = Piece(torch.tensor([0]), torch.tensor([-1]), torch.ones(1, 2), ("a",), ())
    for place, is_last in enumerate((False, False, True)):
        parts.write(4, place, piece, is_last=is_last)
    assert parts.finished() == {4}
    (tmp_path / "parts" / "part-000004-0001.safetensors").unlink()
    assert parts.finished() == set()


def test_settings_of_parts_that_cannot_be_read_begin_anew(written):
    unfinished(written)
    (written / "again.npy.parts" / "settings.json").write_text(DEEP)
    embed(small_encoder(), written / "pictures", written / "again.npy", view=VIEW, workers=0)
    np.testing.assert_array_equal(np.load(written / "again.npy"), np.load(written / "out.npy"))


def test_parts_that_a_kill_left_after_the_join_are_removed(written):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "remove", lambda _: None)
        embed(small_encoder(), written / "pictures", written / "again.npy", view=VIEW, workers=0)
    assert (written / "again.npy.parts").is_dir()
    embed(small_encoder(), written / "pictures", written / "again.npy", view=VIEW, workers=0)
    assert not (written / "again.npy.parts").exists()


def test_words_beside_vectors_are_classes(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    said = ["dog", "cat", "", "dog"]
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "v.npz", vectors=vectors, labels=np.array(said))
    np.savez(tmp_path / "bytes.npz", vectors=vectors, labels=np.array(said, dtype="S"))
    for kind, values in (
        ("plain", pyarrow.array([word or None for word in said])),
        ("coded", pyarrow.array(said).dictionary_encode()),
    ):
        table = pyarrow.table({"vector": vectors.tolist(), "label": values})
        parquet.write_table(table, tmp_path / f"{kind}.parquet")
    for name in ("v.npz", "bytes.npz", "plain.parquet", "coded.parquet"):
        stored = open_embeddings(tmp_path / name)
        assert stored.classes == ("cat", "dog")
        assert stored.labels.tolist() == [1, 0, -1, 1]
        assert [stored.label_name(row) for row in range(4)] == ["dog", "cat", None, "dog"]


@pytest.mark.parametrize("column", ["embedding", "embeddings", "features", "vector"])
@pytest.mark.parametrize("name", ["path", "name", "file", "filename"])
def test_tables_of_others_are_read_by_the_usual_names(column, name, tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array([1.0, 2.0, 3.0, 4.0]), 2)
    parquet.write_table(pyarrow.table({name: ["a.png", "b.png"], column: vectors}), tmp_path / "v.parquet")
    for is_late in (False, True):
        stored = open_embeddings(tmp_path / "v.parquet", is_late=is_late)
        assert list(stored.paths) == ["a.png", "b.png"]
        assert stored.width == 2
        assert stored.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
