"""The verbs about labels, by their words: what they write, what they refuse in one line, and what they leave alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eigenview.cli import main
from eigenview.runs.contents import read_shown_labels
from tests.labels.vectors import CLASSES, EACH, FEW, names, read_rows, write_answers, write_vectors


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path / "photos.npz")
    write_answers(tmp_path / "answers.csv", FEW)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a mistake prints."""
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said.strip().removeprefix("eigenview: ")


def test_choose_writes_what_a_person_fills_in_and_spread_reads(shop: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["choose", "photos.npz", "-n", "3", "-o", "ask.csv", "--sheet", "ask.png"]) == 0
    rows = read_rows(shop / "ask.csv")
    assert [row["label"] for row in rows] == ["", "", ""]
    assert {row["name"].partition("/")[0] for row in rows} == {"cats", "dogs", "gulls"}  # one of each cloud
    assert (shop / "ask.png").read_bytes()[:4] == b"\x89PNG"
    write_answers(shop / "ask.csv", [(row["name"], row["name"].partition("s/")[0]) for row in rows])
    assert main(["spread", "photos.npz", "--labels", "ask.csv", "-o", "all.csv"]) == 0
    spread = read_rows(shop / "all.csv")
    assert [row["name"] for row in spread] == names()
    assert [row["label"] for row in spread] == [name.partition("s/")[0] for name in names()]
    assert [row["given"] for row in spread].count("yes") == 3
    assert all(0.5 < float(row["probability"]) <= 1 for row in spread)
    capsys.readouterr()
    assert main(["choose", "photos.npz", "-n", "5", "--labels", "ask.csv", "--json"]) == 0
    more = json.loads(capsys.readouterr().out)["names"]
    assert len(set(more)) == 5
    assert not set(more) & {row["name"] for row in rows}


