"""SimCLR where there is no accelerator: what a first look costs on two cores.

    eigenview recipes run digits-demo --out runs/digits
    eigenview recipes run cpu-cifar10-quick --source cifar10/train.parquet --out runs/quick

scikit-learn's digits need no download: 1,438 images of 8 × 8 pixels, a minute or two. Raw pixels are strong there: the
gain is with few labels. CIFAR-10 takes minutes.
"""

from functools import partial

from eigenview.recipes.recipe import CIFAR10, Recipe, Result

_DIGITS = "one run, seed 0; 95 % intervals over 359 test images, over draws for few labels"
_measured = partial(Result, source=_DIGITS, evidence="measured here")
QUICK = "benchmarks/methods.py, the same settings; one run, seed 0; 95 % intervals over test images"

RECIPES = (
    Recipe(
        name="digits-demo",
        title="SimCLR, scikit-learn's digits, small encoder: runs here",
        source="digits?split=train",
        test="digits?split=test",
        images=1438,
        protocol="linear few-label",
        settings={
            "method": "simclr",
            "method_settings": {"temperature": 0.5},
            "encoder": {"name": "small"},
            "views": {"preset": "digits", "size": 16},  # enlarged: at 8 pixels the encoder has no room for strides
            "optimizer": {"name": "adamw", "learning_rate": 2e-3, "weight_decay": 1e-4, "warmup_epochs": 2},
            "batch_size": 256,
            "epochs": 100,
        },
        results=(
            _measured("logistic, 5 labels a class", "95.8 [95.1, 96.6]; raw pixels 85.1, untrained 84.5"),
            _measured("1-NN, 5 labels a class", "94.0 [93.2, 94.8]; raw pixels 86.4, untrained 78.9"),
            _measured("linear, all labels", "100.0 [100.0, 100.0]; raw pixels 96.9, untrained 98.6"),
            _measured("1-NN, all labels", "99.7 [99.2, 100.0]; raw pixels 99.2, untrained 96.7"),
        ),
        cost="about a minute of training on two cores",
    ),
    Recipe(
        name="cpu-cifar10-quick",
        title="SimCLR, CIFAR-10, small encoder, three epochs: runs here",
        **CIFAR10,
        protocol="linear",
        settings={
            "method": "simclr",
            "method_settings": {"temperature": 0.2},
            "encoder": {"name": "small"},
            "views": {"preset": "simclr-cifar"},
            "optimizer": {"name": "adamw", "learning_rate": 2e-3, "weight_decay": 1e-4, "warmup_epochs": 0.2},
            "batch_size": 256,
            "epochs": 3,
        },
        results=(
            Result("20-NN", "52.8 [51.8, 53.8]; raw pixels 36.2, untrained 38.5", QUICK, "measured here"),
            Result("linear", "54.7 [53.8, 55.7]; untrained 44.6", QUICK, "measured here"),
        ),
        cost="165 seconds of training on two cores that others used too",
    ),
)
