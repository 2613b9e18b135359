"""MoCo v2 on ImageNet (Chen et al., 2020), 200 epochs.

    torchrun --nproc-per-node 8 -m eigenview recipes run moco-v2-imagenet --source imagenet:DIR --out runs/moco-v2

A queue of 65,536 keys, momentum 0.999, shuffled batch statistics per process. v1 is
``--method-settings.head moco-v1 --method-settings.temperature 0.07 --views moco-v1`` with steps at 120 and 160: 60.6 %.
"""

from eigenview.recipes.recipe import IMAGENET, Recipe, by_epochs

RECIPES = (
    Recipe(
        name="moco-v2-imagenet",
        title="MoCo v2, ImageNet, ResNet-50, 200 epochs",
        **IMAGENET,
        protocol="probe-moco",
        settings={
            "method": "moco",
            "method_settings": {"queue": 65536, "momentum": 0.999, "temperature": 0.2, "head": "moco-v2"},
            "encoder": {"name": "resnet50", "stem": "imagenet"},
            "views": {"preset": "moco-v2"},
            "optimizer": {"name": "sgd", "learning_rate": 0.03, "weight_decay": 1e-4, "exclude": []},
            "batch_size": 256,
            "epochs": 200,
        },
        results=by_epochs({200: "67.5 ± 0.1", 800: "71.1"}, "facebookresearch/moco", "authors' code"),
        differs=("the cosine moves with each step; the authors' with each epoch",),
    ),
)
