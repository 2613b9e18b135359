"""A folder looked at without training, and vectors from anywhere judged like an encoder's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eigenview.data import open_images
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import Measuring
from eigenview.report import write_report
from eigenview.runs import folder_of_vectors, open_encoder
from eigenview.search import evaluate_vectors, look, look_at_vectors, open_embeddings, open_pictures
from eigenview.search.looking import most_isolated, passes
from eigenview.search.pictures import Pictures
from tests.cli.commands import write_photos
from tests.search.encoders import write_pictures

QUIET = Measuring(shows_progress=False)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("looking") / "photos", each=12)


def save_vectors(file: Path, names: list[str], labels: list[int], *, seed: int = 0) -> Path:
    """Two classes, wide apart."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(len(names), 6)) + 8 * np.array(labels)[:, None]
    np.savez(file, vectors=vectors.astype(np.float32), names=np.array(names), labels=np.array(labels))
    return file


def test_a_look_finds_copies_and_keeps_a_sample_and_a_page(photos, tmp_path):
    source = open_images(photos, needs_index=True)
    run = open_encoder("small", source, tmp_path / "look", spec=str(photos))
    looked = look(run, source, spec=str(photos), workers=0)
    assert len(looked.embeddings) == len(source) == 25
    assert [len(copies.members) for copies in looked.copies.sets] == [2]  # picture 99 is picture 00
    sample = run.directory.sample()
    assert sample is not None
    assert {sample.names[row].rpartition("/")[2] for row in sample.copies[0]} == {"picture 00.png", "picture 99.png"}
    assert len(sample.outliers) == 24
    assert run.directory.diagnosis().figures.n == 25
    page = write_report([run.folder]).read_text(encoding="utf-8")
    for words in ("not trained here", "Odd ones out", "each compared with the first on the pixels", "Map of the"):
        assert words in page
    assert "What the views look like" not in page


def test_two_images_are_too_few(tmp_path, photos):
    source = open_images(write_photos(tmp_path / "few", each=1), needs_index=True)
    run = open_encoder("small", source, tmp_path / "look")
    look(run, source, workers=0)  # three, with the copy
    from eigenview.data import subset

    with pytest.raises(DataError, match="at least 3 are needed"):
        look(run, subset(source, [0, 1]), workers=0)


def test_the_odd_one_out_comes_first():
    rows = torch.randn(50, 8, generator=torch.Generator().manual_seed(0)) * 0.1 + torch.tensor([5.0] + [0.0] * 7)
    rows[17] = torch.tensor([-5.0, 3, 0, 0, 0, 0, 0, 0])
    rows[18:34] += torch.tensor([0.0, 4, 0, 0, 0, 0, 0, 0])
    assert most_isolated(rows)[0] == 17


def test_passes_count_every_view():
    assert (passes(10), passes(10_000)) == (40, 13_000)


def test_vectors_are_scored_by_labels_of_images_matched_by_name(photos, tmp_path):
    source = open_images(f"{photos}?labelled=yes", needs_index=True)
    labels = np.asarray(source.labels)
    order = np.random.default_rng(1).permutation(len(source))[:20]  # shuffled, and some are missing
    names = [source.name(int(item)) for item in order]
    file = save_vectors(tmp_path / "dino.npz", names, labels[order].tolist())
    directory = folder_of_vectors(file, tmp_path / "dino")
    heard: list[str] = []
    stored = open_embeddings(file)
    scores = list(evaluate_vectors(stored, directory, source, protocols=["knn"], measuring=QUIET, told=heard.append))
    assert heard[0].startswith("20 of 25 images of ")
    assert scores[0].value == 1.0
    assert scores[0].subject == "dino"
    assert len(directory.scores()) == len(scores)


def test_vectors_with_labels_of_their_own_need_no_images(tmp_path):
    file = save_vectors(tmp_path / "own.npz", [f"{row}.jpg" for row in range(40)], [row % 2 for row in range(40)])
    directory = folder_of_vectors(file, tmp_path / "own")
    scores = list(evaluate_vectors(open_embeddings(file), directory, protocols=["knn", "linear"], measuring=QUIET))
    assert {score.value for score in scores} == {1.0}


def test_vectors_without_names_follow_the_order_of_the_images(photos, tmp_path):
    source = open_images(f"{photos}?labelled=yes", needs_index=True)
    labels = np.asarray(source.labels)
    np.save(tmp_path / "rows.npy", np.eye(2, dtype=np.float32)[labels] + 0.01)
    directory = folder_of_vectors(tmp_path / "rows.npy", tmp_path / "rows")
    stored = open_embeddings(tmp_path / "rows.npy")
    heard: list[str] = []
    scores = list(evaluate_vectors(stored, directory, source, protocols=["knn"], measuring=QUIET, told=heard.append))
    assert "has no names: its rows are taken for the images in their order" in heard[0]
    assert scores[0].value == 1.0


def test_names_that_do_not_agree_are_never_replaced_by_the_order(photos, tmp_path):
    source = open_images(f"{photos}?labelled=yes", needs_index=True)
    file = save_vectors(tmp_path / "v.npz", [f"other/{row}.jpg" for row in range(len(source))], [0, 1] * 12 + [0])
    directory = folder_of_vectors(file, tmp_path / "v")
    with pytest.raises(DataError, match="their names do not agree"):
        list(evaluate_vectors(open_embeddings(file), directory, source, measuring=QUIET))


