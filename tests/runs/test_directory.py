"""A run directory: what a real run left is read, what is no run or was damaged is refused in one line."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from eigenview.data import open_source
from eigenview.errors import DataError, EigenviewError, SettingError
from eigenview.runs import RunDirectory, encoder_named, is_run, open_encoder, open_run
from eigenview.runs.contents import RunContents
from eigenview.search import embed
from tests.training.runs import run_quietly, settings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return run_quietly(settings("swav", tmp_path_factory.mktemp("run"), steps=2), looks_back=True)


@pytest.fixture
def run(trained, tmp_path):
    return RunDirectory(shutil.copytree(trained.folder, tmp_path / "run"))


def test_a_run_says_everything_about_itself(trained):
    run = RunDirectory.existing(trained.folder)
    assert is_run(run.folder)
    assert run.config.method_settings.prototypes == 12
    assert (run.data.image.height, run.data.source.count) == (24, 96)
    assert run.environment.processes == 1
    assert run.method_parts.prototypes == ("prototypes.heads.0.weight",)
    assert run.metrics.last["step"] == 2
    assert run.diagnosis().verdict
    assert len(run.sample().names) == 96
    assert run.scores() == []
    opened = open_run(run)
    assert torch.equal(opened.prototypes[0], run.checkpoints.weights("last")["prototypes.heads.0.weight"])


@pytest.mark.parametrize("name", ["config.json", "data.json", "environment.json", "method.json"])
@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b"3"])
def test_a_damaged_file_is_refused_in_one_line(run, name, damage):
    (run.folder / name).write_bytes(damage)
    with pytest.raises(EigenviewError) as caught:
        _ = (run.environment, open_run(run).head)
    assert "\n" not in str(caught.value)
    assert str(run.folder / name) in str(caught.value)


@pytest.mark.parametrize("further", ["method.json", "checkpoints"])
def test_a_trained_run_without_its_settings_is_no_encoder_by_name(run, tmp_path, further):
    (run.folder / "config.json").unlink()
    (run.folder / further).rename(tmp_path / further)
    gone = r"run was trained, but its config\.json is gone: bring it back"
    for opening in (open_run, encoder_named, lambda folder: embed(folder, "digits", tmp_path / "out.npy")):
        with pytest.raises(DataError, match=gone):
            opening(str(run.folder))
    contents = RunContents.of(run.folder)
    assert contents.is_trained
    assert any("its config.json is gone" in problem for problem in contents.problems)
    with pytest.raises(SettingError, match="holds another run or encoder"):
        open_encoder(run.encoder.settings, open_source("digits"), run.folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", {"method": []}),
        ("config.json", {"method_settings": 3}),
        ("config.json", {"encoder": []}),
        ("data.json", {"image": 3}),
        ("data.json", {"recipe": {"crops": 3}}),
        ("environment.json", {"processes": []}),
        ("method.json", {"head": 3}),
        ("method.json", {"prototypes": 3}),
    ],
)
def test_a_wrong_type_is_refused_in_one_line(run, name, content):
    file = run.folder / name
    file.write_text(json.dumps({**json.loads(file.read_text()), **content}))
    with pytest.raises(EigenviewError) as caught:
        _ = (run.environment, open_run(run).head)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "diagnosis.json", "evaluation", "sample"])
def test_a_link_out_of_a_run_is_not_followed(run, name, tmp_path):
    outside = tmp_path / "outside"
    place = run.folder / name
    if place.exists():
        place.rename(outside)
    else:
        outside.mkdir()
    place.symlink_to(outside)
    with pytest.raises(DataError, match="a link that leads out of"):
        _ = (run.config, run.metrics, run.diagnosis(), run.sample(), run.scores())


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"is no run directory \(it has no config.json\)"):
        RunDirectory.existing(tmp_path)
    with pytest.raises(DataError, match=r"is no run directory \(there is no such folder\)"):
        RunDirectory.existing(tmp_path / "none")
    with pytest.raises(SettingError, match="no run to go on with in"):
        RunDirectory(tmp_path).check_free(resume=True)


@pytest.mark.parametrize("resume", [True, False])
def test_deleted_checkpoints_are_no_reason_to_begin_at_zero(run, resume):
    shutil.rmtree(run.folder / "checkpoints")
    before = (run.folder / "metrics.jsonl").read_bytes()
    with pytest.raises(SettingError, match=r"has metrics but no checkpoint to go on from: were they deleted\?"):
        run_quietly(settings("swav", run.folder, steps=4), resume=resume)
    assert (run.folder / "metrics.jsonl").read_bytes() == before
