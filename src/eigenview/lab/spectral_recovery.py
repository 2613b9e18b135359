"""The spectral contrastive loss factorises the graph: its minimiser is F̂ = F*·diag(√γ)·R, to numerical precision.

A graph of pair probabilities w (n, n), symmetric, total 1, with node weights w_x = Σ_x' w_xx'. The loss of f (n, k)
over the whole population, −2 Σ w_xx' f_x·f_x' + Σ w_x w_x' (f_x·f_x')², equals ‖Ā − F Fᵀ‖² − ‖Ā‖² with rows √w_x f_x in
F and the normalised adjacency matrix Ā = D^-½ w D^-½ (HaoChen et al. 2021). So by Eckart and Young F̂F̂ᵀ is the best
approximation of rank k: the top eigenvectors F* of Ā scaled by the roots of their eigenvalues γ, up to a rotation R.
Eigenvalues below 0 cannot be factorised and count as 0; at a tie γ_k = γ_{k+1} the space is not unique.
"""

from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from eigenview.lab.descent import descended, drawn_pairs, minimised
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, interval, panels
from eigenview.lab.similarity import principal_angles, rotation_to
from eigenview.losses import spectral_contrastive

Columns = dict[str, list[float]]

NO_BALL = 1e6  # mu so large that no row is drawn back to the ball; the loss is multiplied by it again


@dataclass(frozen=True)
class Recovery:
    """How close a minimiser is to F*·diag(√γ)·R."""

    scaled: Tensor  # F̂ (n, k): rows √w_x f_x
    ideal: Tensor  # F*·diag(√γ) (n, k)
    rotation: Tensor  # R (k, k), orthogonal, the best one
    error: float  # largest entry of |F̂ − F*·diag(√γ)·R|
    widest_angle: float  # between the column spaces, radians


def pair_graph(nodes: int, *, blocks: int = 3, mixing: float = 0.2, seed: int = 0) -> Tensor:
    """Probabilities of pairs (n, n), total 1: blocks of unequal random weights, self-pairs included.

    A random Gram matrix: positive definite, as for views of natural images, where w_xx' = E[p(x|image) p(x'|image)].
    """
    generator = torch.Generator().manual_seed(seed)
    images = 4 * nodes
    block_of_view, block_of_image = torch.arange(nodes) % blocks, torch.arange(images) % blocks
    closeness = torch.where(block_of_view[:, None] == block_of_image, 1.0, mixing).double()
    drawn = closeness * torch.rand(nodes, images, generator=generator, dtype=torch.float64) ** 4
    drawn = drawn / drawn.sum(dim=0)  # p(x | image)
    return drawn @ drawn.T / images


def population_loss(embeddings: Tensor, pairs: Tensor) -> Tensor:
    """−2 Σ w_xx' f_x·f_x' + Σ w_x w_x' (f_x·f_x')² of ``embeddings`` (n, k) on ``pairs`` (n, n)."""
    weight, inner = pairs.sum(dim=1), embeddings @ embeddings.T
    return -2 * (pairs * inner).sum() + weight @ inner.square() @ weight


def sampled_loss(embeddings: Tensor, pairs: Tensor, *, items: int, generator: torch.Generator) -> Tensor:
    """:func:`eigenview.spectral_contrastive` on ``items`` pairs drawn from the graph: unbiased, however few."""
    first, second = drawn_pairs(pairs, items, generator)
    return spectral_contrastive(embeddings[first], embeddings[second], mu=NO_BALL) * NO_BALL


def ideal_factor(pairs: Tensor, dimensions: int) -> Tensor:
    """F*·diag(√γ) (n, k): the top eigenvectors of Ā by the roots of their eigenvalues, those below 0 as 0."""
    values, vectors = torch.linalg.eigh(normalised_adjacency(pairs))
    factor: Tensor = vectors.flip(1)[:, :dimensions] * values.flip(0)[:dimensions].clamp_min(0).sqrt()
    return factor


