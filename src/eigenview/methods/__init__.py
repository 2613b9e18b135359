"""Methods: an objective + the modules and state it trains. One literal dict, one way to build."""

from __future__ import annotations

from difflib import get_close_matches

from eigenview.errors import SettingError
from eigenview.methods.clustered import DeepClusterV2, SeLaV2
from eigenview.methods.method import Method, MethodSettings, Setting, StepOutput, ViewedBatch
from eigenview.methods.moco import MoCo
from eigenview.methods.pairwise import (
    AlignUniform,
    KernelInfoNCE,
    LaplacianEigenmaps,
    RandomWalk,
    SimCLR,
    SimSiam,
    Spectral,
    SupCon,
)
from eigenview.methods.supervised import Supervised
from eigenview.methods.swav import SwAV

METHODS: dict[str, type[Method]] = {
    "simclr": SimCLR,
    "kernel-infonce": KernelInfoNCE,
    "random-walk": RandomWalk,
    "spectral": Spectral,
    "align-uniform": AlignUniform,
    "laplacian-eigenmaps": LaplacianEigenmaps,
    "simsiam": SimSiam,
    "supcon": SupCon,
    "moco": MoCo,
    "swav": SwAV,
    "deepcluster-v2": DeepClusterV2,
    "sela-v2": SeLaV2,
    "supervised": Supervised,
}


def find_method(name: str) -> type[Method]:
    """The method called ``name``."""
    if name not in METHODS:
        close = get_close_matches(name, METHODS, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise SettingError(f"method must be one of {', '.join(METHODS)}; got {name!r}{meant}")
    return METHODS[name]


__all__ = [
    "METHODS",
    "Method",
    "MethodSettings",
    "Setting",
    "StepOutput",
    "ViewedBatch",
    "find_method",
]
