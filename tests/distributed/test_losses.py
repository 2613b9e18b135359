"""World size must not matter: W processes with a share of the rows each equal one process with all of them.

Every objective, value and gradient as DDP averages them, on real gloo processes with different data on each.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenview import losses
from eigenview.errors import EigenviewError
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernels import (
    CosineKernel,
    ExponentialKernel,
    GaussianKernel,
    InnerProductKernel,
    LaplacianKernel,
    concatenated,
)
from eigenview.graph.targets import crops, from_graph, from_labels
from tests.processes import run_processes

ITEMS, WIDTH = 12, 6
SPLITS = {
    (2, "even"): [6, 6],
    (2, "uneven"): [7, 5],
    (3, "even"): [4, 4, 4],
    (3, "uneven"): [5, 1, 6],
}


def data() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = {name: torch.randn(ITEMS, WIDTH, dtype=torch.float64, generator=generator) for name in "abc"}
    rows["scores"] = torch.randn(ITEMS, 5, dtype=torch.float64, generator=generator)
    rows["codes"] = torch.randn(ITEMS, 5, dtype=torch.float64, generator=generator).softmax(1)
    return rows


SHARED = torch.Generator().manual_seed(1)
QUEUE = torch.randn(7, WIDTH, dtype=torch.float64, generator=SHARED)
GRAPH = torch.rand(ITEMS, ITEMS, dtype=torch.float64, generator=SHARED).fill_diagonal_(0)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 3, 3])
IMAGE_IDS = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 8, 9])
TEXT_IDS = torch.tensor([3, 0, 0, 1, 2, 4, 9, 9, 5, 6, 7, 8])


def compute(name: str, a, b, c, scores, codes, where: slice, group, temperature):
    """One objective on this process's rows; ``where`` says which of the global rows they are."""
    options = {"group": group}
    kernels = {
        "gaussian": GaussianKernel(temperature),
        "laplacian": LaplacianKernel(temperature),
        "sum": GaussianKernel(temperature) + 0.4 * LaplacianKernel(temperature),
        "concat": concatenated(GaussianKernel(temperature), ExponentialKernel(0.5, temperature)),
    }
    kind, _, choice = name.partition(":")
    if kind == "kernel":
        return losses.kernel_info_nce_loss(a, b, c, kernel=kernels[choice], **options)
    if kind == "prior":
        target = crops(len(a), 2, offset=where.start, as_indicators=True)
        return Coupling(LaplacianKernel(temperature), prior=choice)(torch.cat([a, b]), target=target, **options)
    if kind == "walk":
        return losses.random_walk_laplacian(a, b, form=choice, temperature=temperature, **options)
    if kind == "moco":
        return losses.momentum_contrast(a, b, QUEUE, temperature=temperature, denominator=choice, **options)
    return {
        "info_nce": lambda: losses.info_nce(a, b, temperature=temperature, **options),
        "negatives only": lambda: losses.info_nce(
            a, b, temperature=temperature, positive_in_denominator=False, **options
        ),
        "given negatives": lambda: losses.info_nce(a, b, negatives=QUEUE, temperature=temperature, **options),
        "negatives of its own": lambda: losses.info_nce(
            a, b, negatives=torch.stack([b, c], 1), temperature=temperature, **options
        ),
        "loss-sum": lambda: losses.kernel_info_nce_loss(a, b, kernel=kernels["sum"], form="loss-sum", **options),
        "alignment": lambda: losses.alignment(a, b, alpha=1.5, **options),
        "uniformity": lambda: losses.uniformity(a, **options),
        "align_uniform": lambda: losses.align_uniform_loss(a, b, contrastive_weight=0.3, **options),
        "spectral, n > d": lambda: losses.spectral_contrastive(a, b, **options),
        "spectral, n < d": lambda: losses.spectral_contrastive(
            torch.cat([a, b, c], 1), torch.cat([c, a, b], 1), **options
        ),
        "laplacian_eigenmaps": lambda: losses.laplacian_eigenmaps_loss(a, b, **options),
        "sim_siam": lambda: losses.simsiam_loss(a, b, b, c, **options),
        "momentum_align_uniform": lambda: losses.momentum_align_uniform(a, b, QUEUE, **options),
        "supervised": lambda: losses.supervised_contrastive(
            a, b, labels=LABELS[where], temperature=temperature, **options
        ),
        "supervised, many": lambda: Coupling(LaplacianKernel(temperature))(
            a.repeat(9, 1) + torch.arange(9.0).repeat_interleave(len(a))[:, None] * b.repeat(9, 1),
            target=from_labels((LABELS % 2)[where].repeat(9)),
            **options,
        ),
        "swav": lambda: losses.swapped_assignment([scores, scores * 2, scores + 1], [codes, codes.flip(1)], **options),
        "clusters": lambda: losses.cluster_assignment([scores, -scores], (LABELS[where] - 1) % 4, **options),
        "unknown clusters": lambda: losses.cluster_assignment(
            [scores], torch.where(LABELS[where] == 0, -100, LABELS[where]), **options
        ),
        "soft clusters": lambda: losses.cluster_assignment([scores, -scores], codes, **options),
        "clip": lambda: losses.clip_loss(a, b, temperature=temperature, **options),
        "clip with ids": lambda: losses.clip_loss(
            a, b, temperature=temperature, image_ids=IMAGE_IDS[where], text_ids=TEXT_IDS[where], **options
        ),
        "clip with soft targets": lambda: losses.clip_loss(
            a, b, temperature=temperature, image_vectors=GRAPH[where], text_vectors=GRAPH[where], **options
        ),
        "siglip": lambda: losses.siglip_loss(a, b, temperature=temperature, bias=-temperature, **options),
        "siglip with a kernel": lambda: losses.siglip_loss(
            a, b, kernel=GaussianKernel(0.2) + LaplacianKernel(temperature), bias=-temperature, **options
        ),
        "given graph": lambda: Coupling(InnerProductKernel(temperature))(a, target=from_graph(GRAPH[where]), **options),
        "sparse graph": lambda: Coupling(CosineKernel(temperature), reduction="sum")(
            a, target=from_graph(GRAPH[where].to_sparse_coo()), **options
        ),
    }[kind]()


