"""Methods whose state is an encoder and a head: the views of a batch are compared with each other."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, Protocol, cast

import torch
from pydantic import Field
from torch import Tensor

from eigenview.distributed import Group, gather_rows, row_counts, row_offset
from eigenview.errors import DataError, SettingError
from eigenview.graph.kernel_text import read_kernel
from eigenview.graph.kernels import ExponentialKernel, GaussianKernel, Kernel, LaplacianKernel
from eigenview.graph.scalars import Scalar
from eigenview.losses import (
    AlignUniformLoss,
    InfoNCE,
    KernelInfoNCELoss,
    RandomWalkLaplacian,
    SpectralContrastive,
    SupervisedContrastive,
    concatenation_sum_of_authors,
    concatenation_sum_of_paper,
    laplacian_eigenmaps_loss,
    simple_sum_of_authors,
    simple_sum_of_paper,
    simsiam_loss,
)
from eigenview.losses.objective import Objective
from eigenview.methods.method import (
    Method,
    MethodContext,
    MethodSettings,
    StepOutput,
    ViewedBatch,
    by_view,
    objective_from,
    watched,
)
from eigenview.names import Table
from eigenview.nn import Encoder, simsiam_predictor


class PairwiseMethod(Method):
    """An encoder, a head, and a loss over all views."""

    def __init__(self, encoder: Encoder, settings: MethodSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        self.head = self.build_head()

    @abstractmethod
    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        """The loss over the embeddings (n, d) of each view."""

    def step(self, batch: ViewedBatch) -> StepOutput:
        views = by_view(self.head(self.features(batch)), batch.items)
        return StepOutput(self.loss(views, batch), watched(views, self.context.views[0]))

    @property
    def view_count(self) -> int:
        return sum(self.context.views)


class ViewObjective(Protocol):
    """An objective over views (n, d), with its level on constant ones."""

    def __call__(self, *views: Tensor, **more: Scalar | None) -> Tensor: ...

    def chance_level(self, items: int, *, views: int = 2) -> float: ...


class ObjectiveMethod(PairwiseMethod):
    """Its loss is an objective of ours: settings of the same name are the objective's."""

    objective_type: ClassVar[type[Objective]]

    def __init__(self, encoder: Encoder, settings: MethodSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        built = objective_from(self.objective_type, settings, context.group, **self.built())
        self.objective = cast(ViewObjective, built)

    def built(self) -> dict[str, Kernel]:
        """What the objective takes that settings can only name."""
        return {}

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        return self.objective(*views)

    def chance_level(self, items: int) -> float | None:
        return self.objective.chance_level(items, views=self.view_count)


class SimCLRSettings(MethodSettings):
    temperature: float = Field(0.5, gt=0)  # 0.5 for CIFAR-10 (B = 512); 0.1 for ImageNet
    positive_in_denominator: bool = True  # False: only views of other images stand there
    negatives: int | None = Field(None, ge=1)  # of each image, drawn anew in every step from the others of the batch;
    # None: all of them, in both directions


class SimCLRMethod(ObjectiveMethod):
    settings_type: ClassVar = SimCLRSettings
    objective_type: ClassVar = InfoNCE
    settings: SimCLRSettings

    def __init__(self, encoder: Encoder, settings: SimCLRSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        if settings.negatives is not None and self.view_count != 2:
            raise SettingError(f"drawn negatives go with two views of each image; got {self.view_count}")

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        count = self.settings.negatives
        if count is None:
            return super().loss(views, batch)
        others = drawn_others(views[1], count, self.generator(batch.step), self.context.group)
        return self.objective(*views, negatives=others)

    def chance_level(self, items: int) -> float:
        chosen = InfoNCE(positive_in_denominator=self.settings.positive_in_denominator)
        return chosen.chance_level(items, views=self.view_count, negatives=self.settings.negatives)


def drawn_others(rows: Tensor, count: int, generator: torch.Generator, group: Group) -> Tensor:
    """(n, count, d): for each row so many of the others, over all processes, drawn with replacement."""
    counts = row_counts(rows, group)
    own = torch.arange(len(rows))[:, None] + row_offset(counts, group)
    drawn = torch.randint(sum(counts) - 1, (sum(counts), count), generator=generator)[own[:, 0]]
    others: Tensor = gather_rows(rows, group, counts=counts)[(drawn + (drawn >= own)).to(rows.device)]
    return others


class KernelSettings(MethodSettings):
    head: str = "kernel-infonce"
    kernel: str = "simple-sum"  # gaussian, laplacian, exponential, simple-sum, concat-sum, or any kernel as text
    form: Literal["kernel-sum", "loss-sum"] = "kernel-sum"  # the paper's formula, or the authors' code
    temperature: float = Field(0.2, gt=0)  # divides the distance power by itself, as the authors write it
    gaussian_temperature: float | None = Field(None, gt=0)  # of the Gaussian in a sum; None: the same
    gamma: float = Field(0.5, gt=0, le=2)  # of exponential
    weight: float = Field(0.5, gt=0, lt=1)  # of the first loss in a loss-sum


def _sum(settings: KernelSettings, *, of_authors: Callable[..., Kernel], of_paper: Callable[..., Kernel]) -> Kernel:
    gaussian = settings.gaussian_temperature or settings.temperature
    if settings.form == "loss-sum":
        return of_authors(weight=settings.weight, temperature=settings.temperature, gaussian_temperature=gaussian)
    return of_paper(laplacian_temperature=settings.temperature, gaussian_temperature=gaussian)


KERNELS: Table[Callable[[KernelSettings], Kernel]] = Table(
    "kernel",
    {
        "gaussian": lambda settings: GaussianKernel.of_authors(settings.temperature),
        "laplacian": lambda settings: LaplacianKernel(settings.temperature),
        "exponential": lambda settings: ExponentialKernel(settings.gamma, settings.temperature),
        "simple-sum": partial(_sum, of_authors=simple_sum_of_authors, of_paper=simple_sum_of_paper),
        "concat-sum": partial(_sum, of_authors=concatenation_sum_of_authors, of_paper=concatenation_sum_of_paper),
    },
    more=", or a text such as Gaussian(0.2) + Laplacian(0.5)",
)


def chosen_kernel(settings: KernelSettings) -> Kernel:
    """The kernel that the settings name, with the authors' meaning of temperature; or read from its text."""
    is_text = "(" in settings.kernel
    return read_kernel(settings.kernel) if is_text else KERNELS.find(settings.kernel)(settings)


class KernelInfoNCEMethod(ObjectiveMethod):
    settings_type: ClassVar = KernelSettings
    objective_type: ClassVar = KernelInfoNCELoss
    settings: KernelSettings

    def built(self) -> dict[str, Kernel]:
        return {"kernel": chosen_kernel(self.settings)}


class RandomWalkSettings(MethodSettings):
    head: str = "random-walk"
    form: Literal["absolute", "squared"] = "absolute"  # the paper, or the authors' code
    temperature: float = Field(1.0, gt=0)  # the paper has 1; the authors' README recommends 0.4
    kernel: str | None = None  # as text; None: cosine at the temperature
    reduction: Literal["sum", "mean"] = "sum"


class RandomWalkMethod(ObjectiveMethod):
    settings_type: ClassVar = RandomWalkSettings
    objective_type: ClassVar = RandomWalkLaplacian


class SpectralSettings(MethodSettings):
    head: str = "spectral"
    mu: float = Field(1.0, gt=0)
    ball: bool = True  # rows longer than √mu are drawn back to it; False: they stay as they are


class SpectralMethod(ObjectiveMethod):
    settings_type: ClassVar = SpectralSettings
    objective_type: ClassVar = SpectralContrastive
    settings: SpectralSettings

    def chance_level(self, items: int) -> float | None:
        return SpectralContrastive(mu=self.settings.mu, ball=self.settings.ball).chance_level()


class AlignUniformSettings(MethodSettings):
    align_weight: float = Field(1.0, ge=0)
    uniform_weight: float = Field(1.0, ge=0)
    alpha: float = Field(2.0, gt=0)
    t: float = Field(2.0, gt=0)
    contrastive_weight: float = Field(0.0, ge=0)  # of InfoNCE in the mixture
    temperature: float = Field(0.5, gt=0)


class AlignUniformMethod(ObjectiveMethod):
    settings_type: ClassVar = AlignUniformSettings
    objective_type: ClassVar = AlignUniformLoss


class EigenmapsSettings(MethodSettings):
    decorrelation_weight: float | None = Field(None, ge=0)  # None: both terms as means over the embedding's coordinates


class LaplacianEigenmapsMethod(PairwiseMethod):
    settings_type: ClassVar = EigenmapsSettings
    settings: EigenmapsSettings

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        given, width = self.settings.decorrelation_weight, self.head.output_width
        if given is not None:
            return laplacian_eigenmaps_loss(*views, decorrelation_weight=given, group=self.context.group)
        return laplacian_eigenmaps_loss(*views, decorrelation_weight=width, group=self.context.group) / width

    def chance_level(self, items: int) -> float:
        given = self.settings.decorrelation_weight
        return 1.0 if given is None else given


class SupConSettings(MethodSettings):
    temperature: float = Field(0.1, gt=0)


class SupConMethod(ObjectiveMethod):
    settings_type: ClassVar = SupConSettings
    objective_type: ClassVar = SupervisedContrastive
    needs_labels: ClassVar = True

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        return self.objective(*views, labels=known_labels(batch))


class SimSiamSettings(MethodSettings):
    head: str = "simsiam-cifar"  # "simsiam", three layers, for ImageNet
    predictor_hidden: int = Field(512, gt=0)


class SimSiamMethod(Method):
    """Batch statistics run over all views together; the authors' code takes each view by itself."""

    settings_type: ClassVar = SimSiamSettings
    has_chance_level: ClassVar = False
    settings: SimSiamSettings

    def __init__(self, encoder: Encoder, settings: SimSiamSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        self.head = self.build_head()
        self.predictor = simsiam_predictor(self.head.output_width, hidden=settings.predictor_hidden)

    def step(self, batch: ViewedBatch) -> StepOutput:
        projections = self.head(self.features(batch))
        predictions = by_view(self.predictor(projections), batch.items)
        views = by_view(projections, batch.items)
        pairs = [(a, b) for a in range(len(views)) for b in range(a + 1, len(views))]
        losses = [
            simsiam_loss(predictions[a], predictions[b], views[a], views[b], group=self.context.group) for a, b in pairs
        ]
        return StepOutput(torch.stack(losses).mean(), watched(views, self.context.views[0]))

    def chance_level(self, items: int) -> None:
        return None

    def constant_rate_parts(self) -> tuple[str, ...]:
        return ("predictor",)


def known_labels(batch: ViewedBatch) -> Tensor:
    if batch.label is None or bool((batch.label < 0).any()):
        raise DataError("a method that learns from labels met images without one; leave them out of its source")
    return batch.label
