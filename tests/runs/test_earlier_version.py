"""A run that the version before runs/ wrote (commit 2afe5e1: ``optimiser``, no ``method.json``) is of use as before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenview.data import open_source
from eigenview.errors import DataError
from eigenview.evaluation import diagnose_run, evaluate_run, open_task
from eigenview.export import export, load_exported
from eigenview.report import write_report
from eigenview.runs import RunDirectory, open_run, read_config
from eigenview.search import embed, open_embeddings
from tests.training.runs import run_quietly, settings

WRITTEN = Path(__file__).parent / "fixtures" / "earlier"
SOURCE = "shapes?count=40&size=16"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(WRITTEN, tmp_path / "run")


def test_everything_it_says_about_itself_is_read(folder):
    run = RunDirectory.existing(folder)
    assert run.config.optimizer.learning_rate == 0.01
    assert (run.config.method, run.config.device) == ("swav", "auto")
    assert (run.data.source.count, run.data.view.size, run.environment.eigenview) == (40, 16, "0.1.0")
    assert (run.method_parts.head.output, run.method_parts.prototypes) == (8, ("prototypes.heads.0.weight",))
    assert [line["step"] for line in run.metrics.lines] == [2, 2, 4, 4]
    assert run.diagnosis().figures.n == 40
    assert {score.subject: score.value for score in run.scores()} == {"run": 0.125, "raw pixels": 0.125}
    sample = run.sample()
    assert (sample.features.shape, sample.first_view.shape, len(sample.thumbnails.files)) == ((24, 16), (24, 8), 1)
    assert (sample.classes[0], sample.views.rows) == ("disc", 6)
    assert run.checkpoints.names() == ["last"]


def test_its_encoder_gives_the_vectors_it_gave_then(folder, tmp_path):
    then = open_embeddings(folder)
    now = open_embeddings(embed(folder, SOURCE, tmp_path / "now.parquet").path)
    assert (now.index.tolist(), list(now.paths), now.labels.tolist()) == (
        then.index.tolist(),
        list(then.paths),
        then.labels.tolist(),
    )
    torch.testing.assert_close(now.vectors, then.vectors, rtol=1e-4, atol=1e-5)
    assert then.about.run == "run"


def test_its_sample_holds_what_its_head_still_says(folder):
    run, sample = open_run(folder), RunDirectory(folder).sample()
    with torch.no_grad():
        features = run.encoder(run.view(open_source(SOURCE).batch(sample.index)))
    assert np.allclose(features.numpy(), sample.features, atol=1e-5)
    assert run.needed_head().training is False
    assert [table.shape for table in run.prototypes] == [(5, 8)]


def test_it_is_evaluated_diagnosed_reported_and_exported(folder, tmp_path):
    run = open_run(folder)
    scores = list(evaluate_run(run, [open_task(SOURCE)], protocols=["knn"]))
    assert {score.subject for score in scores} >= {"run", "untrained", "raw pixels"}
    assert len(run.directory.scores()) > 2
    diagnosis = diagnose_run(run, open_source(SOURCE), keeps=True)
    assert run.directory.diagnosis() == diagnosis
    assert len(run.directory.sample().index) == 40
    page = write_report([folder], tmp_path / "report.html").read_text()
    assert "swav" in page
    assert diagnosis.verdict in page.lower()
    again = load_exported(export(folder, "safetensors", tmp_path / "out.safetensors").path).encoder
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(again(images), run.encoder(images))


def test_it_goes_on_as_the_version_before_would_have(folder):
    given = {**json.loads((folder / "config.json").read_text()), "steps": 6, "out": str(folder)}
    given["optimizer"] = given.pop("optimiser")
    run = run_quietly(given, resume=True)
    assert [line["step"] for line in run.metrics.lines if "loss" in line] == [2, 4, 6]
    assert json.loads((folder / "config.json").read_text())["format"] == 2
    assert RunDirectory(folder).config == read_config({**given, "out": str(folder)})


FORMATS = {
    **{"config.json": 2, "encoder.json": 1, "data.json": 1, "environment.json": 1, "method.json": 1},
    **{"metrics.jsonl": 1, "diagnosis.json": 1, "sample/sample.json": 1, "evaluation/*.json": 1},
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run of this version, with a score."""
    folder = tmp_path_factory.mktemp("run")
    run_quietly(settings("swav", folder, steps=1), looks_back=True)
    list(evaluate_run(open_run(folder), [open_task(SOURCE)], protocols=["knn"]))
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_every_file_has_its_format_and_a_later_one_is_refused_in_one_line(written, tmp_path, name):
    folder = shutil.copytree(written, tmp_path / "run")
    file = next(folder.glob(name))
    first, *rest = file.read_text().splitlines(keepends=True) if name == "metrics.jsonl" else [file.read_text()]
    content = json.loads(first)
    assert content["format"] == FORMATS[name]
    file.write_text(json.dumps({**content, "format": 3}) + "\n" + "".join(rest))
    run = RunDirectory(folder)
    with pytest.raises(DataError, match=f"has format 3; this version reads up to {FORMATS[name]}: update") as caught:
        _ = (
            run.config,
            run.encoder,
            run.data,
            run.environment,
            run.method_parts,
            run.metrics,
            run.diagnosis(),
            run.scores(),
            run.sample(),
        )
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