NAMES = [
    "info_nce",
    "negatives only",
    "given negatives",
    "negatives of its own",
    *(f"kernel:{kernel}" for kernel in ("gaussian", "laplacian", "sum", "concat")),
    "loss-sum",
    *(f"prior:{prior}" for prior in ("out_degree", "edges", "bernoulli")),
    "walk:absolute",
    "walk:squared",
    "alignment",
    "uniformity",
    "align_uniform",
    "spectral, n > d",
    "spectral, n < d",
    "laplacian_eigenmaps",
    "sim_siam",
    "moco:key_and_queue",
    "moco:queue",
    "momentum_align_uniform",
    "supervised",
    "supervised, many",
    "swav",
    "clusters",
    "unknown clusters",
    "soft clusters",
    "clip",
    "clip with ids",
    "clip with soft targets",
    "siglip",
    "siglip with a kernel",
    "given graph",
    "sparse graph",
]


def share(rank: int, group, world: int, splits: dict[str, list[int]]) -> dict:
    """Value, and gradients of this process's rows and of the shared temperature, divided by W as DDP will."""
    answers = {}
    for label, split in splits.items():
        where = slice(sum(split[:rank]), sum(split[: rank + 1]))
        for name in NAMES:
            rows = [tensor[where].clone().requires_grad_() for tensor in data().values()]
            temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
            loss = compute(name, *rows, where, group, temperature)
            gradients = torch.autograd.grad(loss, [*rows, temperature], allow_unused=True, materialize_grads=True)
            answers[label, name] = (loss.detach(), [gradient.detach() / world for gradient in gradients])
    return answers


@pytest.fixture(scope="module")
def single() -> dict:
    return {name: answer for (_, name), answer in share(0, None, 1, {"all": [ITEMS]}).items()}


@pytest.fixture(scope="module", params=[2, 3])
def several(request) -> list[dict]:
    world = request.param
    splits = {label: split for (count, label), split in SPLITS.items() if count == world}
    return run_processes(world, share, world, splits)


@pytest.mark.parametrize("label", ["even", "uneven"])
@pytest.mark.parametrize("name", NAMES)
def test_w_processes_equal_one(name, label, single, several):
    answers = several
    value, gradients = single[name]
    for answer in answers:
        assert answer[label, name][0] == pytest.approx(value.item(), abs=1e-10)
    *rows, temperature = gradients
    for number, expected in enumerate(rows):
        together = np.concatenate([answer[label, name][1][number] for answer in answers])
        np.testing.assert_allclose(together, expected.numpy(), rtol=0, atol=1e-10)
    total = sum(answer[label, name][1][-1] for answer in answers)
    assert total == pytest.approx(temperature.item(), abs=1e-10)


