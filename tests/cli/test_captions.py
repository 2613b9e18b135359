"""Images and words by the real command: a folder with a list of captions, shards, words that find pictures."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

import eigenview as ev
from eigenview.cli import main
from tests.cli.commands import eigenview, succeeded

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "yellow": (230, 220, 40)}
QUICK = ["--batch-size", "16", "--workers", "0", "--encoder", "small", "--encoder.width", "0.25", "--views.size", "24"]
TEXT = ["--method", "clip", "--method-settings.text.depth", "1", "--method-settings.text.width", "32"]


def picture(colour: str, seed: int) -> bytes:
    noise = np.random.default_rng(seed).integers(-25, 25, (32, 32, 3))
    file = io.BytesIO()
    Image.fromarray(np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8)).save(file, "JPEG")
    return file.getvalue()


def colour_of(number: int) -> str:
    return list(COLOURS)[number % 4]


def told_json(*words: str, folder: Path) -> list[dict[str, Any]]:
    return json.loads(succeeded(eigenview(*words, "--json", folder=folder)))  # type: ignore[no-any-return]


def write_list(place: Path, rows: list[dict[str, str]]) -> None:
    with place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of photos with a list of two captions each, among them all that a list may have that is odd."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "photos").mkdir()
    rows = []
    for number in range(40):
        colour, name = colour_of(number), f"photos/{number:02d}.jpg"
        (folder / name).write_bytes(picture(colour, number))
        rows.append({"path": name, "caption": f"a {colour} thing", "caption_2": f"it is {colour} all over"})
    rows[1] |= {"caption": "", "caption_2": ""}
    rows[2] |= {"caption": "word " * 10_000}
    rows[3] |= {"caption": "🐶🐶 🐶", "caption_2": ""}
    rows[4] |= {"caption": "שלום עולם", "caption_2": "مرحبا"}
    rows += [rows[5], rows[5], {"path": "photos/gone.jpg", "caption": "nobody", "caption_2": ""}]
    write_list(folder / "captions.csv", rows)
    return folder


@pytest.fixture(scope="module")
def trained(shop: Path) -> str:
    """What the command said as it trained, without being told the method."""
    answer = eigenview("train", "captions.csv", "--out", "run", "--epochs", "3", *QUICK, folder=shop)
    return succeeded(answer) + answer.stderr


def test_a_list_with_odd_rows_is_learnt_from_and_says_so(trained, shop):
    assert "clip" in trained
    assert "1 of 40 images have no caption, and are left out" in trained
    assert trained.count("batches hold an image or a caption more than once") == 1
    assert "list captions.csv: 40 images (1 unreadable ones left out), captions" in trained
    assert (shop / "run" / "tokenizer.json").is_file()


def test_the_diagnosis_has_both_sides(trained, shop):
    words = json.loads((shop / "run" / "diagnosis.json").read_text())["figures"]["modalities"]
    assert 0 <= words["gap"] <= 2
    assert 0 <= words["alignment"] <= 4
    assert words["captions"]["alignment"] is not None
    assert words["captions"]["effective_rank"] > 1


def test_words_find_pictures_and_python_finds_the_same(trained, shop, monkeypatch):
    told = json.loads(
        succeeded(eigenview("neighbours", "run", "--text", "a red thing", "-k", "5", "--json", folder=shop))
    )
    monkeypatch.chdir(shop)
    (answer,) = ev.open_run("run").find("a red thing", k=5)
    assert [(near.path, near.cosine, near.caption) for near in answer.neighbours] == [
        (near["path"], near["cosine"], near["caption"]) for near in told[0]["neighbours"]
    ]
    assert answer.is_text
    assert len(answer.neighbours) == 5
    assert all(near.caption is not None for near in answer.neighbours)


def test_recall_and_towers_are_the_same_in_python(trained, shop, monkeypatch):
    monkeypatch.chdir(shop)
    told = json.loads(
        succeeded(eigenview("evaluate", "run", "captions.csv", "--protocol", "captions", "--json", folder=shop))
    )
    run = ev.open_run("run")
    scores = run.evaluate("captions.csv", protocols=["captions"])
    assert [(score.name, score.metric, score.value) for score in scores] == [
        (score["name"], score["metric"], score["value"]) for score in told
    ]
    made = run.export(out="python.safetensors")
    assert made.towers is not None
    succeeded(eigenview("export", "run", "--to", "safetensors", "-o", "command.safetensors", folder=shop))
    for tower in ("image", "text"):
        mine, theirs = (load_file(shop / f"{who}-towers/{tower}.safetensors") for who in ("python", "command"))
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


def write_shard(place: Path, count: int = 40) -> None:
    with tarfile.open(place, "w") as shard:
        for number in range(count):
            colour = colour_of(number)
            caption = f"a {colour} thing".encode()
            if number % 2:
                caption = json.dumps({"caption": f"a {colour} thing"}).encode()
            for suffix, content in (("jpg", picture(colour, number)), ("json" if number % 2 else "txt", caption)):
                entry = tarfile.TarInfo(f"{number:03d}.{suffix}")
                entry.size = len(content)
                shard.addfile(entry, io.BytesIO(content))


def test_shards_with_captions_are_learnt_from(tmp_path):
    write_shard(tmp_path / "train-000.tar")
    words = ["train", "train-000.tar", "--out", "run", "--steps", "4", "--steps-per-epoch", "2", "--no-look"]
    answer = eigenview(*words, *QUICK, *TEXT, folder=tmp_path)
    assert (succeeded(answer) + answer.stderr).count("batches hold an image or a caption more than once") == 1
    tower = ev.open_run(tmp_path / "run").opened.needed_text()
    near = tower.embed(["a red thing", "A RED thing", "a blue thing"])
    assert float(near[0] @ near[1]) == pytest.approx(1, abs=1e-5)


MISTAKES = {
    "captions.csv --steps 2 --method-settings.repeats left-out": "are known once it is named (--method)",
    "none.csv": "has no captions to learn from: a table wants a column captions (or text)",
    "captions.csv --method-settings.text.tokenizer captions.csv": "captions.csv is no tokenizer.json",
    "captions.csv --method-settings.text.tokenizer nowhere.json": "nowhere.json",
    "captions.csv --method-settings.text.name hf:no/such/folder": "hf:no/such/folder",
    "captions.csv --method-settings.text.name transformr": "did you mean transformer",
    "captions.csv --method-settings.text.length 1": "length",
    "captions.csv --method-settings.caption-weights 0 1": "caption_weights are numbers from 0 on, the first above 0",
    "captions.csv --kernel Laplacain(0.1)": "did you mean Laplacian",
    "nowhere.csv": "nowhere.csv",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(words, shop, monkeypatch, capsys, tmp_path):
    write_list(shop / "none.csv", [{"path": f"photos/{number:02d}.jpg"} for number in range(8)])
    monkeypatch.chdir(shop)
    source, *options = words.split()
    method = [] if {"--kernel", "--method-settings.repeats"} & {*options} else ["--method", "clip"]
    assert main(["train", source, *method, *options, "--out", str(tmp_path / "run"), "--steps", "2", *QUICK]) == 2
    said = capsys.readouterr().err.strip()
    assert MISTAKES[words] in said.splitlines()[-1]
    assert "Traceback" not in said
