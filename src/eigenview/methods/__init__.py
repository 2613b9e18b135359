"""Methods: an objective + the modules and state it trains. One literal table, one way to build."""

from eigenview.methods.captions import CLIPMethod, SigLIPMethod
from eigenview.methods.clustered import DeepClusterV2Method, SeLaV2Method, SwAVMethod
from eigenview.methods.method import (
    HeadPart,
    Method,
    MethodContext,
    MethodParts,
    MethodSettings,
    StepOutput,
    TextPart,
    ViewedBatch,
)
from eigenview.methods.moco import MoCoMethod
from eigenview.methods.own import own_method
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
from eigenview.names import Table, is_code

METHODS: Table[type[Method]] = Table(
    "method",
    {
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
        "clip": CLIPMethod,
        "siglip": SigLIPMethod,
    },
    more=", or module:attribute of your own",
)

DEFAULT_METHOD = "align-uniform"  # what learnt most in equal time, wherever it was measured (docs/training.md)


def find_method(name: str) -> type[Method]:
    """The method called ``name``: of ``METHODS``, or ``module:attribute`` of a user's own (:func:`own_method`)."""
    return own_method(name) if is_code(name) else METHODS.find(name)


__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "HeadPart",
    "Method",
    "MethodContext",
    "MethodParts",
    "MethodSettings",
    "StepOutput",
    "TextPart",
    "ViewedBatch",
    "find_method",
]
