"""What a run directory says about its data and the machine, so that everything after training needs nothing else."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict
from typing import Any

import torch

from eigenview.data import Source, StreamSource
from eigenview.views import Recipe, centre_view, recipe_to_json


def data_facts(source: Source | StreamSource, recipe: Recipe, shape: tuple[int, int, int]) -> dict[str, Any]:
    """``data.json``: the source, the shape of its first image, the resolved views and the evaluation view."""
    height, width, channels = shape
    return {
        "source": asdict(source.describe()),
        "image": {"height": height, "width": width, "channels": channels},
        "view": asdict(centre_view(recipe)),
        "crops": [{"size": crop.size, "count": crop.count} for crop in recipe.crops],
        "recipe": recipe_to_json(recipe),
    }


def environment_facts(device: torch.device, processes: int) -> dict[str, Any]:
    """``environment.json``: versions and machine."""
    from eigenview import __version__

    return {
        "eigenview": __version__,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "processes": processes,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }
