"""Neighbours, duplicates and their contact sheets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.search import (
    answers_json,
    contact_sheet,
    duplicates,
    duplicates_sheet,
    embed,
    neighbours,
    open_embeddings,
)
from eigenview.search.contact import LINE, PAPER, Block, Tile, draw_sheet
from eigenview.search.makers import anchored
from eigenview.search.pictures import Pictures
from tests.search.encoders import VIEW, cosines, small_encoder, write_pictures
from tests.training.runs import run_quietly, settings

NAMES = [f"{number:02d}.png" for number in range(12)]


@pytest.fixture
def stored(tmp_path: Path):
    folder = write_pictures(tmp_path / "meine Fotos é", NAMES)
    return open_embeddings(embed(small_encoder(), folder, tmp_path / "out.parquet", view=VIEW, workers=0).path)


def test_the_nearest_are_those_that_loops_find(stored):
    query = torch.randn(64, generator=torch.Generator().manual_seed(1))
    expected = sorted(enumerate(cosines(stored.vectors, query.double())), key=lambda pair: -pair[1])[:4]
    (answer,) = neighbours(stored, query, k=4)
    assert [near.row for near in answer.neighbours] == [row for row, _ in expected]
    assert [near.cosine for near in answer.neighbours] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    assert [near.path for near in answer.neighbours] == [stored.paths[row] for row, _ in expected]


def test_an_item_is_no_neighbour_of_itself_by_index_or_by_file(stored, monkeypatch):
    monkeypatch.chdir(Path(stored.paths[0]).parent)
    first, second = neighbours(stored, [3, "03.png"], k=20)
    assert first == second
    assert sorted(near.row for near in first.neighbours) == [row for row in range(12) if row != 3]
    assert first.query == stored.paths[3]


def test_a_new_picture_is_seen_as_the_embedded_ones_were(stored, tmp_path):
    copy = tmp_path / "a copy.png"
    copy.write_bytes(Path(stored.paths[5]).read_bytes())
    (answer,) = neighbours(stored, copy, k=3, run=small_encoder(), view=VIEW)
    assert (answer.row, answer.neighbours[0].row) == (None, 5)
    assert answer.neighbours[0].cosine == pytest.approx(1, abs=1e-6)


def test_a_run_directory_answers_alone(tmp_path):
    run_quietly(settings("simclr", tmp_path / "run"))
    with pytest.raises(DataError, match=r"no embeddings in .*run yet: make them by eigenview embed .*run SOURCE"):
        neighbours(tmp_path / "run", 0)
    embed(tmp_path / "run", "shapes?count=10&size=24")
    picture = tmp_path / "query.png"
    Image.fromarray(np.full((30, 40, 3), 99, dtype=np.uint8)).save(picture)
    by_file, by_index = neighbours(tmp_path / "run", [picture, 4], k=3)
    assert (len(by_file.neighbours), by_file.label, by_index.label) == (3, None, "triangle")
    sheet = contact_sheet([by_file, by_index], open_embeddings(tmp_path / "run"), tmp_path / "sheet.png")
    assert (np.asarray(Image.open(sheet)) == 99).all(axis=2).sum() > 90 * 120  # the grey query is on it


def test_another_encoder_is_refused(stored, tmp_path):
    picture = tmp_path / "new.png"
    Image.new("RGB", (20, 20)).save(picture)
    with pytest.raises(DataError, match="made by another encoder"):
        neighbours(stored, picture, run=small_encoder(1), view=VIEW)
    with pytest.raises(SettingError, match=r"its run is not at hand: name it \(--run RUN, or run=\)"):
        neighbours(stored, picture)
    with pytest.raises(DataError, match="was made through CentreView"):
        neighbours(stored, picture, run=small_encoder(), view=type(VIEW)(20, 16))


def test_mistakes_in_queries_are_told_in_one_line(stored, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"no such picture: .*nowhere\.png"):
        neighbours(stored, tmp_path / "nowhere.png", run=small_encoder(), view=VIEW)
    with pytest.raises(DataError, match=r"broken\.png cannot be read"):
        neighbours(stored, broken, run=small_encoder(), view=VIEW)
    with pytest.raises(DataError, match=r"no item 99 in .*its 12 items lie in 0 … 11"):
        neighbours(stored, 99)
    with pytest.raises(ShapeError, match=r"query vectors need 64 numbers.*got 5"):
        neighbours(stored, torch.ones(5))
    with pytest.raises(DataError, match="query vectors must be finite"):
        neighbours(stored, torch.full((64,), torch.nan))
    with pytest.raises(SettingError, match="k must be at least 1"):
        neighbours(stored, 0, k=0)
    with pytest.raises(SettingError, match="no query was given"):
        neighbours(stored, [])
    with pytest.raises(SettingError, match="engine must be one of exact, faiss"):
        neighbours(stored, 0, engine="magic")  # type: ignore[arg-type]


def test_one_image_has_no_neighbours_and_no_duplicates(tmp_path):
    np.save(tmp_path / "one.npy", np.ones((1, 3), dtype=np.float32))
    alone = open_embeddings(tmp_path / "one.npy")
    assert neighbours(alone, 0)[0].neighbours == ()
    assert duplicates(alone).sets == ()
    assert contact_sheet(neighbours(alone, 0), alone, tmp_path / "one.png").is_file()
    assert duplicates_sheet(duplicates(alone), alone, tmp_path / "none.png").is_file()


def test_answers_are_json_for_scripts(stored):
    told = json.loads(answers_json(neighbours(stored, [1], k=2)))
    assert told[0]["query"] == stored.paths[1]
    assert [set(near) for near in told[0]["neighbours"]] == [{"row", "index", "path", "label", "cosine", "caption"}] * 2


def test_a_sheet_shows_pictures_from_the_source_and_survives_their_loss(stored, tmp_path):
    answers = neighbours(stored, [0], k=3)
    before = contact_sheet(answers, stored, tmp_path / "sheet é.png")
    assert _colours(before) > 1000  # noise is on it
    for path in stored.paths:
        Path(path).unlink()
    assert _colours(contact_sheet(answers, stored, tmp_path / "gone.png")) < 1000  # text alone
    red = ArraySource(np.full((12, 8, 8, 3), (200, 10, 10), dtype=np.uint8))
    sheet = Image.open(contact_sheet(answers, stored, tmp_path / "red.png", source=red))
    assert (np.asarray(sheet) == (200, 10, 10)).all(axis=2).mean() > 0.2
    with pytest.raises(SettingError, match=r"a \.png file; got 'sheet\.jpg'"):
        contact_sheet(answers, stored, tmp_path / "sheet.jpg")
    with pytest.raises(SettingError, match="at least one answer"):
        contact_sheet([], stored, tmp_path / "sheet.png")


def test_a_caption_is_written_over_several_lines_of_a_sheet(stored, tmp_path):
    """Eighty letters of it, where one line of a tile holds twenty."""
    (answer,) = neighbours(stored, [0], k=1)
    heights = []
    for caption in ("two dogs", "two dogs run over the wet sand of a beach", "word " * 10_000):
        said = replace(answer, neighbours=(replace(answer.neighbours[0], caption=caption),))
        with Image.open(contact_sheet([said], stored, tmp_path / "sheet.png")) as sheet:
            heights.append(sheet.height)
    assert [height - heights[0] for height in heights] == [0, 2 * LINE, 3 * LINE]


def test_sheets_are_called_after_their_subject_and_do_not_replace_each_other(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    answers = neighbours(stored, [3, 4, 5], k=2)
    made = [contact_sheet(answers[0], stored), contact_sheet(answers[0], stored), contact_sheet(answers, stored)]
    first = made[0].read_bytes()
    made += [contact_sheet(answers[1], stored), duplicates_sheet(duplicates(stored), stored)]
    made += [contact_sheet(neighbours(stored, stored.vectors[0] + 1, k=2), stored)]
    assert [str(path) for path in made] == [
        "neighbours-03.png",
        "neighbours-03-2.png",
        "neighbours-03-and-2-more.png",
        "neighbours-04.png",
        "duplicates-SmallEncoder.png",
        "neighbours-vector-0.png",
    ]
    assert {path.name for path in tmp_path.iterdir()} - before == {str(path) for path in made}
    assert made[0].read_bytes() == first
    hostile = replace(answers[0], query="../../etc/\x1b[31m pass wd" + "é" * 300 + ".JPG")
    assert re.fullmatch(r"neighbours-31m-pass-wdé{29}\.png", str(contact_sheet(hostile, stored)))
    assert contact_sheet(answers[1], stored, "neighbours-03.png") == Path("neighbours-03.png")  # asked for: replaced
    assert made[0].read_bytes() != first


def test_a_picture_that_is_gone_is_not_mistaken_for_the_next_one(tmp_path):
    folder = write_pictures(tmp_path / "photos", NAMES)
    stored = open_embeddings(embed(small_encoder(), str(folder), tmp_path / "out.parquet", view=VIEW, workers=0).path)
    pictures = Pictures(stored)
    (folder / NAMES[4]).unlink()  # from now on the folder's item 4 is another one
    assert pictures.of_row(4) is None
    expected = Image.open(folder / NAMES[5])
    assert np.array_equal(np.asarray(pictures.of_row(5)), np.asarray(expected))


def test_pictures_of_a_table_come_from_the_source_it_remembers(tmp_path):
    np.save(tmp_path / "set.npy", np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8))
    made = embed(small_encoder(), str(tmp_path / "set.npy"), tmp_path / "out.npy", view=VIEW)
    shown = Pictures(open_embeddings(made.path)).of_row(2)
    assert np.array_equal(np.asarray(shown), np.load(tmp_path / "set.npy")[2])


def _colours(file: Path) -> int:
    return len(Image.open(file).getcolors(1 << 24))


def test_a_long_name_stays_inside_its_column():
    tile = Tile(Image.new("RGB", (10, 10), "red"), ("0.9", "a very long name " * 20 + ".jpg"))
    sheet = np.asarray(draw_sheet("title " * 100, [Block("", None, (tile,) * 3)], columns=8))
    paper = tuple(int(PAPER[place : place + 2], 16) for place in (1, 3, 5))
    assert (sheet[:, -20:] == paper).all()


def test_files_of_others_are_read_and_bad_ones_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    def table(**columns: object) -> Path:
        parquet.write_table(pyarrow.table(columns), tmp_path / "other.parquet")
        return tmp_path / "other.parquet"

    measured = open_embeddings(table(vector=[[1.0, 2.0], [3.0, 4.0]]))
    assert (measured.vectors.tolist(), measured.index.tolist(), measured.about) == ([[1, 2], [3, 4]], [0, 1], None)
    for columns, message in (
        ({"other": [1]}, r"no column of vectors \(looked for vector, .*features\); it has other"),
        ({"vector": [[1.0], [1.0, 2.0, 3.0]]}, "lists of one length"),
        ({"vector": [[1.0], None]}, "in every row"),
        ({"vector": [1.0]}, "a list of numbers"),
        ({"vector": [[1.0, float("nan")]]}, "NaN or Inf in 1 of 1 rows, first 0; make the file anew"),
        ({"vector": pyarrow.array([], type=pyarrow.list_(pyarrow.float32()))}, "has no rows"),
    ):
        with pytest.raises(DataError, match=message):
            open_embeddings(table(**columns))
    (tmp_path / "other.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DataError, match=r"not a readable \.parquet file of embeddings"):
        open_embeddings(tmp_path / "other.parquet")
    np.save(tmp_path / "flat.npy", np.ones(3))
    with pytest.raises(DataError, match=r"must hold floating vectors \(n, d\)"):
        open_embeddings(tmp_path / "flat.npy")
    with pytest.raises(DataError, match="no such file"):
        open_embeddings(tmp_path / "nothing.npy")
    (tmp_path / "text.txt").write_text("text")
    with pytest.raises(DataError, match=r"read from \.parquet, \.npy, \.npz or a run directory"):
        open_embeddings(tmp_path / "text.txt")


def test_an_array_and_the_file_beside_it_must_be_a_pair(stored, tmp_path):
    made = embed(small_encoder(), Path(stored.paths[0]).parent, tmp_path / "pair.npy", view=VIEW, workers=0)
    np.save(made.path, np.ones((5, 64), dtype=np.float32))
    with pytest.raises(DataError, match=r"is about 12 x 64 numbers, but pair\.npy has 5 x 64: they are not a pair"):
        open_embeddings(made.path)


def test_a_source_is_remembered_so_that_it_opens_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert anchored("photos") == f"{here}/photos"
    assert anchored("photos?labelled=yes") == f"{here}/photos?labelled=yes"
    assert anchored("table:x.parquet?label=y") == f"table:{here}/x.parquet?label=y"
    assert anchored("shapes?count=3") == "shapes?count=3"
    assert anchored("https://a.b/c.tar") == "https://a.b/c.tar"


def test_a_picture_is_the_row_whose_name_its_path_ends_in_where_nothing_could_embed_it(tmp_path):
    folder = write_pictures(tmp_path / "pictures", ["a/1.png", "b/1.png", "c/2.png"])
    vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], dtype=np.float32)
    np.savez(tmp_path / "v.npz", vectors=vectors, names=np.array(["a/1.png", "b/1.png", "2.png"]))
    answers = neighbours(tmp_path / "v.npz", [folder / "b/1.png", folder / "c/2.png"], k=1)
    assert [(answer.row, answer.neighbours[0].row) for answer in answers] == [(1, 0), (2, 1)]
    write_pictures(folder, ["d/1.png"])
    with pytest.raises(SettingError, match="its run is not at hand"):
        neighbours(tmp_path / "v.npz", folder / "d/1.png")
