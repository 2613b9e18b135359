"""The same verbs in Python as on the command line: the same folder, bit for bit, and the same answers from it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from safetensors.numpy import load_file

import eigenview as ev
from eigenview.runs.card import read_card
from tests.cli.commands import eigenview, succeeded

CLOCKS = {"seconds", "views_per_second"}  # of a line of metrics: what differs from one run to the next
OUT = "runs/photos"


@dataclass(frozen=True)
class Both:
    """Two places with the same photos and a run of the same settings, the one by Python, the other by the command."""

    python: Path
    command: Path
    run: ev.Run

    def __iter__(self) -> Iterator[Path]:
        return iter((self.python, self.command))

    def told(self, *arguments: str) -> str:
        return succeeded(eigenview(*arguments, folder=self.command))


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def write_photos(folder: Path, count: int = 40) -> None:
    """JPEGs of discs and squares, one class to a folder."""
    random = np.random.default_rng(0)
    for number in range(count):
        photo = Image.fromarray(random.integers(60, 120, (48, 64, 3), dtype=np.uint8))
        draw, (left, top) = ImageDraw.Draw(photo), random.integers(4, 24, 2)
        box, colour = (left, top, left + 20, top + 20), tuple(random.integers(120, 255, 3))
        draw.ellipse(box, fill=colour) if number % 2 else draw.rectangle(box, fill=colour)
        place = folder / ("squares", "discs")[number % 2] / f"{number:02d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        photo.save(place, quality=95)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    python, command = (tmp_path_factory.mktemp(name) for name in ("python", "command"))
    for place in (python, command):
        write_photos(place / "photos")
    options = ["--steps", "6", "--seed", "3", "--log-every", "2", "--workers", "0", "--encoder.width", "0.25"]
    succeeded(eigenview("train", "photos/", "--out", OUT, *options, folder=command))
    with working_in(python):
        run = ev.train("photos/", out=OUT, steps=6, seed=3, log_every=2, workers=0, encoder={"width": 0.25})
    return Both(python, command, run)


def files_of(run: Path) -> list[str]:
    return sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())


def test_training_leaves_the_same_folder(both):
    mine, theirs = (place / OUT for place in both)
    assert files_of(mine) == files_of(theirs)
    assert {"config.json", "diagnosis.json", "metrics.jsonl", "sample/sample.json"} <= set(files_of(mine))
    for name in ("config.json", "data.json", "method.json", "environment.json", "diagnosis.json"):
        assert json.loads((mine / name).read_text()) == json.loads((theirs / name).read_text()), name
    for name in files_of(mine):
        if name.startswith("sample/"):
            assert (mine / name).read_bytes() == (theirs / name).read_bytes(), name


def test_training_computes_the_same_bits(both):
    for name in ("last", "best"):
        mine, theirs = (load_file(place / OUT / "checkpoints" / name / "weights.safetensors") for place in both)
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[key], theirs[key]) for key in mine)
    mine, theirs = (
        [
            {name: value for name, value in json.loads(line).items() if name not in CLOCKS}
            for line in (place / OUT / "metrics.jsonl").read_text().splitlines()
        ]
        for place in both
    )
    assert mine == theirs
    assert len(mine) > 3


def test_evaluation_gives_the_same_scores(both):
    told = both.told("evaluate", OUT, "photos/?labelled=yes", "--protocol", "knn", "few-label", "--json")
    scores = both.run.evaluate(f"{both.python}/photos/?labelled=yes", protocols=["knn", "few-label"])
    theirs = {(score["subject"], score["name"]): score["value"] for score in json.loads(told)}
    assert {(score.subject, score.name): score.value for score in scores} == theirs
    assert sorted(map(str, both.run.scores)) == sorted(map(str, scores))
    seen = {score["subject"] for score in json.loads(told) if score["seen_in_training"]}
    assert seen == {score.subject for score in scores if score.was_seen} == {"photos"}
    mine = [name for name in files_of(both.python / OUT) if name.startswith("evaluation/")]
    assert mine == [name for name in files_of(both.command / OUT) if name.startswith("evaluation/")]
    assert len(mine) == len(scores)


def test_several_sets_and_folds_give_the_same_scores(both):
    words = ["--set", "one=photos/?labelled=yes", "two=photos/?labelled=yes,photos/?labelled=yes", "--no-baselines"]
    told = json.loads(both.told("evaluate", OUT, *words, "--protocol", "knn", "--json"))
    photos = f"{both.python}/photos/?labelled=yes"
    scores = both.run.evaluate(sets={"one": photos, "two": (photos, photos)}, protocols=["knn"], baselines=[])
    assert [(score.data_name, score.value) for score in scores] == [(score["data"], score["value"]) for score in told]
    assert {score.data_name for score in scores} == {"one", "two"}
    with pytest.raises(ev.EigenviewError, match="SOURCE is missing: labelled images"):
        both.run.evaluate()
    with pytest.raises(ev.EigenviewError, match="folds belongs to one SOURCE"):
        both.run.evaluate(photos, photos, folds="folds")
    with pytest.raises(ev.EigenviewError, match="captions is measured by itself, on one SOURCE"):
        both.run.evaluate(photos, photos, protocols=["captions"])


def test_runs_are_compared_and_chosen_alike(both):
    for place in both:
        shutil.copytree(place / OUT, place / "runs/twin", dirs_exist_ok=True, ignore=lambda *_: ["evaluation"])
    photos, words = f"{both.python}/photos/?labelled=yes", ["photos/?labelled=yes", "--protocol", "knn"]
    for folder in (OUT, "runs/twin"):
        both.told("evaluate", folder, *words)
    twin = ev.open_run(both.python / "runs/twin")
    for run in (both.run, twin):
        run.evaluate(photos, protocols=["knn"])
    told = json.loads(both.told("compare", OUT, "--supervised", "runs/twin", "--protocol", "knn k=5", "--json"))
    mine = ev.compare(both.run, supervised=twin, protocols=["knn k=5"])
    assert [[(each["subject"], each["difference"]) for each in row] for row in told] == [
        [(each.score.subject, each.difference) for each in row] for row in mine.values()
    ]
    assert "supervised" in {each["subject"] for row in told for each in row}
    chosen = json.loads(both.told("compare", OUT, "runs/twin", "--select", "photos/?labelled=yes", "--json"))
    choice = ev.compare(both.run, twin, select=photos)
    assert (choice.name, choice.accuracy) == (chosen["chosen"], chosen["accuracy"])
    vectors = both.run.embed(both.python / "photos", both.python / "vectors.npy")
    with working_in(both.python):
        vectors.evaluate(photos, protocols=["knn"])
        compared = ev.compare(both.run, vectors)
        by_paths = ev.compare(OUT, Path("vectors.npy"))
        without = ev.compare(OUT, "small", "vectors.npy", unlabelled="photos/")
        with pytest.raises(ev.EigenviewError, match="small is no run directory"):
            ev.compare(OUT, "small")
        with pytest.raises(ev.EigenviewError, match="vectors see none: leave them out"):
            ev.compare(OUT, "vectors.npy", select="photos/?labelled=yes")
        with pytest.raises(ev.EigenviewError, match="runs and embeddings are compared, open or by their paths; got 3"):
            ev.compare(OUT, 3)
        chosen = ev.compare(OUT, "runs/twin", select="photos/?labelled=yes")
    assert chosen.accuracy == choice.accuracy
    assert by_paths == compared
    shutil.copy(both.python / "vectors.npy", both.command / "vectors.npy")
    told = json.loads(both.told("compare", OUT, "small", "vectors.npy", "--unlabelled", "photos/", "--json"))
    assert (without.best, without.by, list(without)) == (told["best"], told["by"], list(told["measures"]))
    assert {each.score.subject for row in compared.values() for each in row} >= {"photos", "vectors"}
    with pytest.raises(ev.EigenviewError, match="vectors see none: leave them out"):
        ev.compare(both.run, vectors, select=photos)


def test_diagnosis_report_and_export_are_the_same(both):
    told = json.loads(both.told("diagnose", OUT, "photos/", "--json"))
    assert both.run.diagnose(both.python / "photos").verdict == told["verdict"]
    assert (both.python / OUT / "diagnosis.json").read_text() == (both.command / OUT / "diagnosis.json").read_text()
    both.told("report", OUT)
    page = both.run.report()
    assert page == both.python / OUT / "report.html"
    assert (both.command / OUT / "report.html").is_file()
    both.told("export", OUT, "--to", "safetensors")
    made = both.run.export()
    other = both.command / OUT / "export" / made.path.name
    assert read_card(other) == made.card
    mine, theirs = load_file(made.path), load_file(other)
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


def test_embeddings_and_their_neighbours_are_the_same(both):
    both.told("embed", OUT, "photos/", "-o", "photos.npy")
    mine = both.run.embed(both.python / "photos", both.python / "photos.npy")
    theirs = ev.open_embeddings(both.command / "photos.npy")
    assert np.array_equal(mine.array, theirs.array)
    assert [Path(name).relative_to(both.python).as_posix() for name in mine.names] == [
        Path(name).relative_to(both.command).as_posix() for name in theirs.names
    ]
    with working_in(both.python):
        own, others = both.run.embed("photos/"), both.run.embed("photos/discs/")
    assert [file.stored.place.name for file in (own, others)] == ["embeddings.parquet", "embeddings-discs.parquet"]
    assert len(ev.open_embeddings(own.stored.place)) == len(mine)  # others do not take their place
    picture = "photos/discs/07.jpg"
    told = json.loads(both.told("neighbours", "photos.npy", picture, "-k", "4", "--json"))
    answer = mine.neighbours(both.python / picture, k=4)[0]
    assert [(near.index, near.cosine) for near in answer.neighbours] == [
        (near["index"], near["cosine"]) for near in told[0]["neighbours"]
    ]


def test_the_lines_of_the_readme_work_as_they_stand(both, tmp_path):
    with working_in(both.python):
        run = ev.open_run(OUT)
        assert repr(run) == f"Run({str(both.python / OUT)!r})"
        assert run.config.steps == 6
        assert run.metrics[-1]["step"] == 6
        emb = run.embed("photos/")
        assert emb.array.shape == (40, run.opened.encoder.feature_width)
        assert emb.about.run == "photos"
        for query in ("photos/discs/07.jpg", "discs/07.jpg", "07.jpg", both.python / "photos/discs/07.jpg"):
            (answer,) = emb.neighbours(query, k=3)
            assert answer.row == emb.names.index(str(both.python / "photos/discs/07.jpg"))
            assert len(answer.neighbours) == 3
        Image.new("RGB", (64, 48), "red").save(tmp_path / "new.jpg")
        (fresh,) = emb.neighbours(tmp_path / "new.jpg", k=1)
        assert fresh.row is None
        assert emb.duplicates().images == 40
        assert emb.map().shape == (40, 2)
        assert np.isfinite(emb.map()).all()
        assert emb.diagnose().figures.n == 40
        again = ev.open_embeddings(emb.save(tmp_path / "photos.parquet"))
        assert np.array_equal(again.array, emb.array)
        assert again.names == emb.names
        assert again.about == emb.about
        assert np.array_equal(run.embed("photos/?labelled=yes", tmp_path / "labelled.npy").labels, [0] * 20 + [1] * 20)


def test_what_is_not_said_goes_by_the_images_of_training(both, tmp_path):
    with working_in(both.python):
        assert ev.open_run(OUT).diagnose().figures.n == 40
        assert len(ev.open_run(OUT).embed(out=tmp_path / "out.npy")) == 40


def test_a_run_goes_on_in_python_as_on_the_command_line(both):
    for place in both:
        shutil.copytree(place / OUT, place / "runs" / "longer", dirs_exist_ok=True)
    succeeded(eigenview("train", "--resume", "--out", "runs/longer", "--steps", "8", folder=both.command))
    with working_in(both.python):
        run = ev.train("photos/", out="runs/longer", steps=8, resume=True)
    assert run.metrics[-1]["step"] == 8
    mine, theirs = (load_file(place / "runs/longer/checkpoints/last/weights.safetensors") for place in both)
    assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


def test_a_mistake_is_one_line_in_python_too(both):
    with working_in(both.python):
        with pytest.raises(ev.EigenviewError, match=r"holds a run already: go on with it"):
            ev.train("photos/", out=OUT, steps=6)
        with pytest.raises(ev.EigenviewError, match=r"did you mean simclr\?"):
            ev.train("photos/", method="simclrr")
        with pytest.raises(ev.EigenviewError, match=r"no setting is called steps_; did you mean steps\?"):
            ev.train("photos/", out="runs/other", steps_=6)
        with pytest.raises(ev.EigenviewError, match="method_settings"):
            ev.train("photos/", out="runs/other", steps=6, method_settings="x")
        with pytest.raises(ev.EigenviewError, match="text"):
            ev.train("photos/", out="runs/other", steps=6, method="clip", method_settings={"text": "x"})
        with pytest.raises(ev.EigenviewError, match="steps is given beside a whole TrainConfig"):
            ev.train(ev.open_run(OUT).config, resume=True, steps=9)
        with pytest.raises(ev.EigenviewError, match=r"did you mean zero-shot\?"):
            ev.open_run(OUT).evaluate("photos/", protocols=["zeroshot"])
        with pytest.raises(ev.EigenviewError, match="is no run directory"):
            ev.open_run("photos")
        shutil.copytree("photos", "more/photos", dirs_exist_ok=True)
        shutil.copytree("photos/discs", "more/discs", dirs_exist_ok=True)
        several = ev.open_run(OUT).embed("more", "more.npy")
        with pytest.raises(
            ev.EigenviewError, match=r"07\.jpg could be any of 2 items, such as .*; give more of its path"
        ):
            several.neighbours("07.jpg")
        with pytest.raises(ev.EigenviewError, match=r"no such picture: .*nowhere\.jpg"):
            several.neighbours("nowhere.jpg")
        assert not Path("runs/other").exists()


def test_what_there_is_by_name_can_be_listed():
    assert "simclr" in ev.list_methods()
    assert "resnet18" in ev.list_encoders()
    assert "simclr-cifar" in ev.list_views()
    assert ev.create_encoder("small", width=0.25).feature_width == 64
    with pytest.raises(ev.EigenviewError, match="did you mean resnet18"):
        ev.create_encoder("resnt18")


def test_looking_and_judging_vectors_keep_the_same_in_the_same_place(both: Both):
    options = ["--encoder", "small", "--json"]
    told = json.loads(both.told("look", "photos/", *options))
    with working_in(both.python):
        looked = ev.look("photos/", encoder="small")
        vectors = ev.open_embeddings(looked.folder / "embeddings.parquet")
        vectors.save("own.npy")
        scores = ev.open_embeddings("own.npy").evaluate("photos/?labelled=yes", protocols=["knn"])
        page = ev.open_embeddings("own.npy").report()
    assert looked.folder.relative_to(both.python) == Path(told["run"])
    assert looked.directory.diagnosis().verdict == told["verdict"]
    shutil.copy(both.python / "own.npy", both.command / "own.npy")
    shutil.copy(both.python / "own.npy.json", both.command / "own.npy.json")
    answer = json.loads(both.told("evaluate", "own.npy", "photos/?labelled=yes", "--protocol", "knn", "--json"))
    assert [score.value for score in scores] == [score["value"] for score in answer]
    assert page == Path("runs/own/report.html")
    np.save(both.command / "labels.npy", np.arange(len(vectors)) % 3)
    told = json.loads(both.told("diagnose", "own.npy", "--second", "own.npy", "--labels", "labels.npy", "--json"))
    mine = vectors.diagnose(vectors, np.arange(len(vectors)) % 3)
    assert mine.verdict == told["verdict"]
    assert mine.figures.views.matched.value == 1


def test_choosing_spreading_and_predicting_are_the_same(both: Both):
    both.told("embed", OUT, "photos/?labelled=yes", "-o", "labelled.npy")
    mine = both.run.embed(f"{both.python}/photos/?labelled=yes", both.python / "labelled.npy")
    told = json.loads(both.told("choose", "labelled.npy", "-n", "6", "--json"))
    chosen = mine.choose(6)
    assert list(chosen.rows) == told["rows"]
    said = {name: Path(name).parent.name for name in (*chosen.names, mine.names[0], mine.names[-1])}
    lines = [f"{Path(name).relative_to(both.python)},{label}" for name, label in said.items()]
    (both.command / "answers.csv").write_text("\n".join(["name,label", *lines]))
    answer = json.loads(both.told("spread", "labelled.npy", "--labels", "answers.csv", "-o", "all.csv", "--json"))
    spread = mine.spread(said)
    assert spread.labels == [entry["label"] for entry in answer["labels"]]
    assert np.allclose(spread.probability, [entry["probability"] for entry in answer["labels"]], atol=2e-6)
    later = json.loads(both.told("predict", "all.head.safetensors", "labelled.npy", "--json"))
    assert mine.predict(spread.labeller).labels == [entry["label"] for entry in later["labels"]]
    audit = json.loads(both.told("audit", "labelled.npy", "--against", "labelled.npy", "--json"))
    audited = mine.audit(against=mine)
    assert [(each.row, each.suggested) for each in audited.suspects] == [
        (each["row"], each["suggested"]) for each in audit["suspects"]
    ]
    assert [outlier.row for outlier in audited.outliers] == [each["row"] for each in audit["outliers"]]
    assert audited.leaks is not None
    assert [list(pair.rows) for pair in audited.leaks.pairs] == [pair["rows"] for pair in audit["leaks"]]
    assert len(audited.leaks.pairs) == 40  # a set against itself
    by_file = mine.audit(against=both.python / "labelled.npy", outliers=0)
    assert by_file.leaks is not None
    assert len(by_file.leaks.pairs) == 40
    with pytest.raises(ev.EigenviewError, match=r"embed that one first, .*: against=run\.embed\('test/'\)"):
        mine.audit(against="test/")
    by_number = mine.spread([said.get(name) for name in mine.names])
    assert np.array_equal(by_number.probabilities, spread.probabilities)
