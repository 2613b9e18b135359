"""The runs that measures without labels are judged by: many methods, temperatures, views, rates, encoders and lengths.

All short, on the same CIFAR-10 images; what a run is not told is as in ``CONFIG``. Some are bad on purpose: whoever
chooses among runs has such ones too.
"""

from __future__ import annotations

from typing import Any

RATE = 2e-3
HEADS = {"head_hidden": 512, "prototypes": 300}
SIMCLR = {"temperature": 0.2}
LENGTHS = (40, 120, 360)  # steps of 128 images

PLAN: dict[str, dict[str, Any]] = {
    **{f"simclr, {steps} steps": {"method": "simclr", "settings": SIMCLR, "steps": steps} for steps in LENGTHS},
    **{
        f"simclr, temperature {temperature}": {"method": "simclr", "settings": {"temperature": temperature}}
        for temperature in (0.05, 0.1, 0.5, 1.0, 5.0)
    },
    "simclr, no augmentation": {"method": "simclr", "settings": SIMCLR, "views": {"preset": "none"}},
    "simclr, other views": {"method": "simclr", "settings": SIMCLR, "views": {"preset": "wang-isola-stl"}},
    "simclr, grey-level views": {"method": "simclr", "settings": SIMCLR, "views": {"preset": "random-walk-cifar"}},
    "simclr, rate / 10": {"method": "simclr", "settings": SIMCLR, "rate": RATE / 10},
    "simclr, rate × 5": {"method": "simclr", "settings": SIMCLR, "rate": RATE * 5},
    "simclr, quarter width": {"method": "simclr", "settings": SIMCLR, "encoder": {"width": 0.25}},
    "simclr, full width": {"method": "simclr", "settings": SIMCLR, "encoder": {"width": 1.0}, "steps": 60},
    "simclr, resnet18": {
        "method": "simclr",
        "settings": SIMCLR,
        "encoder": {"name": "resnet18", "width": 0.25},
        "steps": 60,
    },
    **{
        f"kernel-infonce, {kernel}": {
            "method": "kernel-infonce",
            "settings": {"kernel": kernel, "temperature": 0.4},
        }
        for kernel in ("simple-sum", "laplacian")
    },
    **{
        f"align-uniform, {weight} of uniformity": {"method": "align-uniform", "settings": {"uniform_weight": weight}}
        for weight in (0.0, 0.1, 1.0)
    },
    "random-walk": {"method": "random-walk", "settings": {"temperature": 0.1}},
    "random-walk, 360 steps": {"method": "random-walk", "settings": {"temperature": 0.1}, "steps": 360},
    "spectral": {"method": "spectral", "settings": {"head_hidden": 512, "head_output": 256, "mu": 3.0}},
    "laplacian-eigenmaps": {"method": "laplacian-eigenmaps"},
    "laplacian-eigenmaps, nothing decorrelated": {
        "method": "laplacian-eigenmaps",
        "settings": {"decorrelation_weight": 0.0},
    },
    "simsiam": {
        "method": "simsiam",
        "settings": {"head_hidden": 512, "head_output": 512, "predictor_hidden": 128},
    },
    **{
        f"moco, temperature {temperature}": {
            "method": "moco",
            "settings": {"queue": 2048, "momentum": 0.99, "temperature": temperature},
        }
        for temperature in (0.1, 0.2)
    },
    "swav": {"method": "swav", "settings": {**HEADS, "epsilon": 0.03, "queue": 0}},
    "swav, 30 prototypes": {"method": "swav", "settings": {**HEADS, "prototypes": 30, "epsilon": 0.05, "queue": 0}},
    "deepcluster-v2": {"method": "deepcluster-v2", "settings": {**HEADS, "prototypes": [300, 300, 300]}},
    "supcon": {"method": "supcon"},
    "supervised": {"method": "supervised"},
    "supervised, 360 steps": {"method": "supervised", "steps": 360},
}
NAMED = {  # encoders that are not trained here, and the pixels they see
    "small, untrained": ("small", None),
    "efficientnet-lite0": ("efficientnet-lite0", 64),
}


def config(planned: dict[str, Any], source: str, out: str) -> dict[str, Any]:
    return {
        "source": source,
        "out": out,
        "method": planned["method"],
        "method_settings": planned.get("settings", {}),
        "encoder": {"name": "small", "width": 0.5, **planned.get("encoder", {})},
        "views": {"size": 32, **planned.get("views", {"preset": "simclr-cifar"})},
        "optimizer": {
            "name": "adamw",
            "learning_rate": planned.get("rate", RATE),
            "weight_decay": 1e-4,
            "warmup_epochs": 0.2,
        },
        "batch_size": 128,
        "steps": planned.get("steps", LENGTHS[1]),
        "seed": 0,
        "log_every": 20,
        "workers": 0,
    }
