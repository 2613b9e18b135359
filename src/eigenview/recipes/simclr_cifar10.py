"""SimCLR on CIFAR-10 (Chen et al., 2020), by the command in the authors' repository.

    eigenview recipes run simclr-cifar10 --source cifar10:DIR --out runs/simclr-cifar10

ResNet-18 with the CIFAR stem, 1,000 epochs of 512 images, LARS. The probe is Nesterov SGD on frozen features, which the
authors' command gives about 91 %.
"""

from __future__ import annotations

from eigenview.recipes.recipe import Recipe, Result

RECIPES = (
    Recipe(
        name="simclr-cifar10",
        title="SimCLR, CIFAR-10, ResNet-18, 1,000 epochs",
        source="cifar10",
        test="cifar10?split=test",
        images=50_000,
        protocol="probe-simclr-cifar",
        settings={
            "method": "simclr",
            "method_settings": {"temperature": 0.5, "head": "simclr-v2"},
            "encoder": {"name": "resnet18", "stem": "cifar"},
            "views": {"preset": "simclr-cifar"},
            "optimizer": {
                "name": "lars",
                "learning_rate": 1.0,
                "scaling": "linear",
                "weight_decay": 1e-4,
                "warmup_epochs": 10,
            },
            "batch_size": 512,
            "epochs": 1000,
        },
        results=(
            Result("linear probe", "about 91", "command in google-research/simclr", "authors' code"),
            Result("linear probe, solo-learn's setting", "90.74", "solo-learn, ResNet-18, 1,000 epochs", "third party"),
        ),
    ),
)
