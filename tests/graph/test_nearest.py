"""The one exact search of nearest neighbours, against loops over all pairs in float64."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenview.diagnostics.rows import JoinedRows, open_rows
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.largest import largest
from eigenview.graph.nearest import nearest, similarities
from tests.processes import run_processes

MODULE = sys.modules["eigenview.graph.nearest"]


def rows(count: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def small_blocks(monkeypatch, *, bank: int = 7, elements: int = 30) -> None:
    monkeypatch.setattr(MODULE, "BANK_ROWS", bank)
    monkeypatch.setattr(MODULE, "BLOCK_ELEMENTS", elements)


def by_loops(bank: Tensor, queries: Tensor, k: int, metric: str = "cosine", own=None) -> list[list[tuple[float, int]]]:
    """(similarity, row) of each query's nearest, one pair at a time; the lower row first among equals."""
    answers = []
    for place, query in enumerate(queries.tolist()):
        line = []
        for number, row in enumerate(bank.tolist()):
            if own is not None and own[place] == number:
                continue
            if metric == "cosine":
                product = math.fsum(a * b for a, b in zip(query, row, strict=True))
                score = product / (math.hypot(*query) * math.hypot(*row))
            else:
                score = -math.fsum((a - b) ** 2 for a, b in zip(query, row, strict=True)) / 2
            line.append((score, number))
        answers.append(sorted(line, key=lambda pair: (-pair[0], pair[1]))[:k])
    return answers


