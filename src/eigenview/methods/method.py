"""What a method is: an objective with the modules and the state that it trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from eigenview.distributed import Group
from eigenview.errors import SettingError
from eigenview.graph.kernel_text import read_kernel
from eigenview.losses.objective import Objective
from eigenview.nn import MLP, Encoder, Identity, Prototypes, TextEncoder, Tokenizer, build_head, in_micro_batches
from eigenview.nn.settings import TextSettings
from eigenview.settings import Strict


class MethodSettings(Strict):
    """The settings that every method has."""

    head: str = "simclr-v1"  # one of nn.HEADS
    head_hidden: int | None = None  # None: the head's own default
    head_output: int | None = None


@dataclass(frozen=True)
class MethodContext:
    """Where a method is put to work: the data and the processes."""

    items: int | None  # None: a stream without an index
    classes: int | None  # None: no labels
    views: tuple[int, ...]  # how many views of each resolution, large ones first
    steps_per_epoch: int
    seed: int = 0
    tokenizer: Tokenizer | None = None  # None: no captions
    text: TextEncoder | None = None  # one that came with weights; None: the method builds its own
    captions: Callable[[], Iterable[str]] | None = None  # all of them, to be looked through before training
    group: Group = None
    micro_batch: int | None = None  # views that pass the encoder at a time; None: all of a resolution


class ViewedBatch(NamedTuple):
    """Views of n items. ``groups``: one tensor per resolution, (count·n, c, size, size), view after view."""

    groups: tuple[Tensor, ...]
    items: int
    indices: Tensor  # (n,) places in the source
    label: Tensor | None  # (n,), −1 where unknown
    epoch: int
    step: int  # optimizer steps completed so far
    captions: tuple[tuple[str, ...], ...] | None = None  # (n,) each with any number of them, "" where a set has none;
    # None: the source has none
    features: Tensor | None = None  # (V·n, width) of an encoder that is locked, in the place of views


class StepOutput(NamedTuple):
    """``loss`` to be minimised; ``embeddings`` (v, n, d) of the large views, without gradient, for whoever watches."""

    loss: Tensor
    embeddings: Tensor
    logs: Mapping[str, Tensor] = {}  # never written to
    prototypes_used: Tensor | None = None  # share of the prototypes that a batch could use; None: it has none
    note: str | None = None  # worth telling once


@dataclass(frozen=True)
class HeadPart:
    """How a method's projection head is built (``nn.build_head``), and what its tensors' names begin with."""

    name: str
    hidden: int | None = None
    output: int | None = None
    prefix: str = "head."


@dataclass(frozen=True)
class TextPart:
    """How a method's text tower is built, for the tokens of the run's tokenizer, and where its tensors are."""

    name: str
    width: int
    depth: int
    head: HeadPart
    prefix: str = "text."
    tokenizer: str = ""  # its digest; empty in a run of earlier versions
    config: str = ""  # of a library's, to build it again without asking for it


@dataclass(frozen=True)
class MethodParts:
    """What of a method's state can be judged after training, beside the encoder; written to the run."""

    head: HeadPart | None = None
    prototypes: tuple[str, ...] = ()  # tensors (K, d) that the projections are compared with
    text: TextPart | None = None  # embeds words beside the projections
    log_scale: str = ""  # a tensor: the logarithm of what cosines are multiplied with, where it is learnt

    @classmethod
    def of_settings(cls, settings: MethodSettings) -> MethodParts:
        """Of a run that was written before methods said it: what the methods of that time had."""
        counts = getattr(settings, "prototypes", ())
        sets = 1 if isinstance(counts, int) else len(counts)
        head = HeadPart(settings.head, settings.head_hidden, settings.head_output)
        return cls(head, tuple(f"prototypes.heads.{place}.weight" for place in range(sets)))


AnyObjective = TypeVar("AnyObjective", bound=Objective)
Pass = Callable[[], Iterable[ViewedBatch]]  # one pass over the data, without training on it


