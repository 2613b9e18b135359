"""Everything at once: the figures of any embeddings, and the verdict on them."""

import math
from dataclasses import dataclass, replace

from eigenview.diagnostics.clusters import COUNTED, NODES, PrototypeUsage, cluster_count, connectivity
from eigenview.diagnostics.dimensions import spectrum
from eigenview.diagnostics.figures import VERSION, Diagnosis, Figures, RunProgress, ViewFigures
from eigenview.diagnostics.neighbours import COSINE, duplicate_share, hubness, matched_views, neighbourhood_preservation
from eigenview.diagnostics.rows import Embeddings, Rows, check_same_shape, open_pair, open_rows
from eigenview.diagnostics.sphere import (
    ANCHORS,
    Labels,
    alignment_figure,
    checked_labels,
    mean_cosine,
    tolerance,
    uniformity_figure,
    unrelated_alignment,
)
from eigenview.diagnostics.verdict import THRESHOLDS, Thresholds, judge
from eigenview.errors import SettingError
from eigenview.graph.sphere import uniformity_floor

SHOWN_PAIRS = 20  # near-duplicates a diagnosis names


@dataclass(frozen=True)
class Sampling:
    """How much to look at where looking at everything is quadratic."""

    anchors: int = ANCHORS  # rows compared with all rows
    nodes: int = NODES  # images of the graph that views are joined in
    counted: int = COUNTED  # rows among which clusters are counted
    neighbours: int = 10  # of a row, where neighbourhoods are compared
    t: float = 2.0  # of uniformity
    duplicate_cosine: float = COSINE
    seed: int = 0


def diagnose(
    z_a: Embeddings,
    z_b: Embeddings | None = None,
    labels: Labels | None = None,
    *,
    loss: float | None = None,
    chance: float | None = None,
    usage: PrototypeUsage | None = None,
    unaugmented: Embeddings | None = None,
    centred: bool = False,
    progress: RunProgress | None = None,
    sampling: Sampling | None = None,
    thresholds: Thresholds = THRESHOLDS,
) -> Diagnosis:
    """Figures and a verdict for (n, d) embeddings: a tensor, an array or an ``.npy`` file.

    ``z_b``: another view of the same items, row by row; adds alignment, agreement and connectivity. ``labels`` (n,)
    adds tolerance. ``loss`` with its ``chance`` level (an objective's value on constant embeddings; leave it out where
    collapse is the minimum, as for SimSiam) tells a run that learnt nothing. ``usage``: see ``prototype_usage``.
    ``unaugmented`` (n, d) are the same items without augmentation: near-duplicates and groups are sought there, since
    two random views of one image are none. ``progress``: how far the run came, where it is known; its loss and chance
    level count where none are given, and a run that has barely begun is called that.

    ``centred`` takes the mean row off before directions are compared: for features before a head, which after a ReLU
    all point the same way. Rank, spectrum, variance and mean cosine stay those of the rows as given; collapsed rows,
    whose differences are noise, are not centred.

    Streamed: exact where the cost is linear in n; else from ``sampling``'s anchors, with a 95% interval.
    """
    sampling = sampling or Sampling()
    if progress is not None:
        loss, chance = (progress.loss, progress.chance) if loss is None else (loss, chance)
    for name, value in (("loss", loss), ("chance", chance)):
        if value is not None and not math.isfinite(value):
            raise SettingError(f"{name} must be finite; got {value}: a loss that is NaN needs no diagnosis of its rows")
    second: Rows | None = None
    if z_b is None:
        first = open_rows(z_a, name="z_a", least=2)
    else:
        first, second = open_pair(z_a, z_b)
    items = first if unaugmented is None else open_rows(unaugmented, name="unaugmented", least=2)
    check_same_shape({"z_a": first, "unaugmented": items})
    limit = thresholds.collapsed_features if centred else None
    measured = _figures((first, second, items), labels, sampling, centred_below=limit)
    has_diverged = progress is not None and progress.has_diverged
    figures = replace(measured, usage=usage, loss=loss, chance=chance, has_diverged=has_diverged, progress=progress)
    return diagnosed(figures, thresholds=thresholds, seed=sampling.seed)


def _figures(
    rows: tuple[Rows, Rows | None, Rows], labels: Labels | None, sampling: Sampling, *, centred_below: float | None
) -> Figures:
    """What the rows say, around their mean where ``centred_below`` is the mean cosine from which on they are not.

    ``rows``: one view, the other, and the items without augmentation: near-duplicates and groups are sought there.
    """
    (first, second, items), anchors, seed = rows, sampling.anchors, sampling.seed
    if labels is not None:
        checked_labels(labels, first.n)
    shape, cosine = spectrum(first), mean_cosine(first)
    decay = shape.decay()
    is_centred = centred_below is not None and cosine <= centred_below
    if is_centred:
        first, items = first.centred(), items.centred()
        second = None if second is None else second.centred()
    clones = duplicate_share(items, cosine=sampling.duplicate_cosine, anchors=anchors, seed=seed)
    return Figures(
        n=first.n,
        d=first.d,
        effective_rank=shape.effective_rank(),
        effective_rank_centred=shape.effective_rank(centred=True),
        stable_rank=shape.stable_rank(centred=True),
        decay=decay if math.isfinite(decay) else None,
        singular_values=tuple(shape.raw.tolist()),
        variances=tuple(shape.variances.tolist()),
        dead=tuple(shape.dead()),
        mean_cosine=cosine,
        uniformity=uniformity_figure(first, t=sampling.t, anchors=anchors, seed=seed),
        floor=uniformity_floor(first.d, t=sampling.t),
        hubness=hubness(first, neighbours=min(sampling.neighbours, first.n - 1), seed=seed),
        duplicates=clones.share,
        duplicates_by_chance=clones.by_chance,
        intrinsic_dimension=clones.dimension,
        duplicate_pairs=tuple((int(i), int(j)) for i, j in clones.pairs[:SHOWN_PAIRS]),
        clusters=None if first.n < 3 else cluster_count(items, nodes=sampling.counted, seed=seed),
        views=None if second is None else _views(first, second, sampling),
        tolerance=None if labels is None else tolerance(first, labels),
        is_centred=is_centred,
    )


def diagnosed(figures: Figures, *, thresholds: Thresholds = THRESHOLDS, seed: int = 0) -> Diagnosis:
    """The verdict on figures that are at hand, such as those of a stored diagnosis, by these thresholds."""
    findings = judge(figures, thresholds)
    return Diagnosis(findings[0].name if findings else "healthy", findings, figures, seed, VERSION)


def _views(first: Rows, second: Rows, sampling: Sampling) -> ViewFigures:
    anchors, seed, neighbours = sampling.anchors, sampling.seed, min(sampling.neighbours, first.n - 1)
    return ViewFigures(
        alignment=alignment_figure(first, second),
        unrelated_alignment=unrelated_alignment(first, second),
        matched=matched_views(first, second, anchors=anchors, seed=seed),
        preservation=neighbourhood_preservation(first, second, neighbours=neighbours, anchors=anchors, seed=seed),
        connectivity=connectivity(first, second, images=sampling.nodes, anchors=anchors, seed=seed),
    )
