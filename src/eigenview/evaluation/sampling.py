"""Some images of a source as a run sees them, kept in its folder for the report: features, groups, small pictures."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from eigenview.batches.identity import image_keys
from eigenview.data import LazyImage, Source, UnreadableImage, subset
from eigenview.data.modes import as_picture
from eigenview.data.source import NO_LABEL
from eigenview.diagnostics import cluster_count
from eigenview.errors import DataError
from eigenview.evaluation.observation import Observation, nearest_prototype
from eigenview.evaluation.similarity import cluster
from eigenview.evaluation.subjects import Folds, Task
from eigenview.runs import PUBLISHED, OpenedRun, Packed, RunDirectory, Words, label_sample, write_sample
from eigenview.views import Recipe
from eigenview.views.picture import photo_views, view_pixels

FEWEST = 3  # images of a sample
LARGEST_SIDE = 48  # pixels of a thumbnail; smaller images keep their own size
SHEET_CELLS = 32  # thumbnails along a side of a sheet
SHOWN_IMAGES, SHOWN_VIEWS, VIEW_SIDE = 6, 8, 96  # of the picture of the views
LEAST_CLUSTERS, UNLABELLED_CLUSTERS = 2, 10  # where the graph suggests one cloud, so many parts of it are shown


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
    views = view_pixels(photo_views(photos, range(len(photos)), recipe, seed=seed), recipe)[:SHOWN_VIEWS]
    pictures = []
    for place, photo in enumerate(photos):
        pictures += [square(photo, VIEW_SIDE), *(_fitted(view[place], VIEW_SIDE) for view in views)]
    sheet = packed(pictures, VIEW_SIDE, len(views) + 1)
    return Packed([sheet], VIEW_SIDE, len(views) + 1, len(photos))


def square(photo: LazyImage, side: int) -> Image.Image:
    """The central square of a photo, ``side`` pixels wide; grey where it cannot be decoded."""
    reduce = next(factor for factor in (8, 4, 2, 1) if factor == 1 or factor * side <= min(photo.size))
    try:
        return _fitted(photo.pixels(reduce=reduce), side)
    except UnreadableImage:  # damaged since it was embedded
        return Image.new("RGB", (side, side), "grey")


def _fitted(pixels: NDArray[np.uint8], side: int) -> Image.Image:
    """The central square as an RGB picture; pixels stay visible when it is enlarged."""
    picture = as_picture(pixels).convert("RGB")
    is_larger = min(picture.size) > side
    how = Image.Resampling.LANCZOS if is_larger else Image.Resampling.NEAREST
    return ImageOps.fit(picture, (side, side), how)


def packed(pictures: Sequence[Image.Image], side: int, columns: int) -> Image.Image:
    """Pictures of one size in rows of ``columns``."""
    sheet = Image.new("RGB", (columns * side, -(-len(pictures) // columns) * side))
    for place, picture in enumerate(pictures):
        sheet.paste(picture, (place % columns * side, place // columns * side))
    return sheet
