"""SimSiam on CIFAR-10 (Chen & He, 2021): no negatives; the stop-gradient and the predictor keep it from collapse.

    eigenview recipes run simsiam-cifar10 --source cifar10:DIR --out runs/simsiam

A projector of two layers; the predictor's learning rate stays constant while the cosine takes the others down.
"""

from __future__ import annotations

from eigenview.recipes.recipe import Recipe, Result

RECIPES = (
    Recipe(
        name="simsiam-cifar10",
        title="SimSiam, CIFAR-10, ResNet-18, 800 epochs",
        source="cifar10",
        test="cifar10?split=test",
        images=50_000,
        protocol="probe-simsiam",
        settings={
            "method": "simsiam",
            "method_settings": {"head": "simsiam-cifar", "predictor_hidden": 512},
            "encoder": {"name": "resnet18", "stem": "cifar"},
            "views": {"preset": "simsiam-cifar"},
            "optimizer": {
                "name": "sgd",
                "learning_rate": 0.03,
                "scaling": "linear",
                "weight_decay": 5e-4,
                "exclude": [],
            },
            "batch_size": 512,
            "epochs": 800,
        },
        results=(
            Result("linear probe", "91.8", "Chen & He", "recalled"),
            Result("linear probe", "90.83", "PatrickHua/SimSiam, with 10 epochs of warm-up", "third party"),
        ),
        differs=(
            "batch statistics run over both views together; the authors' over each by itself",
            "residual branches start as everywhere here, not at zero",
        ),
    ),
)
