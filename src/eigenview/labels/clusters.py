"""Groups of stored images without labels: their number counted or given, and the pictures most typical of each."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenview.data import Source
from eigenview.data.source import NO_LABEL
from eigenview.diagnostics.clusters import COUNTED, ClusterCount, clustered_rows
from eigenview.errors import DataError
from eigenview.labels.graph import GraphEngine, ImageGraph, kept_graph
from eigenview.labels.label_files import Column, write_table
from eigenview.labels.sheets import Shown, labels_sheet
from eigenview.labels.spreading import label_spreading
from eigenview.names import printable
from eigenview.search.approximate import Recall
from eigenview.search.stored import Embeddings

SHOWN = 8  # pictures of a group on a sheet
COPY = 0.99  # cosine from which on two pictures of a group would show the same


@dataclass(frozen=True)
class ImageClusters:
    """The group of every image, numbered from 1, the largest first, and how typical of it each is."""

    stored: Embeddings
    count: ClusterCount  # how many, and how sure that is
    member: Tensor  # (n,) from 0
    graph: ImageGraph
    recall: Recall | None  # of an approximate graph; None: exact

    def __repr__(self) -> str:
        return f"ImageClusters({self.stored}, sizes={self.sizes})"

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.member.bincount(minlength=self.count.clusters).tolist())

    @cached_property
    def typicality(self) -> Tensor:
        """(n,) in 0 to 1: how densely an image lies among others, the densest of its group being 1 (TypiClust's)."""
        density = self.graph.density.double()
        most = density.new_zeros(self.count.clusters).scatter_reduce(0, self.member, density, "amax")
        return density / most[self.member]

    def typical(self, group: int, shown: int = SHOWN) -> list[int]:
        """Rows of a group, counted from 0, the most typical first; no two of them all but the same picture."""
        rows = torch.nonzero(self.member == group).flatten()
        rows = rows[self.typicality[rows].argsort(descending=True, stable=True)]
        kept: list[int] = []
        for row in rows.tolist():
            if len(kept) == shown:
                break
            if not kept or float((self.graph.rows[kept] @ self.graph.rows[row]).amax()) < COPY:
                kept.append(row)
        return kept

    def columns(self) -> dict[str, Column]:
        """name, cluster (from 1), typicality."""
        return {
            "name": list(self.stored.paths),
            "cluster": (self.member + 1).numpy(),
            "typicality": np.round(self.typicality.numpy(), 4),
        }

    def write(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """A table, one line an image, .csv or .parquet."""
        return write_table(out, self.columns(), overwrite=overwrite)

    def sheet(
        self, out: str | Path, *, source: Source | None = None, shown: int = SHOWN, overwrite: bool = False
    ) -> Path:
        """A PNG: of every group its most typical pictures."""
        blocks = [
            Shown(
                f"Group {group + 1}: {size:,} images",
                [(row, (f"{float(self.typicality[row]):.2f}",)) for row in self.typical(group, shown)],
            )
            for group, size in enumerate(self.sizes)
        ]
        title = f"Groups of {len(self.stored):,} images: {self.count}"
        return labels_sheet(title, blocks, self.stored, out, source=source, overwrite=overwrite)

    def lines(self, most: int = 40) -> list[str]:
        """For a terminal: how many groups, their sizes, and the three most typical images of each."""
        said = [f"groups: {self.count}"]
        for group, size in enumerate(self.sizes[:most]):
            names = ", ".join(self.stored.paths[row] for row in self.typical(group, 3))
            said.append(f"  {group + 1}: {size:,} images, such as {names}")
        return said + ([f"  … and {len(self.sizes) - most} more"] if len(self.sizes) > most else [])


def cluster_images(
    stored: Embeddings, clusters: int | None = None, *, seed: int = 0, engine: GraphEngine = "auto"
) -> ImageClusters:
    """The groups of ``stored``: as many as :func:`eigenview.diagnostics.cluster_count` finds, or ``clusters``.

    They are found among up to 4,000 images drawn by ``seed``; the group of the others is told by the graph of all
    images, as a label would be.
    """
    if len(stored) < 3:
        raise DataError(f"groups need at least three images; {printable(stored.place)} has {len(stored)}")
    nodes = max(COUNTED, 100 * (clusters or 0))
    count, chosen, groups = clustered_rows(stored.vectors, clusters=clusters, nodes=nodes, seed=seed)
    kept = kept_graph(stored, engine=engine)
    graph = kept.graph
    member = torch.full((len(graph),), NO_LABEL)
    member[chosen] = groups
    if len(chosen) < len(graph) and count.clusters > 1:
        told = label_spreading(graph, member, classes=count.clusters).argmax(dim=1)
        member = torch.where(member == NO_LABEL, told, member)
    elif len(chosen) < len(graph):
        member = torch.zeros_like(member)
    order = member.bincount(minlength=count.clusters).argsort(descending=True, stable=True)  # the largest first
    place = torch.empty_like(order)
    place[order] = torch.arange(count.clusters)
    return ImageClusters(stored, count, place[member], graph, kept.recall)
