"""Sinkhorn against the published loop, its marginals, its limits, and real processes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph import transport
from eigenview.graph.transport import sinkhorn
from tests.processes import run_processes


def cosines(n: int, prototypes: int, *, seed: int = 0, width: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, width, generator=generator, dtype=torch.float64)
    columns = torch.randn(prototypes, width, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1) @ torch.nn.functional.normalize(columns, dim=1).T


def swav_by_loops(scores: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Q = exp(s/ε)ᵀ over its sum; then rows / row sum / K and columns / column sum / B; × B at the end."""
    samples, prototypes = scores.shape
    table = [[math.exp(float(scores[i, k]) / epsilon) for i in range(samples)] for k in range(prototypes)]
    total = sum(map(sum, table))
    table = [[value / total for value in row] for row in table]
    for _ in range(iterations):
        table = [[value / sum(row) / prototypes for value in row] for row in table]
        column_sums = [sum(table[k][i] for k in range(prototypes)) for i in range(samples)]
        table = [[row[i] / column_sums[i] / samples for i in range(samples)] for row in table]
    return torch.tensor(
        [[table[k][i] * samples for k in range(prototypes)] for i in range(samples)], dtype=torch.float64
    )


def plan_by_loops(scores: Tensor, epsilon: float, row: Tensor, column: Tensor, iterations: int) -> Tensor:
    plan = torch.exp(scores / epsilon)
    for _ in range(iterations):
        for k in range(plan.shape[1]):
            plan[:, k] *= column[k] / plan[:, k].sum()
        for i in range(plan.shape[0]):
            plan[i] *= row[i] / plan[i].sum()
    return plan


