"""A slow copy of an encoder (He et al. 2020); Shuffle-BN: keys are encoded on another process than their queries."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from eigenview.distributed import Group, from_first_process, gather_rows, row_counts, row_offset
from eigenview.errors import SettingError, ShapeError


class MomentumEncoder(nn.Module):
    """A copy of ``online`` whose parameters follow it: θ_k ← m·θ_k + (1−m)·θ_q. No gradient reaches it.

    Buffers (batch statistics) are its own: they start as copies and then see only the keys. The state dict holds the
    copy alone; the online module is referred to, not contained.
    """

    def __init__(self, online: nn.Module) -> None:
        super().__init__()
        self.copy = deepcopy(online).requires_grad_(False)
        self._online = (online,)  # in a tuple, so that it is no submodule: it is trained and saved elsewhere

    def forward(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            return self.copy(images)  # type: ignore[no-any-return]

    @torch.no_grad()
    def update(self, momentum: float) -> None:
        """One step towards the online parameters: before the key forward in MoCo."""
        if not 0 <= momentum <= 1:
            raise SettingError(f"momentum must lie in [0, 1]; got {momentum}")
        slow: list[Tensor] = list(self.copy.parameters())
        fast: list[Tensor] = list(self._online[0].parameters())
        if slow:
            torch._foreach_mul_(slow, momentum)
            torch._foreach_add_(slow, fast, alpha=1 - momentum)


@torch.no_grad()
def shuffle_rows(
    rows: Tensor, group: Group = None, *, generator: torch.Generator | None = None
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """As many rows as this process gave, drawn from all processes' by rank 0's permutation; and the way back.

    That takes rows to the processes of their own items, from wherever they were encoded. No gradient: keys have none.
    ``generator``: a CPU one; rank 0's counts, yet all draw, so states stay alike.
    """
    counts = row_counts(rows, group)
    drawn = torch.randperm(sum(counts), generator=generator).to(rows.device)
    permutation, start, mine = from_first_process(drawn, group), row_offset(counts, group), len(rows)

    def exchanged(own: Tensor, places: Tensor) -> Tensor:
        return gather_rows(own.detach(), group, counts=counts)[places[start : start + mine]]

    def back(encoded: Tensor) -> Tensor:
        if len(encoded) != mine:
            raise ShapeError(f"unshuffle needs the {mine} rows that were shuffled; got {len(encoded)}")
        return exchanged(encoded, torch.argsort(permutation))

    return exchanged(rows, permutation), back
