"""SwAV on ImageNet (Caron et al., 2020): large batches with eight crops, and batches of 256 with a queue.

    torchrun --nproc-per-node 8 --nnodes 8 -m eigenview recipes run swav-imagenet --source imagenet:DIR
    torchrun --nproc-per-node 4 -m eigenview recipes run swav-imagenet-256 --source imagenet:DIR

LARC on every parameter, prototypes frozen for the first epoch. For images of 32 pixels the authors advise weaker
colours, no blur and a lower epsilon (0.01 to 0.03).
"""

from __future__ import annotations

from typing import Any

from eigenview.recipes.recipe import IMAGENET, Recipe, by_epochs

LARC: dict[str, Any] = {"name": "larc", "weight_decay": 1e-6, "trust": 0.001, "final": 0.001, "exclude": []}
SHARED: dict[str, Any] = {
    "encoder": {"name": "resnet50", "stem": "imagenet"},
    "views": {"preset": "swav"},
    "precision": "bf16",
}
METHOD: dict[str, Any] = {"prototypes": 3000, "epsilon": 0.05, "temperature": 0.1}


def _recipe(name: str, title: str, settings: dict[str, Any], published: dict[int, str]) -> Recipe:
    return Recipe(
        name=name,
        title=title,
        **IMAGENET,
        protocol="probe-swav",
        settings={"method": "swav", **SHARED, **settings},
        results=by_epochs(published, "facebookresearch/swav", "authors' code"),
        differs=("batch statistics are those of all processes; the authors' of groups of eight",),
    )


RECIPES = (
    _recipe(
        "swav-imagenet",
        "SwAV, ImageNet, ResNet-50, 2×224 + 6×96, batches of 4,096, 100 epochs",
        {
            "method_settings": METHOD,
            "optimizer": {**LARC, "learning_rate": 4.8, "warmup_epochs": 10, "warmup_start": 0.0625},
            "batch_size": 4096,
            "epochs": 100,
        },
        {100: "72.1", 200: "73.9", 400: "74.6", 800: "75.3"},
    ),
    _recipe(
        "swav-imagenet-256",
        "SwAV, ImageNet, ResNet-50, 2×224 + 6×96, batches of 256 with a queue, 200 epochs",
        {
            "method_settings": {**METHOD, "queue": 3840, "queue_from_epoch": 15},
            "optimizer": {**LARC, "learning_rate": 0.6},
            "batch_size": 256,
            "epochs": 200,
        },
        {200: "72.7", 400: "74.3"},
    ),
)
