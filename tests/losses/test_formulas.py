"""Losses against their papers' formulas, written with loops over items in float64, value and gradient."""

from __future__ import annotations

import math

import pytest
import torch

from eigenview import losses
from eigenview.graph.kernels import CosineKernel, ExponentialKernel, GaussianKernel, LaplacianKernel, concatenated
from tests import oracle

LN = math.log


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


N = 4
X, Y, Z = draw(N, 6, seed=10), draw(N, 6, seed=11), draw(N, 6, seed=12)


def assert_equal(ours, theirs, *inputs, tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
    for mine, other in zip(oracle.gradients(ours, *inputs), oracle.gradients(theirs, *inputs), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)


def nt_xent(views, log_k, *, keep_positive=True):
    """Mean over all views and their positives of −log k⁺/Σk."""
    rows = [(view[i], i) for view in views for i in range(len(view))]
    terms = []
    for a, (x, item) in enumerate(rows):
        others = [(y, other) for b, (y, other) in enumerate(rows) if a != b and (keep_positive or other != item)]
        partition = sum(log_k(x, y).exp() for y, _ in others).log()
        positives = [log_k(x, y) for b, (y, other) in enumerate(rows) if a != b and other == item]
        terms.append(sum(partition - positive for positive in positives) / len(positives))
    return sum(terms) / len(terms)


def dot(temperature):
    return lambda x, y: (x * y).sum() / temperature


def power(gamma, temperature):
    return lambda x, y: -(oracle.distance(x, y) ** gamma) / temperature


@pytest.mark.parametrize("views", [(X, Y), (X, Y, Z)], ids=["two views", "three views"])
@pytest.mark.parametrize("keep_positive", [True, False])
def test_info_nce(views, keep_positive):
    ours = losses.info_nce(*views, temperature=0.3, positive_in_denominator=keep_positive)
    theirs = nt_xent([oracle.unit(view) for view in views], dot(0.3), keep_positive=keep_positive)
    assert_equal(ours, theirs, *views)


@pytest.mark.parametrize("keep_positive", [True, False])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "one set per item"])
def test_info_nce_with_given_negatives(own, keep_positive):
    negatives = draw(N, 3, 6, seed=13) if own else draw(3, 6, seed=13)
    x, y = oracle.unit(X), oracle.unit(Y)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        positive = (x[i] * y[i]).sum() / 0.19
        others = [(x[i] * m).sum() / 0.19 for m in oracle.unit(negatives[i] if own else negatives)]
        partition = sum(value.exp() for value in ([positive] if keep_positive else []) + others)
        total = total + partition.log() - positive
    ours = losses.info_nce(X, Y, temperature=0.19, negatives=negatives, positive_in_denominator=keep_positive)
    assert_equal(ours, total / N, X, Y, negatives)


def test_the_sum_forms_of_paper_and_authors_differ_and_are_both_right():
    x, y = oracle.unit(X), oracle.unit(Y)
    paper = losses.simple_sum_of_paper(laplacian_temperature=0.2, gaussian_temperature=0.3)
    both = nt_xent([x, y], lambda a, b: (power(2, 0.3)(a, b).exp() + power(1, 0.2)(a, b).exp()).log())
    assert_equal(losses.kernel_info_nce_loss(X, Y, kernel=paper), both, X, Y)
    authors = losses.simple_sum_of_authors(gamma=0.5, weight=0.2, temperature=0.1, gaussian_temperature=0.3)
    apart = 0.2 * nt_xent([x, y], power(0.5, 0.1)) + 0.8 * nt_xent([x, y], power(2, 0.3))
    assert_equal(losses.kernel_info_nce_loss(X, Y, kernel=authors, form="loss-sum"), apart, X, Y)
    one_temperature = losses.simple_sum_of_authors(weight=0.4, temperature=0.25)
    apart = 0.4 * nt_xent([x, y], power(1, 0.25)) + 0.6 * nt_xent([x, y], power(2, 0.25))
    assert_equal(losses.kernel_info_nce_loss(X, Y, kernel=one_temperature, form="loss-sum"), apart, X, Y)


