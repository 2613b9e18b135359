"""Shuffle-BN: rows move between processes and come back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenview.errors import ShapeError
from eigenview.nn import shuffle_rows
from tests.processes import run_processes

COUNTS = [3, 1, 4]


def there_and_back(rank, group):
    start = sum(COUNTS[:rank])
    rows = torch.arange(sum(COUNTS) * 2.0).view(-1, 2)[start : start + COUNTS[rank]]
    generator = torch.Generator().manual_seed(rank)  # only rank 0's may count
    mixed, back = shuffle_rows(rows, group, generator=generator)
    return mixed, back(mixed * 10), rows


def test_rows_come_back_to_their_process():
    answers = run_processes(len(COUNTS), there_and_back)
    permutation = torch.randperm(sum(COUNTS), generator=torch.Generator().manual_seed(0)).numpy()
    everything = np.concatenate([answer[2] for answer in answers])
    for mixed, back, rows in answers:
        np.testing.assert_array_equal(back, 10 * rows)
        assert len(mixed) == len(rows)
    np.testing.assert_array_equal(np.concatenate([answer[0] for answer in answers]), everything[permutation])


def test_one_process_shuffles_its_own_rows():
    rows = torch.randn(5, 2, requires_grad=True)
    mixed, back = shuffle_rows(rows, generator=torch.Generator().manual_seed(1))
    assert not mixed.requires_grad
    torch.testing.assert_close(mixed, rows.detach()[torch.randperm(5, generator=torch.Generator().manual_seed(1))])
    torch.testing.assert_close(back(mixed), rows.detach())


def test_other_rows_than_were_shuffled_are_refused():
    _, back = shuffle_rows(torch.randn(5, 2))
    with pytest.raises(ShapeError, match="the 5 rows that were shuffled; got 4"):
        back(torch.randn(4, 2))
