"""Is a run any good, without labels: its encoder and head on views of its own recipe, diagnosed and sampled."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from eigenview.batches.identity import image_keys
from eigenview.data import LazyImage, Source, UnreadableImage, subset
from eigenview.data.modes import as_picture
from eigenview.data.source import NO_LABEL
from eigenview.diagnostics import Diagnosis, cluster_count
from eigenview.diagnostics.diagnosis import diagnosed
from eigenview.diagnostics.modalities import Modalities, both_modalities
from eigenview.errors import DataError, SettingError
from eigenview.evaluation.observation import (
    Observation,
    Observed,
    diagnose_observation,
    nearest_prototype,
    observe,
)
from eigenview.evaluation.similarity import cluster
from eigenview.evaluation.subjects import Folds, Task
from eigenview.files import check_writable
from eigenview.graph.nearest import nearest
from eigenview.runs import PUBLISHED, OpenedRun, Packed, RunDirectory, Words, WordsExample, label_sample, write_sample
from eigenview.runs.sample import FoundWords
from eigenview.views import Cropper, Recipe, Views
from eigenview.views.picture import view_pixels

EXAMPLES, NEAREST = 8, 5
NEAREST_WORDS = 3
FEWEST = 3  # images of a sample
LARGEST_SIDE = 48  # pixels of a thumbnail; smaller images keep their own size
SHEET_CELLS = 32  # thumbnails along a side of a sheet
SHOWN_IMAGES, SHOWN_VIEWS, VIEW_SIDE = 6, 8, 96  # of the picture of the views
LEAST_CLUSTERS, UNLABELLED_CLUSTERS = 2, 10  # where the graph suggests one cloud, so many parts of it are shown
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


def save_sample(
    run: OpenedRun | RunDirectory,
    source: Source,
    observation: Observation,
    *,
    outliers: Sequence[int] = (),
    copies: Sequence[Sequence[int]] = (),
    words: Words | None = None,
) -> Path:
    """``RUN/sample`` for the report. Groups: as many as there are classes; without labels, what the graph suggests.

    ``outliers`` and ``copies`` (sets of images that are one picture) are rows of the observation. Vectors that were
    made elsewhere have a directory and no run, hence no views.
    """
    if len(observation.index) < FEWEST:
        raise DataError(f"a sample needs at least {FEWEST} images; there are {len(observation.index)}")
    chosen, labels = subset(source, observation.index), observation.labels
    groups = 0 if labels is None else int((np.unique(labels) >= 0).sum())
    groups = groups if groups > 1 else cluster_count(observation.features, seed=observation.seed).clusters
    groups = min(groups if groups >= LEAST_CLUSTERS else UNLABELLED_CLUSTERS, len(observation.features) // 2 + 1)
    sample: dict[str, object] = {
        "features": observation.features.numpy(),
        "index": observation.index,
        "labels": labels,
        "clusters": cluster(observation.features, groups, seed=observation.seed).numpy(),
        "names": [chosen.image(place).name for place in range(len(chosen))],
        "classes": None if labels is None or source.classes is None else list(source.classes),
        "source": str(source.describe()),
        "seed": observation.seed,
        "checkpoint": run.checkpoint if isinstance(run, OpenedRun) else PUBLISHED,
        "keys": list(image_keys(chosen)),
        "outliers": list(outliers),
        "copies": [list(members) for members in copies],
    }
    if observation.has_head and isinstance(run, OpenedRun):
        first, second = observation.views
        sample |= {"first_view": first.numpy(), "second_view": second.numpy()}
        fitting = [table for table in run.prototypes[:1] if table.shape[1] == first.shape[1]]
        sample["prototypes"] = nearest_prototype(first, fitting[0]).numpy() if fitting else None
        sample["words"] = None if words is None else asdict(words)
    views = _views(chosen, run.recipe, run.directory.seed) if isinstance(run, OpenedRun) else None
    return write_sample(run.folder, sample, thumbnails=_thumbnails(chosen), views=views)


def label_stored_sample(run: OpenedRun, tasks: Sequence[Task | Folds]) -> bool:
    """Labels for the run's stored sample from a task that has the very same images, so that the map shows classes.

    False where the sample has labels, or no task has half of its images.
    """
    sample = run.directory.sample()
    if sample is None or sample.labels is not None or not sample.keys:
        return False
    for task in tasks:
        known: dict[str, int] = {}
        for source in (task.train, task.test):
            if source.labels is not None:
                known |= zip(image_keys(source), source.labels.tolist(), strict=True)
        known.pop("", None)
        labels = np.array([known.get(key, NO_LABEL) for key in sample.keys])
        if (labels != NO_LABEL).mean() >= 0.5:
            label_sample(run.folder, labels, task.train.classes)
            return True
    return False


def _thumbnails(chosen: Source) -> Packed:
    """Sides are multiples of 8, so that in a JPEG without chroma subsampling no thumbnail bleeds into the next."""
    shorter = min(chosen.image(0).size)
    side = min(LARGEST_SIDE, 8 * -(-shorter // 8))
    columns = min(SHEET_CELLS, max(1, round(len(chosen) ** 0.5)))
    rows = min(SHEET_CELLS, -(-len(chosen) // columns))
    sheets = []
    for start in range(0, len(chosen), columns * rows):
        places = range(start, min(start + columns * rows, len(chosen)))
        sheets.append(packed([square(chosen.image(place), side) for place in places], side, columns))
    return Packed(sheets, side, columns, rows)


def _views(chosen: Source, recipe: Recipe, seed: int) -> Packed:
    """A row an image, the original first, then up to eight of its views, as training drew them in epoch 0."""
    step = max(1, len(chosen) // SHOWN_IMAGES)
    photos = [chosen.image(place) for place in range(0, len(chosen), step)][:SHOWN_IMAGES]
    cropper = Cropper(recipe, seed=seed)
    cuts = [cropper(photo, 0, place) for place, photo in enumerate(photos)]
    stacked = [torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2) for crops in zip(*cuts, strict=True)]
    batch = Views(recipe, seed=seed).finish(stacked, list(range(len(photos))), epoch=0)
    views = view_pixels(batch, recipe)[:SHOWN_VIEWS]
    pictures = []
    for place, photo in enumerate(photos):
        pictures += [square(photo, VIEW_SIDE), *(_fitted(view[place], VIEW_SIDE) for view in views)]
    sheet = packed(pictures, VIEW_SIDE, len(views) + 1)
    return Packed([sheet], VIEW_SIDE, len(views) + 1, len(photos))


def square(photo: LazyImage, side: int) -> Image.Image:
    """The central square of a photo, ``side`` pixels wide; grey where it cannot be decoded."""
    width, height = photo.size
    reduce = next(factor for factor in (8, 4, 2, 1) if factor == 1 or factor * side <= min(width, height))
    try:
        pixels = photo.pixels(reduce=reduce)
    except UnreadableImage:  # damaged since it was embedded
        return Image.new("RGB", (side, side), "grey")
    tall, wide = pixels.shape[:2]
    short = min(tall, wide)
    top, left = (tall - short) // 2, (wide - short) // 2
    return _fitted(pixels[top : top + short, left : left + short], side)


def packed(pictures: Sequence[Image.Image], side: int, columns: int) -> Image.Image:
    """Pictures of one size in rows of ``columns``."""
    sheet = Image.new("RGB", (columns * side, -(-len(pictures) // columns) * side))
    for place, picture in enumerate(pictures):
        sheet.paste(picture, (place % columns * side, place // columns * side))
    return sheet


def _fitted(pixels: NDArray[np.uint8], side: int) -> Image.Image:
    """A square array as an RGB picture; pixels stay visible when it is enlarged."""
    picture = as_picture(pixels).convert("RGB")
    smaller = picture.width > side
    return picture.resize((side, side), Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST)


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
    only. ``keeps``: store the diagnosis and a sample of these images in the run, for the report.
    """
    if where not in ("projection", "features"):
        raise SettingError(f"where is projection or features; got {where!r}")
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
