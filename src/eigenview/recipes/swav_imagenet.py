"""SwAV on ImageNet (Caron et al., 2020): large batches, batches of 256 with a queue; the methods it is compared with.

    torchrun --nproc-per-node 8 --nnodes 8 -m eigenview recipes run swav-imagenet --source imagenet:DIR
    torchrun --nproc-per-node 4 -m eigenview recipes run swav-imagenet-256 --source imagenet:DIR
    torchrun --nproc-per-node 8 --nnodes 8 -m eigenview recipes run deepcluster-v2-imagenet --source imagenet:DIR
    torchrun --nproc-per-node 8 --nnodes 8 -m eigenview recipes run sela-v2-imagenet --source imagenet:DIR

LARC on every parameter, prototypes frozen for the first epoch. For images of 32 pixels the authors advise weaker
colours, no blur and a lower epsilon (0.01 to 0.03).

DeepCluster-v2 and SeLa-v2: 400 epochs of 2×160 + 4×96 crops, as the paper compares, with three sets of 3,000
prototypes. SeLa-v2 was never released: it is DeepCluster-v2 with labels by transport and trained prototypes, as its
maintainer describes it. ``--views swav-two-crops`` gives the paper's other column.
"""

from typing import Any

from eigenview.recipes.recipe import IMAGENET, Recipe, Result, by_epochs

LARC: dict[str, Any] = {"name": "larc", "weight_decay": 1e-6, "trust": 0.001, "final": 0.001, "exclude": []}
LARGE_BATCHES = {**LARC, "learning_rate": 4.8, "warmup_epochs": 10, "warmup_start": 0.0625}
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


def _clustered(method: str, title: str, results: tuple[Result, ...], *differs: str) -> Recipe:
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
            "optimizer": LARGE_BATCHES,
            "batch_size": 4096,
            "epochs": 400,
            "precision": "32",
        },
        results=results,
        differs=("the optimizer's settings are SwAV's, as the authors say", *differs),
    )


RECIPES = (
    _recipe(
        "swav-imagenet",
        "SwAV, ImageNet, ResNet-50, 2×224 + 6×96, batches of 4,096, 100 epochs",
        {
            "method_settings": METHOD,
            "optimizer": LARGE_BATCHES,
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
    _clustered(
        "deepcluster-v2",
        "DeepCluster-v2",
        (
            Result("linear probe", "74.3", "Caron et al.", "paper"),
            Result("linear probe, 2×224", "70.2", "Caron et al.", "paper"),
            Result("linear probe, 2×224 + 6×96, 800 epochs", "75.2", "facebookresearch/swav", "authors' code"),
        ),
    ),
    _clustered(
        "sela-v2",
        "SeLa-v2",
        (
            Result("linear probe", "71.8", "Caron et al.", "paper"),
            Result("linear probe, 2×224", "67.2", "Caron et al.", "paper"),
        ),
        "never released; reconstructed from its maintainer's description",
    ),
)