def test_what_cannot_be_had_of_vectors_is_told_in_one_line(photos, tmp_path):
    file = save_vectors(tmp_path / "v.npz", ["a", "b", "c"], [0, 1, 1])
    stored, directory = open_embeddings(file), folder_of_vectors(file, tmp_path / "v")
    source = open_images(f"{photos}?labelled=yes", needs_index=True)
    with pytest.raises(DataError, match=r"no image of .* has a vector in .*: their names do not agree"):
        list(evaluate_vectors(stored, directory, source, measuring=QUIET))
    with pytest.raises(SettingError, match="holds vectors, and view-probe-moco runs an encoder"):
        list(evaluate_vectors(stored, directory, protocols=["view-probe-moco"], measuring=QUIET))
    with pytest.raises(DataError, match="about vectors that were made elsewhere: it has no encoder"):
        _ = directory.view
    unlabelled = tmp_path / "plain.npy"
    np.save(unlabelled, np.ones((4, 2), dtype=np.float32))
    with pytest.raises(DataError, match="scores need labels of at least two classes"):
        list(evaluate_vectors(open_embeddings(unlabelled), directory, measuring=QUIET))


def test_a_page_about_vectors_shows_the_pictures_that_are_found(photos, tmp_path):
    source = open_images(photos, needs_index=True)
    names = [str(source.path(item)) for item in range(len(source))]
    file = save_vectors(tmp_path / "dino.npz", [*names[:-3], "gone 1", "gone 2", "gone 3"], [0] * 12 + [1] * 13)
    directory = folder_of_vectors(file, tmp_path / "dino")
    looked = look_at_vectors(open_embeddings(file), directory)
    assert looked.diagnosis.figures.n == 25
    sample = directory.sample()
    assert sample is not None
    assert sample.views is None
    assert "gone 1" in sample.names
    assert "Map of the" in write_report([directory.folder]).read_text(encoding="utf-8")


def named_vectors(folder: Path, names: list[str]) -> Path:
    vectors = np.random.default_rng(0).normal(size=(len(names), 6)).astype(np.float32)
    np.savez(folder / "e.npz", vectors=vectors, names=np.array(names))
    return folder / "e.npz"


def test_pictures_of_a_source_are_found_by_name_though_a_file_came_before(tmp_path):
    names = [f"{number}.png" for number in range(4)]
    more = write_pictures(tmp_path / "more", ["00.png", *names, "deep/2.png"])
    stored = open_embeddings(named_vectors(tmp_path, [f"pictures/{name}" for name in names]))
    pictures = Pictures(stored, open_pictures(str(more)))
    for row, name in enumerate(names):
        assert np.array_equal(np.asarray(pictures.of_row(row)), np.asarray(Image.open(more / name)))
        assert pictures.file(row) == more / name
    (more / "1.png").unlink()
    assert Pictures(stored, open_pictures(str(more))).of_row(1) is None


def test_two_pictures_that_agree_with_a_name_equally_are_none_of_it(tmp_path):
    folder = write_pictures(tmp_path / "pictures", ["a/1.png", "a/2.png", "b/1.png"])
    stored = open_embeddings(named_vectors(tmp_path, ["1.png", "2.png"]))
    pictures = Pictures(stored, open_pictures(str(folder)))
    assert pictures.of_row(0) is None
    assert np.array_equal(np.asarray(pictures.of_row(1)), np.asarray(Image.open(folder / "a/2.png")))


def test_vectors_without_names_and_another_number_of_pictures_are_refused(tmp_path):
    folder = write_pictures(tmp_path / "pictures", ["1.png", "2.png", "3.png"])
    np.save(tmp_path / "rows.npy", np.eye(4, dtype=np.float32))
    stored = open_embeddings(tmp_path / "rows.npy")
    with pytest.raises(DataError, match=r"no image of .* has a vector in .*rows.npy.*\(3, 4\)"):
        Pictures(stored, open_pictures(str(folder)))
    write_pictures(folder, ["1.png", "2.png", "3.png", "4.png"])
    third = Pictures(stored, open_pictures(str(folder))).of_row(2)
    assert np.array_equal(np.asarray(third), np.asarray(Image.open(folder / "3.png")))


def test_a_damaged_picture_is_grey_on_the_page_and_stops_nothing(tmp_path):
    names = [f"{number}.png" for number in range(6)]
    folder = write_pictures(tmp_path / "pictures", ["0.jpg", *names])
    (folder / "0.jpg").write_bytes(b"no picture")
    whole = (folder / "2.png").read_bytes()
    (folder / "2.png").write_bytes(whole[: len(whole) // 2])  # its header can still be read
    file = named_vectors(tmp_path, names)
    directory = folder_of_vectors(file, tmp_path / "kept")
    look_at_vectors(open_embeddings(file), directory, open_pictures(str(folder)))
    sample = directory.sample()
    sheet, side = np.asarray(Image.open(sample.thumbnails.files[0])).astype(int), sample.thumbnails.side
    spread = [
        sheet[top : top + side, left : left + side].std()
        for top, left in (
            (side * (row // sample.thumbnails.columns), side * (row % sample.thumbnails.columns))
            for row in range(len(names))
        )
    ]
    assert spread[2] < 1
    assert min(spread[:2] + spread[3:]) > 10


def test_files_of_one_name_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    files = [save_vectors(folder / "v.npz", ["a", "b", "c"], [0, 1, 1]) for folder in (tmp_path, tmp_path / "other")]
    for _ in range(2):  # the second time each finds its own again
        assert [str(folder_of_vectors(file).folder) for file in files] == ["runs/v", "runs/v-2"]
    with pytest.raises(SettingError, match=r"runs/v holds another run .*--keep-in"):
        folder_of_vectors(files[1], "runs/v")
