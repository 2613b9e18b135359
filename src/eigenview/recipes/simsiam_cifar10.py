"""SimSiam on CIFAR-10 (Chen & He, 2021): no negatives; the stop-gradient and the predictor keep it from collapse.

    eigenview recipes run simsiam-cifar10 --source cifar10:DIR --out runs/simsiam

A projector of two layers; the predictor's learning rate stays constant while the cosine takes the others down.
"""

from eigenview.recipes.recipe import CIFAR10, SIMSIAM_SGD, Recipe, Result

RECIPES = (
    Recipe(
        name="simsiam-cifar10",
        title="SimSiam, CIFAR-10, ResNet-18, 800 epochs",
        **CIFAR10,
        protocol="probe-simsiam",
        settings={
            "method": "simsiam",
            "method_settings": {"head": "simsiam-cifar", "predictor_hidden": 512},
            "encoder": {"name": "resnet18", "stem": "cifar"},
            "views": {"preset": "simsiam-cifar"},
            "optimizer": SIMSIAM_SGD,
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
