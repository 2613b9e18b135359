"""Methods whose state is an encoder and a head: the views of a batch are compared with each other."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from eigenview.errors import DataError
from eigenview.graph.kernel_text import read_kernel
from eigenview.graph.kernels import ExponentialKernel, GaussianKernel, Kernel, LaplacianKernel
from eigenview.losses import (
    RandomWalkLaplacian,
    align_uniform_loss,
    concatenation_sum_of_authors,
    concatenation_sum_of_paper,
    info_nce,
    kernel_info_nce,
    laplacian_eigenmaps_loss,
    random_walk_laplacian,
    simple_sum_of_authors,
    simple_sum_of_paper,
    simsiam_loss,
    spectral_contrastive,
    supervised_contrastive,
)
from eigenview.losses.contrastive import summands
from eigenview.methods.method import Method, MethodContext, MethodSettings, StepOutput, ViewedBatch, by_view, watched
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


class SimCLRSettings(MethodSettings):
    temperature: float = Field(0.5, gt=0)  # 0.5 for CIFAR-10 (B = 512); 0.1 for ImageNet


class SimCLRMethod(PairwiseMethod):
    settings_type: ClassVar = SimCLRSettings
    settings: SimCLRSettings

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        return info_nce(*views, temperature=self.settings.temperature, group=self.context.group)

    def chance_level(self, items: int) -> float:
        return math.log(self.view_count * items - 1)


class KernelSettings(MethodSettings):
    head: str = "kernel-infonce"
    kernel: str = "simple-sum"  # gaussian, laplacian, exponential, simple-sum, concat-sum, or any kernel as text
    form: Literal["kernel-sum", "loss-sum"] = "kernel-sum"  # the paper's formula, or the authors' code
    temperature: float = Field(0.2, gt=0)  # divides the distance power by itself, as the authors write it
    gaussian_temperature: float | None = Field(None, gt=0)  # of the Gaussian in a sum; None: the same
    gamma: float = Field(0.5, gt=0, le=2)  # of exponential
    weight: float = Field(0.5, gt=0, lt=1)  # of the first loss in a loss-sum


def _of_authors(settings: KernelSettings) -> dict[str, float]:
    return {
        "weight": settings.weight,
        "temperature": settings.temperature,
        "gaussian_temperature": settings.gaussian_temperature or settings.temperature,
    }


def _of_paper(settings: KernelSettings) -> dict[str, float]:
    return {
        "laplacian_temperature": settings.temperature,
        "gaussian_temperature": settings.gaussian_temperature or settings.temperature,
    }


def _simple_sum(settings: KernelSettings) -> Kernel:
    if settings.form == "loss-sum":
        return simple_sum_of_authors(**_of_authors(settings))
    return simple_sum_of_paper(**_of_paper(settings))


def _concatenation_sum(settings: KernelSettings) -> Kernel:
    if settings.form == "loss-sum":
        return concatenation_sum_of_authors(**_of_authors(settings))
    return concatenation_sum_of_paper(**_of_paper(settings))


KERNELS: Table[Callable[[KernelSettings], Kernel]] = Table(
    "kernel",
    {
        "gaussian": lambda settings: GaussianKernel.of_authors(settings.temperature),
        "laplacian": lambda settings: LaplacianKernel(settings.temperature),
        "exponential": lambda settings: ExponentialKernel(settings.gamma, settings.temperature),
        "simple-sum": _simple_sum,
        "concat-sum": _concatenation_sum,
    },
    more=", or a text such as Gaussian(0.2) + Laplacian(0.5)",
)


def chosen_kernel(settings: KernelSettings) -> Kernel:
    """The kernel that the settings name, with the authors' meaning of temperature; or read from its text."""
    is_text = "(" in settings.kernel
    return read_kernel(settings.kernel) if is_text else KERNELS.find(settings.kernel)(settings)


class KernelInfoNCEMethod(PairwiseMethod):
    settings_type: ClassVar = KernelSettings
    settings: KernelSettings

    def __init__(self, encoder: Encoder, settings: KernelSettings, context: MethodContext) -> None:
        super().__init__(encoder, settings, context)
        self.kernel = chosen_kernel(settings)
        self.kernel_settings = nn.ParameterList(t for t in self.kernel.tensors() if isinstance(t, nn.Parameter))

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        return kernel_info_nce(*views, kernel=self.kernel, form=self.settings.form, group=self.context.group)

    def chance_level(self, items: int) -> float:
        level = math.log(self.view_count * items - 1)
        if self.settings.form == "kernel-sum":
            return level
        return level * sum(float(torch.as_tensor(weight).detach()) for weight, _, _ in summands(self.kernel, 2))


class RandomWalkSettings(MethodSettings):
    head: str = "random-walk"
    form: Literal["absolute", "squared"] = "absolute"  # the paper, or the authors' code
    temperature: float = Field(1.0, gt=0)  # the paper has 1; the authors' README recommends 0.4
    reduction: Literal["sum", "mean"] = "sum"


class RandomWalkMethod(PairwiseMethod):
    settings_type: ClassVar = RandomWalkSettings
    settings: RandomWalkSettings

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        chosen = self.settings
        return random_walk_laplacian(
            *views,
            form=chosen.form,
            temperature=chosen.temperature,
            reduction=chosen.reduction,
            group=self.context.group,
        )

    def chance_level(self, items: int) -> float:
        chosen = RandomWalkLaplacian(form=self.settings.form, reduction=self.settings.reduction)
        return chosen.chance_level(items, views=self.view_count)


class SpectralSettings(MethodSettings):
    head: str = "spectral"
    mu: float = Field(1.0, gt=0)


class SpectralMethod(PairwiseMethod):
    settings_type: ClassVar = SpectralSettings
    settings: SpectralSettings

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        return spectral_contrastive(*views, mu=self.settings.mu, group=self.context.group)

    def chance_level(self, items: int) -> float:
        return self.settings.mu - 2


class AlignUniformSettings(MethodSettings):
    align_weight: float = Field(1.0, ge=0)
    uniform_weight: float = Field(1.0, ge=0)
    alpha: float = Field(2.0, gt=0)
    t: float = Field(2.0, gt=0)
    contrastive_weight: float = Field(0.0, ge=0)  # of InfoNCE in the mixture
    temperature: float = Field(0.5, gt=0)


class AlignUniformMethod(PairwiseMethod):
    settings_type: ClassVar = AlignUniformSettings
    settings: AlignUniformSettings

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        chosen = self.settings
        return align_uniform_loss(
            *views,
            align_weight=chosen.align_weight,
            uniform_weight=chosen.uniform_weight,
            alpha=chosen.alpha,
            t=chosen.t,
            contrastive_weight=chosen.contrastive_weight,
            temperature=chosen.temperature,
            group=self.context.group,
        )

    def chance_level(self, items: int) -> float:
        return self.settings.contrastive_weight * math.log(self.view_count * items - 1)


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


class SupConMethod(PairwiseMethod):
    settings_type: ClassVar = SupConSettings
    needs_labels: ClassVar = True
    settings: SupConSettings

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        labels = known_labels(batch)
        return supervised_contrastive(
            *views, labels=labels, temperature=self.settings.temperature, group=self.context.group
        )

    def chance_level(self, items: int) -> float:
        return math.log(self.view_count * items - 1)


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
