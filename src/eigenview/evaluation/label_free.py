"""Runs and encoders measured without labels, all on the same images and through views of the same kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eigenview.batches import Extractor, encode_source, typical_shape
from eigenview.data import Source, subset
from eigenview.diagnostics.label_free import LabelFree, label_free
from eigenview.errors import DataError
from eigenview.evaluation.observation import UNSEEN_EPOCH
from eigenview.nn import POOLED
from eigenview.runs import OpenedRun
from eigenview.runs.by_name import usual_recipe
from eigenview.views import Views

ITEMS, VIEWED, VIEWS = 2000, 500, 8  # images seen once; of these, images seen so many times more, for LiDAR
FEWEST = 20


def measure_without_labels(
    run: OpenedRun, source: Source, *, items: int = ITEMS, seed: int = 0, workers: int | str = "auto"
) -> LabelFree:
    """Measures of the features before the head on ``items`` images of ``source``, drawn by ``seed``.

    Views are those that training would draw of such images by default, at the size the encoder sees, not those that the
    run was trained on: encoders can only be compared by the same views.
    """
    drawn = np.sort(np.random.default_rng(seed).permutation(len(source))[:items])
    if len(drawn) < FEWEST:
        raise DataError(
            f"encoders are compared on at least {FEWEST} images; {source.describe().place} has {len(drawn)}"
        )
    extractor = Extractor(run.encoder, (POOLED,))
    fixed = encode_source(extractor, subset(source, drawn), run.view, workers=workers, title="features")
    recipe = usual_recipe(run.view, typical_shape(source))
    several = Views(recipe.with_crops([replace(recipe.crops[0], count=VIEWS)]), seed=seed)
    few = np.sort(np.random.default_rng(seed + 1).permutation(drawn)[:VIEWED])
    random = encode_source(
        extractor, subset(source, few), several, epoch=UNSEEN_EPOCH, workers=workers, batch_size=64, title="views"
    )
    return label_free(fixed.layers[POOLED][0], random.layers[POOLED], seed=seed)
