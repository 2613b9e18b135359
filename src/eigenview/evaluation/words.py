"""What words and images say of each other: captions that find their images, and classes known by name alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.batches import PROJECTION
from eigenview.batches.identity import data_identity, images_identity, settings_identity, weights_identity
from eigenview.data import Source, open_images, subset
from eigenview.distributed import rank
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation.evaluating import PROTOCOLS, was_trained_on
from eigenview.evaluation.scores import Origin, mean_score
from eigenview.evaluation.similarity import RANKED_ELEMENTS
from eigenview.evaluation.subjects import Measuring, Subject
from eigenview.files import JSON, read_text
from eigenview.graph.nearest import similarities
from eigenview.names import Table, printable
from eigenview.nn import TextTower
from eigenview.runs import SEEN, OpenedRun, Score

K = (1, 5, 10)
TEMPLATES = (
    "a photo of a {}",
    "a picture of a {}",
    "a {} in a photo",
    "a close up of a {}",
    "there is a {}",
    "a small {}",
    "a large {}",
)


@dataclass(frozen=True)
class CaptionRecall:
    """1 where the right one is among the k nearest, else 0; means are recall@k."""

    to_image: dict[int, Tensor]  # (captions,) each asks for its image
    to_text: dict[int, Tensor]  # (images,) each asks for any of its captions


@torch.no_grad()
def caption_recall(images: Tensor, texts: Tensor, owner: Tensor, *, k: Sequence[int] = K) -> CaptionRecall:
    """Recall@k by cosine, both ways. ``images`` (n, d), ``texts`` (m, d), ``owner`` (m,) whose caption each text is.

    What is exactly as near as the right one counts as nearer, so that constant embeddings find nothing.
    """
    if owner.shape != (len(texts),) or owner.dtype != torch.int64:
        raise ShapeError(
            f"owner says of each of {len(texts)} texts whose it is; got {owner.dtype} {tuple(owner.shape)}"
        )
    if not k or min(k) < 1:
        raise SettingError(f"k is a list of numbers from 1 on, such as (1, 5, 10); got {k!r}")
    if len(torch.unique(owner)) != len(images) or int(owner.min()) < 0 or int(owner.max()) >= len(images):
        raise DataError("every image needs a caption, and every caption an image")
    forth = _ranks(images, texts, owner, torch.arange(len(images)))
    back = _ranks(texts, images, torch.arange(len(images)), owner)
    return CaptionRecall(*({number: (ranks < number).double() for number in k} for ranks in (forth, back)))


def _ranks(bank: Tensor, queries: Tensor, query_items: Tensor, bank_items: Tensor) -> Tensor:
    """(q,) how many rows of other items are at least as near as the nearest of one's own."""
    ranks = []
    for where, scores in similarities(bank, queries, elements=RANKED_ELEMENTS):
        is_own = bank_items[None, :] == query_items[where, None]
        nearest = scores.masked_fill(~is_own, -torch.inf).amax(dim=1, keepdim=True)
        ranks.append(((scores >= nearest) & ~is_own).sum(dim=1))
    return torch.cat(ranks)


def by_image(hits: Tensor, owner: Tensor) -> Tensor:
    """(n,) a number an image, with the mean of ``hits`` (m,) over captions: an image's captions are found together.

    They are no independent draws, so intervals are over images.
    """
    counts = torch.bincount(owner)
    return torch.bincount(owner, hits) * len(counts) / len(owner)


def _origin(run: OpenedRun, source: Source, test: str, name: str, how: Measuring) -> Origin:
    """Of scores of both towers, which say so where the run saw the images in training."""
    data: dict[str, JSON] = {"test": test, **({"set": name} if name else {})}
    data |= {SEEN: True} if was_trained_on(run, source) else {}
    return Origin(run.name, data, weights_identity(run.encoder, run.needed_head(), run.needed_text()), how.seed)


def caption_scores(
    run: OpenedRun, source: Source, *, name: str = "", measuring: Measuring | None = None
) -> Iterator[Score]:
    """Recall@1, 5 and 10 of a run's two towers on the captions of ``source``, kept in ``RUN/evaluation``."""
    how = measuring or Measuring()
    tower = run.needed_text()
    features = Subject.of_run(run, with_head=True).features(source, [PROJECTION], how)
    captions = [source.captions(int(index)) for index in features.index]
    kept = [row for row, several in enumerate(captions) if several]
    if not kept:
        raise DataError(f"{source.describe().place} has no captions, and these scores need them")
    texts = [caption for row in kept for caption in captions[row]]
    owner = torch.tensor([place for place, row in enumerate(kept) for _ in captions[row]])
    recall = caption_recall(features[PROJECTION][kept], tower.embed(texts), owner)
    test = f"{len(kept)} of {images_identity(source)}/{settings_identity({'texts': texts})}"
    origin = _origin(run, source, test, name or Path(source.describe().place).name, how)
    protocol: dict[str, JSON] = {"layer": PROJECTION, "ties": "against", "interval": "over images"}
    to_image = {number: by_image(hits, owner) for number, hits in recall.to_image.items()}
    for way, hits in (("text to image", to_image), ("image to text", recall.to_text)):
        for number, items in hits.items():
            score = mean_score(items, origin, name=way, metric=f"recall@{number}", protocol=protocol)
            if rank(how.group) == 0:
                run.directory.save_score(score)
            yield score


