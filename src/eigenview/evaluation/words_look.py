"""What a run that learnt from captions makes of them: figures of both sides, words that find images, images words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eigenview.data import Source
from eigenview.diagnostics.modalities import Modalities, both_modalities
from eigenview.evaluation.observation import Observation
from eigenview.graph.nearest import nearest
from eigenview.runs import OpenedRun, Words, WordsExample
from eigenview.runs.sample import FoundWords

EXAMPLES, NEAREST = 8, 5
NEAREST_WORDS = 3


@dataclass(frozen=True)
class _Read:
    """The items that have captions: their rows, the captions of each, and a vector for the first of each."""

    rows: list[int]
    captions: list[tuple[str, ...]]
    first: Tensor  # (rows, d)


def _read(run: OpenedRun, source: Source) -> _Read | None:
    """None where there are no words, or fewer than two."""
    tower = run.text
    if tower is None:
        return None
    captions = [source.captions(index) for index in range(len(source))]
    rows = [row for row, several in enumerate(captions) if several]
    if len(rows) < 2:
        return None
    kept = [captions[row] for row in rows]
    return _Read(rows, kept, tower.embed([several[0] for several in kept]))


@torch.no_grad()
def modality_figures(run: OpenedRun, source: Source, observation: Observation) -> Modalities | None:
    """Of the items of ``source``, which were observed, that have captions; None of a run that knows no words."""
    read = _read(run, source) if observation.has_head else None
    if read is None:
        return None
    first, second = (view[read.rows] for view in observation.views)
    several = [row for row, captions in enumerate(read.captions) if len(captions) > 1]
    rewrites = None
    if len(several) > 1:
        rewrites = read.first[several], run.needed_text().embed([read.captions[row][1] for row in several])
    distinct = {several[0].casefold(): row for row, several in reversed([*enumerate(read.captions)])}
    return both_modalities(
        observation.projection[read.rows],
        read.first,
        views=(first, second),
        rewrites=rewrites,
        distinct=sorted(distinct.values()),
    )


@torch.no_grad()
def words_look(run: OpenedRun, source: Source, projections: Tensor) -> Words | None:
    """Of the items of ``source``, whose ``projections`` (n, d) are known; None where there are no words.

    Examples are evenly spread: the first caption of an item with the items that it finds, and an item with the captions
    that it finds.
    """
    read = _read(run, source)
    if read is None:
        return None
    images, step = projections.float(), max(1, len(read.rows) // EXAMPLES)
    shown = list(range(0, len(read.rows), step))[:EXAMPLES]
    near = nearest(images, read.first[shown], k=min(NEAREST, len(images)))
    examples = tuple(
        WordsExample(read.captions[place][0], read.rows[place], tuple(rows), tuple(round(cosine, 4) for cosine in said))
        for place, rows, said in zip(shown, near.index.tolist(), near.similarity.tolist(), strict=True)
    )
    back = nearest(read.first, images[[read.rows[place] for place in shown]], k=min(NEAREST_WORDS, len(read.rows)))
    answers = tuple(
        FoundWords(
            read.rows[place],
            tuple(read.captions[other][0] for other in others),
            tuple(round(cosine, 4) for cosine in said),
            place in others,
        )
        for place, others, said in zip(shown, back.index.tolist(), back.similarity.tolist(), strict=True)
    )
    return Words(examples, answers)
