"""Cluster assignments as targets: SwAV, DeepCluster-v2, SeLa-v2 (Caron et al., 2020)."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from eigenview.distributed import Group, refusing_together, sum_over_processes
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph.checks import check_embeddings, check_same_shape
from eigenview.losses.objective import Objective, mean_over_items

IGNORED = -100  # the assignment of an item that the memory bank has not seen


def swapped_assignment(
    scores: Sequence[Tensor],
    codes: Sequence[Tensor],
    *,
    temperature: float = 0.1,
    form: Literal["averaged", "summed"] = "averaged",
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """Each crop predicts the code of another: mean over code crops i, crops v≠i, items of −Σ_k q_i log softmax(s_v/τ).

    ``scores``: one (n, K) per crop, large crops first: embeddings on the sphere times unit prototypes. ``codes``: one
    (n, K) per *large* crop, rows summing to 1 (``transport.sinkhorn``); no gradient reaches them. ``averaged`` as in
    the code; ``summed`` adds the terms up as the paper writes it. Chance (equal scores): ln K, times the number of
    terms when summed.
    """
    if form not in ("averaged", "summed"):
        raise SettingError(f"form must be averaged or summed; got {form!r}")
    if not 1 <= len(codes) <= len(scores) or len(scores) < 2:
        raise ShapeError(f"codes belong to the first crops of two or more; got {len(codes)} codes, {len(scores)} crops")
    with refusing_together(group, scores[0].device):
        _check_scores(scores, temperature, check_values)
        check_same_shape({"scores": scores[0], **{f"codes {i}": code for i, code in enumerate(codes)}})
        for number, code in enumerate(codes if check_values else ()):
            sums = code.detach().double().sum(dim=1)
            if not bool(((sums - 1).abs() < 1e-2).all()):
                wrong = f"codes {number} have {sums.min():g} to {sums.max():g}"
                raise DataError(f"codes must have rows that sum to 1; {wrong}")
    log_q = _log_probabilities(scores, temperature)
    terms = [
        mean_over_items(-(code.detach().to(rows.dtype) * rows).sum(dim=1), group)
        for i, code in enumerate(codes)
        for crop, rows in enumerate(log_q)
        if crop != i
    ]
    total = torch.stack(terms)
    return total.mean() if form == "averaged" else total.sum()


def cluster_assignment(
    scores: Sequence[Tensor],
    assignment: Tensor,
    *,
    temperature: float = 0.1,
    check_values: bool = True,
    group: Group = None,
) -> Tensor:
    """Every crop predicts its item's cluster: mean over crops of the cross-entropy of softmax(s_v/τ).

    ``scores``: one (n, K) per crop; ``assignment`` (n,) integers in [0, K), −100 where the item has none yet (left
    out), or (n, K) soft codes. DeepCluster-v2 averages this over its heads; SeLa-v2 takes Sinkhorn's assignments.
    Chance: ln K.
    """
    if not scores:
        raise ShapeError("cluster_assignment needs the scores of at least one crop; got none")
    with refusing_together(group, scores[0].device):
        _check_scores(scores, temperature, check_values)
        _check_assignment(assignment, scores[0], check_values)
    log_q = torch.stack(_log_probabilities(scores, temperature)).mean(dim=0)
    if assignment.ndim == 2:
        return mean_over_items(-(assignment.detach().to(log_q.dtype) * log_q).sum(dim=1), group)
    known = assignment != IGNORED
    count = sum_over_processes(known.sum(), group)
    picked = log_q.gather(1, assignment.clamp_min(0)[:, None])[:, 0]
    return -sum_over_processes((picked * known).sum(), group) / count.clamp_min(1)


def _check_scores(scores: Sequence[Tensor], temperature: float, check_values: bool) -> None:
    if not 0 < temperature < math.inf:
        raise SettingError(f"temperature must be positive and finite; got {temperature}")
    crops = {f"scores of crop {number}": rows for number, rows in enumerate(scores)}
    check_same_shape(crops)
    check_embeddings(crops, normalize=False, check_values=check_values)


def _check_assignment(assignment: Tensor, scores: Tensor, check_values: bool) -> None:
    items, prototypes = scores.shape
    if assignment.ndim == 2:
        check_same_shape({"scores": scores, "assignment": assignment})
        return
    if assignment.ndim != 1 or len(assignment) != items or assignment.dtype.is_floating_point:
        raise ShapeError(
            f"an assignment needs one integer per item, ({items},); "
            f"got {assignment.dtype} of shape {tuple(assignment.shape)}"
        )
    known = assignment[assignment != IGNORED]
    if check_values and bool((known < 0).any() | (known >= prototypes).any()):
        raise DataError(
            f"assignments must lie in [0, {prototypes}) or be {IGNORED}; got {int(known.min())} to {int(known.max())}"
        )


def _log_probabilities(scores: Sequence[Tensor], temperature: float) -> list[Tensor]:
    return [(rows.float() if rows.dtype.itemsize < 4 else rows).div(temperature).log_softmax(dim=1) for rows in scores]


class SwappedAssignment(Objective, of=swapped_assignment):
    """:func:`swapped_assignment` as a module. Prototypes and codes are the caller's."""

    temperature: float = 0.1
    form: Literal["averaged", "summed"] = "averaged"

    def chance_level(self, prototypes: int, *, crops: int = 2, code_crops: int = 2) -> float:
        return math.log(prototypes) * (1 if self.form == "averaged" else code_crops * (crops - 1))


class ClusterAssignment(Objective, of=cluster_assignment):
    """:func:`cluster_assignment` as a module."""

    temperature: float = 0.1

    def chance_level(self, prototypes: int) -> float:
        return math.log(prototypes)
