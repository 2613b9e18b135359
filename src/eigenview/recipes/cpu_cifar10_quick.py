"""SimCLR on CIFAR-10 in minutes on two cores: what a first look costs.

eigenview recipes run cpu-cifar10-quick --source cifar10/train.parquet --out runs/quick
"""

from __future__ import annotations

from eigenview.recipes.recipe import Recipe

RECIPES = (
    Recipe(
        name="cpu-cifar10-quick",
        title="SimCLR, CIFAR-10, small encoder, one epoch: runs here",
        source="cifar10",
        test="cifar10?split=test",
        images=50_000,
        protocol="linear",
        settings={
            "method": "simclr",
            "method_settings": {"temperature": 0.2},
            "encoder": {"name": "small"},
            "views": {"preset": "simclr-cifar"},
            "optimiser": {"name": "adamw", "learning_rate": 2e-3, "weight_decay": 1e-4, "warmup_epochs": 0.2},
            "batch_size": 256,
            "epochs": 1,
        },
        results=(),
        cost="a few minutes on two cores",
    ),
)
