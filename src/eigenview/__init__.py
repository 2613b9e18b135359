"""Eigenview: representations from unlabelled images, learned by coupling similarity graphs."""
# ruff: noqa: F403, F405 (tests hold that every name of __all__ is there)

import os
from importlib import import_module
from typing import TYPE_CHECKING

from eigenview.errors import EigenviewError

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read as torch loads: threads that spin stop a busy machine

if TYPE_CHECKING:  # for type checkers, what ``__getattr__`` finds; of these names, those in ``__all__`` are public
    from eigenview.diagnostics import *
    from eigenview.faces import *
    from eigenview.graph import *
    from eigenview.losses import *
    from eigenview.runs import TrainConfig, read_config

__version__ = "0.1.0"

PLACES = ("eigenview.graph", "eigenview.losses", "eigenview.diagnostics", "eigenview.faces", "eigenview.runs")


def __getattr__(name: str) -> object:
    """Public names are imported when first asked for: a loss needs no trainer, and ``eigenview --help`` no torch."""
    if name in __all__:
        for place in PLACES:
            module = import_module(place)
            if name in module.__all__:
                exported: object = getattr(module, name)
                globals()[name] = exported  # the next time it is there: 20 µs matter beside a loss of 64 views
                return exported
    raise AttributeError(f"module 'eigenview' has no attribute {name!r}")


__all__ = [
    "AlignUniformLoss",
    "CLIPLoss",
    "CauchyKernel",
    "ClusterAssignment",
    "CosineKernel",
    "Coupling",
    "EigenviewError",
    "Embeddings",
    "ExponentialKernel",
    "GaussianKernel",
    "InfoNCE",
    "InnerProductKernel",
    "Kernel",
    "KernelInfoNCELoss",
    "LaplacianEigenmapsLoss",
    "LaplacianKernel",
    "MaximumEntropy",
    "MomentumAlignUniform",
    "MomentumContrast",
    "RandomWalkLaplacian",
    "Run",
    "SigLIPLoss",
    "SimSiamLoss",
    "SpectralContrastive",
    "StudentTKernel",
    "SupervisedContrastive",
    "SwappedAssignment",
    "TrainConfig",
    "__version__",
    "align_uniform_loss",
    "alignment",
    "clip_loss",
    "cluster_assignment",
    "compare",
    "concatenated",
    "concatenation_sum_of_authors",
    "concatenation_sum_of_paper",
    "create_encoder",
    "diagnose",
    "entropy_dual",
    "info_nce",
    "kernel_info_nce_loss",
    "laplacian_eigenmaps_loss",
    "learnable",
    "list_encoders",
    "list_methods",
    "list_views",
    "look",
    "maximum_entropy",
    "momentum_align_uniform",
    "momentum_contrast",
    "open_embeddings",
    "open_encoder",
    "open_run",
    "random_walk_laplacian",
    "read_config",
    "siglip_loss",
    "simple_sum_of_authors",
    "simple_sum_of_paper",
    "simsiam_loss",
    "sinkhorn",
    "spectral_contrastive",
    "spherical_kmeans",
    "supervised_contrastive",
    "swapped_assignment",
    "sweep",
    "train",
    "uniformity",
    "uniformity_floor",
]
