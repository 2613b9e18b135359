"""Is a run any good, without labels: its encoder and head on views of its own recipe, and its captions."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from eigenview.data import Source, subset
from eigenview.diagnostics import Diagnosis
from eigenview.diagnostics.diagnosis import diagnosed
from eigenview.diagnostics.modalities import Modalities, both_modalities
from eigenview.errors import SettingError
from eigenview.evaluation.observation import Observation, Observed, diagnose_observation, observe
from eigenview.evaluation.sampling import save_sample
from eigenview.files import check_writable
from eigenview.graph.nearest import nearest
from eigenview.runs import OpenedRun, Words, WordsExample
from eigenview.runs.sample import FoundWords

EXAMPLES, NEAREST = 8, 5
NEAREST_WORDS = 3
Where = Literal["projection", "features"]


@dataclass(frozen=True)
class _Read:
    """The items that have captions: their rows, the captions of each, and a vector for the first of each."""

    rows: list[int]
    captions: list[tuple[str, ...]]
    first: Tensor  # (rows, d)


@torch.no_grad()
def _read_words(run: OpenedRun, source: Source) -> _Read | None:
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
def _modality_figures(run: OpenedRun, read: _Read, observation: Observation) -> Modalities:
    """Of the observed items that have captions."""
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


def _words_look(read: _Read, projections: Tensor) -> Words:
    """Of observed items, whose ``projections`` (n, d) are known.

    Examples are evenly spread: the first caption of an item with the items that it finds, and an item with the captions
    that it finds.
    """
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


def diagnose_run(
    run: OpenedRun,
    source: Source,
    *,
    items: int = 5000,
    where: Where = "projection",
    seed: int = 0,
    workers: int | str = "auto",
    keeps: bool = False,
) -> Diagnosis:
    """Figures and a verdict for a run's encoder and head on ``items`` images of ``source``, drawn by ``seed``.

    ``where``: what the loss saw (``projection``), or the features before the head. A run without a head has features
    only. ``keeps``: store the diagnosis of what the loss saw and a sample of these images in the run, for the report.
    """
    if where not in ("projection", "features"):
        raise SettingError(f"where is projection or features; got {where!r}")
    keeps = keeps and where == "projection"  # what the report shows
    if keeps:
        check_writable(run.folder)
    name = f"the checkpoint {run.checkpoint} of {run.folder}"
    observation = observe(Observed.of_run(run), source, items=items, seed=seed, workers=workers, name=name)
    judged = observation
    if where == "features":  # as if there were no head
        judged = replace(judged, projection=judged.features, views=judged.view_features, has_head=False)
    prototypes = run.prototypes if judged.has_head else ()
    diagnosis = diagnose_observation(judged, prototypes=prototypes, progress=run.directory.progress())
    read = _read_words(run, subset(source, observation.index)) if observation.has_head else None
    if read is not None and judged.has_head:
        figures = replace(diagnosis.figures, modalities=_modality_figures(run, read, judged))
        diagnosis = diagnosed(figures, seed=diagnosis.seed)
    if keeps:
        run.directory.save_diagnosis(diagnosis)
        words = None if read is None else _words_look(read, observation.projection)
        save_sample(run, source, observation, words=words)
    return diagnosis
