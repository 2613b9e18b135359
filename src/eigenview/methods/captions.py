"""Methods that learn from captions: an image tower, a text tower, and a loss on the graph between them."""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.distributed import Group, gather_rows, row_counts, row_offset
from eigenview.errors import DataError, SettingError
from eigenview.losses import CLIPLoss, SigLIPLoss
from eigenview.methods.caption_map import GivenVectors, caption_map, caption_vectors, given_vectors
from eigenview.methods.method import (
    HeadPart,
    Method,
    MethodContext,
    MethodParts,
    MethodSettings,
    StepOutput,
    TextPart,
    ViewedBatch,
    by_view,
    objective_from,
)
from eigenview.nn import Encoder, build_head, in_micro_batches
from eigenview.nn.settings import TextSettings
from eigenview.nn.text import by_length
from eigenview.nn.tokens import text_digest
from eigenview.views.parameters import uniforms, view_keys

CAPTION = 1 << 40  # in the place of a view's number, which none has: captions are drawn apart from views
FEWEST_WORDS = 2  # of a caption that is drawn; LaCLIP takes the first where it has fewer
UNSPACED = re.compile(  # letters of scripts without spaces: Thai to Tibetan, Burmese, Khmer, kana, ideographs
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


class CaptionSettings(MethodSettings):
    head: str = "clip"
    text: TextSettings = TextSettings()
    caption_weights: tuple[float, ...] = (1.0,)  # chances of an image's captions by their place, the last for all that
    # follow: one of all is drawn in each step (LaCLIP); 1,0: always the first
    repeats: Literal["positives", "left-out"] = "positives"  # images or captions that come twice in a batch belong
    # together, or only the first of them counts

    @field_validator("caption_weights")
    @classmethod
    def _can_be_drawn(cls, weights: tuple[float, ...]) -> tuple[float, ...]:
        if not weights or weights[0] <= 0 or not all(0 <= weight < math.inf for weight in weights):
            raise ValueError(f"caption_weights are numbers from 0 on, the first above 0; got {weights}")
        return weights


class CaptionMethod(Method):
    """Every image with one of its captions: both towers end in embeddings of one width."""

    fewest_views: ClassVar = 1
    settings: CaptionSettings
    objective: CLIPLoss | SigLIPLoss

    def __init__(self, encoder: Encoder, settings: CaptionSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        assert context.tokenizer is not None
        self.tokenizer = context.tokenizer
        self.head = self.build_head()
        self.text = context.text or settings.text.build(self.tokenizer)
        self.text_head = build_head("clip", self.text.feature_width, output=self.head.output_width)

    @classmethod
    def text_settings(cls, settings: MethodSettings) -> TextSettings | None:
        return settings.text if isinstance(settings, CaptionSettings) else None

    def soft_targets(self, captions: Sequence[str], tokens: Tensor) -> Tensor | None:
        """Fixed vectors (m, p) of the captions, where they say how far images belong together; None: ids say it."""
        return None

    def logs(self) -> dict[str, Tensor]:
        """What the objective has learnt."""
        learnt = {name: value.detach() for name, value in self.objective.named_parameters(recurse=False)}
        return {"scale": learnt.pop("log_scale").exp(), **learnt} if "log_scale" in learnt else learnt

    def undecayed_parts(self) -> tuple[str, ...]:
        return tuple(f"objective.{name}" for name, _ in self.objective.named_parameters())

    def step(self, batch: ViewedBatch) -> StepOutput:
        images, micro_batch = by_view(self.head(self.features(batch)), batch.items), self.context.micro_batch
        captions = drawn_captions(batch, self.settings.caption_weights, self.context.seed)
        has_one = torch.tensor([caption is not None for caption in captions], device=images[0].device)
        drawn = [caption for caption in captions if caption is not None]
        tokens = self.tokenizer(drawn).to(images[0].device)
        texts = self.text_head(by_length(lambda rows: in_micro_batches(self.text, rows, micro_batch), tokens))
        more = self.soft_targets(drawn, tokens)
        ids, is_first, repeats = joined_ids(batch.indices, captions, self.context.group)
        kept = is_first if self.settings.repeats == "left-out" else torch.ones_like(is_first)
        if more is not None:
            kept = kept & has_one  # an image about which nothing is known has no target
            if repeats and self.settings.repeats == "positives":
                more = joined_vectors(more, ids[has_one], self.context.group)
        vectors = None if more is None else more[kept[has_one]]
        loss = self.objective(
            torch.cat([view[kept] for view in images]),
            texts[kept[has_one]],
            image_ids=ids[kept].repeat(len(images)),
            text_ids=ids[kept & has_one],
            **({} if vectors is None else {"image_vectors": vectors.repeat(len(images), 1), "text_vectors": vectors}),
        )
        views = [images[0][has_one].detach(), texts.detach()]
        gap = (normalize(views[0], dim=1).mean(dim=0) - normalize(views[1], dim=1).mean(dim=0)).norm()
        logs = {**self.logs(), "modality_gap": gap, "repeats": torch.tensor(float(repeats))}
        return StepOutput(loss, torch.stack(views), logs, note=self._note(repeats, is_soft=more is not None))

    def _note(self, repeats: int, *, is_soft: bool) -> str | None:
        if not repeats:
            return None
        what = "count once"
        if self.settings.repeats == "positives":
            what = "have one soft target, are alike in full" if is_soft else "belong together"
        return f"batches hold an image or a caption more than once: such rows {what}, and are no negatives"

    def parts(self) -> MethodParts:
        chosen = self.settings.text
        head = HeadPart("clip", output=self.head.output_width, prefix="text_head.")
        kept = {"tokenizer": text_digest(self.tokenizer.text), "config": getattr(self.text, "config", "")}
        text = TextPart(chosen.name, chosen.width, chosen.depth, head, **kept)
        has_scale = "log_scale" in dict(self.objective.named_parameters())
        return replace(super().parts(), text=text, log_scale="objective.log_scale" if has_scale else "")


def drawn_captions(batch: ViewedBatch, weights: Sequence[float], seed: int) -> list[str | None]:
    """One caption of every image, drawn by (seed, epoch, index) alone; None of an image that has none."""
    if batch.captions is None or not any(any(captions) for captions in batch.captions):
        raise DataError("a method that learns from captions met a batch without any; does the source have them?")
    keys = view_keys(seed, batch.epoch, batch.indices.cpu().numpy(), [CAPTION])[0]
    return [
        _drawn(captions, weights, float(chance)) if any(captions) else None
        for captions, chance in zip(batch.captions, uniforms(keys, 0, 1)[:, 0], strict=True)
    ]


def _drawn(captions: tuple[str, ...], weights: Sequence[float], chance: float) -> str:
    """A blank caption is never drawn and keeps its weight to itself; the first that is none stands for the original."""
    of_each = [*weights, *[weights[-1]] * len(captions)][: len(captions)]
    ends = np.cumsum([weight if text else 0 for text, weight in zip(captions, of_each, strict=True)])
    original = next(filter(None, captions))
    if ends[-1] == 0:
        return original
    caption = captions[min(int(np.searchsorted(ends, chance * ends[-1], side="right")), len(captions) - 1)]
    return caption if word_count(caption) >= FEWEST_WORDS else original


def word_count(caption: str) -> int:
    """Words between spaces; where a script has no spaces, every letter of it is one."""
    return sum(max(1, len(UNSPACED.findall(word))) for word in caption.split())


def joined_ids(index: Tensor, captions: Sequence[str | None], group: Group) -> tuple[Tensor, Tensor, int]:
    """Ids (n,) of this process's rows, equal where an image or a caption is the same, directly or by way of others.

    Also which rows are the first of their id, and how many rows of all processes are not.
    """
    texts = torch.tensor(
        [-1 - int(item) if text is None else _hash(text) for item, text in zip(index, captions, strict=True)],
        device=index.device,
    )
    counts = row_counts(index, group)
    everyone = [
        torch.unique(gather_rows(rows, group, counts=counts), return_inverse=True)[1] for rows in (index, texts)
    ]
    places = torch.arange(sum(counts), device=index.device)
    ids, before = places, None
    while before is None or not torch.equal(ids, before):
        before = ids
        for same in everyone:
            ids = torch.full_like(ids, sum(counts)).scatter_reduce_(0, same, ids, reduce="amin")[same]
    start = row_offset(counts, group)
    own, is_first = ids[start : start + len(index)], (ids == places)[start : start + len(index)]
    return own, is_first, int((ids != places).sum())


def joined_vectors(vectors: Tensor, ids: Tensor, group: Group) -> Tensor:
    """(n, p) of length 1: rows of one id, on whichever process, have the mean of their vectors; a collective call."""
    counts = row_counts(vectors, group)
    everyone, of_all = (gather_rows(rows, group, counts=counts) for rows in (vectors, ids))
    same = torch.unique(of_all, return_inverse=True)[1]
    start = row_offset(counts, group)
    sums = torch.zeros_like(everyone).index_add_(0, same, everyone)
    return normalize(sums[same[start : start + len(ids)]], dim=1)


def _hash(caption: str) -> int:
    """63 bits of a caption, whatever its case."""
    digest = hashlib.blake2b(caption.casefold().encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class CLIPSettings(CaptionSettings):
    temperature: float = Field(0.07, ge=0.01, le=1)  # at first: its logarithm is learnt, between 0.01 and 1
    kernel: str | None = None  # as text, such as Laplacian(0.2), in the place of the cosine; its settings stay
    soft_targets: bool = False  # images belong together as far as their captions are alike (X-CLR), by TF-IDF and SVD
    target_temperature: float = Field(0.1, gt=0)  # of soft targets
    target_encoder: str | None = None  # whose vectors of captions make soft targets, in the place of TF-IDF: hf:NAME,
    # open_clip:NAME/TAG, or module:attribute that turns texts into vectors; it does not learn


class CLIPMethod(CaptionMethod):
    settings_type: ClassVar = CLIPSettings
    settings: CLIPSettings
    objective: CLIPLoss
    caption_map: Tensor

    def __init__(self, encoder: Encoder, settings: CLIPSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        self.objective = objective_from(CLIPLoss, settings, context.group, temperature=settings.temperature)
        self._given: GivenVectors | None = None
        if settings.target_encoder is not None:
            if not settings.soft_targets:
                raise SettingError("target_encoder is that of soft targets: give soft_targets too, or leave it out")
            self._given = given_vectors(settings.target_encoder)
        elif settings.soft_targets:
            assert context.captions is not None
            self.register_buffer("caption_map", caption_map(context.captions(), self.tokenizer))

    def soft_targets(self, captions: Sequence[str], tokens: Tensor) -> Tensor | None:
        if self._given is not None:
            return self._given(captions).to(tokens.device)
        return caption_vectors(tokens, self.caption_map) if self.settings.soft_targets else None

    def after_update(self) -> None:
        self.objective.clamp()

    def chance_level(self, items: int) -> float:
        """ln n, and ln n·views the other way."""
        return self.objective.chance_level(items) + math.log(sum(self.context.views)) / 2


class SigLIPSettings(CaptionSettings):
    temperature: float = Field(0.1, gt=0)  # at first: its logarithm is learnt
    bias: float = -10.0  # at first: it is learnt, too
    kernel: str | None = None  # as text: its logarithm in the place of the cosine / temperature; its settings stay


class SigLIPMethod(CaptionMethod):
    settings_type: ClassVar = SigLIPSettings
    settings: SigLIPSettings
    objective: SigLIPLoss

    def __init__(self, encoder: Encoder, settings: SigLIPSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        self.objective = objective_from(SigLIPLoss, settings, context.group, temperature=settings.temperature)

    def chance_level(self, items: int) -> float:
        return self.objective.chance_level(items)
