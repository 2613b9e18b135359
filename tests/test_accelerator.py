"""A smoke suite for machines with CUDA: `pytest -m accelerator`. Skipped where there is none; never run so far."""

from __future__ import annotations

import pytest
import torch

from eigenview import GaussianKernel, LaplacianKernel, info_nce, kernel_info_nce_loss, sinkhorn
from eigenview.runs import read_config
from eigenview.training import train
from tests.training.runs import settings

pytestmark = [
    pytest.mark.accelerator,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


@pytest.mark.parametrize(
    "loss", [info_nce, lambda a, b: kernel_info_nce_loss(a, b, kernel=GaussianKernel(0.2) + LaplacianKernel(0.5))]
)
def test_a_loss_on_the_device_equals_the_one_on_the_cpu(loss):
    torch.manual_seed(0)
    rows = torch.randn(2, 3000, 64, dtype=torch.float64)
    measured = []
    for device in ("cpu", "cuda"):
        a, b = (view.to(device).requires_grad_() for view in rows)
        value = loss(a, b)
        value.backward()
        measured.append((value.detach().cpu(), a.grad.cpu()))
    torch.testing.assert_close(measured[0], measured[1], rtol=1e-9, atol=1e-12)


def test_sinkhorn_on_the_device_equals_the_one_on_the_cpu():
    scores = torch.randn(256, 30, dtype=torch.float64)
    torch.testing.assert_close(sinkhorn(scores.cuda()).cpu(), sinkhorn(scores))


@pytest.mark.parametrize("precision", ["32", "bf16", "16"])
@pytest.mark.parametrize("method", ["simclr", "moco", "swav", "deepcluster-v2"])
def test_a_run_trains_and_resumes_on_the_device(method, precision, tmp_path):
    given = settings(method, tmp_path, precision=precision, compile=False)
    train(read_config(given), looks_back=False)
    run = train(read_config({**given, "steps": 5}), resume=True)
    losses = [line["loss"] for line in run.metrics.lines if "loss" in line]
    assert len(losses) == 5
    assert all(torch.tensor(losses).isfinite())
    assert run.diagnosis() is not None
