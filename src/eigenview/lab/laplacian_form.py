"""The Laplacian's quadratic form is a sum of squares: xᵀLx = ½ Σ_ij W_ij (x_i − x_j)², so L is positive semi-definite.

The same for the normalised Laplacians, each in its own coordinates: for the symmetric one with x_i/√d_i in place of
x_i, for the random-walk one in the inner product weighted by the degrees, xᵀD·L·x. Everything here is exact.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from eigenview.graph.laplacian import Normalization, laplacian
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, MARKERS, panels

KINDS: tuple[Normalization, ...] = ("unnormalized", "symmetric", "random_walk")


def quadratic_form(graph: Tensor, x: Tensor, *, normalization: Normalization = "unnormalized") -> Tensor:
    """xᵀLx, for ``random_walk`` in its own inner product xᵀDLx. ``graph`` (n, n) symmetric, ``x`` (n,)."""
    left = _degrees(graph) * x if normalization == "random_walk" else x
    return left @ laplacian(graph, normalization=normalization) @ x


def edge_energy(graph: Tensor, x: Tensor, *, normalization: Normalization = "unnormalized") -> Tensor:
    """½ Σ_ij W_ij (y_i − y_j)², y = x, or x_i/√d_i for ``symmetric``: what the form equals, a sum of squares.

    Self-edges add nothing; a node without edges has no say, so its d does not matter.
    """
    degree = _degrees(graph)
    y = x / torch.where(degree > 0, degree, 1).sqrt() if normalization == "symmetric" else x
    return (graph * (y[:, None] - y).square()).sum() / 2


def _degrees(graph: Tensor) -> Tensor:
    return graph.sum(dim=1) - graph.diagonal()


def random_graph(nodes: int, *, density: float, seed: int) -> Tensor:
    """Symmetric, weights spread over six powers of ten, some nodes perhaps without edges."""
    generator = torch.Generator().manual_seed(seed)
    weights = 10 ** (6 * torch.rand(nodes, nodes, generator=generator, dtype=torch.float64) - 3)
    weights = (weights * (torch.rand(nodes, nodes, generator=generator) < density)).triu(1)
    return weights + weights.T


def named_graphs(nodes: int = 12) -> dict[str, Tensor]:
    """Graphs whose spectra are known: a path, all edges, two halves without a bridge, two sides with all bridges."""
    here = torch.arange(nodes)
    side = here < nodes // 2
    path = (here[:, None] - here).abs() == 1
    complete = here[:, None] != here
    halves = complete & (side[:, None] == side)
    return {
        "path": path.double(),
        "complete": complete.double(),
        "two components": halves.double(),
        "bipartite": (side[:, None] != side).double(),
    }


def run(settings: LabSettings) -> Outcome:
    graphs = 30 if settings.is_quick else 600
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    lowest: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(graphs):
        seed = settings.seed * graphs + number
        graph = random_graph(2 + number % 39, density=(0.1, 0.4, 1.0)[number % 3], seed=seed)
        x = torch.randn(len(graph), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for kind in KINDS:
            form, energy = (float(of(graph, x, normalization=kind)) for of in (quadratic_form, edge_energy))
            errors[kind].append(abs(form - energy) / energy if energy else abs(form))
            values = spectrum(graph, kind)
            lowest[kind].append(float(values[0] / values[-1]) if values[-1] > 0 else 0.0)
    spectra = {name: spectrum(graph, "symmetric").tolist() for name, graph in named_graphs().items()}
    signed = torch.tensor([[0.0, 1.0, -2.0], [1.0, 0.0, 0.0], [-2.0, 0.0, 0.0]], dtype=torch.float64)
    control = float(torch.linalg.eigvalsh(torch.diag(signed.sum(dim=1)) - signed)[0])
    data = {
        "graphs": graphs,
        "largest_relative_error": {kind: max(values) for kind, values in errors.items()},
        "lowest_eigenvalue_over_largest": {kind: min(values) for kind, values in lowest.items()},
        "spectra": spectra,
        "lowest_eigenvalue_with_a_negative_weight": control,
        "errors": errors,
    }
    lines = [
        f"{graphs} random graphs of 2 to 40 nodes, weights from 1e-3 to 1e3: the two sides differ by at most "
        f"{max(map(max, errors.values())):.1e} of their value, for all three Laplacians.",
        f"The lowest eigenvalue is never below {min(map(min, lowest.values())):.1e} of the largest: zero but for "
        "rounding.",
        f"The claim needs weights that are not negative: one weight of −2 gives an eigenvalue of {control:.3f}.",
    ]
    return Outcome(data, {"": _figure(errors, spectra)}, lines)


def spectrum(graph: Tensor, normalization: Normalization) -> Tensor:
    """All eigenvalues, ascending. The random-walk Laplacian is similar to the symmetric one and shares them."""
    kind: Normalization = "symmetric" if normalization == "random_walk" else normalization
    values: Tensor = torch.linalg.eigvalsh(laplacian(graph, normalization=kind))
    return values


def _figure(errors: dict[str, list[float]], spectra: dict[str, list[float]]) -> Figure:
    figure, (left, right) = panels(1, 2)
    bins = torch.logspace(-17, -12, 31).tolist()
    for kind, colour in zip(KINDS, COLOURS, strict=False):
        left.hist(errors[kind], bins=bins, histtype="step", color=colour, linewidth=1.8, label=kind.replace("_", " "))
    equal = sum(error == 0 for error in errors["unnormalized"])
    left.set(xscale="log", xlabel=f"relative difference of the two sides (0 in {equal} graphs)", ylabel="random graphs")
    left.set_title("xᵀLx and ½ Σ W (x_i − x_j)² agree to rounding")
    left.legend(title="Laplacian")
    for (name, values), colour, marker in zip(spectra.items(), COLOURS, MARKERS, strict=False):
        right.plot(range(1, len(values) + 1), values, marker=marker, color=colour, label=name)
    right.axhline(0, color="black", linewidth=0.8)
    right.axhline(2, color="black", linewidth=0.8, linestyle="--")
    right.set(xlabel="number of the eigenvalue", ylabel="eigenvalue, symmetric Laplacian", ylim=(-0.1, 2.15))
    right.set_title("Spectra lie in [0, 2]; zeros count components")
    right.legend(loc="center right", bbox_to_anchor=(1.0, 0.3))
    return figure
