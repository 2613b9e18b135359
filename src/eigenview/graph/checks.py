"""What every objective asks of its embeddings, and a coupling of its target; the preparation they share."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from eigenview.errors import DataError, NotFiniteError, SettingError, ShapeError
from eigenview.graph.eager import eager
from eigenview.graph.geometry import at_least_float32, unit_rows
from eigenview.graph.targets import Crops, PartitionSet, SimilarItems, Target, WeightedGraph

WITHOUT_ONESELF: tuple[PartitionSet, ...] = ("others", "negatives", "same_view")


def prepared(embeddings: Tensor, *, normalize: bool) -> Tensor:
    """At least float32, and on the unit sphere if asked."""
    embeddings = at_least_float32(embeddings)
    return unit_rows(embeddings) if normalize else embeddings


@eager
def check_embeddings(embeddings: Mapping[str, Tensor], *, normalize: bool, check_values: bool = True) -> None:
    """Refuse what no objective can use. Costs one pass over the embeddings; ``check_values=False`` skips that pass."""
    for name, rows in embeddings.items():
        if rows.ndim != 2:
            raise ShapeError(f"{name} must be (n, d) embeddings; got shape {tuple(rows.shape)}")
        if not rows.dtype.is_floating_point:
            raise ShapeError(f"{name} must be floating point; got {rows.dtype}")
        if rows.shape[0] == 0 or rows.shape[1] == 0:
            raise ShapeError(f"{name} must not be empty; got shape {tuple(rows.shape)}")
    for aspect in ("dtype", "device") if len(embeddings) > 1 else ():
        kinds = {getattr(rows, aspect) for rows in embeddings.values()}
        if len(kinds) > 1:
            raise ShapeError(f"all embeddings need one {aspect}; got {', '.join(sorted(map(str, kinds)))}")
    if len(embeddings) > 1 and len({rows.shape[1] for rows in embeddings.values()}) > 1:
        got = ", ".join(f"{name} {tuple(rows.shape)}" for name, rows in embeddings.items())
        raise ShapeError(f"all embeddings need one width d; got {got}")
    if check_values:
        for name, rows in embeddings.items():
            check_rows(name, [(0, rows)], directions=normalize)


@eager
def checked(embeddings: Mapping[str, Tensor], *, normalize: bool, check_values: bool = True) -> dict[str, Tensor]:
    """:func:`check_embeddings` and :func:`prepared` in one: the norms say whether there is anything to refuse."""
    check_embeddings(embeddings, normalize=normalize, check_values=check_values and not normalize)
    if not (normalize and check_values):
        return {name: prepared(rows, normalize=normalize) for name, rows in embeddings.items()}
    return {name: _checked_unit(name, at_least_float32(rows)) for name, rows in embeddings.items()}


def _checked_unit(name: str, rows: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(rows.detach(), dim=1, keepdim=True)
    smallest, largest = torch.aminmax(norm)  # NaN where a value is
    if smallest.item() > 1e-15 and largest.item() < 1e15:
        return unit_rows(rows, norm)
    check_rows(name, [(0, rows)], directions=True)
    return unit_rows(rows)


def check_enough(count: int, what: str = "embeddings") -> None:
    if count < 2:
        raise ShapeError(f"a contrast needs at least 2 {what}; got {count}")


def check_same_shape(embeddings: Mapping[str, Tensor]) -> None:
    shapes = {tuple(rows.shape) for rows in embeddings.values()}
    if len(shapes) > 1:
        got = ", ".join(f"{name} {tuple(rows.shape)}" for name, rows in embeddings.items())
        raise ShapeError(f"views need one and the same shape (n, d); got {got}")


def check_partition(partition: PartitionSet, anchors: Tensor, candidates: Tensor | None, extra: Tensor | None) -> None:
    if partition in ("extra", "positives_and_extra") and (extra is None or len(extra) == 0):
        raise ShapeError(f"partition {partition} needs extra candidates (a queue); got none")
    if candidates is anchors and partition in WITHOUT_ONESELF:
        raise SettingError(
            f"partition {partition} leaves oneself out, but two sides know no oneself: give anchors that are their own "
            "candidates once, without candidates"
        )


def check_target(target: Target, anchors: Tensor, candidates: Tensor | None) -> None:
    if isinstance(target, SimilarItems):
        given = len(target.vectors), len(target.candidate_vectors)
        if candidates is None or given != (len(anchors), len(candidates)):
            raise ShapeError(
                f"soft targets need a vector for each embedding of two sides; got {given[0]} for {len(anchors)} "
                f"anchors and {given[1]} for {0 if candidates is None else len(candidates)} candidates"
            )
    if isinstance(target, WeightedGraph | SimilarItems):
        return
    if isinstance(target, Crops) and candidates is None and target.rows == len(anchors):
        return
    if (target.candidate_ids is None) != (candidates is None):
        which = "only the anchors have" if target.candidate_ids is None else "both sides have"
        raise ShapeError(f"ids and embeddings come for the same sides; {which} ids: see two_views and from_captions")
    ids, own = (target.ids, anchors) if candidates is None else (target.candidate_ids, candidates)
    assert ids is not None
    if len(target.ids) != len(anchors) or len(ids) != len(own):
        raise ShapeError(
            f"a target needs one id per embedding; got {len(target.ids)} ids for {len(anchors)} anchors "
            f"and {len(ids)} for {len(own)} candidates"
        )


def check_positives(weight: Tensor) -> None:
    if not bool(weight > 0):
        raise DataError("a target needs at least one positive edge; no anchor has any")


def check_rows(name: str, blocks: Iterable[tuple[int, Tensor]], *, directions: bool = False) -> None:
    """Refuse rows with NaN or Inf, or zero where ``directions`` are asked for. A block is (its first row, rows)."""
    unusable: list[int] = []
    zero: list[int] = []
    count = 0
    for start, rows in blocks:
        size, count = rows.detach().abs().amax(dim=1), start + len(rows)  # NaN and Inf survive it
        if not bool(size.isfinite().all()):
            unusable += (torch.nonzero(~size.isfinite()).flatten() + start).tolist()
        if directions and not bool(size.all()):
            zero += (torch.nonzero(size == 0).flatten() + start).tolist()
    if unusable:
        raise NotFiniteError(f"{name} must be finite; NaN or Inf in {some_rows(unusable, count)}")
    if zero:
        raise DataError(f"{name} must be non-zero to be put on the sphere; zero in {some_rows(zero, count)}")


def some_rows(chosen: Sequence[object], count: int, what: str = "rows") -> str:
    """How many of so many rows, and the first of them, by number or name."""
    return f"{len(chosen)} of {count} {what}, first {', '.join(map(str, chosen[:5]))}"