def test_the_concatenation_sum_normalises_once_and_splits_in_halves():
    x, y = oracle.unit(X), oracle.unit(Y)
    first, second = ([view[:, :3] for view in (x, y)], [view[:, 3:] for view in (x, y)])
    authors = losses.concatenation_sum_of_authors(gamma=1.0, weight=0.3, temperature=0.1, gaussian_temperature=0.2)
    apart = 0.3 * nt_xent(first, power(1, 0.1)) + 0.7 * nt_xent(second, power(2, 0.2))
    assert_equal(losses.kernel_info_nce_loss(X, Y, kernel=authors, form="loss-sum"), apart, X, Y)
    paper = losses.concatenation_sum_of_paper(laplacian_temperature=0.1, gaussian_temperature=0.2)
    both = nt_xent([x, y], lambda a, b: (power(2, 0.2)(a[:3], b[:3]).exp() + power(1, 0.1)(a[3:], b[3:]).exp()).log())
    assert_equal(losses.kernel_info_nce_loss(X, Y, kernel=paper), both, X, Y)


def test_supervised_contrastive_over_two_views():
    labels = torch.tensor([0, 1, 0, 2])
    rows = [*oracle.unit(X), *oracle.unit(Y)]
    classes = [*labels.tolist()] * 2
    terms = []
    for i in range(8):
        partition = sum((rows[i] @ rows[k] / 0.2).exp() for k in range(8) if k != i).log()
        positives = [j for j in range(8) if j != i and classes[j] == classes[i]]
        terms.append(sum(partition - rows[i] @ rows[j] / 0.2 for j in positives) / len(positives))
    assert_equal(losses.supervised_contrastive(X, Y, labels=labels, temperature=0.2), sum(terms) / 8, X, Y)


@pytest.mark.parametrize(("mu", "has_ball"), [(0.5, True), (1.0, True), (10.0, True), (2.0, False)])
def test_spectral_contrastive_with_and_without_its_ball(mu, has_ball):
    def ball(v):
        length = v.square().sum().sqrt()
        return v * mu**0.5 / length if has_ball and length >= mu**0.5 else v

    x, y = [ball(v) for v in X], [ball(v) for v in Y]
    pull = sum((a * b).sum() for a, b in zip(x, y, strict=True)) / N
    push = sum((x[i] * y[j]).sum() ** 2 for i in range(N) for j in range(N) if i != j) / (N * (N - 1))
    assert_equal(losses.spectral_contrastive(X, Y, mu=mu, ball=has_ball), (-2 * pull + push) / mu, X, Y)


@pytest.mark.parametrize("width", [2, 30], ids=["n > d", "n < d"])
def test_spectral_contrastive_both_ways_of_counting(width):
    a, b = draw(N, width, seed=14), draw(N, width, seed=15)
    x, y = losses.spectral.into_ball(a, 1.0), losses.spectral.into_ball(b, 1.0)
    inner = x @ y.T
    push = inner[~torch.eye(N, dtype=torch.bool)].square().mean()
    assert_equal(losses.spectral_contrastive(a, b), -2 * inner.diagonal().mean() + push, a, b)


def test_laplacian_eigenmaps():
    rows = [*X, *Y]
    mean = sum(rows) / len(rows)
    covariance = sum(torch.outer(r - mean, r - mean) for r in rows) / len(rows)
    pull = sum((X[i] - Y[i]).square().sum() for i in range(N)) / N
    apart = sum((covariance[i, j] - float(i == j)) ** 2 for i in range(6) for j in range(6)) / 6
    assert_equal(losses.laplacian_eigenmaps_loss(X, Y, decorrelation_weight=0.7), pull + 0.7 * apart, X, Y)


@pytest.mark.parametrize(("alpha", "t"), [(2, 2), (1, 3)])
def test_align_uniform_mixed_with_info_nce(alpha, t):
    x, y = oracle.unit(X), oracle.unit(Y)
    align = sum(oracle.distance(x[i], y[i]) ** alpha for i in range(N)) / N

    def uniform(v):
        pairs = [(i, j) for i in range(N) for j in range(i + 1, N)]
        return (sum((-t * (v[i] - v[j]).square().sum()).exp() for i, j in pairs) / len(pairs)).log()

    theirs = 0.98 * align + 0.96 * (uniform(x) + uniform(y)) / 2 + 0.3 * nt_xent([x, y], dot(0.5))
    ours = losses.align_uniform_loss(
        X, Y, align_weight=0.98, uniform_weight=0.96, alpha=alpha, t=t, contrastive_weight=0.3, temperature=0.5
    )
    assert_equal(ours, theirs, X, Y)


