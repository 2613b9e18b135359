"""The temperature is a dual variable: (P1) solved directly and by its dual, and every query's best temperature.

(P1), for a query with similarities ψ, its positive first: maximise the entropy H(α) over the simplex subject to
ψ₁ ≤ Σ_i α_i ψ_i (Tan et al. 2023). Its Lagrangian with multiplier 1/τ has the maximum g(τ) = −log softmax₁(ψ/τ),
InfoNCE: g(τ) ≥ (P1) for every τ > 0, with equality at the best τ. So InfoNCE at a fixed temperature is an upper bound,
not (P1) itself. The slide's form τ·g(τ) is the same Lagrangian times τ: same α at a given τ, but its minimum over τ
lies at τ → 0, where it is max ψ − ψ₁, so the best temperature is that of g.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import optimize
from torch import Tensor
from torch.nn.functional import normalize

from eigenview.errors import DataError, ShapeError
from eigenview.lab.experiment import LabSettings, Outcome
from eigenview.lab.figures import COLOURS, band, panels
from eigenview.lab.finite_views import ShiftedDigits, shifted_digits, train_encoder
from eigenview.losses import entropy_dual, maximum_entropy

TEMPERATURES = (0.05, 0.2, 1.0)  # at which encoders are trained


def solved_directly(similarities: Tensor) -> tuple[float, Tensor]:
    """(P1) of one query ψ (m,) by sequential quadratic programming on α itself: its value and α*. No dual is used."""
    if similarities.ndim != 1 or len(similarities) < 2:
        raise ShapeError(f"one query is (m,) similarities, m >= 2, its positive first; got {tuple(similarities.shape)}")
    psi = np.asarray(similarities.double())
    gap = (psi - psi[0]) / max(np.ptp(psi), 1e-300)  # the constraint's scale does not matter to the problem
    start = np.full(len(psi), 0.02 / len(psi))
    start[gap.argmax()] += 0.98  # nearly all on the highest: satisfies the constraint
    solved = optimize.minimize(
        lambda alpha: float((alpha * np.log(np.maximum(alpha, 1e-300))).sum()),
        start,
        jac=lambda alpha: np.log(np.maximum(alpha, 1e-30)) + 1,
        bounds=[(0.0, 1.0)] * len(psi),
        constraints=[
            {"type": "eq", "fun": lambda alpha: alpha.sum() - 1, "jac": np.ones_like},
            {"type": "ineq", "fun": lambda alpha: alpha @ gap, "jac": lambda alpha: gap},
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    if not np.isfinite(solved.fun):
        raise DataError(f"the solver found no solution: {solved.message}")
    return -float(solved.fun), torch.from_numpy(np.asarray(solved.x, dtype=np.float64))


def best_dual(similarities: Tensor) -> tuple[float, float]:
    """min over τ of g(τ) of one query ψ (m,), by a bounded search on log τ: its value and τ*."""
    psi = similarities.double()[None]
    solved = optimize.minimize_scalar(
        lambda log_temperature: float(entropy_dual(psi, math.exp(log_temperature))),
        bounds=(-12, 12),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(solved.fun), math.exp(solved.x)


@dataclass(frozen=True)
class Solutions:
    """Random queries solved in three ways."""

    queries: int
    candidates: int
    direct: list[float]
    dual: list[float]  # min over τ of g
    bisection: list[float]  # the library's maximum_entropy
    temperature: list[float]
    largest_difference: float
    largest_gap_in_assignment: float


@dataclass(frozen=True)
class Temperatures:
    """An encoder trained at one temperature: what its queries would choose, at some steps."""

    trained_at: float
    step: list[int]
    first: list[float]  # share of queries whose positive ranks first: τ* = 0
    free: list[float]  # share at or below the mean: τ* = ∞
    lower: list[float]  # quartiles of τ*, 1e9 standing for ∞
    median: list[float]
    upper: list[float]
    info_nce: list[float]  # g at the training temperature, mean over queries
    value: list[float]  # (P1), mean over queries


def run(settings: LabSettings) -> Outcome:
    solutions = solve_random(40 if settings.is_quick else 400, candidates=12, seed=settings.seed)
    items, steps = (60, 10) if settings.is_quick else (300, 400)
    digits = shifted_digits(items)
    trained = [follow(digits, at, steps=steps, seed=settings.seed) for at in TEMPERATURES]
    example = torch.tensor([0.55, 0.9, 0.6, 0.4, 0.3, 0.1, -0.2, -0.5], dtype=torch.float64)
    data = {"solutions": asdict(solutions), "example": example.tolist(), "trained": [asdict(run) for run in trained]}
    lines = [
        f"{solutions.queries} random queries of {solutions.candidates} candidates: (P1) solved directly and the least "
        f"g(τ) differ by at most {solutions.largest_difference:.1e}, the distributions α by at most "
        f"{solutions.largest_gap_in_assignment:.1e} in any entry.",
        *(
            f"trained at τ = {run.trained_at}: median best temperature {_shown(run.median[0])} at first, "
            f"{_shown(run.median[-1])} after {run.step[-1]} steps; the positive ranks first for {run.first[0]:.0%}, "
            f"then {run.first[-1]:.0%} of queries; InfoNCE {run.info_nce[-1]:.3f} bounds (P1) {run.value[-1]:.3f}."
            for run in trained
        ),
    ]
    return Outcome(data, {"": _figure(example, solutions), "training": _training_figure(trained)}, lines)


def _shown(temperature: float) -> str:
    return f"{temperature:.3f}" if temperature < 1e6 else "∞"


def solve_random(queries: int, *, candidates: int, seed: int) -> Solutions:
    """Queries with a positive that is neither first nor below the mean, where (P1) is not trivial."""
    generator = torch.Generator().manual_seed(seed)
    psi = torch.rand(20 * queries, candidates, generator=generator, dtype=torch.float64) * 2 - 1
    gap = psi - psi[:, :1]
    psi = psi[(gap.amax(dim=1) > 0.02) & (gap.mean(dim=1) < -0.02)][:queries]
    library = maximum_entropy(psi)
    direct, dual = [solved_directly(row) for row in psi], [best_dual(row) for row in psi]
    values = torch.tensor([[v for v, _ in direct], [v for v, _ in dual], library.value.tolist()], dtype=torch.float64)
    assignments = torch.stack([alpha for _, alpha in direct])
    differences = (values.amax(dim=0) - values.amin(dim=0)).max(), (assignments - library.assignment).abs().max()
    solved = (*values.tolist(), library.temperature.tolist())
    return Solutions(len(psi), candidates, *solved, *map(float, differences))


def follow(digits: ShiftedDigits, temperature: float, *, steps: int, seed: int) -> Temperatures:
    """Train an encoder on shifted digits; at some steps, ask for the best temperature of every view as a query.

    A query's candidates are one other view of its own item, the positive, and all views of all other items.
    """
    rows: list[tuple[float, ...]] = []
    places = {round(steps * share) for share in (0, 0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.3, 0.4, 0.55, 0.7, 0.85, 1)}
    training = train_encoder(digits, temperature=temperature, steps=steps, batch=min(128, digits.items), seed=seed)
    for step, encoder, _ in training:
        if step not in places:
            continue
        with torch.no_grad():
            psi = queries(normalize(encoder(digits.views).double(), dim=1), digits.items)
        best = maximum_entropy(psi, iterations=60)
        finite = best.temperature.clamp_max(1e9)
        quartiles = (finite.quantile(share) for share in (0.25, 0.5, 0.75))
        shares = ((best.temperature == 0).double().mean(), best.temperature.isinf().double().mean())
        values = (*shares, *quartiles, entropy_dual(psi, temperature).mean(), best.value.mean())
        rows.append((step, *map(float, values)))
    steps_seen, *columns = map(list, zip(*rows, strict=True))
    return Temperatures(temperature, steps_seen, *columns)


def queries(embeddings: Tensor, items: int) -> Tensor:
    """Cosines (items, 1 + n − 5) of each item's first view: to its second, then to all views of other items."""
    cosines = embeddings[:items] @ embeddings.T
    item = torch.arange(len(embeddings)) % items
    others = cosines[item[:items, None] != item].view(items, -1)
    return torch.cat([cosines[torch.arange(items), items + torch.arange(items), None], others], dim=1)