def normalised_adjacency(pairs: Tensor) -> Tensor:
    root = pairs.sum(dim=1).sqrt()
    return pairs / root[:, None] / root


def minimiser(pairs: Tensor, dimensions: int, *, seed: int = 0, steps: int = 2000) -> Tensor:
    """The f (n, k) that minimises the population loss: L-BFGS from a random start, then Newton's method to rounding."""
    generator = torch.Generator().manual_seed(seed)
    root = pairs.sum(dim=1).sqrt()[:, None]
    start = torch.randn(len(pairs), dimensions, generator=generator, dtype=torch.float64) / len(pairs) ** 0.5
    adjacency = normalised_adjacency(pairs)
    scaled = minimised(lambda rows: population_loss(rows / root, pairs), start, steps=steps)
    for _ in range(4):
        scaled = _newton_step(scaled, adjacency)
    return scaled / root


def _newton_step(scaled: Tensor, adjacency: Tensor) -> Tensor:
    """One step on ¼‖Ā − FFᵀ‖², of gradient (FFᵀ − Ā)F.

    Rotations of F change nothing, so the Hessian is singular along them: least squares leaves them out.
    """
    rest = scaled @ scaled.T - adjacency
    every = torch.eye(scaled.numel(), dtype=scaled.dtype).view(-1, *scaled.shape)  # each direction E of F in turn
    change = every @ scaled.T @ scaled + scaled @ every.transpose(1, 2) @ scaled + rest @ every
    hessian, gradient = change.flatten(1).T, (rest @ scaled).flatten()
    step: Tensor = torch.linalg.lstsq(hessian, gradient[:, None], rcond=1e-9, driver="gelsd").solution
    return scaled - step.view_as(scaled)


def recovery(embeddings: Tensor, pairs: Tensor) -> Recovery:
    """How close ``embeddings`` f (n, k) are to the claim; the rotation by Procrustes."""
    scaled = embeddings * pairs.sum(dim=1).sqrt()[:, None]
    ideal = ideal_factor(pairs, embeddings.shape[1])
    rotation = rotation_to(ideal, scaled)
    error = float((scaled - ideal @ rotation).abs().max())
    return Recovery(scaled, ideal, rotation, error, float(principal_angles(scaled, ideal).max()))


def run(settings: LabSettings) -> Outcome:
    nodes, widths, seeds = (12, (1, 2, 3), 2) if settings.is_quick else (24, (1, 2, 3, 4, 6), 5)
    first = settings.seed * 100
    graphs = {seed: pair_graph(nodes, seed=seed) for seed in range(first, first + seeds)}
    every = {
        width: [recovery(minimiser(pairs, width, seed=seed), pairs) for seed, pairs in graphs.items()]
        for width in widths
    }
    errors, angles = (
        {str(width): [getattr(each, name) for each in some] for width, some in every.items()}
        for name in ("error", "widest_angle")
    )
    pairs, width = graphs[first], widths[-1]
    recovered = every[width][0]
    spectra = {
        "adjacency": torch.linalg.eigvalsh(normalised_adjacency(pairs)).flip(0).tolist(),
        "learned": torch.linalg.svdvals(recovered.scaled).square().tolist(),
    }
    path = stochastic_path(pairs, width, steps=200 if settings.is_quick else 20_000, seed=first)
    bias = sampling_bias(pairs, recovered.scaled, batches=400 if settings.is_quick else 20_000, seed=first)
    worst, widest = max(map(max, errors.values())), max(map(max, angles.values()))
    lines = [
        f"{len(widths) * seeds} minimisations (k = {', '.join(map(str, widths))}, {seeds} graphs each of {nodes} "
        f"nodes): F̂ differs from F*·diag(√γ)·R by at most {worst:.1e} in any entry, the spaces by {widest:.1e} rad.",
        f"By stochastic gradient on batches of 64 drawn pairs it is only close: largest entry off by "
        f"{path['error'][-1]:.1e} after {path['step'][-1]} steps.",
        "Unlike InfoNCE the sampled loss has no bias from few negatives: its mean less the population's, in standard "
        "errors, is " + ", ".join(f"{row['deviation']:+.1f} ({row['items']} pairs)" for row in bias) + ".",
    ]
    data = {
        "nodes": nodes,
        "widths": list(widths),
        "errors": errors,
        "angles": angles,
        "spectra": spectra,
        "stochastic": path,
        "sampled_loss": bias,
    }
    return Outcome(data, {"": _figure(recovered, spectra, errors, path)}, lines)


