"""DeepCluster-v2 and SeLa-v2 on ImageNet (Caron et al., 2020), 400 epochs of 2×160 + 4×96 crops, as the paper compares.

    torchrun --nproc-per-node 8 --nnodes 8 -m eigenview recipes run deepcluster-v2-imagenet --source imagenet:DIR
    torchrun --nproc-per-node 8 --nnodes 8 -m eigenview recipes run sela-v2-imagenet --source imagenet:DIR

Three sets of 3,000 prototypes. SeLa-v2 was never released: it is DeepCluster-v2 with labels by transport and trained
prototypes, as its maintainer describes it. ``--views swav-two-crops`` gives the paper's other column.
"""

from __future__ import annotations

from typing import Any

from eigenview.recipes.recipe import IMAGENET, Recipe, Result
from eigenview.recipes.swav_imagenet import LARC, SHARED

AS_SWAV = "the optimizer's settings are SwAV's, as the authors say"


def _recipe(method: str, title: str, results: tuple[Result, ...], *differs: str) -> Recipe:
    own: dict[str, Any] = {"prototypes": [3000, 3000, 3000], "temperature": 0.1}
    return Recipe(
        name=f"{method}-imagenet",
        title=f"{title}, ImageNet, ResNet-50, 2×160 + 4×96, 400 epochs",
        **IMAGENET,
        protocol="probe-swav",
        settings={
            **SHARED,
            "method": method,
            "method_settings": own,
            "views": {"preset": "swav-160"},
            "optimizer": {**LARC, "learning_rate": 4.8, "warmup_epochs": 10, "warmup_start": 0.0625},
            "batch_size": 4096,
            "epochs": 400,
            "precision": "32",
        },
        results=results,
        differs=(AS_SWAV, *differs),
    )


RECIPES = (
    _recipe(
        "deepcluster-v2",
        "DeepCluster-v2",
        (
            Result("linear probe", "74.3", "Caron et al.", "paper"),
            Result("linear probe, 2×224", "70.2", "Caron et al.", "paper"),
            Result("linear probe, 2×224 + 6×96, 800 epochs", "75.2", "facebookresearch/swav", "authors' code"),
        ),
    ),
    _recipe(
        "sela-v2",
        "SeLa-v2",
        (
            Result("linear probe", "71.8", "Caron et al.", "paper"),
            Result("linear probe, 2×224", "67.2", "Caron et al.", "paper"),
        ),
        "never released; reconstructed from its maintainer's description",
    ),
)
