"""The spectral contrastive loss on CIFAR-10 (HaoChen et al., 2021).

    eigenview recipes run spectral-cifar10 --source cifar10:DIR --out runs/spectral

The published probe (``moco``: SGD at 30) is on the encoder's features, before the head.
"""

from __future__ import annotations

from eigenview.recipes.recipe import Recipe, Result

RECIPES = (
    Recipe(
        name="spectral-cifar10",
        title="Spectral contrastive loss, CIFAR-10, ResNet-18, 800 epochs",
        source="cifar10",
        test="cifar10?split=test",
        images=50_000,
        protocol="probe-moco",
        settings={
            "method": "spectral",
            "method_settings": {"mu": 1.0},
            "encoder": {"name": "resnet18", "stem": "cifar"},
            "views": {"preset": "spectral-cifar"},
            "optimizer": {
                "name": "sgd",
                "learning_rate": 0.03,
                "scaling": "linear",
                "weight_decay": 5e-4,
                "warmup_epochs": 10,
                "exclude": [],
            },
            "batch_size": 512,
            "epochs": 800,
        },
        results=(
            Result("linear probe, 200 epochs", "88.66", "HaoChen et al.", "recalled"),
            Result("linear probe, 400 epochs", "90.17", "HaoChen et al.", "recalled"),
            Result("linear probe, 800 epochs", "92.07", "HaoChen et al.", "recalled"),
        ),
    ),
)
