"""A run looked at once: two random views and one without augmentation, for its diagnosis and for its sample;
and runs looked at alike, to be compared without labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.batches import PROJECTION, Extractor, encode_source, typical_shape
from eigenview.data import Source, subset
from eigenview.diagnostics import Diagnosis, RunProgress, Sampling, diagnose, diagnosed, prototype_usage
from eigenview.diagnostics.label_free import LabelFree, label_free
from eigenview.errors import DataError, SettingError
from eigenview.nn import POOLED, Encoder
from eigenview.runs import OpenedRun
from eigenview.runs.by_name import usual_recipe
from eigenview.views import CentreView, Recipe, Views

UNSEEN_EPOCH = 1_000_003  # views are drawn as of this epoch: none that training has seen
ITEMS, VIEWED, VIEWS = 2000, 500, 8  # images seen once; of these, images seen so many times more, for LiDAR
FEWEST = 20


@dataclass(frozen=True)
class Observed:
    """What is looked at: an encoder, perhaps with its head and prototypes, and the recipe that draws its views."""

    encoder: Encoder
    recipe: Recipe
    view: CentreView  # without augmentation
    head: nn.Module | None = None
    prototypes: tuple[Tensor, ...] = ()  # (K, d) each

    @classmethod
    def of_run(cls, run: OpenedRun) -> Observed:
        return cls(run.encoder, run.recipe, run.view, run.head, run.prototypes)


@dataclass(frozen=True)
class Observation:
    """n images of a source as an encoder sees them. Of an encoder without a head, projections are its features."""

    index: NDArray[np.int64]  # (n,) items of the source, in its order
    labels: NDArray[np.int64] | None  # (n,), −1 for none
    features: Tensor  # (n, d) without augmentation
    view_features: Tensor  # (2, n, d) of two random views
    projection: Tensor  # (n, p) without augmentation
    views: Tensor  # (2, n, p) projections of two random views
    has_head: bool
    seed: int

    @classmethod
    def of_features(
        cls, index: NDArray[np.int64], labels: NDArray[np.int64] | None, features: Tensor, seed: int
    ) -> Observation:
        """Of features at hand: no views were drawn."""
        none = features.new_empty(0, *features.shape)
        return cls(index, labels, features, none, features, none, has_head=False, seed=seed)


def observe(
    observed: Observed, source: Source, *, items: int = 5000, seed: int = 0, workers: int | str = "auto", name: str = ""
) -> Observation:
    """Up to ``items`` images of ``source``, drawn by ``seed``: three passes of the encoder; unreadable ones left out.

    ``name`` is what a message calls the encoder.
    """
    if items < 2:
        raise SettingError(f"a diagnosis compares images: items must be at least 2; got {items}")
    if len(source) < 2:
        raise DataError(f"a diagnosis compares images: the source must have at least 2; it has {len(source)}")
    for module in filter(None, (observed.encoder, observed.head)):
        wrong = [key for key, tensor in module.state_dict().items() if not bool(torch.isfinite(tensor).all())]
        if wrong:
            raise DataError(
                f"{name or 'the encoder'} has weights that are not finite ({', '.join(wrong[:3])}): training diverged; "
                "take an earlier checkpoint, or train with a lower learning rate"
            )
    drawn = np.sort(np.random.default_rng(seed).permutation(len(source))[:items])
    chosen = subset(source, drawn)
    pair = Views(observed.recipe.with_crops([replace(observed.recipe.crops[0], count=2)]), seed=seed)
    layers = (POOLED,) if observed.head is None else (POOLED, PROJECTION)
    extractor = Extractor(observed.encoder, layers, observed.head)
    random = encode_source(extractor, chosen, pair, epoch=UNSEEN_EPOCH, workers=workers, title="two views")
    fixed = encode_source(extractor, chosen, observed.view, workers=workers, title="features")
    if len(random.index) < 2 or not torch.equal(random.index, fixed.index):
        raise DataError(f"images are compared: {len(random.index)} of {len(chosen)} could be read; check the source")
    index = drawn[fixed.index.numpy()]
    last = extractor.layers[-1]
    return Observation(
        index=index,
        labels=None if source.labels is None else np.asarray(source.labels)[index],
        features=fixed.layers[POOLED][0],
        view_features=random.layers[POOLED],
        projection=fixed.layers[last][0],
        views=random.layers[last],
        has_head=observed.head is not None,
        seed=seed,
    )


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


def diagnose_observation(
    observation: Observation, *, prototypes: tuple[Tensor, ...] = (), progress: RunProgress | None = None
) -> Diagnosis:
    """Figures and a verdict. What the loss saw is judged; features without a head, around their mean.

    Near-duplicates are sought without augmentation, and their pairs numbered as in the source. Labels serve tolerance
    alone, and no verdict sees them.
    """
    first, second = observation.views
    fitting = [table for table in prototypes if table.shape[1] == first.shape[1] and len(table) > 1]
    usages = [prototype_usage(nearest_prototype(first, table), len(table)) for table in fitting]
    labels = observation.labels
    if labels is not None and not (np.unique(labels[labels >= 0], return_counts=True)[1] > 1).any():
        labels = None  # none is there twice: tolerance compares items of one class
    diagnosis = diagnose(
        first,
        second,
        labels,
        progress=progress,
        usage=min(usages, key=lambda usage: usage.entropy, default=None),  # of the set that is used least evenly
        unaugmented=observation.projection,
        centred=not observation.has_head,
        sampling=Sampling(seed=observation.seed),
    )
    figures = diagnosis.figures
    pairs = tuple((int(observation.index[i]), int(observation.index[j])) for i, j in figures.duplicate_pairs)
    return diagnosed(replace(figures, duplicate_pairs=pairs), seed=observation.seed)


def nearest_prototype(rows: Tensor, prototypes: Tensor) -> Tensor:
    """(n,) the most similar of the prototypes (K, d), by cosine."""
    return (normalize(rows, dim=1) @ normalize(prototypes, dim=1).T).argmax(dim=1)
