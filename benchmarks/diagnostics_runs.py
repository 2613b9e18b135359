"""The runs that calibrate the verdicts: what is trained, whether it is made to fail, and which verdicts would be right.

Group A sets the thresholds; group B, with other seeds, data, methods, kernels, encoders and sizes of the failure, is
judged by them once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from eigenview.methods import ViewedBatch
from eigenview.methods.clustered import SwAVMethod
from eigenview.methods.pairwise import KernelInfoNCEMethod, SimCLRMethod

RATE = 2e-3
COLLAPSES = ("full collapse", "dimensional collapse")


class MismatchedSimCLR(SimCLRMethod):
    """Positives are views of different images."""

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        return super().loss([views[0], *(view.roll(1, dims=0) for view in views[1:])], batch)


class MismatchedKernel(KernelInfoNCEMethod):
    """The same for any kernel."""

    def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
        return super().loss([views[0], *(view.roll(1, dims=0) for view in views[1:])], batch)


class SoftmaxCodes(SwAVMethod):
    """SwAV without Sinkhorn: each crop's code is the softmax of its own scores, so nothing balances the prototypes."""

    def _codes(self, scores: list[Tensor], views: list[Tensor], epoch: int) -> list[Tensor]:
        return [(score / self.settings.epsilon).softmax(dim=1) for score in scores]


MISMATCHED_SIMCLR = "diagnostics_runs:MismatchedSimCLR"
MISMATCHED_KERNEL = "diagnostics_runs:MismatchedKernel"
SOFTMAX_CODES = "diagnostics_runs:SoftmaxCodes"


@dataclass(frozen=True)
class Planned:
    """One run. ``right``: the verdicts that would be right, written down before any was seen; none: healthy."""

    group: str
    data: str
    method: str
    right: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)  # of the method
    changes: dict[str, Any] = field(default_factory=dict)  # of the run

    def config(self, source: str, out: str) -> dict[str, Any]:
        rate = self.changes.get("rate", RATE)
        width, batch = (0.5, 256) if self.group == "A" else (0.25, 128)
        return {
            "source": source,
            "out": out,
            "method": self.method,
            "method_settings": self.settings,
            "encoder": {"name": "small", "width": width, **self.changes.get("encoder", {})},
            "views": {"preset": self.changes.get("views", "simclr-cifar"), "size": 32},
            "optimizer": {"name": "adamw", "learning_rate": rate, "weight_decay": 1e-4, "warmup_epochs": 0.2},
            "batch_size": self.changes.get("batch", batch),
            "steps": self.changes.get("steps", 80 if self.right else 195),  # failures show early
            "seed": self.changes.get("seed", 0),
            "log_every": 15,
            "workers": 0,
        }


def _swav(prototypes: int) -> dict[str, Any]:
    return {"head_hidden": 512, "prototypes": prototypes, "epsilon": 0.03, "frozen_steps": 20}


_RESNET = {"encoder": {"name": "resnet18", "width": 0.25}, "batch": 64, "steps": 60}
_UNTRAINED = ("at chance", "views disagree", "crowded", *COLLAPSES)
_ALL_FAILURES = ("at chance", "views disagree", "crowded", "dead dimensions", "diverged", *COLLAPSES)
_NO_SINKHORN = ("prototypes unused", "at chance", *COLLAPSES)

