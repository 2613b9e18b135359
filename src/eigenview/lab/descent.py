"""Two ways down: L-BFGS for what is computed whole, Adam for what is drawn; and pairs to draw."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize


def drawn_pairs(weights: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(count,), (count,): rows and columns of ``weights`` (n, m), drawn in proportion to them."""
    drawn = torch.multinomial(weights.flatten(), count, replacement=True, generator=generator)
    return drawn // weights.shape[1], drawn % weights.shape[1]


def minimised(objective: Callable[[Tensor], Tensor], start: Tensor, *, steps: int = 100) -> Tensor:
    """Free embeddings that minimise ``objective``, by L-BFGS from ``start`` (n, d) in float64."""
    rows = start.detach().double().clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [rows], max_iter=steps, history_size=20, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = objective(rows)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return rows.detach()


def free_embeddings(objective: Callable[[Tensor], Tensor], nodes: int, width: int, *, steps: int, seed: int) -> Tensor:
    """(nodes, width) on the sphere: what minimises ``objective`` from a random start."""
    start = torch.randn(nodes, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return normalize(minimised(objective, normalize(start, dim=1), steps=steps), dim=1)


def descended(
    parameters: Iterable[Tensor], loss_at: Callable[[int], Tensor], *, steps: int, learning_rate: float
) -> Iterator[float]:
    """Adam on ``loss_at(step)``, its rate falling to 0 by a cosine; gives each step's loss when the step is done."""
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        loss = loss_at(step)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
        yield float(loss.detach())