def test_an_approximate_graph_is_announced_and_says_its_recall(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("faiss")
    from eigenview.labels import graph

    assert main(["clusters", "photos.npz", "-o", "exact.csv"]) == 0
    assert "approximate" not in capsys.readouterr().out
    (shop / "photos.npz.graph").unlink()
    monkeypatch.setattr(graph, "BEARABLE", 0)
    announced = "the graph of 36 images (once; it is kept) is sought approximately"
    recall = "of the 20 nearest are found (measured on 36 of the images)"
    for number, words in enumerate(
        (
            ["choose", "photos.npz", "-n", "3"],
            ["spread", "photos.npz", "--labels", "answers.csv"],
            ["clusters", "photos.npz"],
        )
    ):
        assert main([*words, "-o", f"{number}.csv"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert recall in said
        assert (announced in said) == (number == 0)


def test_the_same_seed_chooses_the_same(shop: Path, capsys: pytest.CaptureFixture[str]):
    told = []
    for seed in ("1", "1", "2"):
        assert main(["choose", "photos.npz", "-n", "6", "--way", "random", "--seed", seed, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out)["rows"])
    assert told[0] == told[1] != told[2]
    assert not list(shop.glob("choose-*"))  # as JSON, nothing is written


def test_tables_without_a_name_of_their_own_are_numbered(shop: Path):
    for _ in range(2):
        assert main(["choose", "photos.npz", "-n", "2"]) == 0
    assert sorted(file.name for file in shop.glob("choose-*")) == ["choose-photos-2.csv", "choose-photos.csv"]


def test_parquet_has_every_classs_probability_and_is_read_back(shop: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert main(["spread", "photos.npz", "--labels", "answers.csv", "-o", "all.parquet"]) == 0
    table = parquet.read_table(shop / "all.parquet")
    each = np.stack([table[f"probability of {name}"].to_numpy() for name in CLASSES], axis=1)
    assert np.allclose(each.sum(axis=1), 1, atol=1e-5)
    assert np.allclose(each.max(axis=1), table["probability"].to_numpy())
    assert main(["spread", "photos.npz", "--labels", "all.parquet", "-o", "again.csv"]) == 0
    assert {row["given"] for row in read_rows(shop / "again.csv")} == {"yes"}


def test_what_is_not_certain_is_left_empty(shop: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["spread", "photos.npz", "--labels", "answers.csv", "--certain", "1", "-o", "sure.csv"]) == 0
    rows = read_rows(shop / "sure.csv")
    assert {row["label"] for row in rows if row["given"] == "no" and float(row["probability"]) < 1} <= {""}
    assert [row["label"] for row in rows if row["given"] == "yes"] == list(CLASSES)
    assert "left empty, less sure than 1" in capsys.readouterr().out


def test_every_way_spreads(shop: Path):
    for way in ("label-spreading", "harmonic", "poisson"):
        assert main(["spread", "photos.npz", "--labels", "answers.csv", "--way", way, "-o", f"{way}.csv"]) == 0
        labels = [row["label"] for row in read_rows(shop / f"{way}.csv")]
        assert np.mean([label == name.partition("s/")[0] for label, name in zip(labels, names(), strict=True)]) > 0.9


def test_class_sizes_are_asked_for_by_name(shop: Path, capsys: pytest.CaptureFixture[str]):
    words = ["spread", "photos.npz", "--labels", "answers.csv", "-o", "all.csv", "--sizes"]
    assert "class fox has a size, but no image is labelled so" in refused(
        capsys, *words, "cat=1", "dog=1", "gull=1", "fox=1"
    )
    assert "that of gull is missing" in refused(capsys, *words, "cat=1", "dog=1")
    assert "--sizes takes CLASS=NUMBER, such as cat=300; got 'cat'" in refused(capsys, *words, "cat")
    assert "must be numbers above 0" in refused(capsys, *words, "cat=1", "dog=0", "gull=1")
    assert not (shop / "all.csv").exists()
    assert main([*words, "cat=12", "dog=12", "gull=12"]) == 0


def test_later_pictures_are_labelled_by_the_head(shop: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["spread", "photos.npz", "--labels", "answers.csv", "-o", "all.csv"]) == 0
    write_vectors(shop / "later.npz", seed=1)
    (shop / "all.head.safetensors").rename(shop / "kept.safetensors")  # it may be called anything
    assert main(["predict", "kept.safetensors", "later.npz", "-o", "later.csv"]) == 0
    assert [row["label"] for row in read_rows(shop / "later.csv")] == [CLASSES[row // EACH] for row in range(3 * EACH)]
    capsys.readouterr()
    assert "holds no head for labels" in refused(capsys, "predict", str(_other_tensors(shop)), "later.npz")
    np.save(shop / "narrow.npy", np.ones((4, 5), dtype=np.float32))
    assert "reads vectors of 8 numbers; got (4, 5)" in refused(capsys, "predict", "kept.safetensors", "narrow.npy")
    assert "which pictures?" in refused(capsys, "predict", "kept.safetensors", "resnet18").lower()
    data = bytearray((shop / "kept.safetensors").read_bytes())
    data[-1] ^= 1
    (shop / "kept.safetensors").write_bytes(data)
    assert "is damaged" in refused(capsys, "predict", "kept.safetensors", "later.npz")


def _other_tensors(folder: Path) -> Path:
    from safetensors.numpy import save_file

    save_file({"weight": np.ones((2, 2), dtype=np.float32)}, folder / "other.safetensors")
    return folder / "other.safetensors"


def test_nothing_is_written_over_unless_asked(shop: Path, capsys: pytest.CaptureFixture[str]):
    before = (shop / "answers.csv").read_bytes()
    assert "answers.csv is there already" in refused(capsys, "choose", "photos.npz", "-o", "answers.csv")
    spread = ["spread", "photos.npz", "--labels", "answers.csv"]
    assert "answers.csv is there already" in refused(capsys, *spread, "-o", "answers.csv")
    (shop / "all.head.safetensors").write_text("mine")
    assert "all.head.safetensors is there already" in refused(capsys, *spread, "-o", "all.csv")
    (shop / "look.png").write_text("mine")
    assert "look.png is there already" in refused(capsys, *spread, "-o", "new.csv", "--sheet", "look.png")
    assert (shop / "answers.csv").read_bytes() == before
    assert (shop / "look.png").read_text() == (shop / "all.head.safetensors").read_text() == "mine"
    assert not (shop / "all.csv").exists()
    assert main([*spread, "-o", "all.csv", "--overwrite"]) == 0
    assert (shop / "all.head.safetensors").read_bytes() != b"mine"


LINES = {
    "nobody.jpg": ([*FEW, ("nobody.jpg", "cat")], "answers.csv, line 5: 'nobody.jpg' is no image of photos.npz"),
    "several unknown": ([("x.jpg", "cat"), ("y.jpg", "")], "line 2: 'x.jpg' (nor 1 more name) is no image"),
    "contradiction": (
        [*FEW, ("cats/00.jpg", "dog")],
        "answers.csv, line 5: 'cats/00.jpg' is 'dog', but answers.csv, line 2 says 'cat'",
    ),
    "one class": ([("00.jpg", "cat"), ("01.jpg", "cat")], "2 labels of 1 class: cat 2; label an image of another"),
    "nothing filled in": ([("00.jpg", ""), ("01.jpg", " ")], "no image has a label yet"),
    "no rows": ([], "has no rows: name,label in the first line"),
    "a label for nobody": ([("", "cat")], "answers.csv, line 2: a label, but no name of an image"),
}


@pytest.mark.parametrize("case", LINES)
def test_a_file_of_labels_that_says_nothing_useful_is_refused(
    case: str, shop: Path, capsys: pytest.CaptureFixture[str]
):
    lines, message = LINES[case]
    write_answers(shop / "answers.csv", lines)
    assert message in refused(capsys, "spread", "photos.npz", "--labels", "answers.csv", "-o", "all.csv")
    assert sorted(file.name for file in shop.iterdir() if file.suffix != ".graph") == ["answers.csv", "photos.npz"]


def test_the_same_said_twice_is_fine(shop: Path):
    write_answers(shop / "more.csv", [*FEW, *FEW, ("01.jpg", "cat")])
    assert main(["spread", "photos.npz", "--labels", "answers.csv", "more.csv", "-o", "all.csv"]) == 0
    assert [row["given"] for row in read_rows(shop / "all.csv")].count("yes") == 4


def test_tables_of_other_makers_are_read(shop: Path, capsys: pytest.CaptureFixture[str]):
    (shop / "excel.csv").write_text("﻿path;species\ncats/00.jpg;cat\ndogs/13.jpg;dog\n", encoding="utf-8")
    words = ["spread", "photos.npz", "--labels", "excel.csv", "-o", "all.csv"]
    assert "excel.csv has no column label; it has path, species" in refused(capsys, *words)
    assert "has no column 'kind' for the label" in refused(capsys, *words, "--column", "kind")
    assert main([*words, "--column", "species"]) == 0
    (shop / "noise.parquet").write_bytes(b"PAR1 not at all")
    assert "not a readable Parquet file" in refused(capsys, "spread", "photos.npz", "--labels", "noise.parquet")
    assert "no such file of labels" in refused(capsys, "spread", "photos.npz", "--labels", "gone.csv")
    assert "labels are read from .csv, .parquet, .tsv, .jsonl" in refused(
        capsys, "spread", "photos.npz", "--labels", "photos.npz"
    )
    assert "a .csv or .parquet file is written; got 'all.xls'" in refused(
        capsys, "spread", "photos.npz", "--labels", "answers.csv", "-o", "all.xls"
    )


def test_vectors_that_are_no_numbers_are_refused_by_row(shop: Path, capsys: pytest.CaptureFixture[str]):
    write_vectors(shop / "broken.npz", change={3: float("nan"), 7: float("inf")})
    for words in (
        ["choose", "broken.npz"],
        *([verb, "broken.npz", "--labels", "answers.csv"] for verb in ("spread", "audit")),
    ):
        assert "NaN or Inf in 2 of 36 rows, first 3, 7" in refused(capsys, *words)


def test_identical_rows_and_parts_that_hang_together_by_nothing_get_labels_too(shop: Path):
    write_vectors(shop / "same.npz", change=dict.fromkeys(range(EACH), 1.0))
    assert main(["choose", "same.npz", "-n", "30", "-o", "ask.csv"]) == 0
    assert len({row["name"] for row in read_rows(shop / "ask.csv")}) == 30
    assert main(["spread", "same.npz", "--labels", "answers.csv", "-o", "all.csv"]) == 0
    assert [row["label"] for row in read_rows(shop / "all.csv")] == [CLASSES[row // EACH] for row in range(3 * EACH)]
    far = np.concatenate([np.eye(40)[:20] + 50, -np.eye(40)[20:] - 50]).astype(np.float32)
    np.save(shop / "far.npy", far)
    write_answers(shop / "two.csv", [("0", "a"), ("far.npy[1]", "b")])  # all labels lie in one part
    assert main(["spread", "far.npy", "--labels", "two.csv", "-o", "far.csv"]) == 0
    rows = read_rows(shop / "far.csv")
    assert {row["label"] for row in rows} <= {"a", "b", ""}
    assert all(float(row["probability"]) <= 1 for row in rows)


def test_pictures_that_are_all_alike_are_no_error_and_little_is_said_of_them(shop: Path):
    write_vectors(shop / "same.npz", change=dict.fromkeys(range(3 * EACH), 1.0))
    assert main(["choose", "same.npz", "-n", "4", "-o", "ask.csv"]) == 0
    assert len({row["name"] for row in read_rows(shop / "ask.csv")}) == 4
    assert main(["spread", "same.npz", "--labels", "answers.csv", "-o", "all.csv"]) == 0
    sure = [float(row["probability"]) for row in read_rows(shop / "all.csv") if row["given"] == "no"]
    assert len(sure) == 3 * EACH - 3
    assert max(sure) < 0.6  # which of the equal ones are neighbours is free
    write_answers(shop / "said.csv", [(name, name.partition("s/")[0]) for name in names()])
    assert main(["audit", "same.npz", "--labels", "said.csv", "--no-copies", "-o", "audit.csv"]) == 0
    suspects = [row for row in read_rows(shop / "audit.csv") if row["kind"] == "label"]
    assert suspects  # at most a third of the labels can be right
    assert max(float(row["probability"]) for row in suspects) < 0.75


def test_more_pictures_than_there_are_cannot_be_chosen(shop: Path, capsys: pytest.CaptureFixture[str]):
    assert "choose 1 to 33 rows, as many as have no label; got 40" in refused(
        capsys, "choose", "photos.npz", "-n", "40", "--labels", "answers.csv"
    )


def test_an_audit_names_the_labels_that_are_wrong(shop: Path, capsys: pytest.CaptureFixture[str]):
    said = [(name, "dog" if row in (3, 30) else name.partition("s/")[0]) for row, name in enumerate(names())]
    write_answers(shop / "said.csv", said)
    words = ["audit", "photos.npz", "--labels", "said.csv", "--outliers", "4"]
    assert main([*words, "-o", "audit.csv", "--sheet", "audit.png"]) == 0
    rows = read_rows(shop / "audit.csv")
    suspects = [row for row in rows if row["kind"] == "label"]
    assert {(row["name"], row["given"], row["suggested"]) for row in suspects} == {
        ("cats/03.jpg", "dog", "cat"),
        ("gulls/30.jpg", "dog", "gull"),
    }
    assert all(float(row["probability"]) > 0.5 for row in suspects)
    assert [row["kind"] for row in rows].count("outlier") == 4
    assert (shop / "audit.png").is_file()
    assert "2 of 36 labels (5.6%) are probably wrong" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert [each["row"] for each in json.loads(capsys.readouterr().out)["suspects"]] == [
        names().index(row["name"]) for row in suspects
    ]


def test_an_audit_takes_labels_from_the_vectors_file_or_says_that_it_has_none(
    shop: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["audit", "photos.npz", "-o", "unlabelled.csv", "--sheet", "unlabelled.png"]) == 0
    said = capsys.readouterr().out
    assert "photos.npz has no labels, so none is doubted: give them (--labels FILE)" in said
    assert "probably wrong" not in said
    assert [row["kind"] for row in read_rows(shop / "unlabelled.csv")] == ["outlier"] * 20
    assert [shown.kind for shown in read_shown_labels(shop / "runs" / "photos")] == ["outliers"]
    write_vectors(shop / "labelled.npz", numbers=True)
    assert main(["audit", "labelled.npz", "--outliers", "0", "-o", "no-outliers.csv"]) == 0
    assert "like no others" not in capsys.readouterr().out
    assert main(["audit", "labelled.npz", "-o", "audit.csv"]) == 0
    assert not [row for row in read_rows(shop / "audit.csv") if row["kind"] == "label"]
    assert "answers.csv is there already" in refused(capsys, "audit", "labelled.npz", "-o", "answers.csv")


def test_classes_of_one_are_left_out_and_one_class_is_refused(shop: Path, capsys: pytest.CaptureFixture[str]):
    one_fox = [(name, "fox" if row == 5 else name.partition("s/")[0]) for row, name in enumerate(names())]
    write_answers(shop / "said.csv", one_fox)
    assert main(["audit", "photos.npz", "--labels", "said.csv", "-o", "audit.csv"]) == 0
    assert "nothing can be said about classes of a single picture: fox" in capsys.readouterr().out
    assert "an audit needs two classes of at least two pictures each" in refused(
        capsys, "audit", "photos.npz", "--labels", "answers.csv"
    )
    write_answers(shop / "cats.csv", [(name, "cat") for name in names()])
    assert "an audit needs two classes" in refused(capsys, "audit", "photos.npz", "--labels", "cats.csv")


def test_leaks_between_two_folders_are_confirmed_on_the_pixels(shop: Path, capsys: pytest.CaptureFixture[str]):

    from tests.data.test_crops import cropped, picture

    for number in range(24):
        for folder in ("train", "test"):
            (shop / folder / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        picture(number, 48).save(shop / "train" / "ab"[number % 2] / f"{number:02d}.png")
        other = picture(number if number < 4 else 100 + number, 48)
        other = cropped(other, 0.92, 0.03, 0.05) if number % 2 else other
        other.save(shop / "test" / "ab"[number % 2] / f"{number:02d}.jpg", quality=85)
    words = ["audit", "small", "--source", "train/?labelled=yes", "--against", "test/", "--no-copies", "--json"]
    assert main([*words, "-o", "audit.parquet"]) == 0
    leaks = json.loads(capsys.readouterr().out)["leaks"]
    kept = {shown.kind: shown for shown in read_shown_labels(shop / "runs" / "train-small")}  # for the report
    assert kept.keys() == {"suspicious", "outliers"}
    assert all(each.picture for each in kept["outliers"].groups[0].pictures)
    assert {tuple(Path(path).stem for path in pair["paths"]) for pair in leaks} == {
        (f"{number:02d}", f"{number:02d}") for number in range(4)
    }
    np.save(shop / "narrow.npy", np.ones((4, 5), dtype=np.float32))
    assert "two sets are compared by vectors of one encoder" in refused(
        capsys, "audit", "runs/train-small", "--against", "narrow.npy"
    )
    assert "to embed test/ the encoder is needed that made labelled.npz" in refused(
        capsys, "audit", str(write_vectors(shop / "labelled.npz", numbers=True).name), "--against", "test/"
    )
