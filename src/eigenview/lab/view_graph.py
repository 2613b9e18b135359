"""The augmentation graph: which views are drawn from the same image, and how often.

Images x̄ are drawn alike, and views x from A(x|x̄); two views of one image make a pair. So π_xx' = mean_x̄ A(x|x̄) A(x'|x̄)
(HaoChen et al. 2021). Unlike in :mod:`eigenview.graph.laplacian`, a view may be its own partner: π_xx > 0, as when two
views are drawn independently. The normalised Laplacian is I − D^-½ π D^-½, with the views' weights D.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import csgraph
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.lab.similarity import clusters_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GraphSpectrum:
    """The ``k`` smallest eigenvalues of the normalised Laplacian and their vectors, float64."""

    eigenvalues: Tensor  # (k,), ascending from 0
    of_views: Tensor  # (V, k), orthonormal: D^½ times the functions of views
    of_images: Tensor  # (n, k), orthonormal: the same vectors as images see them
    weights: Tensor  # (V,), how often each view is drawn

    @property
    def functions(self) -> Tensor:
        """(V, k) the eigenfunctions themselves, D^-½ u: orthonormal under the views' weights, the first constant."""
        return self.of_views / self.weights.sqrt()[:, None]

    def embedding(self, dimensions: int) -> Tensor:
        """(V, dimensions) what the spectral contrastive loss is after: eigenfunctions × √γ, without the constant."""
        gamma = (1 - self.eigenvalues).clamp_min(0)
        return (self.functions * gamma.sqrt())[:, 1 : dimensions + 1]

    def clusters_by_gap(self, *, least: int = 1) -> int:
        """The k ≥ ``least`` after which the eigenvalues jump furthest, among those at hand."""
        if not 1 <= least < len(self.eigenvalues):
            raise SettingError(f"least must be from 1 to {len(self.eigenvalues) - 1}; got {least}")
        return least + int(self.eigenvalues.diff()[least - 1 :].argmax())

    def image_clusters(self, clusters: int, *, seed: int = 0) -> Tensor:
        """(n,) spectral clustering of the images: k-means on the directions of their first k coordinates."""
        rows = self.of_images[:, :clusters]
        hidden = rows.norm(dim=1) < 1e-9  # images that none of these vectors touch, in a graph in pieces
        rows = torch.where(hidden[:, None], torch.full_like(rows, 1e-9), rows)
        return clusters_of(rows, clusters, seed=seed)


@dataclass(frozen=True)
class ViewGraph:
    """``choices`` (n, V): A(x|x̄), the probability of each view given each image; rows sum to 1."""

    choices: sparse.csr_array

    def __post_init__(self) -> None:
        rows = np.asarray(self.choices.sum(axis=1)).ravel()
        if self.choices.ndim != 2 or not np.allclose(rows, 1, atol=1e-6) or self.choices.data.min(initial=0) < 0:
            raise DataError("the views of each image must have probabilities that are not negative and sum to 1")
        if not np.all(self.weights > 0):
            raise DataError("every view must be drawn from some image; leave out those that never are")

    @property
    def weights(self) -> Array:
        """(V,) how often each view is drawn, Σ_x' π_xx'."""
        weights: Array = np.asarray(self.choices.sum(axis=0)).ravel() / self.choices.shape[0]
        return weights

    def components(self) -> NDArray[np.int64]:
        """(n,) the component that holds each image's views: images in different ones share no chain of views."""
        joined = self.choices @ self.choices.T
        return np.asarray(csgraph.connected_components(joined, directed=False)[1], dtype=np.int64)

    def spectrum(self, count: int) -> GraphSpectrum:
        """The ``count`` smallest eigenpairs of I − D^-½ π D^-½, exactly.

        With B = A·D^-½/√n, BᵀB is the normalised adjacency matrix of views and BBᵀ that of images: the same
        eigenvalues, and u = Bᵀv/√γ. So the eigenproblem is as small as the number of images; views may be many more.
        """
        images = self.choices.shape[0]
        if not 1 <= count <= min(self.choices.shape):
            raise SettingError(f"count must be from 1 to {min(self.choices.shape)}; got {count}")
        half = self.choices @ sparse.diags_array(self.weights**-0.5) / np.sqrt(images)
        gram = (half @ half.T).toarray()
        gamma, vectors = linalg.eigh(gram, subset_by_index=[images - count, images - 1])
        gamma, vectors = np.clip(gamma[::-1], 0, 1), vectors[:, ::-1]
        of_views = half.T @ vectors / np.sqrt(np.maximum(gamma, np.finfo(np.float64).tiny))
        arrays = (1 - gamma, of_views, vectors, self.weights)
        return GraphSpectrum(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))


def population_loss(functions: Tensor, graph: ViewGraph) -> float:
    """−2 Σ π_xx' f_x·f_x' + Σ w_x w_x' (f_x·f_x')², the spectral contrastive loss over all pairs, exactly.

    ``functions`` (V, d). Never below −Σ γ_k² over the d largest γ = 1 − λ, which eigenfunctions × √γ reach.
    """
    values, weights = functions.double(), torch.from_numpy(graph.weights)
    of_images = torch.from_numpy(graph.choices @ values.numpy())
    together = of_images.square().sum() / len(of_images)  # Σ π f·f' = mean over images of ‖mean of its views‖²
    second = values.T @ (values * weights[:, None])
    return float(second.square().sum() - 2 * together)
