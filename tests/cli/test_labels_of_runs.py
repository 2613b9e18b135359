"""The verbs about labels on runs, encoders and files of vectors: what they keep, for reports too, and show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import eigenview as ev
from eigenview.cli import main
from eigenview.labels import audit, own_labels
from eigenview.labels.sheets import doubtful_groups
from eigenview.runs.contents import read_shown_labels
from eigenview.search import open_embeddings
from tests.data.test_crops import picture
from tests.labels.vectors import FEW, names, read_rows, write_answers, write_vectors

TRAIN, RUN = "train", "runs/train-small"


def write_pictures(folder: Path, numbers: range) -> None:
    for number in numbers:
        (folder / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        picture(number, 32).save(folder / "ab"[number % 2] / f"{number:02d}.png")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_pictures(tmp_path / TRAIN, range(16))
    write_pictures(tmp_path / "test", range(12, 24))
    return tmp_path


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_answers(tmp_path / "answers.csv", FEW)
    for name in names():
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), "red").save(tmp_path / "photos" / name)
    return write_vectors(tmp_path / "digits.npz", numbers=True)


def test_other_pictures_never_take_the_place_of_the_runs_embeddings(shop: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["choose", "small", "--source", TRAIN, "-n", "4", "-o", "ask.csv"]) == 0
    own = shop / RUN / "embeddings.parquet"
    before = own.read_bytes(), own.with_name("embeddings.parquet.graph").read_bytes()
    write_answers(shop / "test.csv", [("12.png", "a"), ("14.png", "a"), ("13.png", "b"), ("15.png", "b")])
    capsys.readouterr()
    for words in (
        ["choose", "-n", "3"],
        ["spread", "--labels", "test.csv"],
        ["audit", "--labels", "test.csv", "--no-copies"],
        ["clusters", "--clusters", "2"],
    ):
        verb, *rest = words
        assert main([verb, RUN, "--source", "test", *rest, "-o", f"{verb}.csv"]) == 0
        assert f"embedding test into {RUN}/embeddings-test.parquet (once;" in capsys.readouterr().out
    assert len(open_embeddings(shop / RUN / "embeddings-test.parquet")) == 12
    assert {Path(row["name"]).parts[-3] for row in read_rows(shop / "choose.csv")} == {"test"}
    assert (own.read_bytes(), own.with_name("embeddings.parquet.graph").read_bytes()) == before
    asked = [row["name"] for row in read_rows(shop / "ask.csv")]  # which ones they are differs between processors
    write_answers(shop / "ask.csv", [(name, "ab"[number % 2]) for number, name in enumerate(asked)])
    assert main(["spread", RUN, "--labels", "ask.csv", "-o", "all.csv"]) == 0
    assert len(read_rows(shop / "all.csv")) == 16


def test_embed_never_takes_the_place_of_a_table_of_labels(shop: Path, capsys: pytest.CaptureFixture[str]):
    words = ["embed", "small", TRAIN, "-o", "mine.parquet"]
    assert main(["choose", "small", "--source", TRAIN, "-n", "4", "-o", "mine.parquet"]) == 0
    before = (shop / "mine.parquet").read_bytes()
    capsys.readouterr()
    assert main(words) == 2
    assert "mine.parquet is there already, and holds no embeddings made here: name" in capsys.readouterr().err
    assert (shop / "mine.parquet").read_bytes() == before
    for again in ([*words, "--overwrite"], words, [*words, "--layer", "conv1", "--anew"]):
        assert main(again) == 0
    assert open_embeddings(shop / "mine.parquet").about is not None


def test_a_source_of_other_pictures_is_noticed_before_anything_is_written(
    shop: Path, capsys: pytest.CaptureFixture[str]
):
    np.save(shop / "short.npy", np.random.default_rng(0).normal(size=(15, 8)).astype(np.float32))
    for words in (["choose", "-n", "3"], ["clusters", "--clusters", "2"]):
        verb, *rest = words
        assert main([verb, "short.npy", "--source", TRAIN, *rest, "-o", "out.csv", "--sheet", "out.png"]) == 2
        assert "has a vector in short.npy: their names do not agree" in capsys.readouterr().err
        assert list(shop.glob("out.*")) == []


def test_folders_of_one_name_do_not_take_each_others_place(shop: Path):
    for place in ("x", "y"):
        write_pictures(shop / place / TRAIN / "new", range(4, 12))
    for place in ("x", "y", "x"):
        words = ["choose", "small", "--keep-in", "kept", "--source", f"{place}/{TRAIN}/new", "-n", "2"]
        assert main([*words, "-o", f"{place}.csv", "--overwrite"]) == 0
        assert Path(read_rows(shop / f"{place}.csv")[0]["name"]).parts[-5] == place
    assert sorted(file.name for file in (shop / "kept").glob("*.parquet")) == [
        "embeddings-new.parquet",
        "embeddings.parquet",
    ]


def test_what_spread_and_audit_find_is_in_the_report_of_a_file_of_vectors(vectors: Path):
    assert main(["audit", "digits.npz", "--json"]) == 0
    assert not Path("runs").exists()  # as JSON, nothing is written
    assert main(["spread", "digits.npz", "--labels", "answers.csv", "--source", "photos"]) == 0
    assert main(["audit", "digits.npz", "--source", "photos"]) == 0
    assert main(["report", "digits.npz", "--source", "photos"]) == 0
    page = Path("runs/digits/report.html").read_text(encoding="utf-8")
    for kind in ("suggested", "suspicious", "outliers"):
        assert f'id="labels-{kind}"' in page
    assert "33 of 36 images got a label from the 3 that were given." in page
    suggested = page.partition('id="labels-suggested"')[2].partition("</section>")[0]
    assert suggested.count("data:image/jpeg;base64,/9j") == 33  # each with its picture
    assert main(["spread", "digits.npz", "--labels", "answers.csv", "--keep-in", "here", "--json"]) == 0
    assert [shown.kind for shown in read_shown_labels(Path("here"))] == ["suggested"]
    mine = ev.open_embeddings("digits.npz")
    mine.spread("answers.csv")  # in Python nothing is kept unless a place is named
    mine.spread("answers.csv", keep_in="there")
    mine.audit(keep_in="there")
    assert [shown.kind for shown in read_shown_labels(Path("there"))] == ["suggested", "suspicious", "outliers"]
    assert sorted(place.name for place in vectors.parent.iterdir() if place.is_dir()) == [
        "here",
        "photos",
        "runs",
        "there",
    ]


def test_what_spread_finds_is_in_the_report_of_a_run(shop: Path):
    write_answers(shop / "some.csv", [("00.png", "a"), ("01.png", "b")])
    assert main(["spread", "small", "--source", TRAIN, "--labels", "some.csv"]) == 0
    assert main(["report", RUN]) == 0
    page = (shop / RUN / "report.html").read_text(encoding="utf-8")
    assert "14 of 16 images got a label from the 2 that were given." in page


def test_sheets_show_copies_and_leaks_side_by_side(shop: Path):
    (shop / TRAIN / "a" / "twin.png").write_bytes((shop / TRAIN / "b" / "01.png").read_bytes())
    source = f"{TRAIN}/?labelled=yes"
    words = ["audit", "small", "--source", source, "--outliers", "3"]
    assert main([*words, "-o", "one.csv", "--sheet", "one.png"]) == 0
    assert main([*words, "--against", "test", "-o", "two.csv", "--sheet", "two.png"]) == 0
    with Image.open("one.png") as one, Image.open("two.png") as two:
        assert two.height - one.height > 4 * 132  # a row for each of the four that are in both
    stored, other = (open_embeddings(shop / RUN / f"embeddings{name}.parquet") for name in ("", "-test"))
    audited = audit(stored, own_labels(stored), against=other, outliers=3)
    groups = {shown.heading: shown for shown in doubtful_groups(audited)}
    copied = groups["Copies of one picture, set 1 of 1"].pictures
    assert {(Path(stored.paths[row]).name, lines) for row, lines in copied} == {
        ("01.png", ("b",)),
        ("twin.png", ("a",)),
    }
    leaks = [groups[f"Here and in the other set, {number} of 4"] for number in range(1, 5)]
    pairs = {
        (Path(stored.paths[leak.pictures[0][0]]).name, Path(other.paths[leak.others[0][0]]).name) for leak in leaks
    }
    assert pairs == {(f"{number}.png", f"{number}.png") for number in range(12, 16)}


def test_predict_draws_a_sheet(vectors: Path):
    assert main(["spread", "digits.npz", "--labels", "answers.csv", "-o", "all.csv", "--sheet", "spread.png"]) == 0
    words = ["predict", "all.head.safetensors", "digits.npz", "--source", "photos"]
    assert main([*words, "-o", "later.csv", "--sheet", "predict.png"]) == 0
    with Image.open("predict.png") as drawn:
        colours = np.asarray(drawn.convert("RGB")).reshape(-1, 3)
    assert (np.abs(colours.astype(int) - [254, 0, 0]).max(axis=1) < 3).sum() >= 36 * 132**2  # all pictures are there
    assert main([*words, "-o", "later.csv", "--sheet", "again.png"]) == 2
    assert main([*words, "-o", "again.csv", "--sheet", "predict.png"]) == 2
    assert not Path("again.png").exists()
    assert not Path("again.csv").exists()


def test_a_head_that_is_left_over_gets_no_new_table_beside_it(vectors: Path):
    Path("spread-digits.head.safetensors").write_text("mine")
    assert main(["spread", "digits.npz", "--labels", "answers.csv"]) == 0
    assert Path("spread-digits.head.safetensors").read_text() == "mine"
    assert sorted(file.name for file in Path().glob("spread-*")) == [
        "spread-digits-2.csv",
        "spread-digits-2.head.safetensors",
        "spread-digits.head.safetensors",
    ]


def test_choose_tells_the_command_that_spreads_its_answers(shop: Path, capsys: pytest.CaptureFixture[str]):
    source, kept = f"{TRAIN}/?labelled=yes", "what is kept"
    write_answers(shop / "first ones.csv", [("00.png", "a"), ("01.png", "b")], header=("name", "species"))
    encoder = ["small", "--source", source, "--size", "16", "--keep-in", kept]
    words = ["choose", *encoder, "-n", "3", "--labels", "first ones.csv", "--column", "species", "-o", "ask.csv"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "3 pictures to label; fill in the column species" in said
    told = re.search(r"then: eigenview (.*)", said)
    assert told is not None
    spread = shlex.split(told[1])
    assert spread[:1] + spread[-3:] == ["spread", "--labels", "first ones.csv", "ask.csv"]
    before = (shop / kept / "embeddings.parquet").stat().st_mtime_ns
    assert main([*spread, "-o", "all.csv"]) == 0
    assert (shop / kept / "embeddings.parquet").stat().st_mtime_ns == before  # the same encoder, seen the same way
    assert [row["given"] for row in read_rows(shop / "all.csv")].count("yes") == 2


def test_the_engine_of_the_graph_is_taken_as_asked(vectors: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("faiss")
    recall = "of the 20 nearest are found"
    for words in (
        ["choose", "digits.npz", "-n", "3"],
        ["spread", "digits.npz", "--labels", "answers.csv"],
        ["audit", "digits.npz"],
        ["clusters", "digits.npz"],
    ):
        assert main([*words, "--engine", "faiss"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "is sought approximately, by faiss: as asked" in said
        assert recall in said
        assert main([*words, "--engine", "exact"]) == 0
        assert recall not in " ".join(capsys.readouterr().out.split())
    assert main(["choose", "digits.npz", "--engine", "exakt"]) == 2
