"""Momentum encoder, queues, prototypes, memory bank: modules with state that a checkpoint holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.losses import momentum_contrast
from eigenview.nn import CropQueue, MemoryBank, MomentumEncoder, Prototypes, Queue
from tests.processes import run_processes


def online() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


def test_the_momentum_encoder_follows_parameters_and_not_buffers():
    fast = online()
    slow = MomentumEncoder(fast)
    expected = [value.clone() for value in fast.parameters()]
    for step in range(3):
        with torch.no_grad():
            for value in fast.parameters():
                value.add_(torch.randn_like(value))
        fast(torch.randn(6, 3, dtype=torch.float64) + 5)
        slow.update(0.9)
        expected = [0.9 * old + 0.1 * new for old, new in zip(expected, fast.parameters(), strict=True)]
        for got, want in zip(slow.copy.parameters(), expected, strict=True):
            torch.testing.assert_close(got.data, want.data)
        assert step or torch.equal(slow.copy[1].running_mean, torch.zeros(4, dtype=torch.float64))
    rows = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    assert not slow(rows).requires_grad
    assert not torch.equal(slow.copy[1].running_mean, torch.zeros(4))  # it has statistics of its own
    assert not torch.equal(slow.copy[1].running_mean, fast[1].running_mean)


def test_the_momentum_encoder_holds_only_itself():
    fast = online()
    slow = MomentumEncoder(fast)
    assert list(slow.state_dict()) == [f"copy.{name}" for name in fast.state_dict()]
    assert not any(value.requires_grad for value in slow.parameters())
    slow.update(1.0)
    assert all(torch.equal(a, b) for a, b in zip(slow.copy.parameters(), fast.parameters(), strict=True))
    with pytest.raises(SettingError, match=r"momentum must lie in \[0, 1\]; got 1.5"):
        slow.update(1.5)


def test_a_queue_replaces_the_oldest_rows_and_wraps_around():
    queue, batches = Queue(7, 2), list(torch.randn(9, 3, 2))
    start = queue.rows.clone()
    torch.testing.assert_close(start.norm(dim=1), torch.ones(7))
    history = list(start)
    for batch in batches:
        queue.enqueue(batch)
        history += list(batch)
        kept = torch.cat([queue.rows[int(queue.pointer) :], queue.rows[: int(queue.pointer)]])  # oldest first
        torch.testing.assert_close(kept, torch.stack(history[-7:]))


def test_a_batch_larger_than_the_queue_leaves_its_end():
    queue, rows = Queue(4, 2), torch.randn(11, 2)
    queue.enqueue(torch.randn(3, 2))
    queue.enqueue(rows)
    order = [(int(queue.pointer) + place) % 4 for place in range(4)]
    torch.testing.assert_close(queue.rows[order], rows[-4:])


def test_a_queue_starts_alike_and_resumes_exactly():
    first, second = Queue(5, 3, seed=4), Queue(5, 3, seed=4)
    assert torch.equal(first.rows, second.rows)
    assert not torch.equal(first.rows, Queue(5, 3, seed=5).rows)
    first.enqueue(torch.randn(3, 3))
    second.load_state_dict(first.state_dict())
    batch = torch.randn(4, 3)
    first.enqueue(batch)
    second.enqueue(batch)
    assert torch.equal(first.rows, second.rows)


def test_a_snapshot_survives_the_next_enqueue():
    queue = Queue(6, 3)
    query = torch.randn(2, 3, requires_grad=True)
    key = torch.randn(2, 3)
    (expected,) = torch.autograd.grad(momentum_contrast(query, key, queue.rows.clone()), query)
    loss = momentum_contrast(query, key, queue.snapshot())
    queue.enqueue(normalize(key, dim=1))
    loss.backward()
    torch.testing.assert_close(query.grad, expected)


COUNTS = [2, 1, 3]


def fill_state(rank, group, counts):
    start = sum(counts[:rank])
    queue, crop_queue, bank = Queue(7, 2), CropQueue(2, 8, 2), MemoryBank(2, 10, 2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        rows = torch.randn(2, sum(counts), 2, generator=generator)[:, start : start + counts[rank]]
        index = torch.randperm(10, generator=generator)[: sum(counts)][start : start + counts[rank]]
        queue.enqueue(rows[0], group)
        crop_queue.enqueue(list(rows), group)
        bank.update(index, list(rows), group)
    states = {
        f"{owner} {name}": value
        for owner, module in {"queue": queue, "crops": crop_queue, "bank": bank}.items()
        for name, value in module.state_dict().items()
    }
    return states, crop_queue.share(1, group), bank.share(0, group)


def test_every_process_holds_what_one_process_would():
    answers = run_processes(len(COUNTS), fill_state, COUNTS)
    alone, all_rows, (all_indices, all_banked) = fill_state(0, None, [sum(COUNTS)])
    for states, _, _ in answers:
        for name, value in alone.items():
            np.testing.assert_array_equal(states[name], value.numpy(), err_msg=name)
    np.testing.assert_array_equal(np.concatenate([share for _, share, _ in answers]), all_rows.numpy())
    np.testing.assert_array_equal(np.concatenate([bank[0] for *_, bank in answers]), all_indices.numpy())
    np.testing.assert_array_equal(np.concatenate([bank[1] for *_, bank in answers]), all_banked.numpy())


def test_the_crop_queue_is_newest_first_and_knows_when_it_is_full():
    queue, history = CropQueue(2, 5, 3), [[], []]
    for step in range(4):
        crops = torch.randn(2, 2, 3)
        assert queue.is_full == (step >= 3)
        queue.enqueue(list(crops))
        for crop in range(2):
            history[crop] = list(crops[crop]) + history[crop]
            kept = torch.stack(history[crop])[:5]
            torch.testing.assert_close(queue.share(crop)[: len(kept)], kept)
    copy = CropQueue(2, 5, 3)
    copy.load_state_dict(queue.state_dict())
    assert copy.is_full


def test_the_memory_bank_keeps_the_latest_row_of_each_item():
    bank = MemoryBank(2, 6, 3)
    crops = torch.randn(2, 4, 3)
    bank.update(torch.tensor([4, 1, 4, 0]), list(crops))
    assert bank.seen.tolist() == [True, True, False, False, True, False]
    torch.testing.assert_close(bank.rows[:, 4], crops[:, 2])
    torch.testing.assert_close(bank.rows[:, 1], crops[:, 1])
    indices, rows = bank.share(1)
    assert indices.tolist() == [0, 1, 4]
    torch.testing.assert_close(rows, crops[1, [3, 1, 2]])


def test_prototypes_score_by_cosine_after_normalising():
    torch.manual_seed(0)
    prototypes = Prototypes(4, [3, 5])
    torch.testing.assert_close(prototypes.weight(1).norm(dim=1), torch.ones(5))
    with torch.no_grad():
        prototypes.weight(0).mul_(7)
    prototypes.normalize_()
    rows = normalize(torch.randn(6, 4), dim=1)
    scores = prototypes(rows)
    assert [scored.shape for scored in scores] == [(6, 3), (6, 5)]
    for head, measured in enumerate(scores):
        for i in range(6):
            for k in range(measured.shape[1]):
                cosine = torch.cosine_similarity(rows[i], prototypes.weight(head)[k], dim=0)
                torch.testing.assert_close(measured[i, k], cosine)
    centroids = normalize(torch.randn(5, 4), dim=1)
    prototypes.set_(1, centroids)
    torch.testing.assert_close(prototypes.weight(1).data, centroids)
    assert not any(name.endswith("bias") for name in prototypes.state_dict())


def test_frozen_prototypes_have_no_gradient():
    prototypes = Prototypes(4, 3)
    prototypes(torch.randn(2, 4))[0].sum().backward()
    prototypes.freeze_gradients()
    assert all(value.grad is None for value in prototypes.parameters())


def test_wrong_rows_are_refused():
    with pytest.raises(ShapeError, match=r"takes rows \(n, 3\); got \(2, 4\)"):
        Queue(5, 3).enqueue(torch.zeros(2, 4))
    with pytest.raises(ShapeError, match="holds 2 crops; got embeddings of 1"):
        CropQueue(2, 5, 3).enqueue([torch.zeros(2, 3)])
    with pytest.raises(SettingError, match="a queue's length must be a whole number"):
        Queue(0, 3)
    with pytest.raises(SettingError, match="a memory bank's items must be"):
        MemoryBank(2, 0, 3)
    bank = MemoryBank(2, 5, 3)
    with pytest.raises(DataError, match="holds items 0 to 4; got indices 1 to 5"):
        bank.update(torch.tensor([1, 5]), [torch.zeros(2, 3)] * 2)
    with pytest.raises(ShapeError, match="takes 2 crops of"):
        bank.update(torch.tensor([1]), [torch.zeros(1, 3)])
    with pytest.raises(ShapeError, match="an index must be int64"):
        bank.update(torch.zeros(2), [torch.zeros(2, 3)] * 2)
    with pytest.raises(ShapeError, match="head 0 has prototypes"):
        Prototypes(4, 3).set_(0, torch.zeros(2, 4))
    with pytest.raises(SettingError, match="prototypes need a width"):
        Prototypes(4, [])
