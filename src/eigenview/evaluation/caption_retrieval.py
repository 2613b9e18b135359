"""Retrieval between images and captions: does a caption find its image, and an image one of its captions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from eigenview.batches import PROJECTION
from eigenview.batches.identity import images_identity, settings_identity, weights_identity
from eigenview.data import Source
from eigenview.distributed import rank
from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation.evaluating import was_trained_on
from eigenview.evaluation.scores import Origin, mean_score
from eigenview.evaluation.subjects import Measuring, Subject
from eigenview.files import JSON
from eigenview.graph.nearest import similarities
from eigenview.runs import SEEN, OpenedRun, Score

K = (1, 5, 10)
RANKED_ELEMENTS = 1 << 22  # similarities at a time


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


def caption_scores(
    run: OpenedRun, source: Source, *, name: str = "", measuring: Measuring | None = None
) -> Iterator[Score]:
    """Recall@1, 5 and 10 of a run's two towers on the captions of ``source``, kept in ``RUN/evaluation``."""
    how = measuring or Measuring()
    tower = run.needed_text()
    subject = Subject.of_run(run, with_head=True)
    features = subject.features(source, [PROJECTION], how)
    captions = [source.captions(int(index)) for index in features.index]
    kept = [row for row, several in enumerate(captions) if several]
    if not kept:
        raise DataError(f"{source.describe().place} has no captions, and these scores need them")
    texts = [caption for row in kept for caption in captions[row]]
    owner = torch.tensor([place for place, row in enumerate(kept) for _ in captions[row]])
    recall = caption_recall(features[PROJECTION][kept], tower.embed(texts), owner)
    data: dict[str, JSON] = {
        "test": f"{len(kept)} of {images_identity(source)}/{settings_identity({'texts': texts})}",
        "set": name or Path(source.describe().place).name,
    }
    if was_trained_on(run, source):
        data[SEEN] = True
    origin = Origin(subject.name, data, weights_identity(run.encoder, run.needed_head(), tower), how.seed)
    protocol: dict[str, JSON] = {"layer": PROJECTION, "ties": "against", "interval": "over images"}
    to_image = {number: by_image(hits, owner) for number, hits in recall.to_image.items()}
    for way, hits in (("text to image", to_image), ("image to text", recall.to_text)):
        for number, items in hits.items():
            score = mean_score(items, origin, name=way, metric=f"recall@{number}", protocol=protocol)
            if rank(how.group) == 0:
                run.directory.save_score(score)
            yield score