def stochastic_path(pairs: Tensor, width: int, *, steps: int, seed: int, items: int = 64) -> Columns:
    """The error along Adam on the sampled loss, the rate falling to 0 by a cosine: (step, error) at about 60 places."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(len(pairs), width, generator=generator, dtype=torch.float64).requires_grad_()
    places = {round(10 ** (i / 59 * torch.tensor(steps).log10().item())) for i in range(60)}
    path: Columns = {"step": [], "error": []}
    losses = descended(
        [rows], lambda _: sampled_loss(rows, pairs, items=items, generator=generator), steps=steps, learning_rate=0.03
    )
    for step, _ in enumerate(losses, start=1):
        if step in places:
            path["step"].append(step)
            path["error"].append(recovery(rows.detach(), pairs).error)
    return path


def sampling_bias(pairs: Tensor, scaled: Tensor, *, batches: int, seed: int) -> list[dict[str, float]]:
    """Mean of the sampled loss over many batches less the population's value, for a few batch sizes."""
    embeddings = scaled / pairs.sum(dim=1).sqrt()[:, None]
    exact = float(population_loss(embeddings, pairs))
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for items in (2, 8, 32):
        values = [float(sampled_loss(embeddings, pairs, items=items, generator=generator)) for _ in range(batches)]
        measured = interval(values)
        error = float(torch.tensor(values).std()) / batches**0.5
        deviation = (measured["mean"] - exact) / error
        rows.append({"items": items, "exact": exact, **measured, "deviation": deviation})
    return rows


def _figure(recovered: Recovery, spectra: Columns, errors: Columns, path: Columns) -> Figure:
    figure, (left, middle, right) = panels(1, 3, width=4.6)
    numbers = range(1, len(spectra["adjacency"]) + 1)
    left.plot(numbers, spectra["adjacency"], "o-", color=COLOURS[7], label="eigenvalues γ of the graph")
    left.plot(numbers[: len(spectra["learned"])], spectra["learned"], "x", color=COLOURS[1], markersize=10, mew=2)
    left.plot([], [], "x", color=COLOURS[1], markersize=8, mew=2, label="squared singular values of F̂")
    left.set(xlabel="number", ylabel="value", title=f"k = {len(spectra['learned'])} dimensions take the top of it")
    left.legend()
    claimed = recovered.ideal @ recovered.rotation
    for column in range(claimed.shape[1]):
        middle.plot(claimed[:, column], recovered.scaled[:, column], ".", markersize=7, color=COLOURS[column % 8])
    low, high = float(claimed.min()), float(claimed.max())
    middle.plot([low, high], [low, high], color="black", linewidth=0.8)
    middle.set(xlabel="F*·diag(√γ)·R, from the eigenvectors", ylabel="F̂, minimised from a random start")
    middle.set_title("Every entry, one colour a column")
    right.plot(path["step"], path["error"], color=COLOURS[0], label="stochastic, 64 pairs a step")
    worst = [max(values) for values in errors.values()]
    right.axhspan(min(worst), max(worst), color=COLOURS[1], alpha=0.5, label="minimised in full, worst of each k")
    right.set(xscale="log", yscale="log", xlabel="step", ylabel="largest |F̂ − F*·diag(√γ)·R|", ylim=(1e-17, 10))
    right.set_title("Exact at the minimum, close on the way")
    right.legend(loc="center left", bbox_to_anchor=(0, 0.35))
    return figure
