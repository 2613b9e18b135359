import gc
import mmap

import pytest
import torch

from eigenview.views import augment
from eigenview.views.augment import empty_floats

CPU = torch.device("cpu")
LARGE = (12, 3, 512, 512)  # 38 MB


def test_large_and_small_tensors_are_ordinary_float_tensors():
    for shape in (LARGE, (2, 3, 8, 8)):
        values = empty_floats(shape, CPU)
        assert (values.shape, values.dtype, values.is_contiguous()) == (torch.Size(shape), torch.float32, True)
        values.fill_(2.0)
        weights = torch.ones(shape[1:], requires_grad=True)
        (values * weights).sum().backward()
        assert weights.grad.unique().tolist() == [2.0 * shape[0]]
        assert torch.equal(values.clone().share_memory_(), values)


def test_a_part_keeps_the_memory_alive_and_batches_do_not_share_it():
    row = empty_floats(LARGE, CPU).fill_(1.0)[2]
    gc.collect()
    others = [empty_floats(LARGE, CPU).fill_(number) for number in range(3)]
    assert row.unique().tolist() == [1.0]
    assert [other.unique().tolist() for other in others] == [[0.0], [1.0], [2.0]]


def test_memory_is_given_back():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE

    try:
        before = resident()
    except FileNotFoundError:
        pytest.skip("no /proc on this system")
    for _ in range(20):
        empty_floats(LARGE, CPU).fill_(1.0)
    assert resident() - before < 100e6


def test_a_system_without_huge_pages_gives_the_same(monkeypatch):
    monkeypatch.delattr(augment.mmap, "MADV_HUGEPAGE", raising=False)
    assert empty_floats(LARGE, CPU).fill_(3.0).sum() == 3.0 * 12 * 3 * 512 * 512
