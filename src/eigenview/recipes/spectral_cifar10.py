"""The spectral contrastive loss on CIFAR-10 (HaoChen et al., 2021).

    eigenview recipes run spectral-cifar10 --source cifar10:DIR --out runs/spectral

The published probe (``moco``: SGD at 30) is on the encoder's features, before the head.
"""

from eigenview.recipes.recipe import CIFAR10, SIMSIAM_SGD, Recipe, by_epochs

RECIPES = (
    Recipe(
        name="spectral-cifar10",
        title="Spectral contrastive loss, CIFAR-10, ResNet-18, 800 epochs",
        **CIFAR10,
        protocol="probe-moco",
        settings={
            "method": "spectral",
            "method_settings": {"mu": 1.0},
            "encoder": {"name": "resnet18", "stem": "cifar"},
            "views": {"preset": "spectral-cifar"},
            "optimizer": {**SIMSIAM_SGD, "warmup_epochs": 10},
            "batch_size": 512,
            "epochs": 800,
        },
        results=by_epochs({200: "88.66", 400: "90.17", 800: "92.07"}, "HaoChen et al.", "recalled"),
    ),
)