TRAINED = {  # good runs of benchmarks/methods.py (three epochs, full width), by group
    "A": ("simclr-0", "kernel-infonce-0", "align-uniform-0", "moco-0", "swav-0", "spectral-0"),
    "C": (),
    "B": ("random-walk-0", "supcon-0", "simsiam-0", "laplacian-eigenmaps-0", "deepcluster-v2-0", "sela-v2-0"),
}
PLAN: dict[str, Planned] = {
    "simclr": Planned("A", "cifar10", "simclr", (), {"temperature": 0.2}),
    "simclr at 0.5": Planned("A", "stl10", "simclr", (), {"temperature": 0.5}),
    "kernel-infonce": Planned("A", "cifar10", "kernel-infonce", (), {"temperature": 0.4}),
    "no negatives": Planned(
        "A", "cifar10", "align-uniform", ("full collapse",), {"uniform_weight": 0.0, "head": "kernel-infonce"}
    ),
    "no negatives, normalised": Planned("A", "cifar10", "align-uniform", COLLAPSES, {"uniform_weight": 0.0}),
    "temperature 100": Planned("A", "cifar10", "simclr", ("at chance",), {"temperature": 100.0}),
    "temperature 5": Planned("A", "cifar10", "simclr", ("at chance", "crowded"), {"temperature": 5.0}),
    "no augmentation": Planned("A", "cifar10", "simclr", ("views identical",), {"temperature": 0.2}, {"views": "none"}),
    "rate × 100": Planned("A", "cifar10", "simclr", _ALL_FAILURES, {"temperature": 0.2}, {"rate": 100 * RATE}),
    "no Sinkhorn": Planned("A", "cifar10", SOFTMAX_CODES, _NO_SINKHORN, {**_swav(300), "frozen_steps": 0}),
    "untrained": Planned("A", "cifar10", "simclr", _UNTRAINED, {}, {"rate": 0.0, "steps": 30}),
    "mismatched": Planned("A", "cifar10", MISMATCHED_SIMCLR, ("at chance", "full collapse", "views disagree")),
    "repeated images": Planned("A", "cifar10-repeated", "simclr", ("duplicated data",), {"temperature": 0.2}),
    "simclr, resnet18": Planned("B", "cifar10", "simclr", (), {"temperature": 0.3}, {**_RESNET, "seed": 1}),
    "laplacian kernel, STL": Planned(
        "B", "stl10", "kernel-infonce", (), {"kernel": "laplacian", "temperature": 0.3}, {"seed": 2}
    ),
    "align-uniform, STL": Planned("B", "stl10", "align-uniform", (), {"t": 3.0}, {"seed": 1}),
    "moco, STL": Planned("B", "stl10", "moco", (), {"queue": 2048, "temperature": 0.15}, {"seed": 3}),
    "swav, STL": Planned("B", "stl10", "swav", (), _swav(100), {"seed": 3}),
    "no negatives, STL": Planned(
        "B", "stl10", "align-uniform", ("full collapse",), {"uniform_weight": 0.0, "head": "moco-v2"}, {"seed": 1}
    ),
    "eigenmaps, nothing decorrelated": Planned(
        "B", "cifar10", "laplacian-eigenmaps", COLLAPSES, {"decorrelation_weight": 0.0}, {"seed": 1}
    ),
    "temperature 20, resnet18": Planned(
        "B", "cifar10", "simclr", ("at chance",), {"temperature": 20.0}, {**_RESNET, "steps": 15, "seed": 2}
    ),
    "kernel temperature 50, STL": Planned(
        "B", "stl10", "kernel-infonce", ("at chance",), {"kernel": "gaussian", "temperature": 50.0}, {"seed": 2}
    ),
    "moco, temperature 10": Planned(
        "B", "cifar10", "moco", ("at chance", "crowded"), {"queue": 2048, "temperature": 10.0}, {"seed": 1}
    ),
    "no augmentation, STL": Planned(
        "B", "stl10", "simclr", ("views identical",), {"temperature": 0.3}, {"views": "none", "seed": 2}
    ),
    "no augmentation, kernel": Planned(
        "B", "cifar10", "kernel-infonce", ("views identical",), {"temperature": 0.4}, {"views": "none", "seed": 3}
    ),
    "rate × 100, STL": Planned("B", "stl10", "align-uniform", _ALL_FAILURES, {}, {"rate": 100 * RATE, "seed": 1}),
    "rate × 100, moco": Planned(
        "B", "cifar10", "moco", _ALL_FAILURES, {"queue": 2048}, {"rate": 100 * RATE, "seed": 2}
    ),
    "no Sinkhorn, STL": Planned(
        "B", "stl10", SOFTMAX_CODES, _NO_SINKHORN, {**_swav(100), "frozen_steps": 0}, {"seed": 2}
    ),
    "untrained, resnet18": Planned("B", "cifar10", "simclr", _UNTRAINED, {}, {**_RESNET, "rate": 0.0, "steps": 5}),
    "mismatched, STL": Planned(
        "B",
        "stl10",
        MISMATCHED_KERNEL,
        ("at chance", "full collapse", "views disagree"),
        {"temperature": 0.4},
        {"seed": 2},
    ),
    "repeated images, STL": Planned(
        "B", "stl10-repeated", "random-walk", ("duplicated data",), {"temperature": 0.1}, {"seed": 2}
    ),
    "simclr at 0.15, STL": Planned("C", "stl10", "simclr", (), {"temperature": 0.15}, {"seed": 11}),
    "exponential kernel": Planned(
        "C", "cifar10", "kernel-infonce", (), {"kernel": "exponential", "temperature": 0.3}, {"seed": 12}
    ),
    "align-uniform, 2 : 1": Planned("C", "cifar10", "align-uniform", (), {"align_weight": 2.0}, {"seed": 13}),
    "moco at 0.3": Planned("C", "cifar10", "moco", (), {"queue": 1024, "temperature": 0.3}, {"seed": 14}),
    "swav, 200 prototypes": Planned("C", "cifar10", "swav", (), _swav(200), {"seed": 15}),
    "random-walk, STL": Planned("C", "stl10", "random-walk", (), {"temperature": 0.15}, {"seed": 16}),
    "no negatives, moco's head": Planned(
        "C", "cifar10", "align-uniform", ("full collapse",), {"uniform_weight": 0.0, "head": "moco-v2"}, {"seed": 11}
    ),
    "temperature 30, STL": Planned("C", "stl10", "simclr", ("at chance",), {"temperature": 30.0}, {"seed": 12}),
    "laplacian temperature 100": Planned(
        "C", "cifar10", "kernel-infonce", ("at chance",), {"kernel": "laplacian", "temperature": 100.0}, {"seed": 13}
    ),
    "no augmentation, moco": Planned(
        "C", "cifar10", "moco", ("views identical",), {"queue": 1024}, {"views": "none", "seed": 14}
    ),
    "no augmentation, align-uniform": Planned(
        "C", "stl10", "align-uniform", ("views identical",), {}, {"views": "none", "seed": 15}
    ),
    "rate × 100, kernel": Planned(
        "C", "stl10", "kernel-infonce", _ALL_FAILURES, {"temperature": 0.4}, {"rate": 100 * RATE, "seed": 16}
    ),
    "no Sinkhorn, 50 prototypes": Planned(
        "C", "cifar10", SOFTMAX_CODES, _NO_SINKHORN, {**_swav(50), "frozen_steps": 0}, {"seed": 17}
    ),
    "untrained, STL": Planned(
        "C", "stl10", "moco", _UNTRAINED, {"queue": 1024}, {"rate": 0.0, "steps": 30, "seed": 18}
    ),
    "mismatched at 0.2, STL": Planned(
        "C",
        "stl10",
        MISMATCHED_SIMCLR,
        ("at chance", "full collapse", "views disagree"),
        {"temperature": 0.2},
        {"seed": 19},
    ),
    "repeated images, align-uniform": Planned(
        "C", "cifar10-repeated", "align-uniform", ("duplicated data",), {}, {"seed": 20}
    ),
}
