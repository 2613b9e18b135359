"""Muon against its formula written with loops, against torch's own where there is one, and at its limits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.optim.optimizers import QUINTIC, REST, Muon, orthogonal

RATE, MOMENTUM, DECAY = 0.05, 0.95, 0.1


def loops(matrix: list[list[float]]) -> list[list[float]]:
    """Five steps X ← aX + b(XXᵀ)X + c(XXᵀ)²X, entry by entry, on the side that is shorter."""
    if len(matrix) > len(matrix[0]):
        return transposed(loops(transposed(matrix)))
    size = sum(entry * entry for row in matrix for entry in row) ** 0.5
    x = [[entry / size for entry in row] for row in matrix]
    a, b, c = QUINTIC
    for _ in range(5):
        gram = product(x, transposed(x))
        once = product(gram, x)
        twice = product(gram, once)
        x = [[a * x[i][j] + b * once[i][j] + c * twice[i][j] for j in range(len(x[0]))] for i in range(len(x))]
    return x


def product(left: list[list[float]], right: list[list[float]]) -> list[list[float]]:
    return [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*right, strict=True)] for row in left
    ]


def transposed(matrix: list[list[float]]) -> list[list[float]]:
    return [list(column) for column in zip(*matrix, strict=True)]


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 6), (6, 1)])
def test_orthogonal_is_five_steps_of_the_quintic(shape):
    matrix = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.tensor(loops(matrix.tolist()), dtype=torch.float64)
    torch.testing.assert_close(orthogonal(matrix), expected, rtol=1e-12, atol=1e-12)


def test_singular_values_end_near_one_and_directions_stay():
    matrix = torch.randn(32, 90, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    inside = left.T @ orthogonal(matrix) @ right.T  # diagonal: the same singular vectors
    torch.testing.assert_close(inside, inside.diagonal().diag(), atol=1e-10, rtol=0)
    assert 0.68 < inside.diagonal().min() < inside.diagonal().max() < 1.14


def test_single_precision_holds_where_ranks_are_low():
    """Gradients of a batch are: noise a millionth as large must not be blown up by squaring."""
    generator = torch.Generator().manual_seed(2)
    low = torch.randn(64, 3, generator=generator) @ torch.randn(3, 200, generator=generator)
    matrix = low + 1e-6 * torch.randn(64, 200, generator=generator)
    exact = orthogonal(matrix.double())
    torch.testing.assert_close(orthogonal(matrix).double(), exact, atol=1e-4, rtol=0)


def test_a_gradient_of_zeros_moves_nothing():
    assert torch.equal(orthogonal(torch.zeros(3, 4)), torch.zeros(3, 4))


def test_matrices_filters_and_the_rest_move_by_their_rules():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(2, 6, 2), nn.BatchNorm2d(6), nn.Linear(5, 4)).double()
    twin = nn.Sequential(nn.Conv2d(2, 6, 2), nn.BatchNorm2d(6), nn.Linear(5, 4)).double()
    twin.load_state_dict(layers.state_dict())
    optimizer = Muon(layers.parameters(), RATE, momentum=MOMENTUM, weight_decay=DECAY)
    rest = [parameter for parameter in twin.parameters() if parameter.ndim == 1]
    adam = torch.optim.AdamW(rest, REST * RATE, weight_decay=DECAY)
    velocity = {name: torch.zeros_like(value) for name, value in twin.named_parameters()}
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        for (name, own), other in zip(layers.named_parameters(), twin.parameters(), strict=True):
            own.grad = torch.randn(own.shape, dtype=torch.float64, generator=generator)
            other.grad = own.grad.clone()
            if own.ndim > 1:
                velocity[name] = MOMENTUM * velocity[name] + own.grad
                wanted = (own.grad + MOMENTUM * velocity[name]).reshape(len(own), -1)
                turned = torch.tensor(loops(wanted.tolist()), dtype=torch.float64)
                scale = RATE * max(1.0, turned.shape[0] / turned.shape[1]) ** 0.5
                with torch.no_grad():
                    other.copy_((1 - RATE * DECAY) * other - scale * turned.view(other.shape))
        optimizer.step()
        adam.step()
    for own, other in zip(layers.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has no Muon of its own before 2.9")
def test_a_matrix_moves_as_torchs_does_but_for_its_half_precision():
    own, other = (nn.Parameter(torch.eye(6, 9)) for _ in range(2))
    options = {"momentum": MOMENTUM, "weight_decay": DECAY}
    ours, theirs = Muon([own], RATE, **options), torch.optim.Muon([other], RATE, nesterov=True, **options)
    for step in range(3):
        own.grad = torch.randn(6, 9, generator=torch.Generator().manual_seed(step))
        other.grad = own.grad.clone()
        ours.step()
        theirs.step()
    torch.testing.assert_close(own, other, atol=0.05 * RATE, rtol=0)


def test_groups_that_are_not_adapted_are_torchs_adamw():
    own, other = (nn.Parameter(torch.eye(3, dtype=torch.float64)) for _ in range(2))
    ours = Muon([own], RATE, weight_decay=DECAY, adapted=False)
    theirs = torch.optim.AdamW([other], REST * RATE, weight_decay=DECAY)
    for step in range(3):
        own.grad = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        other.grad = own.grad.clone()
        ours.step()
        theirs.step()
    torch.testing.assert_close(own, other)


def test_a_rate_below_zero_is_refused():
    with pytest.raises(SettingError, match="lr must be at least 0 and finite; got -1"):
        Muon([nn.Parameter(torch.ones(1))], -1)
