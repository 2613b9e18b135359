"""Images and words by the real command: a folder with a list of captions, shards, words that find pictures."""

from __future__ import annotations

import csv
import html
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
from eigenview.data import open_images, subset
from eigenview.evaluation.words import class_vectors, zero_shot_scores
from eigenview.names import printable
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


def test_diagnosis_and_report_have_both_sides(trained, shop, monkeypatch):
    monkeypatch.chdir(shop)
    words = json.loads((shop / "run" / "diagnosis.json").read_text())["figures"]["modalities"]
    run = ev.open_run("run")
    images, source = run.embed("captions.csv", "both.parquet", layer="projection").array, open_images("captions.csv")
    rows = [row for row in range(len(source)) if source.captions(row)]
    texts = run.opened.needed_text().embed([source.captions(row)[0] for row in rows]).numpy()
    seen = (images / np.linalg.norm(images, axis=1, keepdims=True))[rows]
    assert words["gap"] == pytest.approx(np.linalg.norm(seen.mean(0) - texts.mean(0)), abs=2e-3)
    assert words["alignment"] == pytest.approx(np.square(seen - texts).sum(1).mean(), abs=2e-3)
    pairs = [np.square(a - b).sum() for place, a in enumerate(texts) for b in texts[:place]]
    assert words["captions"]["uniformity"]["value"] == pytest.approx(
        np.log(np.exp(-2 * np.array(pairs)).mean()), abs=2e-3
    )
    page = html.unescape(run.report().read_text(encoding="utf-8"))
    shown = [("image and caption", words["alignment"]), ("image and caption", words["gap"])]
    shown += [(f"{side} alone", words[side]["effective_rank"]) for side in ("images", "captions")]
    shown += [(f"{side} alone", words[side]["uniformity"]["value"]) for side in ("images", "captions")]
    for name, value in shown:
        assert f"{value:.4g}" in page.partition(name)[2][:300]


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


def test_pictures_find_captions_and_python_finds_the_same(trained, shop, monkeypatch):
    (shop / "new.jpg").write_bytes(picture("blue", 99))
    told = told_json("neighbours", "run", "new.jpg", "photos/05.jpg", "--captions", "-k", "6", folder=shop)
    monkeypatch.chdir(shop)
    run = ev.open_run("run")
    answers = run.find_captions(["new.jpg", "photos/05.jpg"], k=6)
    assert [[(near.path, near.cosine, near.caption) for near in answer.neighbours] for answer in answers] == [
        [(near["path"], near["cosine"], near["caption"]) for near in answer["neighbours"]] for answer in told
    ]
    with (shop / "captions.csv").open(encoding="utf-8") as file:
        captions = {row[name] for row in csv.DictReader(file) for name in ("caption", "caption_2")} - {"", "nobody"}
    texts = sorted({text.strip() for text in captions})
    words = run.opened.needed_text().embed(texts).numpy()
    stored = run.embed("captions.csv", "found.parquet", layer="projection")
    row = stored.array[stored.names.index(answers[1].query)]
    cosines = words @ row / np.linalg.norm(row)
    assert [near.cosine for near in answers[1].neighbours] == pytest.approx(sorted(cosines)[::-1][:6], abs=1e-5)
    assert answers[1].neighbours[0].caption == texts[cosines.argmax()]
    shown = succeeded(eigenview("neighbours", "run", "5", "--captions", "-k", "1", "-o", "found.png", folder=shop))
    assert f"({printable(answers[1].neighbours[0].caption)})" in shown
    assert "to look at: found.png" in shown


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


