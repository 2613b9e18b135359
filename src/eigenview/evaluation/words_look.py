"""What a run that learnt from captions makes of them: figures of each side, and examples of words that find images."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.data import Source
from eigenview.diagnostics import effective_rank
from eigenview.graph.nearest import nearest
from eigenview.losses import alignment, uniformity
from eigenview.runs import OpenedRun, Words, WordsExample

EXAMPLES, NEAREST = 8, 5


@torch.no_grad()
def words_look(run: OpenedRun, source: Source, projections: Tensor) -> Words | None:
    """Of the items of ``source``, whose ``projections`` (n, d) are known; None where there are no words.

    Examples are evenly spread, each the first caption of an item, with the items that it finds.
    """
    captions = [source.captions(index) for index in range(len(source))]
    rows = [row for row, several in enumerate(captions) if several]
    tower = run.text
    if tower is None or len(rows) < 2:
        return None
    texts = normalize(tower.embed([captions[row][0] for row in rows]), dim=1)
    images = normalize(projections.float(), dim=1)
    paired = images[rows]
    near = nearest(images, texts[:: max(1, len(rows) // EXAMPLES)][:EXAMPLES], k=min(NEAREST, len(images)))
    examples = tuple(
        WordsExample(captions[row][0], row, tuple(others), tuple(round(cosine, 4) for cosine in cosines))
        for row, others, cosines in zip(
            rows[:: max(1, len(rows) // EXAMPLES)], near.index.tolist(), near.similarity.tolist(), strict=False
        )
    )
    figures = {
        "alignment of images with their captions": float(alignment(paired, texts)),
        "modality gap": float((paired.mean(dim=0) - texts.mean(dim=0)).norm()),
        "uniformity of images": float(uniformity(paired)),
        "uniformity of captions": float(uniformity(texts)),
        "effective rank of images": float(effective_rank(paired)),
        "effective rank of captions": float(effective_rank(texts)),
    }
    return Words(figures, examples)
