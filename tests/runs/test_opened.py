"""A run opened for use: only with the weights that training sealed, and without any way out of its folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from eigenview.data.failures import Failure, FailureLog
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import diagnose_run, evaluate_run, open_task
from eigenview.export import export
from eigenview.faces import Run
from eigenview.runs import RunDirectory, Score, open_run
from eigenview.search import embed, neighbours
from tests.training.runs import run_quietly, settings

OPENING: dict[str, Callable[[Path], object]] = {
    "open_run": open_run,
    "embed": lambda run: embed(run, "digits", run.parent / "out.npy"),
    "neighbours": lambda run: neighbours(embedded(run), str(picture(run)), k=1, run=run),
    "export": lambda run: export(run, "safetensors", run.parent / "out.safetensors"),
    "evaluate": lambda run: Run(run).evaluate("digits", protocols=["knn"]),
    "diagnose": lambda run: Run(run).diagnose(),
    "train from its weights": lambda run: run_quietly(
        settings(
            "simclr",
            run.parent / "next",
            source="digits",
            encoder={"name": "small", "width": 0.25, "weights": str(run)},
        )
    ),
}


def embedded(run: Path) -> Path:
    """Embeddings that were made before anything was damaged."""
    return run.parent / "before.npy"


def picture(run: Path) -> Path:
    from PIL import Image

    Image.new("L", (8, 8), 100).save(run.parent / "picture.png")
    return run.parent / "picture.png"


@pytest.fixture
def run(made_runs, tmp_path: Path) -> Path:
    folder: Path = made_runs.copy(tmp_path / "run")
    return folder


@pytest.mark.parametrize("verb", OPENING)
def test_weights_with_one_flipped_bit_are_refused_by_everything_that_reads_them(run, verb):
    embed(run, "digits", embedded(run))
    OPENING[verb](run)
    shutil.rmtree(run.parent / "next", ignore_errors=True)
    (run.parent / "out.npy").unlink(missing_ok=True)
    weights = run / "checkpoints" / "last" / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1000] ^= 0b100  # in the middle of a tensor: it still loads
    weights.write_bytes(bytes(content))
    with pytest.raises(
        DataError, match=r"the checkpoint last .* cannot be used: weights\.safetensors changed after it"
    ):
        OPENING[verb](run)
    assert not (run.parent / "out.npy").exists()


@pytest.mark.parametrize(
    "name", ["checkpoints", "checkpoints/last", "checkpoints/last/weights.safetensors", "data.json"]
)
def test_a_link_out_of_the_run_is_not_followed(run, name, tmp_path):
    outside = tmp_path / "outside"
    (run / name).rename(outside)
    (run / name).symlink_to(outside)
    with pytest.raises(DataError, match=r"is a link that leads out of .*; it is not followed"):
        open_run(run)


PLANTED = ["evaluation", "sample", "diagnosis.json", "export", "checkpoints", "metrics.jsonl", "unreadable.jsonl"]


@pytest.mark.parametrize("name", [*PLANTED, "embeddings.parquet", "embeddings.parquet.parts"])
def test_nothing_is_written_through_a_link_out_of_the_run(run, name, tmp_path):
    outside = tmp_path / "outside"
    if "." in name and not name.endswith("parts"):
        outside.write_text("mine")
    else:
        outside.mkdir()
        (outside / "kept").write_text("mine")
    if (run / name).is_dir():
        shutil.copytree(run / name, outside, dirs_exist_ok=True)
        shutil.rmtree(run / name)
    (run / name).unlink(missing_ok=True)
    before = written(outside)
    (run / name).symlink_to(outside)
    refused = []
    for write in (write_a_score, diagnosed, embedded_in_place, exported, gone_on):
        try:
            write(run)
        except (DataError, SettingError) as error:
            refused.append(str(error))
    assert written(outside) == before
    assert not any("\n" in message for message in refused)


def written(outside: Path) -> dict[Path, bytes]:
    files = outside.rglob("*") if outside.is_dir() else [outside]
    return {path: path.read_bytes() for path in files if path.is_file()}


def write_a_score(run: Path) -> None:
    RunDirectory(run).save_score(Score("a", "b", 1.0, (1.0, 1.0), {}, {}, "s"))


def diagnosed(run: Path) -> None:
    diagnose_run(open_run(run), open_task("digits").test, keeps=True)


def embedded_in_place(run: Path) -> None:
    embed(run, "digits")


def exported(run: Path) -> None:
    export(run, "safetensors")


def gone_on(run: Path) -> None:
    FailureLog(run / "unreadable.jsonl").note([Failure("a.jpg", "it is broken")])
    stored = {name: value for name, value in json.loads((run / "config.json").read_text()).items() if name != "format"}
    run_quietly({**stored, "out": str(run), "steps": 6}, resume=True)


def test_a_run_that_a_kill_left_between_two_renames_opens(run):
    expected = open_run(run).tensors
    (run / "checkpoints" / "last").rename(run / "checkpoints" / ".last.old")
    again = open_run(run)
    assert all(torch.equal(expected[name], tensor) for name, tensor in again.tensors.items())
    scores = evaluate_run(again, [open_task("digits")], protocols=["knn"], baselines=[])
    assert next(scores).subject == "run"


def test_another_checkpoint_is_named_or_refused(run):
    assert open_run(run, checkpoint="best").checkpoint == "best"
    with pytest.raises(DataError, match=r"no checkpoint bset in .*; there are: last, prev.*; did you mean best\?"):
        open_run(run, checkpoint="bset")
    with pytest.raises(DataError, match=r"no checkpoint \.\./\.\./secret in"):
        open_run(run, checkpoint="../../secret")


class Averaging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 6)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.linear(images.mean(dim=(2, 3)))


def test_a_module_of_the_users_own_must_be_given_again(tmp_path):
    import warnings

    from eigenview.runs import read_config
    from eigenview.training import train

    given = settings("simclr", tmp_path / "run", source="digits", steps=1)
    del given["encoder"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(read_config(given), encoder=Averaging(), looks_back=False)
    with pytest.raises(DataError, match="trained a module of its user's: give encoder=, one like it"):
        open_run(tmp_path / "run")
    run = open_run(tmp_path / "run", encoder=Averaging())
    assert run.encoder.feature_width == 6
    fresh = run.untrained(seed=1)
    assert [tensor.shape for tensor in fresh.parameters()] == [tensor.shape for tensor in run.encoder.parameters()]
    assert not any(torch.equal(a, b) for a, b in zip(fresh.parameters(), run.encoder.parameters(), strict=True))
