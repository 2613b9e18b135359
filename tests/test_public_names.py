"""What users may import. A name added or lost here is a decision, with a line in the changelog."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from types import ModuleType

import eigenview
from eigenview import losses
from eigenview.graph import kernels
from eigenview.graph.kernels import Kernel
from eigenview.methods import METHODS

PUBLIC = """
AlignUniformLoss CLIPLoss CauchyKernel ClusterAssignment CosineKernel Coupling EigenviewError Embeddings
ExponentialKernel GaussianKernel InfoNCE InnerProductKernel Kernel KernelInfoNCELoss LaplacianEigenmapsLoss
LaplacianKernel MaximumEntropy MomentumAlignUniform MomentumContrast RandomWalkLaplacian Run SigLIPLoss SimSiamLoss
SpectralContrastive StudentTKernel SupervisedContrastive SwappedAssignment TrainConfig __version__ align_uniform_loss
alignment clip_loss cluster_assignment compare concatenated concatenation_sum_of_authors concatenation_sum_of_paper
create_encoder diagnose entropy_dual info_nce kernel_info_nce_loss laplacian_eigenmaps_loss learnable list_encoders
list_methods list_views look maximum_entropy momentum_align_uniform momentum_contrast open_embeddings open_encoder
open_run random_walk_laplacian read_config siglip_loss simple_sum_of_authors simple_sum_of_paper simsiam_loss sinkhorn
spectral_contrastive spherical_kmeans supervised_contrastive swapped_assignment sweep train uniformity uniformity_floor
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


def test_threads_that_wait_sleep_unless_the_user_says_otherwise():
    code = "import eigenview, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    for given, expected in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
        environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
        answer = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        assert answer.stdout.split() == [expected, "False"]  # torch reads it as it loads


def test_every_public_thing_says_what_it_is():
    silent = [name for name in PUBLIC if not name.startswith("_") and not getattr(eigenview, name).__doc__]
    assert silent == []


def packages() -> list[ModuleType]:
    rooms = [room.name for room in pkgutil.iter_modules(eigenview.__path__, "eigenview.") if room.ispkg]
    return [eigenview, *map(importlib.import_module, rooms)]


def test_no_exported_name_hides_a_module_of_its_own_package():
    hidden = []
    for package in packages():
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        exported = set(getattr(package, "__all__", ()))
        bound = {name for name in modules & set(vars(package)) if not isinstance(getattr(package, name), ModuleType)}
        hidden += [f"{package.__name__}.{name}" for name in sorted(modules & exported | bound)]
    assert hidden == []


def test_no_loss_is_called_like_a_method():
    methods = {name.replace("-", "") for name in METHODS}
    assert [name for name in losses.__all__ if name.lower().replace("_", "") in methods] == []


def test_kernels_are_called_kernels():
    kinds = [kind for kind in vars(kernels).values() if isinstance(kind, type) and issubclass(kind, Kernel)]
    named = [kind.__name__ for kind in kinds if not kind.__name__.startswith("_")]
    assert len(named) > 10
    assert [name for name in named if not name.endswith("Kernel")] == []
