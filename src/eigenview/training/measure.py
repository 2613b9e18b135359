"""What a look at a training step measures."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.diagnostics import effective_rank
from eigenview.distributed import Group, gather_rows
from eigenview.losses import alignment, uniformity

WATCHED_ROWS = 1024  # embeddings that alignment, uniformity and rank are taken of


def embedding_figures(embeddings: Tensor, group: Group) -> dict[str, float | None]:
    """Alignment, uniformity and effective rank of the views (v, n, d) of all processes; rank 0 where not finite."""
    rows = [gather_rows(view, group)[:WATCHED_ROWS].float() for view in embeddings]
    usable = all(bool(view.isfinite().all() & (view.norm(dim=1) > 0).all()) for view in rows)
    return {
        "alignment": float(alignment(*rows)) if usable and len(rows) > 1 else None,
        "uniformity": float(uniformity(rows[0])) if usable and len(rows[0]) > 1 else None,
        "effective_rank": float(effective_rank(normalize(rows[0], dim=1))) if usable else 0.0,
    }


def gradient_norm(module: nn.Module) -> Tensor:
    """The norm of all gradients together."""
    norms = [torch.linalg.vector_norm(p.grad) for p in module.parameters() if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())
