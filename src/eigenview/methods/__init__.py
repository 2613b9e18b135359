"""Methods: an objective + the modules and state it trains. One literal dict, one way to build."""

from __future__ import annotations

from difflib import get_close_matches

from eigenview.errors import SettingError
from eigenview.methods.clustered import DeepClusterV2Method, SeLaV2Method
from eigenview.methods.method import (
    HeadPart,
    Method,
    MethodContext,
    MethodParts,
    MethodSettings,
    StepOutput,
    ViewedBatch,
)
from eigenview.methods.moco import MoCoMethod
from eigenview.methods.pairwise import (
    AlignUniformMethod,
    KernelInfoNCEMethod,
    LaplacianEigenmapsMethod,
    RandomWalkMethod,
    SimCLRMethod,
    SimSiamMethod,
    SpectralMethod,
    SupConMethod,
)
from eigenview.methods.supervised import SupervisedMethod
from eigenview.methods.swav import SwAVMethod

METHODS: dict[str, type[Method]] = {
    "simclr": SimCLRMethod,
    "kernel-infonce": KernelInfoNCEMethod,
    "random-walk": RandomWalkMethod,
    "spectral": SpectralMethod,
    "align-uniform": AlignUniformMethod,
    "laplacian-eigenmaps": LaplacianEigenmapsMethod,
    "simsiam": SimSiamMethod,
    "supcon": SupConMethod,
    "moco": MoCoMethod,
    "swav": SwAVMethod,
    "deepcluster-v2": DeepClusterV2Method,
    "sela-v2": SeLaV2Method,
    "supervised": SupervisedMethod,
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
    "HeadPart",
    "Method",
    "MethodContext",
    "MethodParts",
    "MethodSettings",
    "StepOutput",
    "ViewedBatch",
    "find_method",
]
