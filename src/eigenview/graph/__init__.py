"""The mathematics: kernels, target graphs, their coupling, transport, Laplacians, clustering. No state, no trainer."""

from eigenview.graph.clustering import spherical_kmeans
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernels import (
    CauchyKernel,
    CosineKernel,
    ExponentialKernel,
    GaussianKernel,
    InnerProductKernel,
    Kernel,
    LaplacianKernel,
    StudentTKernel,
    concatenated,
)
from eigenview.graph.scalars import learnable
from eigenview.graph.targets import crops, from_captions, from_graph, from_labels, from_vectors, two_views
from eigenview.graph.transport import sinkhorn

__all__ = [
    "CauchyKernel",
    "CosineKernel",
    "Coupling",
    "ExponentialKernel",
    "GaussianKernel",
    "InnerProductKernel",
    "Kernel",
    "LaplacianKernel",
    "StudentTKernel",
    "concatenated",
    "crops",
    "from_captions",
    "from_graph",
    "from_labels",
    "from_vectors",
    "learnable",
    "sinkhorn",
    "spherical_kmeans",
    "two_views",
]
