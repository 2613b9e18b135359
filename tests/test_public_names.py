"""What users may import. A name added or lost here is a decision, with a line in the changelog."""

from __future__ import annotations

import subprocess
import sys

import eigenview

PUBLIC = """
AlignUniformLoss CLIPLoss CauchyKernel ClusterAssignment CosineKernel Coupling EigenviewError ExponentialKernel
GaussianKernel InfoNCE InnerProductKernel Kernel KernelInfoNCE LaplacianEigenmapsLoss LaplacianKernel MaximumEntropy
MomentumAlignUniform MomentumContrast RandomWalkLaplacian SigLIPLoss SimSiamLoss SpectralContrastive StudentTKernel
SupervisedContrastive SwappedAssignment __version__ align_uniform_loss alignment clip_loss cluster_assignment
concatenated concatenation_sum_of_authors concatenation_sum_of_paper diagnose entropy_dual info_nce kernel_info_nce
laplacian_eigenmaps_loss learnable maximum_entropy momentum_align_uniform momentum_contrast random_walk_laplacian
read_config siglip_loss simple_sum_of_authors simple_sum_of_paper simsiam_loss sinkhorn spectral_contrastive
spherical_kmeans supervised_contrastive swapped_assignment train uniformity uniformity_floor
""".split()


def test_the_public_names_are_these():
    assert sorted(eigenview.__all__) == sorted(PUBLIC)
    assert all(hasattr(eigenview, name) for name in PUBLIC)


def test_importing_prints_nothing_and_loads_no_optional_library():
    optional = ["sklearn", "pyarrow", "webdataset", "torchvision", "timm", "torch._dynamo", "PIL", "rich", "pydantic"]
    code = f"import eigenview, sys; print([name for name in {optional} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
    assert answer.stderr == ""


def test_every_public_thing_says_what_it_is():
    silent = [name for name in PUBLIC if not name.startswith("_") and not getattr(eigenview, name).__doc__]
    assert silent == []