def marginals(n: int, prototypes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    row = 0.1 + torch.rand(n, generator=generator, dtype=torch.float64)
    return row, 0.1 + torch.rand(prototypes, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("n", "prototypes"), [(17, 5), (4, 11), (1, 3), (6, 1)])
@pytest.mark.parametrize("iterations", [1, 2, 3, 10])
def test_equals_the_published_loop(n, prototypes, iterations):
    scores = cosines(n, prototypes)
    expected = swav_by_loops(scores, 0.05, iterations)
    torch.testing.assert_close(sinkhorn(scores, iterations=iterations), expected, rtol=1e-12, atol=1e-12)


def test_three_iterations_at_swavs_epsilon_unless_told():
    scores = cosines(9, 4)
    torch.testing.assert_close(sinkhorn(scores), swav_by_loops(scores, 0.05, 3), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [1, 7, 50, 10_000])
def test_blocks_of_any_size_give_one_answer(monkeypatch, block):
    scores = cosines(23, 6)
    monkeypatch.setattr(transport, "BLOCK_ELEMENTS", block)
    torch.testing.assert_close(sinkhorn(scores), swav_by_loops(scores, 0.05, 3), rtol=1e-12, atol=1e-12)


def test_arbitrary_marginals_equal_the_loop():
    scores, (row, column) = cosines(12, 5), marginals(12, 5)
    codes = sinkhorn(scores, epsilon=0.2, iterations=4, row_marginal=3 * row, column_marginal=7 * column)
    row, column = row / row.sum(), column / column.sum()
    expected = plan_by_loops(scores, 0.2, row, column, 4)
    torch.testing.assert_close(codes * row[:, None], expected, rtol=1e-12, atol=1e-14)


def test_to_a_tolerance_both_marginals_hold():
    scores, (row, column) = cosines(40, 7), marginals(40, 7)
    codes = sinkhorn(scores, epsilon=0.1, tolerance=1e-12, row_marginal=row, column_marginal=column)
    plan = codes * (row / row.sum())[:, None]
    torch.testing.assert_close(codes.sum(dim=1), torch.ones(40, dtype=torch.float64), rtol=0, atol=1e-14)
    assert float((plan.sum(dim=0) - column / column.sum()).abs().sum()) <= 1.1e-12


def test_the_tolerance_is_met_at_the_first_iteration_that_can():
    scores = cosines(40, 7)

    def error(codes: Tensor) -> float:
        return float((codes.mean(dim=0) - 1 / 7).abs().sum())

    enough = next(count for count in range(1, 1000) if error(sinkhorn(scores, iterations=count)) <= 1e-4)
    assert enough > 2
    torch.testing.assert_close(sinkhorn(scores, tolerance=1e-4), sinkhorn(scores, iterations=enough), rtol=0, atol=0)


def test_self_labelling_is_a_power_of_probabilities():
    """SeLa: P^λ scaled until Σ|a/a' − 1| < 0.1, where a are the scalings of the samples."""
    logits = 4 * cosines(30, 6)
    powers = torch.softmax(logits, dim=1) ** 25
    sample, prototype = torch.full((30,), 1 / 30, dtype=torch.float64), None
    change = math.inf
    while change >= 0.1:
        prototype = (1 / 6) / (sample @ powers)
        scaled = (1 / 30) / (powers @ prototype)
        change, sample = float((sample / scaled - 1).abs().sum()), scaled
    labels = (powers * prototype).argmax(dim=1)
    codes = sinkhorn(torch.log_softmax(logits, dim=1), epsilon=1 / 25, tolerance=0.1 / 30)
    assert torch.equal(codes.argmax(dim=1), labels)
    # the last prototype step from these codes leaves SeLa's error below its threshold
    plan = codes / 30 * ((1 / 6) / codes.mean(dim=0))
    assert float((30 * plan.sum(dim=1) - 1).abs().sum()) < 0.1


def test_shifting_all_scores_changes_nothing_and_permuting_permutes():
    scores, order = cosines(20, 5), torch.randperm(20, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(sinkhorn(scores + 0.7), sinkhorn(scores), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(sinkhorn(scores[order]), sinkhorn(scores)[order], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("epsilon", [0.05, 0.01, 0.001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision_stays_close_to_float64(epsilon, dtype):
    scores = cosines(200, 30).to(dtype)
    codes, expected = sinkhorn(scores, epsilon=epsilon), sinkhorn(scores.double(), epsilon=epsilon)
    assert codes.dtype == torch.float32
    assert bool(codes.isfinite().all())
    torch.testing.assert_close(codes.double(), expected, rtol=0, atol=2e-7 / epsilon)
    torch.testing.assert_close(codes.sum(dim=1), torch.ones(200), rtol=0, atol=1e-6)


def test_a_prototype_that_plain_exponentials_lose_gets_its_share():
    scores = torch.tensor([[1.0, 0.9, -1.0], [0.9, 1.0, -1.0]]).repeat(3, 1)  # exp(-2000) beside 1
    codes = sinkhorn(scores, epsilon=0.001, iterations=50)
    torch.testing.assert_close(codes.mean(dim=0), torch.full((3,), 1 / 3), rtol=0, atol=1e-3)


@pytest.mark.parametrize("scale", [1e3, 1e10, 1e30])
def test_scores_far_beyond_cosines_stay_finite(scale):
    codes = sinkhorn(scale * cosines(20, 6).float(), epsilon=0.001, iterations=10)
    torch.testing.assert_close(codes.sum(dim=1), torch.ones(20), rtol=0, atol=1e-6)


def test_marginals_over_many_orders_of_magnitude_stay_close_to_float64():
    scores, row, column = cosines(50, 20), torch.logspace(-20, 0, 50).double(), torch.logspace(-15, 0, 20).double()
    exact = sinkhorn(scores, epsilon=0.001, row_marginal=row, column_marginal=column)
    codes = sinkhorn(scores.float(), epsilon=0.001, row_marginal=row, column_marginal=column)
    torch.testing.assert_close(codes.double(), exact, rtol=0, atol=5e-4)


def test_identical_scores_and_a_single_sample_follow_the_prototype_marginal():
    share = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    constant = torch.full((4, 3), 0.3, dtype=torch.float64)
    torch.testing.assert_close(sinkhorn(constant, column_marginal=share), share.expand(4, 3), rtol=1e-12, atol=0)
    torch.testing.assert_close(sinkhorn(cosines(1, 3), column_marginal=share)[0], share, rtol=1e-12, atol=0)


def test_codes_carry_no_gradient_and_ignore_autocast():
    scores = cosines(16, 4).float().requires_grad_()
    plain = sinkhorn(scores)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = sinkhorn(scores)
    assert not plain.requires_grad
    assert torch.equal(plain, cast)


def codes_of_shard(rank, group, scores, row, column, sizes, options):
    mine = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    row = None if row is None else row[mine]
    return sinkhorn(scores[mine], row_marginal=row, column_marginal=column, group=group, **options)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ([8, 8], {}),
        ([3, 13], {"epsilon": 0.001, "iterations": 5}),
        ([9, 0, 7], {"tolerance": 1e-10, "epsilon": 0.1}),
    ],
)
def test_processes_equal_one(sizes, options):
    scores, (row, column) = cosines(16, 5), marginals(16, 5)
    if len(sizes) == 2 and not options:
        row = column = None
    expected = sinkhorn(scores, row_marginal=row, column_marginal=column, **options)
    shards = run_processes(len(sizes), codes_of_shard, scores, row, column, sizes, options)
    np.testing.assert_allclose(np.concatenate(shards), expected.numpy(), rtol=1e-10, atol=1e-12)


def refusal_of_shard(rank, group):
    scores = torch.zeros(3, 2) if rank == 0 else torch.full((3, 2), torch.nan)
    try:
        sinkhorn(scores, group=group)
    except DataError as error:
        return str(error)
    return "accepted"


def test_processes_refuse_together():
    first, second = run_processes(2, refusal_of_shard)
    assert "another process refused" in first
    assert "must be finite" in second


@pytest.mark.parametrize(
    ("scores", "kind", "message"),
    [
        (torch.zeros(3), ShapeError, r"\(n, K\) matrix; got \(3,\)"),
        (torch.zeros(3, 2, dtype=torch.long), ShapeError, "floating"),
        (torch.zeros(0, 2), ShapeError, "at least one sample"),
        (torch.zeros(2, 0), ShapeError, "at least one sample and one prototype; got 2 and 0"),
        (torch.tensor([[0.0, torch.nan]]), DataError, "must be finite"),
        (torch.tensor([[0.0, -torch.inf]]), DataError, "must be finite; got values from -inf"),
        (torch.tensor([[1e38, 0.0]]), DataError, "overflows torch.float32"),
    ],
)
def test_bad_scores_are_refused(scores, kind, message):
    with pytest.raises(kind, match=message):
        sinkhorn(scores)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"epsilon": 0.0}, SettingError, "epsilon must be positive"),
        ({"epsilon": math.nan}, SettingError, "epsilon must be positive"),
        ({"iterations": 0}, SettingError, "iterations must be a whole number of at least 1; got 0"),
        ({"tolerance": -1.0}, SettingError, "tolerance must be positive"),
        ({"tolerance": 1e-9, "iterations": 2}, DataError, "in 2 iterations, not the tolerance 1e-09"),
        ({"row_marginal": torch.ones(3)}, ShapeError, r"row_marginal must have shape \(4,\).*got \(3,\)"),
        ({"column_marginal": torch.ones(3)}, ShapeError, r"column_marginal must have shape \(2,\)"),
        ({"column_marginal": torch.tensor([1.0, 0.0])}, DataError, "column_marginal must be positive"),
        ({"row_marginal": torch.tensor([1.0, 1.0, -1.0, 1.0])}, DataError, "row_marginal must be positive.*-1"),
    ],
)
def test_bad_settings_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        sinkhorn(cosines(4, 2), **options)
