"""The k largest of many columns, sooner than by looking at each."""

import torch
from torch import Tensor

GROUPS_PER_NEIGHBOUR = 48  # columns are grouped until about this many groups are left for each one wanted


def largest(scores: Tensor, k: int, above: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, values, columns): ``scores.topk(k)`` of the rows whose largest is ``above`` (b,); without it, of all.

    Sooner than topk: where columns are many, only the k groups of them with the largest maxima matter. Every one of
    the k largest lies in such a group, or equals one that does. Column c belongs to group c mod G; the last few
    columns, which fill no group, stand for themselves.
    """
    columns = scores.shape[1]
    members = max(1, columns // (GROUPS_PER_NEIGHBOUR * k))  # columns in a group
    groups = columns // members
    grouped = scores[:, : groups * members].reshape(len(scores), members, groups)
    maxima, rest = (grouped.amax(dim=1) if members > 1 else grouped[:, 0]), scores[:, groups * members :]
    rows = torch.arange(len(scores), device=scores.device)
    if above is not None:
        top = maxima.amax(dim=1)
        top = torch.maximum(top, rest.amax(dim=1)) if rest.shape[1] else top
        rows = (top > above).nonzero().flatten()
        maxima = maxima[rows]
    chosen = maxima.topk(k, dim=1, sorted=members == 1)
    if members == 1:
        return rows, chosen.values, chosen.indices
    # groups as slices: a third of the time that looking columns up one by one takes
    inside = grouped.transpose(1, 2)[rows[:, None], chosen.indices].flatten(1)
    values, place = torch.cat([inside, rest[rows]], dim=1).topk(k, dim=1)
    group = chosen.indices.gather(1, (place // members).clamp_max(k - 1))
    return (
        rows,
        values,
        torch.where(place < k * members, group + place % members * groups, place + (groups - k) * members),
    )
