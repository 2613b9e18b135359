"""SimCLR (Chen et al., 2020): on CIFAR-10 by the command in the authors' repository, and on ImageNet for 100 epochs.

    eigenview recipes run simclr-cifar10 --source cifar10:DIR --out runs/simclr-cifar10
    torchrun --nproc-per-node 8 -m eigenview recipes run simclr-imagenet --source imagenet:DIR

CIFAR-10: ResNet-18 with the CIFAR stem, 1,000 epochs of 512 images, LARS. The probe is Nesterov SGD on frozen features,
which the authors' command gives about 91 %. ImageNet: batches of 4,096 images over all processes; batch statistics and
negatives are shared among them.
"""

from eigenview.recipes.recipe import CIFAR10, IMAGENET, Recipe, Result

LARS = {"name": "lars", "scaling": "linear", "weight_decay": 1e-4, "warmup_epochs": 10}

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
            "optimizer": {**LARS, "learning_rate": 1.0},
            "batch_size": 512,
            "epochs": 1000,
        },
        results=(
            Result("linear probe", "about 91", "command in google-research/simclr", "authors' code"),
            Result("linear probe, solo-learn's setting", "90.74", "solo-learn, ResNet-18, 1,000 epochs", "third party"),
        ),
    ),
    Recipe(
        name="simclr-imagenet",
        title="SimCLR, ImageNet, ResNet-50, 100 epochs",
        **IMAGENET,
        protocol="linear",
        settings={
            "method": "simclr",
            "method_settings": {"temperature": 0.1, "head": "simclr-v2"},
            "encoder": {"name": "resnet50", "stem": "imagenet"},
            "views": {"preset": "simclr-imagenet"},
            "optimizer": {**LARS, "learning_rate": 0.3},
            "batch_size": 4096,
            "epochs": 100,
            "precision": "bf16",
        },
        results=(Result("linear probe", "64.5", "google-research/simclr", "authors' code"),),
    ),
)