def spoiled(rows: torch.Tensor, group) -> dict:
    """Calls with something wrong in them, for one process alone to make."""
    nan = rows.clone().index_fill_(0, torch.tensor([1]), torch.nan)
    codes, labels = rows.softmax(1), torch.zeros(3, dtype=torch.long)
    walk = Coupling(CosineKernel(0.1))
    return {
        "NaN": lambda: losses.info_nce(nan, rows, group=group),
        "another width": lambda: losses.info_nce(rows[:, :3], rows[:, :3], group=group),
        "unequal views": lambda: losses.info_nce(rows, rows[:2], group=group),
        "unequal alignment": lambda: losses.alignment(rows, rows[:2], group=group),
        "no rows": lambda: losses.info_nce(rows[:0], rows[:0], group=group),
        "integers": lambda: losses.info_nce(rows.long(), rows.long(), group=group),
        "own negatives": lambda: losses.info_nce(rows, rows, negatives=rows[None, None], group=group),
        "labels' length": lambda: losses.supervised_contrastive(rows, labels=labels[:2], group=group),
        "labels' kind": lambda: losses.supervised_contrastive(rows, labels=labels.float(), group=group),
        "captions": lambda: losses.clip_loss(rows, rows[:2], group=group),
        "ids": lambda: losses.clip_loss(rows, rows, image_ids=labels[:2], text_ids=labels, group=group),
        "keys": lambda: losses.momentum_contrast(rows, rows[:2], QUEUE[:, :4].float(), group=group),
        "codes": lambda: losses.swapped_assignment([rows, rows], [2 * codes], group=group),
        "codes' shape": lambda: losses.swapped_assignment([rows, rows], [codes[:2]], group=group),
        "clusters": lambda: losses.cluster_assignment([rows], labels + 9, group=group),
        "graph": lambda: walk(rows, target=from_graph(torch.ones(3, 3)), group=group),
        "no gradient": lambda: losses.info_nce(rows, rows, group=group),
    }


def sound(rows: torch.Tensor, group) -> dict:
    """The same calls as they should be, for the others."""
    codes, labels = rows.softmax(1), torch.zeros(3, dtype=torch.long)
    learnt = rows.clone().requires_grad_()
    pair = lambda: losses.info_nce(rows, rows, group=group)  # noqa: E731
    with_ids = lambda: losses.clip_loss(rows, rows, image_ids=labels, text_ids=labels, group=group)  # noqa: E731
    swav = lambda: losses.swapped_assignment([rows, rows], [codes], group=group)  # noqa: E731
    supervised = lambda: losses.supervised_contrastive(rows, labels=labels, group=group)  # noqa: E731
    calls = dict.fromkeys(("NaN", "another width", "unequal views", "no rows", "integers"), pair)
    return calls | {
        "unequal alignment": lambda: losses.alignment(rows, rows, group=group),
        "own negatives": lambda: losses.info_nce(rows, rows, negatives=rows[:, None], group=group),
        "labels' length": supervised,
        "labels' kind": supervised,
        "captions": lambda: losses.clip_loss(rows, rows, group=group),
        "ids": with_ids,
        "keys": lambda: losses.momentum_contrast(rows, rows, QUEUE[:, :4].float(), group=group),
        "codes": swav,
        "codes' shape": swav,
        "clusters": lambda: losses.cluster_assignment([rows], labels, group=group),
        "graph": lambda: Coupling(CosineKernel(0.1))(rows, target=from_graph(torch.ones(3, 6)), group=group),
        "no gradient": lambda: losses.info_nce(learnt, learnt, group=group).backward(),
    }


def refusals(rank: int, group) -> dict[str, str]:
    rows = torch.rand(3, 4, generator=torch.Generator().manual_seed(rank)) + 0.1
    seen = {}
    for name, call in (spoiled(rows, group) if rank == 1 else sound(rows, group)).items():
        try:
            call()
            seen[name] = "accepted"
        except EigenviewError as error:
            seen[name] = f"{type(error).__name__}: {error}"
    return seen


def test_what_one_process_refuses_all_refuse():
    first, second = run_processes(2, refusals)
    assert first.keys() == second.keys()
    assert [name for name in first if "accepted" in (first[name], second[name])] == []
    assert first["NaN"] == "NotFiniteError: another process refused what it was given; its message says why"
    assert second["NaN"].startswith("NotFiniteError: anchors must be finite; NaN or Inf in 1 of 6 rows")
    assert first["labels' length"] == "DataError: another process refused what it was given; its message says why"
    assert "got [[4], [3]]" in first["another width"]
    assert "got [[4], [3]]" in second["another width"]
    needs = "ShapeError: the rows of every process need a gradient, or of none; here those of [0] alone do"
    assert first["no gradient"] == second["no gradient"] == needs