def _figure(example: Tensor, solutions: Solutions) -> Figure:
    figure, (left, middle, right) = panels(1, 3, width=4.6)
    temperatures = torch.logspace(-1.3, 1.3, 200, dtype=torch.float64)
    bound = torch.stack([entropy_dual(example[None], float(t))[0] for t in temperatures])
    value, best = best_dual(example)
    left.plot(temperatures, bound, color=COLOURS[0], label="g(τ): InfoNCE")
    left.plot(temperatures, temperatures * bound, "--", color=COLOURS[4], label="τ·g(τ), the slide's form")
    left.axhline(solved_directly(example)[0], color=COLOURS[1], linewidth=1, label="(P1), solved directly")
    left.plot([best], [value], "o", color=COLOURS[6], markersize=7, label=f"τ* = {best:.3f}")
    left.set(xscale="log", xlabel="temperature τ", ylabel="value", ylim=(0, 4), title="InfoNCE bounds (P1) from above")
    left.legend(loc="lower right")
    middle.plot(solutions.direct, solutions.dual, ".", color=COLOURS[0])
    ends = [min(solutions.direct), max(solutions.direct)]
    middle.plot(ends, ends, color="black", linewidth=0.8)
    middle.set(xlabel="(P1), solved directly", ylabel="least g(τ)", title=f"{solutions.queries} random queries")
    right.semilogy(solutions.direct, solutions.temperature, ".", color=COLOURS[2])
    right.set(xlabel="(P1): entropy of the best assignment", ylabel="best temperature τ*")
    right.set_title("Harder queries want higher temperatures")
    return figure


def _training_figure(trained: list[Temperatures]) -> Figure:
    figure, axes = panels(2, len(trained), width=4.4, height=3.4)
    for column, run in enumerate(trained):
        above, below = axes[column], axes[len(trained) + column]
        low, middle, high = (
            [max(value, 1e-3) for value in quartile] for quartile in (run.lower, run.median, run.upper)
        )
        above.plot(run.step, middle, "o-", color=COLOURS[0], label="median τ*, quartiles")
        band(above, run.step, low, high, COLOURS[0])
        above.axhline(run.trained_at, color=COLOURS[1], linestyle="--", label="τ in training")
        above.set(yscale="log", ylim=(0.8e-3, 1e1), title=f"Trained at τ = {run.trained_at}")
        below.plot(run.step, run.info_nce, "s-", color=COLOURS[1], label="InfoNCE, g(τ in training)")
        below.plot(run.step, run.value, "o-", color=COLOURS[0], label="(P1), each at its τ*")
        below.set(xlabel="step", ylim=(0, None))
        share = below.twinx()
        share.plot(run.step, run.first, "^:", color=COLOURS[2], label="share with τ* = 0")
        share.set_ylim(0, 1.02)
        share.grid(visible=False)
        share.spines["right"].set_visible(True)
        if column == 0:
            above.set_ylabel("best temperature (0 drawn at 0.001)")
            below.set_ylabel("mean over queries")
        if column == len(trained) - 1:
            share.set_ylabel("share of queries, positive first")
    handles = [handle for axis in (above, below, share) for handle in axis.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    return figure