def assert_answers(neighbours, expected) -> None:
    assert neighbours.index.tolist() == [[number for _, number in line] for line in expected]
    wanted = torch.tensor([[score for score, _ in line] for line in expected], dtype=torch.float64)
    torch.testing.assert_close(neighbours.similarity, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("queries", [3, 19])  # fewer than the width, and more: similarities or rows are scaled
def test_the_nearest_are_those_that_loops_find(metric, queries, monkeypatch):
    small_blocks(monkeypatch)
    bank, asked = rows(40, 6) + 0.5, rows(queries, 6, 1)
    for k in (1, 4, 11, 40):  # also more than a block of the bank has rows
        assert_answers(nearest(bank, asked, k=k, metric=metric), by_loops(bank, asked, k, metric))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_query_leaves_out_the_row_it_is_told_to(metric, monkeypatch):
    small_blocks(monkeypatch)
    bank = rows(30, 4)
    own = torch.tensor([29, -1, 0, 13, 13])
    near = nearest(bank, bank[[29, 2, 0, 13, 14]], k=5, metric=metric, own=own)
    assert_answers(near, by_loops(bank, bank[[29, 2, 0, 13, 14]], 5, metric, own.tolist()))
    everyone = nearest(bank, bank, k=29, metric=metric, excludes_self=True)
    assert_answers(everyone, by_loops(bank, bank, 29, metric, list(range(30))))


def test_a_bank_may_be_a_file_a_mapped_array_or_several(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    bank, asked = rows(33, 5), rows(9, 5, 1)
    np.save(tmp_path / "bank.npy", bank.numpy())
    mapped = torch.from_numpy(np.load(tmp_path / "bank.npy", mmap_mode="c"))
    expected = by_loops(bank, asked, 6)
    joined = JoinedRows([open_rows(bank[:13]), open_rows(bank[13:])])
    for given in (open_rows(tmp_path / "bank.npy"), mapped, joined):
        assert_answers(nearest(given, asked, k=6), expected)
        assert_answers(nearest(given, asked, k=6, metric="euclidean"), by_loops(bank, asked, 6, "euclidean"))


@pytest.mark.parametrize("columns", [1, 3, 40, 41, 97, 1000])
def test_grouped_selection_is_a_plain_selection(columns):
    scores = rows(6, columns, 3)
    for k in {1, min(3, columns), columns}:
        which, values, index = largest(scores, k)
        assert which.tolist() == list(range(6))
        assert torch.equal(values, scores.topk(k, dim=1).values)
        assert torch.equal(scores.gather(1, index), values)
        above = scores.max(dim=1).values - torch.tensor([0.0, 1, 0, 1, 1, 0]).double()
        which, some_values, _ = largest(scores, k, above)
        assert which.tolist() == [1, 3, 4]
        assert torch.equal(some_values, values[[1, 3, 4]])


def test_equals_are_all_found_whatever_their_order(monkeypatch):
    small_blocks(monkeypatch)
    bank = rows(4, 3).repeat(5, 1)  # every row five times
    near = nearest(bank, bank[:4], k=5)
    assert [sorted(line) for line in near.index.tolist()] == [[row + 4 * copy for copy in range(5)] for row in range(4)]
    torch.testing.assert_close(near.similarity, torch.ones(4, 5, dtype=torch.float64))
    flat = nearest(torch.ones(20, 3), torch.ones(2, 3), k=20)
    assert [sorted(line) for line in flat.index.tolist()] == [list(range(20))] * 2


def test_a_duplicate_is_a_neighbour_though_oneself_is_none():
    bank = rows(30, 4, 8)
    assert torch.equal(nearest(bank, bank, k=1).index[:, 0], torch.arange(30))
    doubled = torch.cat([bank, bank])
    assert torch.equal(nearest(doubled, doubled, k=1, excludes_self=True).index[:, 0], torch.arange(60).roll(30))


def test_two_rows_are_each_others_neighbours():
    pair = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    near = nearest(pair, pair, k=1, excludes_self=True)
    assert near.index.tolist() == [[1], [0]]
    assert near.similarity.flatten().tolist() == pytest.approx([math.sqrt(0.5)] * 2)
    assert nearest(pair, pair, k=1, excludes_self=True, metric="euclidean").similarity.flatten().tolist() == [
        -0.5,
        -0.5,
    ]


def test_sizes_at_the_ends_of_float32_keep_their_directions():
    bank, asked = rows(20, 4).float(), rows(6, 4, 1).float()
    usual = nearest(bank, asked, k=3)
    for size in (1e-30, 1e30):
        near = nearest(bank * size, asked * size, k=3)
        assert torch.equal(near.index, usual.index)
        torch.testing.assert_close(near.similarity, usual.similarity)
    with pytest.raises(DataError, match=r"squared distances leave the range of torch.float32; scale the rows"):
        nearest(bank * 1e30, asked, k=3, metric="euclidean")


def test_a_row_of_zeros_is_at_right_angles_to_all():
    bank = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    near = nearest(bank, torch.tensor([[2.0, 0.0]]), k=3)
    assert (near.index.tolist(), near.similarity.tolist()) == ([[1, 0, 2]], [[1.0, 0.0, -1.0]])


def test_half_precision_is_computed_in_single():
    bank, asked = rows(50, 8, 11).half(), rows(9, 8, 12).half()
    for metric in ("cosine", "euclidean"):
        near = nearest(bank, asked, k=5, metric=metric)
        assert near.similarity.dtype == torch.float32
        assert torch.equal(near.index, nearest(bank.float(), asked.float(), k=5, metric=metric).index)


def test_distances_far_from_the_origin_keep_their_digits():
    bank, asked = rows(40, 6, 6).float() + 1000, rows(10, 6, 7).float() + 1000
    near = nearest(bank, asked, k=40, metric="euclidean")
    distances = torch.cdist(asked.double(), bank.double(), compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(
        near.similarity.double(), -distances.square().gather(1, near.index) / 2, rtol=1e-5, atol=0
    )


def test_whole_rankings_come_from_the_same_similarities():
    bank = rows(25, 4)
    for metric in ("cosine", "euclidean"):
        near = nearest(bank, bank, k=24, metric=metric, excludes_self=True)
        ranking = similarities(bank, bank, metric=metric, excludes_self=True, elements=60)
        blocks = [(where, scores.clone()) for where, scores in ranking]
        assert [where for where, _ in blocks][:2] == [slice(0, 2), slice(2, 4)]
        order = torch.cat([scores for _, scores in blocks]).argsort(dim=1, descending=True)
        assert torch.equal(order[:, :24], near.index)
        assert torch.equal(order[:, 24], torch.arange(25))  # oneself, at −inf


BANK, ASKED = rows(23, 5), rows(11, 5, 1)
SHARES = {2: ([0, 9, 23], [0, 11, 11]), 3: ([0, 0, 2, 23], [0, 3, 4, 11])}  # uneven, also none at all


def searched(rank: int, group, metric: str) -> list:
    cuts, asked = SHARES[group.size()]
    mine, queries = BANK[cuts[rank] : cuts[rank + 1]], ASKED[asked[rank] : asked[rank + 1]]
    given = torch.arange(asked[rank], asked[rank + 1])  # leave out row i for query i
    plain = nearest(mine, queries, k=6, metric=metric, group=group)
    own = nearest(mine, queries, k=6, metric=metric, own=given, group=group)
    itself = nearest(mine, mine, k=6, metric=metric, excludes_self=True, group=group)
    problem = ""
    try:
        nearest(mine * math.nan if rank == 1 else mine, queries, k=2, metric=metric, group=group)
    except DataError as error:
        problem = str(error)
    return [[measured.similarity, measured.index] for measured in (plain, own, itself)] + [problem]


@pytest.mark.parametrize(("world", "metric"), [(2, "cosine"), (3, "euclidean")])
def test_processes_find_together_what_one_finds(world, metric):
    answers = run_processes(world, searched, metric)
    expected = [
        nearest(BANK, ASKED, k=6, metric=metric),
        nearest(BANK, ASKED, k=6, metric=metric, own=torch.arange(11)),
        nearest(BANK, BANK, k=6, metric=metric, excludes_self=True),
    ]
    for place, whole in enumerate(expected):
        similarity, index = (np.concatenate([answer[place][column] for answer in answers]) for column in (0, 1))
        np.testing.assert_array_equal(index, whole.index)
        np.testing.assert_allclose(similarity, whole.similarity, atol=1e-12)
    problems = [answer[3] for answer in answers]
    assert problems[1].startswith("the bank must be finite; NaN or Inf in ")
    assert all("another process refused" in text for place, text in enumerate(problems) if place != 1)


def test_bad_input_is_refused_with_its_reason():
    bank, asked = rows(10, 3), rows(4, 3, 1)
    broken = bank.clone()
    broken[2], broken[7, 1] = torch.nan, torch.inf
    for metric in ("cosine", "euclidean"):
        with pytest.raises(DataError, match=r"the bank must be finite; NaN or Inf in 2 of 10 rows, first 2, 7$"):
            nearest(broken, asked, k=1, metric=metric)
        with pytest.raises(DataError, match=r"queries must be finite; NaN or Inf in 2 of 10 rows, first 2, 7$"):
            nearest(bank, broken, k=1, metric=metric)
    with pytest.raises(DataError, match="k = 11 neighbours were asked for, but the bank has 10 rows"):
        nearest(bank, asked, k=11)
    with pytest.raises(DataError, match="k = 10 neighbours were asked for, but the bank has 9 rows"):
        nearest(bank, bank, k=10, excludes_self=True)
    with pytest.raises(SettingError, match="k must be at least 1; got 0"):
        nearest(bank, asked, k=0)
    with pytest.raises(ShapeError, match="rows of one width; got 3 and 2"):
        nearest(bank, asked[:, :2], k=1)
    with pytest.raises(ShapeError, match=r"queries must be floating rows \(n, d\); got \(0, 3\)"):
        nearest(bank, asked[:0], k=1)
    with pytest.raises(SettingError, match="metric must be cosine or euclidean; got 'l2'"):
        nearest(bank, asked, k=1, metric="l2")
    with pytest.raises(SettingError, match="excludes_self is for queries that are the bank; got 4 queries, 10 rows"):
        nearest(bank, asked, k=1, excludes_self=True)
    with pytest.raises(SettingError, match="own and excludes_self both"):
        nearest(bank, bank, k=1, own=torch.arange(10), excludes_self=True)
    with pytest.raises(ShapeError, match="own must be 4 row numbers, one for each query"):
        nearest(bank, asked, k=1, own=torch.arange(3))
