"""Two sides of one sphere, images and their captions: each by itself, how near they are, and the gap between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from eigenview.diagnostics.dimensions import spectrum
from eigenview.diagnostics.estimates import Estimate
from eigenview.diagnostics.neighbours import matched_views
from eigenview.diagnostics.rows import Embeddings, open_pair, open_rows
from eigenview.diagnostics.sphere import alignment_figure, uniformity_figure


@dataclass(frozen=True)
class SideFigures:
    """One side. ``alignment``: of two views of an image, or of two captions of one; None where there is no second."""

    alignment: float | None
    uniformity: Estimate
    effective_rank: float


@dataclass(frozen=True)
class Modalities:
    """``alignment`` is that of an image with its caption; ``gap`` how far the means of both sides lie apart.

    ``matched``: the share of images whose nearest caption is their own, among ``distinct`` captions, no two the same.
    """

    images: SideFigures
    captions: SideFigures
    alignment: float
    gap: float
    matched: Estimate | None = None
    distinct: int = 0

    @property
    def gap_share(self) -> float:
        """Of the mean squared distance of an image to its caption, what the gap alone makes."""
        return self.gap**2 / self.alignment if self.alignment > 0 else 0.0

    def table(self) -> list[tuple[str, str]]:
        """(name, value) of every figure."""
        apart = f"alignment {self.alignment:.4g}, modality gap {self.gap:.4g}, {self.gap_share:.0%} of the distance²"
        said = [("image and caption", apart)]
        if self.matched is not None:
            said.append(("captions matched", f"{self.matched} of images find their own first, among {self.distinct:,}"))
        for name, side in (("images alone", self.images), ("captions alone", self.captions)):
            near = "" if side.alignment is None else f"alignment {side.alignment:.4g}, "
            said.append((name, f"{near}uniformity {side.uniformity}, effective rank {side.effective_rank:.4g}"))
        return said


def both_modalities(
    images: Embeddings,
    captions: Embeddings,
    *,
    views: tuple[Embeddings, Embeddings] | None = None,
    rewrites: tuple[Embeddings, Embeddings] | None = None,
    distinct: Sequence[int] | None = None,
) -> Modalities:
    """Figures of ``images`` (n, d) and ``captions`` (n, d), row by row, on the sphere.

    ``views``: two of each image; ``rewrites``: two captions of each of some images; ``distinct``: rows among which no
    caption comes twice, all unless given. The gap is ‖mean image − mean
    caption‖ of rows on the sphere (Liang et al., 2022), in [0, 2].
    """
    first, second = open_pair(images, captions)
    between = first.on_sphere().mean() - second.on_sphere().mean()
    rows = torch.arange(first.n) if distinct is None else torch.tensor(distinct)
    return Modalities(
        _side(images, views),
        _side(captions, rewrites),
        alignment_figure(images, captions),
        float(between.norm()),
        matched_views(first.take(rows), second.take(rows)) if len(rows) > 1 else None,
        len(rows),
    )


def _side(rows: Embeddings, two: tuple[Embeddings, Embeddings] | None) -> SideFigures:
    alignment = None if two is None else alignment_figure(*two)
    return SideFigures(alignment, uniformity_figure(rows), spectrum(open_rows(rows, least=2)).effective_rank())