def read_templates(given: Sequence[str]) -> tuple[str, ...]:
    """Prompts with the class's place as {}; a file is read, one in each line."""
    templates: list[str] = []
    for words in given:
        is_file = "{}" not in words and Path(words).is_file()
        templates += filter(None, map(str.strip, read_text(Path(words)).splitlines())) if is_file else [words]
    for template in templates:
        if template.count("{}") != 1:
            raise SettingError(f"a prompt has the class's place as {{}}, once: 'a photo of a {{}}'; got {template!r}")
    if not templates:
        raise SettingError("no prompt was given; 'a photo of a {}' is the usual one")
    return tuple(templates)


@torch.no_grad()
def class_vectors(tower: TextTower, classes: Sequence[str], templates: Sequence[str] = TEMPLATES) -> Tensor:
    """(classes, d): of each the mean over all prompts of unit vectors, on the sphere again (the ensemble)."""
    templates = read_templates(templates)
    words = [name.replace("_", " ").replace("-", " ") for name in classes]
    prompts = [template.replace("{}", word) for word in words for template in templates]
    return normalize(tower.embed(prompts).view(len(words), len(templates), -1).mean(dim=1), dim=1)


def zero_shot_scores(
    run: OpenedRun,
    source: Source,
    *,
    templates: Sequence[str] = TEMPLATES,
    name: str = "",
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """The accuracy of a run that learnt from captions on labelled images it has no labels of; kept in the run."""
    how = measuring or Measuring()
    if source.classes is None:
        raise DataError(f"{printable(source.describe().place)} has no names of classes, and words need them")
    classes, tower = source.classes, run.needed_text()
    if source.labels is not None:
        source = subset(source, np.flatnonzero(np.asarray(source.labels) >= 0))
    features = Subject.of_run(run, with_head=True).features(source, [PROJECTION], how)
    vectors = class_vectors(tower, classes, templates)
    predicted = (normalize(features[PROJECTION], dim=1) @ vectors.T).argmax(dim=1)
    score = mean_score(
        (predicted == features.labelled).double(),
        _origin(run, source, data_identity(source, features.labelled), name, how),
        name="zero-shot",
        metric="accuracy",
        protocol={"layer": PROJECTION, "templates": list(templates), "classes": list(classes)},
    )
    if rank(how.group) == 0:
        run.directory.save_score(score)
    yield score


WORD_PROTOCOLS: Table[Callable[..., Iterator[Score]]] = Table(  # of runs that learnt from captions, each by itself
    "protocol", {"captions": caption_scores, "zero-shot": zero_shot_scores}
)
EVERY_PROTOCOL: Table[object] = Table("protocol", {**PROTOCOLS, **WORD_PROTOCOLS})


def are_by_words(protocols: Sequence[str], *, templates: Sequence[str] = (), beside: Sequence[object] = ()) -> bool:
    """Whether one of ``WORD_PROTOCOLS`` is asked for; refused with others, or with more than a source (``beside``)."""
    for name in protocols:  # before any work is done
        EVERY_PROTOCOL.find(name)
    asked = [name for name in protocols if name in WORD_PROTOCOLS]
    if templates and "zero-shot" not in asked:
        raise SettingError("templates are prompts of zero-shot: give --protocol zero-shot with them")
    if asked and (len(protocols) > 1 or any(beside)):
        raise SettingError(f"{protocols[0]} is measured by itself, on one SOURCE; leave the other options out")
    return bool(asked)


def word_scores(
    run: OpenedRun,
    protocols: Sequence[str],
    source: str | Path | Source,
    *,
    templates: Sequence[str] = (),
    measuring: Measuring | None = None,
) -> Iterator[Score]:
    """The scores of the one of ``WORD_PROTOCOLS`` that is asked for; ``templates`` or files of them for zero-shot."""
    are_by_words(protocols, templates=templates)
    more = {"templates": read_templates(templates)} if templates else {}
    run.needed_text()
    name = "" if isinstance(source, Source) else Path(str(source).partition("?")[0]).name
    images = source if isinstance(source, Source) else open_images(source, needs_index=True)
    return WORD_PROTOCOLS.find(protocols[0])(run, images, name=name, measuring=measuring, **more)
