"""Named objectives: pure functions of tensors, each a thin instance of :mod:`eigenview.graph`, with module twins."""

from __future__ import annotations

from eigenview.losses.captions import CLIP, SigLIP, clip, siglip
from eigenview.losses.contrastive import (
    InfoNCE,
    KernelInfoNCE,
    SupervisedContrastive,
    info_nce,
    kernel_info_nce,
    supervised_contrastive,
)
from eigenview.losses.hypersphere import AlignUniform, align_uniform, alignment, uniformity, uniformity_floor
from eigenview.losses.kernel_sums import (
    concatenation_sum_of_authors,
    concatenation_sum_of_paper,
    simple_sum_of_authors,
    simple_sum_of_paper,
)
from eigenview.losses.maximum_entropy import MaximumEntropy, entropy_dual, maximum_entropy
from eigenview.losses.momentum import (
    MomentumAlignUniform,
    MomentumContrast,
    momentum_align_uniform,
    momentum_contrast,
)
from eigenview.losses.prototypes import ClusterAssignment, SwappedAssignment, cluster_assignment, swapped_assignment
from eigenview.losses.random_walk import RandomWalkLaplacian, random_walk_laplacian
from eigenview.losses.sim_siam import SimSiam, sim_siam
from eigenview.losses.spectral import (
    LaplacianEigenmaps,
    SpectralContrastive,
    laplacian_eigenmaps,
    spectral_contrastive,
)

__all__ = [
    "CLIP",
    "AlignUniform",
    "ClusterAssignment",
    "InfoNCE",
    "KernelInfoNCE",
    "LaplacianEigenmaps",
    "MaximumEntropy",
    "MomentumAlignUniform",
    "MomentumContrast",
    "RandomWalkLaplacian",
    "SigLIP",
    "SimSiam",
    "SpectralContrastive",
    "SupervisedContrastive",
    "SwappedAssignment",
    "align_uniform",
    "alignment",
    "clip",
    "cluster_assignment",
    "concatenation_sum_of_authors",
    "concatenation_sum_of_paper",
    "entropy_dual",
    "info_nce",
    "kernel_info_nce",
    "laplacian_eigenmaps",
    "maximum_entropy",
    "momentum_align_uniform",
    "momentum_contrast",
    "random_walk_laplacian",
    "siglip",
    "sim_siam",
    "simple_sum_of_authors",
    "simple_sum_of_paper",
    "spectral_contrastive",
    "supervised_contrastive",
    "swapped_assignment",
    "uniformity",
    "uniformity_floor",
]
