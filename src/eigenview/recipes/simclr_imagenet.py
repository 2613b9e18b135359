"""SimCLR on ImageNet (Chen et al., 2020), 100 epochs.

    torchrun --nproc-per-node 8 -m eigenview recipes run simclr-imagenet --source imagenet:DIR

Batches of 4,096 images over all processes; batch statistics and negatives are shared among them.
"""

from __future__ import annotations

from eigenview.recipes.recipe import IMAGENET, SIMCLR_LARS, Recipe, Result

RECIPES = (
    Recipe(
        name="simclr-imagenet",
        title="SimCLR, ImageNet, ResNet-50, 100 epochs",
        **IMAGENET,
        protocol="linear",
        settings={
            "method": "simclr",
            "method_settings": {"temperature": 0.1, "head": "simclr-v2"},
            "encoder": {"name": "resnet50", "stem": "imagenet"},
            "views": {"preset": "simclr-imagenet"},
            "optimizer": {**SIMCLR_LARS, "learning_rate": 0.3},
            "batch_size": 4096,
            "epochs": 100,
            "precision": "bf16",
        },
        results=(Result("linear probe", "64.5", "google-research/simclr", "authors' code"),),
    ),
)
