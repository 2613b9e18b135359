"""Alignment and uniformity on STL-10 (Wang & Isola, 2020), and the contrastive loss it is compared with.

    eigenview recipes run align-uniform-stl10 --source 'stl10:DIR?split=train+unlabelled' --out runs/align-uniform
    eigenview recipes run contrastive-stl10 --source 'stl10:DIR?split=train+unlabelled' --out runs/contrastive

A small AlexNet on views of 64 pixels, 200 epochs of 768 images. ``fc7`` and ``output`` are the layers of the paper's
tables; the paper chose among 150 encoders by cross-validation, and these are the chosen ones' weights.
"""

from typing import Any

from eigenview.recipes.recipe import Recipe, Result

SHARED: dict[str, Any] = {
    "encoder": {"name": "alexnet"},
    "views": {"preset": "wang-isola-stl"},
    "optimizer": {
        "name": "sgd",
        "learning_rate": 0.12,
        "scaling": "linear",
        "weight_decay": 1e-4,
        "schedule": "step",
        "milestones": [155, 170, 185],
        "exclude": [],
    },
    "batch_size": 768,
    "epochs": 200,
}


def _results(values: tuple[str, str, str, str]) -> tuple[Result, ...]:
    names = ("output, linear", "output, 5-NN", "fc7, linear", "fc7, 5-NN")
    return tuple(Result(name, value, "Wang & Isola", "paper") for name, value in zip(names, values, strict=True))


def _recipe(name: str, title: str, settings: dict[str, Any], results: tuple[Result, ...], *differs: str) -> Recipe:
    return Recipe(
        name=name,
        title=title,
        source="stl10?split=train+unlabelled",
        test="stl10?split=test",
        images=105_000,
        protocol="probe-wang-isola",
        settings={**SHARED, **settings},
        results=results,
        differs=differs,
        layers=("output", "fc7"),
    )


RECIPES = (
    _recipe(
        "align-uniform-stl10",
        "0.98 alignment(2) + 0.96 uniformity(2), STL-10, small AlexNet, 200 epochs",
        {
            "method": "align-uniform",
            "method_settings": {
                "align_weight": 0.98,
                "uniform_weight": 0.96,
                "alpha": 2.0,
                "t": 2.0,
                "head": "identity",
            },
        },
        (
            *_results(("81.15", "78.89", "84.43", "76.78")),
            Result("fc7, linear, weights 1 and 1", "83.19", "repository, 4 GPUs", "authors' code"),
        ),
        "the probe learns from the labelled training images: evaluate with 'stl10?split=train'",
    ),
    _recipe(
        "contrastive-stl10",
        "Contrastive loss at temperature 0.19, STL-10, small AlexNet, 200 epochs",
        {"method": "simclr", "method_settings": {"temperature": 0.19, "head": "identity"}},
        _results(("80.46", "78.75", "83.89", "76.33")),
        "negatives are all other views of the batch; the paper's loss takes M negatives of the other view",
        "the probe learns from the labelled training images: evaluate with 'stl10?split=train'",
    ),
)
