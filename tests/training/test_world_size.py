"""A whole training step on two processes with half the batch each equals one process, for every method."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from eigenview.methods import METHODS
from tests.processes import run_processes
from tests.training.runs import as_one_of, run_quietly, settings

SPECIAL = {
    "simclr with drawn negatives": {"method_settings": {"negatives": 5}},
    "clip, locked, in micro-batches": {"encoder": {"locked": True}, "micro_batch": 8},
    "clip with soft targets": {"method_settings": {"soft_targets": True}},
    "clip, repeats left out": {"method_settings": {"repeats": "left-out"}},
}
CASES = [*METHODS, *SPECIAL]


def train_all(rank: int, group, folder: str, normalization: str) -> None:
    as_one_of(rank, 2)
    for case in CASES:
        run_quietly(changed(case, f"{folder}/two/{case}", normalization))


def changed(case, out, normalization):
    given = settings(case.partition(" ")[0].rstrip(","), out)
    more = SPECIAL.get(case, {})
    for name in ("method_settings", "encoder"):
        given[name] = {**given[name], **more.get(name, {})}
    given["encoder"]["normalization"] = normalization
    return {**more, **given}


@pytest.fixture(scope="module", params=["batch", "group"])
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    run_processes(2, train_all, str(folder), request.param, timeout=400)
    for case in CASES:
        run_quietly(changed(case, folder / "one" / case, request.param))
    return folder


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one_after_three_steps(case, trained):
    alone, two = (
        load_file(trained / world / case / "checkpoints" / "last" / "weights.safetensors") for world in ("one", "two")
    )
    assert alone.keys() == two.keys()
    for name in alone:
        torch.testing.assert_close(
            two[name], alone[name], rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
