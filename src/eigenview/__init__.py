"""Eigenview: representations from unlabelled images, learned by coupling similarity graphs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from eigenview.errors import EigenviewError

if TYPE_CHECKING:
    from eigenview.diagnostics import diagnose
    from eigenview.graph import (
        CauchyKernel,
        CosineKernel,
        Coupling,
        ExponentialKernel,
        GaussianKernel,
        InnerProductKernel,
        Kernel,
        LaplacianKernel,
        StudentTKernel,
        concatenated,
        learnable,
        sinkhorn,
        spherical_kmeans,
    )
    from eigenview.losses import (
        AlignUniformLoss,
        CLIPLoss,
        ClusterAssignment,
        InfoNCE,
        KernelInfoNCE,
        LaplacianEigenmapsLoss,
        MaximumEntropy,
        MomentumAlignUniform,
        MomentumContrast,
        RandomWalkLaplacian,
        SigLIPLoss,
        SimSiamLoss,
        SpectralContrastive,
        SupervisedContrastive,
        SwappedAssignment,
        align_uniform_loss,
        alignment,
        clip_loss,
        cluster_assignment,
        concatenation_sum_of_authors,
        concatenation_sum_of_paper,
        entropy_dual,
        info_nce,
        kernel_info_nce,
        laplacian_eigenmaps_loss,
        maximum_entropy,
        momentum_align_uniform,
        momentum_contrast,
        random_walk_laplacian,
        siglip_loss,
        simple_sum_of_authors,
        simple_sum_of_paper,
        simsiam_loss,
        spectral_contrastive,
        supervised_contrastive,
        swapped_assignment,
        uniformity,
        uniformity_floor,
    )
    from eigenview.training import read_config, train

__version__ = "0.1.0"

PLACES = ("eigenview.graph", "eigenview.losses", "eigenview.diagnostics", "eigenview.training")


def __getattr__(name: str) -> object:
    """Public names are imported when first asked for: a loss needs no trainer, and ``eigenview --help`` no torch."""
    if name in __all__:
        for place in PLACES:
            found: object = getattr(import_module(place), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module 'eigenview' has no attribute {name!r}")


__all__ = [
    "AlignUniformLoss",
    "CLIPLoss",
    "CauchyKernel",
    "ClusterAssignment",
    "CosineKernel",
    "Coupling",
    "EigenviewError",
    "ExponentialKernel",
    "GaussianKernel",
    "InfoNCE",
    "InnerProductKernel",
    "Kernel",
    "KernelInfoNCE",
    "LaplacianEigenmapsLoss",
    "LaplacianKernel",
    "MaximumEntropy",
    "MomentumAlignUniform",
    "MomentumContrast",
    "RandomWalkLaplacian",
    "SigLIPLoss",
    "SimSiamLoss",
    "SpectralContrastive",
    "StudentTKernel",
    "SupervisedContrastive",
    "SwappedAssignment",
    "__version__",
    "align_uniform_loss",
    "alignment",
    "clip_loss",
    "cluster_assignment",
    "concatenated",
    "concatenation_sum_of_authors",
    "concatenation_sum_of_paper",
    "diagnose",
    "entropy_dual",
    "info_nce",
    "kernel_info_nce",
    "laplacian_eigenmaps_loss",
    "learnable",
    "maximum_entropy",
    "momentum_align_uniform",
    "momentum_contrast",
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
    "train",
    "uniformity",
    "uniformity_floor",
]
