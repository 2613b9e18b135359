"""The random-walk Laplacian on CIFAR-10 (Moummad), the paper's setting: absolute differences, summed, temperature 1.

    eigenview recipes run random-walk-cifar10 --source cifar10:DIR --out runs/random-walk

The authors' code squares the differences and its README recommends temperature 0.4 and learning rate 0.1:
``--method-settings.form squared --method-settings.temperature 0.4 --optimizer.learning-rate 0.1``.
"""

from eigenview.recipes.recipe import CIFAR10, Recipe, Result

RECIPES = (
    Recipe(
        name="random-walk-cifar10",
        title="Random-walk Laplacian, CIFAR-10, ResNet-18, 100 epochs",
        **CIFAR10,
        protocol="probe-random-walk",
        settings={
            "method": "random-walk",
            "method_settings": {"form": "absolute", "temperature": 1.0, "reduction": "sum"},
            "encoder": {"name": "resnet18", "stem": "cifar"},
            "views": {"preset": "random-walk-cifar"},
            "optimizer": {"name": "sgd", "learning_rate": 0.06, "weight_decay": 5e-4, "exclude": []},
            "batch_size": 512,
            "epochs": 100,
        },
        results=(
            Result("linear probe", "84.03 ± 0.29", "Moummad", "paper"),
            Result("SimCLR in the same setting", "80.17 ± 0.20", "Moummad", "paper"),
        ),
        differs=("the paper reports the best test epoch of the probe; here the last one counts",),
    ),
)