class Method(nn.Module, ABC):
    """An objective + the modules and state it trains. The loop calls, in this order and without knowing more:

    ``start_epoch`` → for each batch ``step`` → backward → ``before_update`` → optimizer → ``after_update``.
    """

    settings_type: ClassVar[type[MethodSettings]] = MethodSettings  # of its own options
    needs_index: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False
    has_chance_level: ClassVar[bool] = True  # False: collapse is a minimum, watch the rank
    fewest_views: ClassVar[int] = 2

    def __init__(self, encoder: Encoder, settings: MethodSettings, context: MethodContext) -> None:
        super().__init__()
        self.encoder, self.settings, self.context = encoder, settings, context
        self._check()

    @classmethod
    def text_settings(cls, settings: MethodSettings) -> TextSettings | None:
        """How captions are read, of a method that learns from them; None of all others."""
        return None

    def _check(self) -> None:
        name = type(self).__name__.removesuffix("Method")
        if self.text_settings(self.settings) is not None and self.context.tokenizer is None:
            raise SettingError(f"{name} learns from captions; this source has none")
        if self.needs_index and self.context.items is None:
            raise SettingError(f"{name} remembers every image by its index; a stream has none: use an indexed source")
        if self.needs_labels and self.context.classes is None:
            raise SettingError(f"{name} learns from labels; this source has none")
        if self.context.views[0] < self.fewest_views:
            raise SettingError(
                f"{name} needs at least {self.fewest_views} large views of each image; got {self.context.views[0]}"
            )

    def build_head(self) -> MLP | Identity:
        widths = {"hidden": self.settings.head_hidden, "output": self.settings.head_output}
        given = {name: width for name, width in widths.items() if width is not None}
        return build_head(self.settings.head, self.encoder.feature_width, **given)

    def features(self, batch: ViewedBatch) -> Tensor:
        """Features of all views, (V·n, width), view after view: one call of the encoder per resolution."""
        if batch.features is not None:
            return batch.features
        return torch.cat([self.encode(group) for group in batch.groups])

    def encode(self, images: Tensor) -> Tensor:
        """The encoder's features of images, in micro-batches if there are to be some: how a step calls the encoder."""
        return in_micro_batches(self.encoder, images, self.context.micro_batch)

    @abstractmethod
    def step(self, batch: ViewedBatch) -> StepOutput:
        """The loss of a batch, and what else there is to know of it."""

    def forward(self, batch: ViewedBatch) -> StepOutput:
        return self.step(batch)

    def start_epoch(self, epoch: int, whole_pass: Pass) -> None:
        """Called before each epoch; ``whole_pass()`` runs over the data once, in a fixed order."""
        return

    def before_update(self, step: int) -> None:
        """Called between backward and the optimizer's ``step``-th update."""
        return

    def after_update(self) -> None:
        """Called after each update, to bring parameters back to where they may be."""
        return

    @abstractmethod
    def chance_level(self, items: int) -> float | None:
        """The loss on constant embeddings of ``items`` items over all processes; None where there is none."""

    def parts(self) -> MethodParts:
        """What of this method can be judged after training: its head, and its ``prototypes`` where it has some."""
        if not isinstance(getattr(self, "head", None), nn.Module):
            return MethodParts()
        tables = getattr(self, "prototypes", None)
        named = tables.named_parameters(prefix="prototypes") if isinstance(tables, Prototypes) else ()
        head = HeadPart(self.settings.head, self.settings.head_hidden, self.settings.head_output)
        return MethodParts(head, tuple(name for name, _ in named))

    def generator(self, step: int) -> torch.Generator:
        """For what is drawn in a step: the same on every process, and after a resume."""
        return torch.Generator().manual_seed((self.context.seed * 1_000_003 + step) % 2**63)

    def constant_rate_parts(self) -> tuple[str, ...]:
        """Submodules whose learning rate no schedule touches."""
        return ()

    def undecayed_parts(self) -> tuple[str, ...]:
        """Parameters by dotted name that no weight decay touches, whatever the settings exclude."""
        return ()

    @property
    def synchronises_batch_norm(self) -> bool:
        """True: statistics over all processes. MoCo's shuffled keys want them per process."""
        return True


def objective_from(kind: type[AnyObjective], settings: MethodSettings, group: Group, **built: object) -> AnyObjective:
    """The objective with the settings of the same names, a kernel read from its text; ``built`` is given as it is."""
    given = {name: getattr(settings, name) for name in kind.names if name not in built and hasattr(settings, name)}
    if isinstance(given.get("kernel"), str):
        given["kernel"] = read_kernel(given["kernel"])
    return kind(**{**given, **built, "group": group})


def by_view(rows: Tensor, items: int) -> list[Tensor]:
    """(V·n, d), view after view → V tensors (n, d)."""
    return list(torch.split(rows, items))


def watched(views: list[Tensor], large: int) -> Tensor:
    """The large views' embeddings for the watchdog: (v, n, d) without gradient."""
    return torch.stack([view.detach() for view in views[:large]])
