"""Two sides of one sphere, images and their captions: each by itself, how near they are, and the gap between them."""

from __future__ import annotations

from dataclasses import dataclass

from eigenview.diagnostics.dimensions import spectrum
from eigenview.diagnostics.estimates import Estimate
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
    """``alignment`` is that of an image with its caption; ``gap`` how far the means of both sides lie apart."""

    images: SideFigures
    captions: SideFigures
    alignment: float
    gap: float

    def table(self) -> list[tuple[str, str]]:
        """(name, value) of every figure."""
        said = [("image and caption", f"alignment {self.alignment:.4g}, modality gap {self.gap:.4g}")]
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
) -> Modalities:
    """Figures of ``images`` (n, d) and ``captions`` (n, d), row by row, on the sphere.

    ``views``: two of each image; ``rewrites``: two captions of each of some images. The gap is ‖mean image − mean
    caption‖ of rows on the sphere (Liang et al., 2022), in [0, 2].
    """
    first, second = open_pair(images, captions)
    between = first.on_sphere().mean() - second.on_sphere().mean()
    return Modalities(
        _side(images, views), _side(captions, rewrites), alignment_figure(images, captions), float(between.norm())
    )


def _side(rows: Embeddings, two: tuple[Embeddings, Embeddings] | None) -> SideFigures:
    alignment = None if two is None else alignment_figure(*two)
    return SideFigures(alignment, uniformity_figure(rows), spectrum(open_rows(rows, least=2)).effective_rank())