def test_templates_of_ones_own_are_read_from_the_command_and_from_a_file(trained, shop, monkeypatch):
    monkeypatch.chdir(shop)
    for number in range(5, 40):
        (folder := shop / "sorted" / colour_of(number)).mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(picture(colour_of(number), number))
    templates = ["a {} thing", "it is {}, all over"]
    (shop / "prompts.txt").write_text("\n".join(templates) + "\n\n")
    zero_shot = ["evaluate", "run", "sorted/?labelled=yes", "--protocol", "zero-shot", "--templates"]
    (told,) = told_json(*zero_shot, *templates, folder=shop)
    run = ev.open_run("run")
    (read,) = run.evaluate("sorted/?labelled=yes", protocols=["zero-shot"], templates=["prompts.txt"])
    assert read.protocol["templates"] == templates
    assert told["protocol_hash"] == read.protocol_hash
    embedded = run.embed("sorted/?labelled=yes", out="sorted.parquet", layer="projection")
    whole = open_images("sorted/?labelled=yes")
    half, known = subset(whole, range(len(whole))), subset(whole, range(0, len(whole), 2))
    half._labels = np.where(np.arange(len(whole)) % 2 == 0, whole.labels, -1)  # the others have no label
    (of_half,), (of_known,) = (zero_shot_scores(run.opened, each, templates=templates) for each in (half, known))
    assert of_half.value == of_known.value
    colours = sorted(COLOURS)
    words = class_vectors(run.opened.needed_text(), colours, templates).numpy()
    guessed = [colours[place] for place in (embedded.array @ words.T).argmax(1)]
    right = np.mean([colour == Path(path).parent.name for colour, path in zip(guessed, embedded.names, strict=True)])
    assert told["value"] == read.value == pytest.approx(right)
    knn, *_ = run.evaluate("sorted/?labelled=yes", protocols=["knn"], baselines=())  # as of any other run
    assert knn.value > 0.9  # four plain colours; chance is a quarter


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


def test_shards_with_captions_are_learnt_from_resumed_and_evaluated(tmp_path, shop, monkeypatch, capsys):
    """Nobody names the method; four steps and four more are eight; captions of a list measure what was learnt."""
    for number in range(2):
        write_shard(tmp_path / f"train-{number}.tar")
    monkeypatch.chdir(tmp_path)
    words = ["train", "train-{0..1}.tar", "--steps-per-epoch", "2", "--optimizer.schedule", "constant", *QUICK]
    assert main([*words, "--out", "whole", "--steps", "8"]) == 0
    said = capsys.readouterr()
    assert "shards train-{0..1}.tar (2 files): a stream of images, captions" in said.out
    assert "clip  (the images come with captions)" in said.out
    assert (said.out + said.err).count("batches hold an image or a caption more than once") == 1
    assert main([*words, "--out", "two", "--steps", "4"]) == 0
    tokens = (tmp_path / "two/tokenizer.json").read_bytes()
    assert main([*words, "--out", "two", "--steps", "8", "--resume"]) == 0
    assert (tmp_path / "two/tokenizer.json").read_bytes() == tokens == (tmp_path / "whole/tokenizer.json").read_bytes()
    whole, two = (
        load_file(next((tmp_path / run / "checkpoints/last").glob("*.safetensors"))) for run in ("whole", "two")
    )
    assert all(np.array_equal(whole[name], two[name]) for name in whole)
    scores = {run: ev.open_run(run).evaluate(shop / "captions.csv", protocols=["captions"]) for run in ("whole", "two")}
    assert [score.value for score in scores["whole"]] == [score.value for score in scores["two"]]
    assert {score.name for score in scores["two"]} == {"text to image", "image to text"}


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
WRONG_TEMPLATES = {
    "captions --templates {}": "templates are prompts of zero-shot: give --protocol zero-shot with them",
    "knn --templates {}": "templates are prompts of zero-shot: give --protocol zero-shot with them",
    "zero-shot --templates words": "a prompt has the class's place as {}, once: 'a photo of a {}'; got 'words'",
    "zero-shot --templates empty.txt": "no prompt was given; 'a photo of a {}' is the usual one",
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


WRONG_SEARCHES = {
    "--captions": "what to look for is missing",
    "--captions --text dogs": "captions are found for pictures (QUERY), by exact search: leave --text and --engine out",
    "5 --captions --source photos": "photos has no captions that a picture could find",
}


@pytest.mark.parametrize("words", WRONG_SEARCHES)
def test_wrong_searches_are_refused_in_a_line(words, trained, shop, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    assert main(["neighbours", "run", *words.split()]) == 2
    assert WRONG_SEARCHES[words] in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("words", WRONG_TEMPLATES)
def test_wrong_templates_are_refused_in_a_line(words, trained, shop, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    (shop / "empty.txt").write_text("\n")
    assert main(["evaluate", "run", "captions.csv", "--protocol", *words.split()]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == f"eigenview: {WRONG_TEMPLATES[words]}"
