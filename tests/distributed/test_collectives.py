"""The collectives themselves, on one process (the identity) and on three."""

from __future__ import annotations

import numpy as np
import torch

from eigenview.distributed import (
    any_process,
    from_first_process,
    gather_rows,
    max_over_processes,
    row_counts,
    row_offset,
    sum_over_processes,
    world_size,
)
from tests.processes import run_processes


def exercise(rank: int, group) -> dict:
    rows = (torch.arange(2.0 * (rank + 1)).view(-1, 2) + 10 * rank).requires_grad_()
    counts = row_counts(rows, group)
    gathered = gather_rows(rows, group)
    weight = torch.arange(float(len(gathered)))[:, None] + rank
    (of_rows,) = torch.autograd.grad((weight * gathered).sum(), rows)
    value = torch.tensor(float(rank + 1), requires_grad=True)
    (of_value,) = torch.autograd.grad(sum_over_processes(value, group) * 2, value)
    return {
        "world": world_size(group),
        "counts": counts,
        "offset": row_offset(counts, group),
        "gathered": gathered,
        "of_rows": of_rows,
        "sum": sum_over_processes(value, group),
        "of_value": of_value,
        "max": max_over_processes(value, group),
        "first": from_first_process(rows.detach().sum(), group),
        "any": any_process(rank == 2, group, rows.device),
        "none": any_process(False, group, rows.device),
    }


def test_three_processes():
    answers = run_processes(3, exercise)
    everything = np.concatenate([np.arange(2.0 * (r + 1)).reshape(-1, 2) + 10 * r for r in range(3)])
    for rank, answer in enumerate(answers):
        assert answer["world"] == 3
        assert answer["counts"] == [1, 2, 3]
        assert answer["offset"] == [0, 1, 3][rank]
        np.testing.assert_array_equal(answer["gathered"], everything)
        rows = np.arange(6.0)[answer["offset"] : answer["offset"] + rank + 1]
        np.testing.assert_array_equal(answer["of_rows"], np.repeat((3 * rows + 3)[:, None], 2, axis=1))
        assert answer["sum"] == 6
        assert answer["of_value"] == 2 * 3
        assert answer["max"] == 3
        assert answer["first"] == 1
        assert answer["any"]
        assert not answer["none"]


def test_one_process_is_the_identity():
    answer = exercise(0, None)
    assert answer["world"] == 1
    assert answer["counts"] == [1]
    assert answer["gathered"].tolist() == [[0, 1]]
    assert answer["of_rows"].tolist() == [[0, 0]]
    assert (answer["sum"], answer["of_value"], answer["max"]) == (1, 2, 1)