@pytest.mark.parametrize("kernel", [LaplacianKernel(0.1), GaussianKernel.of_authors(0.3)], ids=repr)
@pytest.mark.parametrize("denominator", ["key_and_queue", "queue"])
def test_momentum_contrast_with_kernels(kernel, denominator):
    queue = draw(5, 6, seed=16).detach()
    q, k, bank = oracle.unit(X), oracle.unit(Y.detach()), oracle.unit(queue)
    log_k = power(1, 0.1) if isinstance(kernel, LaplacianKernel) else power(2, 0.3)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        own = log_k(q[i], k[i])
        partition = sum(log_k(q[i], u).exp() for u in bank) + (own.exp() if denominator == "key_and_queue" else 0)
        total = total + partition.log() - own
    ours = losses.momentum_contrast(X, Y, queue, kernel=kernel, denominator=denominator)
    assert_equal(ours, total / N, X)


@pytest.mark.parametrize("within_batch", [True, False])
def test_momentum_align_uniform(within_batch):
    queue = draw(5, 6, seed=17).detach()
    q, k, bank = oracle.unit(X), oracle.unit(Y.detach()), oracle.unit(queue)
    potentials = [(-3 * (a - u).square().sum()).exp() for a in q for u in bank]
    if within_batch:
        potentials += [(-3 * (q[i] - q[j]).square().sum()).exp() for i in range(N) for j in range(i + 1, N)]
    align = 2 - 2 * sum((q[i] * k[i]).sum() for i in range(N)) / N
    theirs = 3 * align + (sum(potentials) / len(potentials)).log()
    assert_equal(losses.momentum_align_uniform(X, Y, queue, within_batch=within_batch), theirs, X)


def test_nothing_reaches_key_queue_and_stopped_projections():
    queue = draw(5, 6, seed=18)
    for loss in (losses.momentum_contrast(X, Y, queue), losses.momentum_align_uniform(X, Y, queue)):
        assert torch.autograd.grad(loss, (Y, queue), allow_unused=True, retain_graph=True) == (None, None)
    loss = losses.simsiam_loss(X, Y, Z, queue[:N])
    assert torch.autograd.grad(loss, (Z, queue), allow_unused=True) == (None, None)


@pytest.mark.parametrize("form", ["averaged", "summed"])
def test_swapped_assignment_over_many_crops(form):
    scores = [draw(N, 5, seed=20 + v) for v in range(4)]
    codes = [draw(N, 5, seed=30 + i).softmax(1).detach() for i in range(2)]
    terms = []
    for i in range(2):
        for v in range(4):
            if v != i:
                rows = [
                    -(codes[i][b] * (scores[v][b] / 0.1 - (scores[v][b] / 0.1).exp().sum().log())).sum()
                    for b in range(N)
                ]
                terms.append(sum(rows) / N)
    code = 0.5 * (sum(terms[:3]) / 3 + sum(terms[3:]) / 3)
    ours = losses.swapped_assignment(scores, codes, form=form)
    assert_equal(ours, code if form == "averaged" else sum(terms), *scores)


def test_cluster_assignment_leaves_unknown_items_out():
    scores = [draw(N, 5, seed=40 + v) for v in range(3)]
    assignment = torch.tensor([4, -100, 0, 2])
    terms = []
    for v in range(3):
        for b in (0, 2, 3):
            logits = scores[v][b] / 0.1
            terms.append(logits.exp().sum().log() - logits[assignment[b]])
    assert_equal(losses.cluster_assignment(scores, assignment), sum(terms) / len(terms), *scores)


def test_clip_with_several_captions_per_image_has_no_false_negatives():
    image, text = draw(4, 6, seed=50), draw(5, 6, seed=51)
    image_ids, text_ids = torch.tensor([7, 3, 7, 9]), torch.tensor([3, 7, 7, 5, 3])  # 9 and 5 stand alone
    i, t = oracle.unit(image), oracle.unit(text)

    def one_way(a, b, a_ids, b_ids):
        terms = []
        for r in range(len(a)):
            matches = [c for c in range(len(b)) if a_ids[r] == b_ids[c]]
            partition = sum((a[r] @ b[c] / 0.07).exp() for c in range(len(b))).log()
            if matches:
                terms.append(sum(partition - a[r] @ b[c] / 0.07 for c in matches) / len(matches))
        return sum(terms) / len(terms)

    theirs = (one_way(i, t, image_ids, text_ids) + one_way(t, i, text_ids, image_ids)) / 2
    assert_equal(losses.clip_loss(image, text, image_ids=image_ids, text_ids=text_ids), theirs, image, text)


