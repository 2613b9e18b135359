"""A slow copy of an encoder: He et al.'s momentum encoder (2020)."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from eigenview.errors import SettingError


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
