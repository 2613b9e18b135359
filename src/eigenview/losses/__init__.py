"""Named objectives: pure functions of tensors, each a thin instance of :mod:`eigenview.graph`, with module twins."""

from eigenview.graph.sphere import uniformity_floor
from eigenview.losses.captions import CLIPLoss, SigLIPLoss, clip_loss, siglip_loss
from eigenview.losses.contrastive import (
    InfoNCE,
    KernelInfoNCELoss,
    RandomWalkLaplacian,
    SupervisedContrastive,
    concatenation_sum_of_authors,
    concatenation_sum_of_paper,
    info_nce,
    kernel_info_nce_loss,
    random_walk_laplacian,
    simple_sum_of_authors,
    simple_sum_of_paper,
    supervised_contrastive,
)
from eigenview.losses.entropy import MaximumEntropy, entropy_dual, maximum_entropy
from eigenview.losses.hypersphere import (
    AlignUniformLoss,
    SimSiamLoss,
    align_uniform_loss,
    alignment,
    simsiam_loss,
    uniformity,
)
from eigenview.losses.momentum import MomentumAlignUniform, MomentumContrast, momentum_align_uniform, momentum_contrast
from eigenview.losses.prototypes import ClusterAssignment, SwappedAssignment, cluster_assignment, swapped_assignment
from eigenview.losses.spectral import (
    LaplacianEigenmapsLoss,
    SpectralContrastive,
    laplacian_eigenmaps_loss,
    spectral_contrastive,
)

__all__ = [
    "AlignUniformLoss",
    "CLIPLoss",
    "ClusterAssignment",
    "InfoNCE",
    "KernelInfoNCELoss",
    "LaplacianEigenmapsLoss",
    "MaximumEntropy",
    "MomentumAlignUniform",
    "MomentumContrast",
    "RandomWalkLaplacian",
    "SigLIPLoss",
    "SimSiamLoss",
    "SpectralContrastive",
    "SupervisedContrastive",
    "SwappedAssignment",
    "align_uniform_loss",
    "alignment",
    "clip_loss",
    "cluster_assignment",
    "concatenation_sum_of_authors",
    "concatenation_sum_of_paper",
    "entropy_dual",
    "info_nce",
    "kernel_info_nce_loss",
    "laplacian_eigenmaps_loss",
    "maximum_entropy",
    "momentum_align_uniform",
    "momentum_contrast",
    "random_walk_laplacian",
    "siglip_loss",
    "simple_sum_of_authors",
    "simple_sum_of_paper",
    "simsiam_loss",
    "spectral_contrastive",
    "supervised_contrastive",
    "swapped_assignment",
    "uniformity",
    "uniformity_floor",
]
