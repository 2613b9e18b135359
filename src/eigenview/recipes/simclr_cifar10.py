"""SimCLR on CIFAR-10 (Chen et al., 2020), by the command in the authors' repository.

    eigenview recipes run simclr-cifar10 --source cifar10:DIR --out runs/simclr-cifar10

ResNet-18 with the CIFAR stem, 1,000 epochs of 512 images, LARS. The probe is Nesterov SGD on frozen features, which the
authors' command gives about 91 %.
"""

from __future__ import annotations

from eigenview.recipes.recipe import CIFAR10, SIMCLR_LARS, Recipe, Result

RECIPES = (
    Recipe(
        name="simclr-cifar10",
        title="SimCLR, CIFAR-10, ResNet-18, 1,000 epochs",
        **CIFAR10,
        protocol="probe-simclr-cifar",
        settings={
            "method": "simclr",
            "method_settings": {"temperature": 0.5, "head": "simclr-v2"},
            "encoder": {"name": "resnet18", "stem": "cifar"},
            "views": {"preset": "simclr-cifar"},
            "optimizer": {**SIMCLR_LARS, "learning_rate": 1.0},
            "batch_size": 512,
            "epochs": 1000,
        },
        results=(
            Result("linear probe", "about 91", "command in google-research/simclr", "authors' code"),
            Result("linear probe, solo-learn's setting", "90.74", "solo-learn, ResNet-18, 1,000 epochs", "third party"),
        ),
    ),
)