def test_siglip_edge_by_edge():
    x, y = oracle.unit(X), oracle.unit(Y)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        for j in range(N):
            logit = (x[i] * y[j]).sum() / 0.1 - 10
            total = total - torch.nn.functional.logsigmoid(logit if i == j else -logit)
    assert_equal(losses.siglip_loss(X, Y), total / N, X, Y, tolerance=1e-9)


def halves(log_k, other):
    return lambda x, y: (log_k(x[:3], y[:3]).exp() + other(x[3:], y[3:]).exp()).log()


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("kernel", "log_k"),
    [
        (CosineKernel(0.3, 0.5), lambda x, y: dot(0.3)(x, y) + 0.5),
        (LaplacianKernel(0.2), power(1, 0.2)),
        (2 * GaussianKernel(0.2), lambda x, y: LN(2) + power(2, 0.4)(x, y)),
        (
            GaussianKernel(0.2) + LaplacianKernel(0.5),
            lambda x, y: (power(2, 0.4)(x, y).exp() + power(1, 0.5)(x, y).exp()).log(),
        ),
        (concatenated(GaussianKernel(0.2), LaplacianKernel(0.5)), halves(power(2, 0.4), power(1, 0.5))),
    ],
    ids=["cosine", "Laplacian", "weighted", "sum", "concatenation"],
)
def test_siglip_with_a_kernel_edge_by_edge(kernel, log_k, is_streamed, monkeypatch):
    if is_streamed:
        monkeypatch.setattr("eigenview.graph.coupling.EDGES_HELD", 0)
    bias = torch.tensor(-2.0, dtype=torch.float64, requires_grad=True)
    image_ids, text_ids = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 0, 1, 2])
    x, y = oracle.unit(X), oracle.unit(Y)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        for j in range(N):
            logit = log_k(x[i], y[j]) + bias
            total = total + (1 + (-logit if image_ids[i] == text_ids[j] else logit).exp()).log()
    ours = losses.siglip_loss(X, Y, bias=bias, kernel=kernel, image_ids=image_ids, text_ids=text_ids)
    assert_equal(ours, total / N, X, Y, bias, tolerance=1e-9)


def test_sim_siam():
    z_a, z_b = draw(N, 6, seed=60).detach(), draw(N, 6, seed=61).detach()
    cos = lambda a, b: (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())  # noqa: E731
    theirs = -sum(cos(X[i], z_b[i]) + cos(Y[i], z_a[i]) for i in range(N)) / (2 * N)
    assert_equal(losses.simsiam_loss(X, Y, z_a, z_b), theirs, X, Y)


@pytest.mark.parametrize("form", ["absolute", "squared"])
@pytest.mark.parametrize("views", [(X, Y), (X, Y, Z)], ids=["two views", "three views"])
def test_random_walk_laplacian_entry_by_entry(form, views):
    rows = [row for view in views for row in oracle.unit(view)]
    items = [i for view in views for i in range(N)]
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(rows)):
        degree = sum((rows[i] @ rows[k] / 0.4).exp() for k in range(len(rows)) if k != i)
        for j in range(len(rows)):
            if i != j:
                p = (rows[i] @ rows[j] / 0.4).exp() / degree
                gap = (1 - p) if items[i] == items[j] else p
                total = total + (gap if form == "absolute" else gap**2)
    assert_equal(losses.random_walk_laplacian(*views, form=form, temperature=0.4), total, *views)


def test_random_walk_with_another_kernel():
    ours = losses.random_walk_laplacian(X, Y, kernel=ExponentialKernel(1.0, 0.5), reduction="mean")
    rows = [*oracle.unit(X), *oracle.unit(Y)]
    total = torch.zeros((), dtype=torch.float64)
    for i in range(2 * N):
        weights = {j: (-oracle.distance(rows[i], rows[j]) / 0.5).exp() for j in range(2 * N) if j != i}
        total = total + 2 * (1 - weights[(i + N) % (2 * N)] / sum(weights.values()))
    assert_equal(ours, total / (2 * N), X, Y)
