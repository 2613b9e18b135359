"""What a newcomer stumbled over: files that cannot be read, refusals, runs that go on or are over."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from eigenview.cli import main
from eigenview.cli.output import Output
from eigenview.data import open_images
from eigenview.data.source import SourceInfo
from eigenview.errors import WriteError
from eigenview.evaluation import Measuring, Subject, diagnose_run, evaluate_run, open_task
from eigenview.names import counted
from eigenview.report import write_report
from eigenview.runs import RunDirectory, open_run
from tests.cli.commands import PHOTOS, RUN, write_photos
from tests.data.pictures import scene

QUICK = ["--encoder.width", "0.25", "--workers", "0", "--batch-size", "8"]


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """49 small pictures of two sizes, the first of which cannot be read, in the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = write_photos(tmp_path / "photos")
    (folder / "gulls" / "picture 00.png").write_bytes(b"no picture")
    Image.fromarray(scene(0, height=40, width=40)).save(folder / "gulls" / "picture 01.png")
    return folder


def test_views_are_shown_though_an_image_cannot_be_read(damaged, capsys):
    assert main(["views", "show", "photos", "--count", "3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("left out: ")
    assert "picture 00.png" in said[0]
    assert said[1] == "views.png: 2 images with their views (2 of 24 px)"
    for file in damaged.rglob("*.png"):
        file.write_bytes(b"no picture")
    assert main(["views", "show", "photos"]) == 2
    assert "none of the images can be read" in capsys.readouterr().err


def test_views_have_the_size_that_training_chooses(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "large").mkdir()
    for number in range(8):
        Image.fromarray(scene(number, height=150, width=180)).save(tmp_path / "large" / f"{number}.jpg")
    assert main(["views", "show", "large", "--count", "1"]) == 0
    assert capsys.readouterr().out == "views.png: 1 image with their views (2 of 64 px)\n"
    assert main(["train", "large", "--steps", "1", "--out", "run", "--no-look", "--workers", "0"]) == 0
    assert "views.size               64" in capsys.readouterr().out
    assert main(["views", "show", "large", "--count", "2", "--size", "96"]) == 0
    assert "(2 of 96 px)" in capsys.readouterr().out


def test_training_says_how_many_images_it_could_not_read(damaged, capsys):
    assert main(["train", "photos", "--epochs", "1", "--out", "run", "--no-look", *QUICK]) == 0
    said = capsys.readouterr()
    line = "! 1 image could not be read, and others took their place: listed in run/unreadable.jsonl"
    assert line in (said.out + said.err).splitlines()


def test_a_refusal_leaves_no_folder_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = write_photos(tmp_path / "few", each=5)
    assert main(["train", "few", "--steps", "1", "--batch-size", "64", "--out", "deep/run", "--workers", "0"]) == 2
    assert "batch" in capsys.readouterr().err
    assert main(["evaluate", "small", "few", "--keep-in", "deep/scores"]) == 2
    assert "labels" in capsys.readouterr().err
    for file in sorted(few.rglob("*.png"))[2:]:
        file.unlink()
    assert main(["look", "few", "--encoder", "small"]) == 2
    assert "at least 3 are needed" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few"]


def test_a_refusal_leaves_a_folder_that_was_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "few", each=5)
    (tmp_path / "run").mkdir()
    assert main(["train", "few", "--steps", "1", "--batch-size", "64", "--out", "run", "--workers", "0"]) == 2
    assert (tmp_path / "run").is_dir()


def test_going_on_says_where_from_and_when_there_is_nothing_left(shop, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    run = tmp_path / "run"
    shutil.copytree(shop / RUN, run)
    before = (run / "diagnosis.json").stat().st_mtime_ns
    shutil.copytree(run / "checkpoints" / "last", run / "checkpoints" / ".last.old")  # killed as it saved
    assert main(["train", "--resume", "--out", str(run)]) == 0
    said = capsys.readouterr()
    step = RunDirectory(run).metrics.lines[-1]["step"]  # others may have gone on with it before
    finished = f"! this run is finished, at step {step}: nothing is left to train; --steps N with a larger N goes on"
    assert finished in (said.out + said.err).splitlines()
    assert (run / "diagnosis.json").stat().st_mtime_ns == before
    assert not (run / "checkpoints" / ".last.old").exists()
    assert main(["train", "--resume", "--out", str(run), "--steps", str(step + 1), "--no-look"]) == 0
    assert "is finished" not in capsys.readouterr().err
    shutil.rmtree(run / "checkpoints" / "last")
    assert main(["train", "--resume", "--out", str(run), "--steps", str(step + 2), "--no-look"]) == 0
    said = capsys.readouterr()
    assert "! the checkpoint last is gone; going on from previous" in (said.out + said.err).splitlines()


def test_a_second_look_does_not_judge_again_what_has_not_changed(shop, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").symlink_to(shop / RUN)
    photos = write_photos(tmp_path / "photos", each=8)
    judging = "is the representation healthy"
    assert main(["look", "photos", "--encoder", "small"]) == 0
    first = capsys.readouterr().out
    assert judging in first
    assert main(["look", "photos", "--encoder", "small"]) == 0
    second = capsys.readouterr().out
    assert judging not in second
    verdict = next(line for line in first.splitlines() if line.startswith("verdict: "))
    assert verdict in second.splitlines()
    assert main(["look", "photos", "--encoder", "small", "--seed", "1"]) == 0
    assert judging in capsys.readouterr().out
    (photos / "gulls" / "picture 00.png").unlink()
    assert main(["look", "photos", "--encoder", "small", "--seed", "1"]) == 0
    assert judging in capsys.readouterr().out


def test_a_report_of_an_encoder_by_name_looks_first(shop, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos", each=5)
    assert main(["report", "efficientnet-lite0", "--source", "photos", "--size", "64"]) == 0
    said = capsys.readouterr().out
    assert "runs/photos-efficientnet-lite0-64px/report.html" in said
    page = (tmp_path / "runs/photos-efficientnet-lite0-64px/report.html").read_text(encoding="utf-8")
    assert "not trained here" in page
    assert "each compared with the first on the pixels" in page
    assert main(["report", "runs/photos-efficientnet-lite0-64px", str(shop / RUN), "-o", "both.html"]) == 0
    assert "Fewer than two of these were trained here" in (tmp_path / "both.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["report", "efficientnet-lite0"]) == 2
    assert "looks at images: give them (SOURCE or --source)" in capsys.readouterr().err
    assert main(["report", "efficientnet-lite", "--source", "photos"]) == 2
    assert "did you mean efficientnet-lite0?" in capsys.readouterr().err


def test_a_run_remembers_whether_its_views_were_mirrored(shop, trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(shop / RUN, run)
    assert Subject.of_run(open_run(run)).flips
    data = json.loads((run / "data.json").read_text())
    data["recipe"]["flip"] = 0.0
    (run / "data.json").write_text(json.dumps(data))
    assert not Subject.of_run(open_run(run)).flips


@pytest.fixture
def sealed(shop: Path, trained) -> Iterator[Path]:
    """A copy of the run that only its owner may write, in a folder that anyone may enter."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        run = Path(place) / "run"
        shutil.copytree(shop / RUN, run)
        shutil.copytree(shop / PHOTOS, Path(place) / "photos")
        for folder in (run, *run.rglob("*/")):
            folder.chmod(0o555)
        yield run
        for folder in (run, *run.rglob("*/")):
            folder.chmod(0o755)


@contextmanager
def nobody() -> Iterator[None]:
    """As someone whom permissions hinder; root is not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_run_that_cannot_be_written_is_refused_before_anything_is_computed(sealed):
    run, source = open_run(sealed), open_images(sealed.parent / "photos", needs_index=True)
    task = open_task(f"{sealed.parent / 'photos'}?labelled=yes")
    for work in (
        lambda: next(evaluate_run(run, [task], measuring=Measuring(workers=0))),
        lambda: diagnose_run(run, source, workers=0, keeps=True),
        lambda: write_report([sealed]),
    ):
        with nobody(), pytest.raises(WriteError, match=r"cannot write .*run: Permission denied"):
            work()


ROWS = [["20-NN, accuracy %", "46.1 [45.0, 47.2]\n+4.0, p < 0.001", "42.1 [41.0, 43.2]"]]
COLUMNS = ["with 95 % intervals", "photos-efficientnet-lite0", "untrained"]


def test_a_table_that_does_not_fit_is_a_list(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    Output().table(COLUMNS, ROWS, stacks=True)
    assert capsys.readouterr().out.splitlines() == [
        "with 95 % intervals",
        "20-NN, accuracy %",
        "  photos-efficientnet-lite0  46.1 [45.0, 47.2], +4.0, p < 0.001",
        "  untrained                  42.1 [41.0, 43.2]",
    ]
    monkeypatch.setenv("COLUMNS", "80")
    Output().table(COLUMNS, ROWS, stacks=True)
    assert "with 95 % intervals   photos-efficientnet-lite0" in capsys.readouterr().out


def test_one_is_singular():
    assert (counted(1, "image"), counted(0, "image"), counted(1200, "image")) == ("1 image", "0 images", "1,200 images")
    assert "folder photos: 1 image" in str(SourceInfo("folder", "photos", 1))
