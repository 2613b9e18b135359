"""Batch statistics over processes equal those of one process; over splits, those of several."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from eigenview.errors import SettingError, ShapeError
from eigenview.nn import split_batch_norm, synchronise
from eigenview.nn.batch_norm import SplitBatchNorm, SynchronisedBatchNorm, keep_statistics
from tests.processes import run_processes

ROWS, CHANNELS = 8, 3
SPLITS = {(2, "even"): [4, 4], (2, "uneven"): [7, 1], (3, "uneven"): [5, 0, 3]}


def images(step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    return 3 + 2 * torch.randn(ROWS, CHANNELS, 4, 4, dtype=torch.float64, generator=generator)


def network() -> nn.Sequential:
    """A convolution, batch norm over maps, and over rows: affine, without shift, without both."""
    torch.manual_seed(0)
    no_shift = nn.BatchNorm1d(5)
    no_shift.register_parameter("bias", None)
    layers = [nn.Conv2d(CHANNELS, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)]
    model = nn.Sequential(*layers, no_shift, nn.Linear(5, 6), nn.BatchNorm1d(6, affine=False, momentum=None)).double()
    nn.init.normal_(model[1].weight)
    nn.init.normal_(model[1].bias)
    return model


TARGET = torch.randn(ROWS, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


def train(model: nn.Module, share: slice, processes: int, channels_last: bool = False) -> dict[str, torch.Tensor]:
    """Three steps on these rows of the global batch. The loss is W × this process's share of the global one."""
    measured = {}
    for step in range(3):
        rows = images(step)[share]
        if channels_last:
            rows = rows.contiguous(memory_format=torch.channels_last)
        rows.requires_grad_()
        out = model(rows)
        loss = processes * ((out - TARGET[share]) ** 2 * (1 + out)).sum() / ROWS
        model.zero_grad()
        loss.backward()
        measured[f"output {step}"], measured[f"input gradient {step}"] = out.detach(), rows.grad / processes
    measured |= {f"gradient of {name}": value.grad for name, value in model.named_parameters()}
    measured |= {f"buffer {name}": value for name, value in model.named_buffers()}
    return measured


def on_one_process_of_many(rank, group, counts, channels_last):
    start = sum(counts[:rank])
    model = synchronise(network(), group)
    assert sum(isinstance(module, SynchronisedBatchNorm) for module in model.modules()) == 3
    copied = deepcopy(model)  # a momentum encoder's first step: groups themselves cannot be copied
    return train(copied, slice(start, start + counts[rank]), len(counts), channels_last)


@pytest.mark.parametrize("split", list(SPLITS), ids=str)
def test_processes_equal_one_process(split):
    counts = SPLITS[split]
    alone = train(network(), slice(0, ROWS), 1)
    together = run_processes(len(counts), on_one_process_of_many, counts, split[1] == "even")
    for name, expected in alone.items():
        parts = [np.asarray(answer[name]) for answer in together]
        if name.startswith("gradient"):
            got = sum(parts) / len(parts)  # as DDP averages
        elif name.startswith("buffer"):
            assert all(np.allclose(copy, parts[0], rtol=0, atol=0) for copy in parts)
            got = parts[0]
        else:
            got = np.concatenate(parts)
        np.testing.assert_allclose(got, expected.detach().numpy(), atol=1e-10, err_msg=name)


def gradients_in_half_precision(rank, group):
    torch.manual_seed(rank)
    rows = torch.randn(4, 2, 3, 3)
    answers = []
    for dtype in (torch.bfloat16, torch.float32):
        layer = synchronise(nn.Sequential(nn.BatchNorm2d(2)), group)
        mine = rows.to(dtype).float().to(dtype).requires_grad_()
        out = layer(mine)
        (out.float() ** 3).sum().backward()
        answers += [out.float(), mine.grad.float(), layer[0].weight.grad]
    return answers


def test_half_precision_rows_stay_close_to_single():
    for answer in run_processes(2, gradients_in_half_precision):
        for half, single in zip(answer[:3], answer[3:], strict=True):
            np.testing.assert_allclose(half, single, rtol=0.05, atol=0.2)


def refuse_one_value(rank, group):
    try:
        SynchronisedBatchNorm(2, group=group)(torch.randn(1 - rank, 2))
    except ShapeError as error:
        return str(error)


def test_one_value_per_channel_over_all_processes_is_refused():
    answers = run_processes(2, refuse_one_value)
    assert all("at least 2 values per channel over all processes; got 1" in str(answer) for answer in answers)


class Apart(nn.Sequential):
    """Its norms keep to themselves."""


def kinds_after_synchronising(rank, group, device):
    kept = keep_statistics(nn.Sequential(nn.BatchNorm1d(2)))
    model = nn.Sequential(kept, Apart(nn.BatchNorm1d(2)), nn.Sequential(nn.BatchNorm1d(2)))
    synchronise(model, group, device=torch.device(device), but_not_in=(Apart,))
    return [type(layers[0]).__name__ for layers in model]


@pytest.mark.parametrize(("device", "kind"), [("cpu", "SynchronisedBatchNorm"), ("cuda", "SyncBatchNorm")])
def test_kept_norms_and_those_apart_are_not_synchronised(device, kind):
    for answer in run_processes(2, kinds_after_synchronising, device):
        assert answer == ["KeptBatchNorm", "BatchNorm1d", kind]


def test_one_process_needs_no_synchronising():
    model = network()
    assert synchronise(model, None) is model
    assert isinstance(model[1], nn.BatchNorm2d)


def test_evaluation_uses_running_statistics():
    layer = SynchronisedBatchNorm(3).double().eval()
    rows = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(layer(rows), rows / (1 + layer.eps) ** 0.5)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_split_batch_norm_equals_a_batch_norm_per_part(momentum):
    whole = SplitBatchNorm(3, momentum=momentum, splits=4).double()
    nn.init.normal_(whole.weight)
    parts = [nn.BatchNorm2d(3, momentum=momentum).double() for _ in range(4)]
    for module in parts:
        module.load_state_dict(whole.state_dict())
    for step in range(2):
        rows = images(step)
        torch.testing.assert_close(
            whole(rows), torch.cat([layer(chunk) for layer, chunk in zip(parts, rows.chunk(4), strict=True)])
        )
        mean = torch.stack([module.running_mean for module in parts]).mean(0)
        variance = torch.stack([module.running_var for module in parts]).mean(0)
        torch.testing.assert_close(whole.running_mean, mean)
        torch.testing.assert_close(whole.running_var, variance)
        for module in parts:  # one module has one memory
            module.running_mean.copy_(mean)
            module.running_var.copy_(variance)


def test_conversion_keeps_tensors_and_names():
    model = network()
    before = model.state_dict(keep_vars=True)
    converted = split_batch_norm(model, 2)
    after = converted.state_dict(keep_vars=True)
    assert list(before) == list(after)
    assert all(before[name] is after[name] for name in before)
    assert sum(isinstance(module, SplitBatchNorm) for module in converted.modules()) == 3


def test_a_split_that_does_not_divide_the_batch_is_refused():
    with pytest.raises(ShapeError, match="divisible by 3; got 8 rows"):
        SplitBatchNorm(3, splits=3)(images(0).float())
    with pytest.raises(SettingError, match="splits must be a whole number"):
        SplitBatchNorm(3, splits=0)
    with pytest.raises(ShapeError, match=r"batch norm takes \(n, 3"):
        SplitBatchNorm(3, splits=2)(torch.zeros(4, 2))
