"""Linear probes and fine-tuning, by name: what is trained, how long, and on which views."""

from dataclasses import dataclass, replace
from typing import Literal, Self

from eigenview.errors import SettingError
from eigenview.names import Table
from eigenview.views import CentreView, Crop, Jitter, Recipe


@dataclass(frozen=True)
class ProbeViews:
    """What a probe is trained on: a random crop with flip, perhaps with colour. None instead: the evaluation view."""

    scale: tuple[float, float] = (0.08, 1.0)
    jitter: Jitter | None = None
    grey: float = 0.0
    flip: float = 0.5  # 0 where left and right differ, as in writing

    def recipe(self, view: CentreView) -> Recipe:
        """One such view an image, of the size and statistics of an evaluation view."""
        return Recipe(
            crops=(Crop(view.size, 1, self.scale),),
            jitter=self.jitter,
            grey=self.grey,
            flip=self.flip,
            mean=view.mean,
            std=view.std,
            interpolation=view.interpolation,
        )


class _Epochs:
    """A schedule in epochs, with milestones among them."""

    epochs: int
    milestones: tuple[int, ...]

    def shortened(self, epochs: int) -> Self:
        """The same in fewer (or more) epochs: milestones move in proportion."""
        if epochs < 1:
            raise SettingError(f"training needs at least one epoch; got {epochs}")
        moved = tuple(round(milestone * epochs / self.epochs) for milestone in self.milestones)
        return replace(self, epochs=epochs, milestones=moved)  # type: ignore[type-var]  # a dataclass inherits this


@dataclass(frozen=True)
class ProbeProtocol(_Epochs):
    """A linear layer trained by minibatches on frozen features. Its paper's values; the encoder is in eval mode."""

    learning_rate: float
    scaling: Literal["linear", "none"] = "none"  # linear: the rate is for 256 images
    optimizer: Literal["sgd", "lars", "larc", "adam"] = "sgd"
    momentum: float = 0.9
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    batch_size: int = 256
    epochs: int = 100
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    milestones: tuple[int, ...] = ()  # epochs
    factor: float = 0.1
    deviation: float = 0.01  # of the starting weights, normal; the bias starts at 0
    views: ProbeViews | None = ProbeViews()
    margin: float = 1.0  # of the test view: images are resized to this × its size before the centre is cut

    def test_view(self, view: CentreView) -> CentreView:
        """The test images as the paper sees them, at the size and with the statistics of ``view``."""
        return replace(view, resize=round(self.margin * view.size))


SIMCLR_COLOUR = Jitter(0.8, 0.8, 0.8, 0.2, probability=0.8)

IMAGENET_MARGIN = 256 / 224

PROBES = Table(
    "probe",
    {
        "moco": ProbeProtocol(30.0, schedule="step", milestones=(60, 80), margin=IMAGENET_MARGIN),  # He et al. 2020
        "spectral": ProbeProtocol(30.0, schedule="step", milestones=(60, 80), margin=40 / 32),  # HaoChen et al. 2021
        "simclr-cifar": ProbeProtocol(0.1, scaling="linear", nesterov=True, batch_size=512),
        "swav": ProbeProtocol(0.3, weight_decay=1e-6, margin=IMAGENET_MARGIN),
        "simsiam": ProbeProtocol(
            0.1, scaling="linear", optimizer="larc", batch_size=4096, epochs=90, margin=IMAGENET_MARGIN
        ),
        "random-walk": ProbeProtocol(
            0.1, schedule="step", milestones=(60, 80), views=ProbeViews(scale=(0.8, 1.0)), margin=36 / 32
        ),
        "wang-isola": ProbeProtocol(
            1e-3,
            optimizer="adam",
            betas=(0.5, 0.999),
            batch_size=128,
            schedule="step",
            milestones=(60, 80),
            factor=0.2,
            margin=70 / 64,
        ),
        "kernel-infonce": ProbeProtocol(
            0.3, weight_decay=1e-6, views=ProbeViews(jitter=SIMCLR_COLOUR, grey=0.2), margin=1.1
        ),
        "kernel-moco": ProbeProtocol(30.0, momentum=0.0, batch_size=512),
    },
)


@dataclass(frozen=True)
class FinetuneProtocol(_Epochs):
    """Fine-tuning for sets of some hundred to some ten thousand labels: ours, the rate by held-out labels.

    The head starts as the logistic regression on frozen features (Kumar et al. 2022: a random head's first gradients
    destroy what the trunk knows). It ends after ``steps`` or ``epochs``, whichever comes first. Each of ``multipliers``
    (of both rates) is tried for a quarter of that on four fifths of the labels, and the best on the other fifth trains
    on all; with few labels the first is taken untried.
    """

    trunk_rate: float = 1e-3
    head_rate: float = 1e-3
    multipliers: tuple[float, ...] = (1.0, 3.0)  # the gentler first: it is taken where labels are few
    head: Literal["logistic", "random"] = "logistic"  # where it starts
    deviation: float = 0.01  # of a random head's starting weights
    depth_decay: float = 1.0  # of the trunk's rate, from block to block towards its input
    statistics: Literal["adapted", "kept"] = "adapted"  # of its batch norms
    optimizer: Literal["sgd", "adamw"] = "adamw"
    momentum: float = 0.9
    weight_decay: float = 0.05
    smoothing: float = 0.1  # of the labels
    batch_size: int = 128
    steps: int | None = 400  # at most; None: all epochs
    epochs: int = 50  # at most
    schedule: Literal["cosine", "step"] = "cosine"
    warmup: float = 0.1  # of all steps
    milestones: tuple[int, ...] = ()  # epochs
    factor: float = 0.2
    views: ProbeViews = ProbeViews(scale=(0.5, 1.0))


SWAV = FinetuneProtocol(  # 20 epochs, × 0.2 at 12 and 16, no decay; its rates for 10 % of ImageNet
    trunk_rate=0.01,
    head_rate=0.2,
    multipliers=(1.0,),
    head="random",
    optimizer="sgd",
    weight_decay=0.0,
    smoothing=0.0,
    batch_size=256,
    steps=None,
    epochs=20,
    schedule="step",
    warmup=0.0,
    milestones=(12, 16),
    views=ProbeViews(),
)
FINETUNES = Table(
    "fine-tuning",
    {
        "ours": FinetuneProtocol(),
        "scratch": FinetuneProtocol(trunk_rate=3e-3, head_rate=3e-3, head="random"),  # nothing to keep
        "swav-10%": SWAV,
        "swav-1%": replace(SWAV, trunk_rate=0.02, head_rate=5.0),  # for ImageNet's 12,800 images; too fast for 500
    },
)
