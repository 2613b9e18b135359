"""The streamed coupling against plain loops: every kernel, prior, divergence, partition set and block size."""

from __future__ import annotations

import pytest
import torch

from eigenview.errors import DataError, EigenviewError, SettingError, ShapeError
from eigenview.graph import kernels
from eigenview.graph.coupling import Coupling
from eigenview.graph.kernel_text import read_kernel
from eigenview.graph.kernels import (
    CauchyKernel,
    CosineKernel,
    GaussianKernel,
    InnerProductKernel,
    LaplacianKernel,
)
from eigenview.graph.scalars import learnable
from eigenview.graph.targets import SameItem, crops, from_captions, from_graph, from_labels, two_views
from tests import oracle

LEGAL = [
    ("out_degree", "cross_entropy"),
    ("out_degree", "absolute"),
    ("out_degree", "squared"),
    ("edges", "cross_entropy"),
    ("bernoulli", "cross_entropy"),
]


def embeddings(n: int, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def assert_same(ours, theirs, inputs, tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
    for mine, other in zip(oracle.gradients(ours, *inputs), oracle.gradients(theirs, *inputs), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("normalize", [True, False], ids=["sphere", "free"])
@pytest.mark.parametrize(("prior", "divergence"), LEGAL)
@pytest.mark.parametrize("name", oracle.KERNELS)
def test_streamed_equals_loops_for_every_kernel_and_prior(name, prior, divergence, normalize):
    written, formula = oracle.KERNELS[name]
    z = embeddings(8)
    rows = oracle.unit(z) if normalize else z
    expected = oracle.coupling(
        oracle.similarities(formula, rows, rows),
        oracle.same_item([0, 1, 2, 3] * 2, indicators=True),
        oracle.all_but_self(8),
        prior=prior,
        divergence=divergence,
    )
    for block_size in (2, 3, 8, None):  # divides 8, does not, exactly, larger
        spec = Coupling(
            read_kernel(written),
            prior=prior,
            divergence=divergence,
            normalize=normalize,
            block_size=block_size,
        )
        assert_same(spec(z, target=two_views(4, as_indicators=True)), expected, [z])


@pytest.mark.parametrize(("prior", "divergence"), LEGAL)
@pytest.mark.parametrize("name", ["cosine", "laplacian", "inner product", "simple sum"])
def test_two_sides_and_extra_candidates_equal_loops(name, prior, divergence):
    written, formula = oracle.KERNELS[name]
    x, y, queue = embeddings(5, seed=1), embeddings(7, seed=2), embeddings(3, seed=3)
    image_ids, caption_ids = [4, 8, 4, 6, 2], [8, 4, 4, 6, 2, 2, 9]
    everyone = torch.cat([oracle.unit(y), oracle.unit(queue)])
    target = oracle.same_item(image_ids, [*caption_ids, -1, -2, -3], indicators=divergence != "cross_entropy")
    expected = oracle.coupling(
        oracle.similarities(formula, oracle.unit(x), everyone),
        target,
        torch.ones(5, 10, dtype=torch.bool),
        prior=prior,
        divergence=divergence,
        reduction="sum",
    )
    spec = Coupling(
        read_kernel(written), prior=prior, divergence=divergence, partition="all", reduction="sum", block_size=2
    )
    ours = spec(
        x,
        y,
        target=from_captions(
            torch.tensor(image_ids), torch.tensor(caption_ids), as_indicators=divergence != "cross_entropy"
        ),
        extra=queue,
    )
    assert_same(ours, expected, [x, y, queue])


@pytest.mark.parametrize("partition", ["others", "all", "negatives", "same_view", "extra", "positives_and_extra"])
@pytest.mark.parametrize("kernel", [CosineKernel(0.3), CauchyKernel(0.5)], ids=repr)
def test_every_partition_set_equals_loops(partition, kernel):
    z, queue = embeddings(8, seed=4), embeddings(5, seed=5)
    formulas = {
        CosineKernel(0.3): lambda x, y: (x * y).sum() / 0.3,
        CauchyKernel(0.5): lambda x, y: -(1 + (x - y).square().sum() / 0.5).log(),
    }
    ids, views = [0, 1, 2, 3] * 2, [0] * 4 + [1] * 4
    inside = torch.zeros(8, 13, dtype=torch.bool)
    for i in range(8):
        for j in range(8):
            positive = ids[i] == ids[j] and i != j
            inside[i, j] = {
                "others": i != j,
                "all": True,
                "negatives": ids[i] != ids[j],
                "same_view": i != j and views[i] == views[j],
                "extra": False,
                "positives_and_extra": positive,
            }[partition]
        inside[i, 8:] = True
    target = torch.cat([oracle.same_item(ids), torch.zeros(8, 5, dtype=torch.float64)], dim=1)
    everyone = torch.cat([oracle.unit(z), oracle.unit(queue)])
    expected = oracle.coupling(
        oracle.similarities(formulas[kernel], oracle.unit(z), everyone), target, inside, prior="out_degree"
    )
    ours = Coupling(kernel, partition=partition, block_size=3)(z, target=two_views(4), extra=queue)
    assert_same(ours, expected, [z, queue])


@pytest.mark.parametrize("target", ["two views", "three views", "labels", "many labels", "sparse graph", "dense graph"])
@pytest.mark.parametrize("partition", ["others", "all", "negatives", "same_view"])
@pytest.mark.parametrize(("prior", "divergence"), LEGAL)
def test_a_graph_held_whole_equals_one_in_blocks(prior, divergence, partition, target, monkeypatch):
    z = embeddings(24, seed=24)
    is_dense = target == "dense graph"
    if divergence != "cross_entropy" and (partition in ("negatives", "same_view") or is_dense):
        return
    if (partition == "negatives" and is_dense) or (partition == "same_view" and "views" not in target):
        return
    indicators = divergence != "cross_entropy"
    if target == "many labels":
        monkeypatch.setattr("eigenview.graph.partition.EDGES_PER_ANCHOR", 0)
    graph = (torch.rand(24, 24, generator=torch.Generator().manual_seed(2)) > 0.8).double()
    targets = {
        "two views": crops(12, 2, as_indicators=indicators),
        "three views": crops(8, 3, as_indicators=indicators),
        "labels": from_labels(torch.arange(24) // 5, as_indicators=indicators),
        "many labels": from_labels(torch.arange(24) // 5, as_indicators=indicators),
        "sparse graph": from_graph(graph.to_sparse_coo(), as_indicators=indicators),
        "dense graph": from_graph(graph),
    }
    for kernel in (GaussianKernel(0.2), LaplacianKernel(0.3), CauchyKernel(0.5) + LaplacianKernel(0.3)):
        whole, blocks = (
            Coupling(kernel, prior=prior, divergence=divergence, partition=partition, block_size=size)
            for size in (None, 7)
        )
        tolerance = 1e-7 if partition == "all" else 1e-10  # in blocks, the distance to oneself is rounding
        assert_same(whole(z, target=targets[target]), blocks(z, target=targets[target]), [z], tolerance)


@pytest.mark.parametrize("kernel", [CosineKernel(0.3), LaplacianKernel(0.5), InnerProductKernel(0.5, 0.3)], ids=repr)
@pytest.mark.parametrize("prior", ["out_degree", "edges", "bernoulli"])
def test_two_sides_held_whole_equal_blocks(kernel, prior):
    x, y = embeddings(9, seed=25), embeddings(7, seed=26)
    target = from_captions(torch.arange(9) % 7, torch.arange(7))
    whole, blocks = (Coupling(kernel, prior=prior, partition="all", block_size=size) for size in (None, 4))
    assert_same(whole(x, y, target=target), blocks(x, y, target=target), [x, y])


def test_a_second_backward_through_a_held_graph_gives_the_same():
    z = embeddings(6, seed=27)
    for kernel in (CosineKernel(0.2), LaplacianKernel(0.2)):
        loss = Coupling(kernel)(z, target=two_views(3))
        first, second = (torch.autograd.grad(loss, z, retain_graph=True)[0] for _ in range(2))
        assert torch.equal(first, second)


@pytest.mark.parametrize(("prior", "divergence"), LEGAL)
def test_many_positives_found_block_by_block_equal_listed_ones(prior, divergence, monkeypatch):
    z = embeddings(11, seed=6)
    labels = torch.tensor([2, 0, 2, 1, 0, 2, 2, 1, 0, 5, 2])  # class 5 has no second member
    spec = Coupling(LaplacianKernel(0.5), prior=prior, divergence=divergence, reduction="sum", block_size=4)
    target = from_labels(labels, as_indicators=divergence != "cross_entropy" or prior == "bernoulli")
    listed = spec(z, target=target)
    monkeypatch.setattr("eigenview.graph.partition.EDGES_PER_ANCHOR", 0)
    assert_same(spec(z, target=target), listed, [z])


def test_supervised_target_equals_loops():
    z = embeddings(7, seed=7)
    labels = [1, 0, 1, 1, 0, 2, 2]
    expected = oracle.coupling(
        oracle.similarities(lambda x, y: (x * y).sum() / 0.2, oracle.unit(z), oracle.unit(z)),
        oracle.same_item(labels),
        oracle.all_but_self(7),
        prior="out_degree",
    )
    assert_same(Coupling(CosineKernel(0.2))(z, target=from_labels(torch.tensor(labels))), expected, [z])


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(("prior", "divergence"), LEGAL)
def test_a_given_graph_equals_loops(form, prior, divergence):
    z = embeddings(6, seed=8)
    weights = torch.rand(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weights = (weights * (weights > 0.5)).fill_diagonal_(0)
    normalised = weights / weights.sum(1, keepdim=True).clamp_min(1e-300)
    expected = oracle.coupling(
        oracle.similarities(oracle.KERNELS["gaussian"][1], z, z),
        normalised,
        oracle.all_but_self(6),
        prior=prior,
        divergence=divergence,
        reduction="sum",
    )
    spec = Coupling(
        GaussianKernel(0.3), prior=prior, divergence=divergence, normalize=False, reduction="sum", block_size=4
    )
    given = weights if form == "dense" else weights.to_sparse_coo()
    if form == "dense" and divergence != "cross_entropy":  # its n × n positives would have to be listed
        with pytest.raises(SettingError, match="give the graph as a sparse tensor"):
            spec(z, target=from_graph(given))
        return
    assert_same(spec(z, target=from_graph(given)), expected, [z])


@pytest.mark.parametrize("kernel", [CosineKernel(0.3), LaplacianKernel(0.5)], ids=repr)
def test_an_asymmetric_graphs_negatives_equal_loops(kernel):
    z = embeddings(6, seed=20)
    weights = torch.zeros(6, 6, dtype=torch.float64)
    weights[[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]] = 1.0  # a ring with a direction
    formulas = {
        CosineKernel(0.3): lambda x, y: (x * y).sum() / 0.3,
        LaplacianKernel(0.5): lambda x, y: -oracle.distance(x, y) / 0.5,
    }
    rows = oracle.unit(z)
    log_k = [[formulas[kernel](rows[i], rows[j]) if i != j else None for j in range(6)] for i in range(6)]
    expected = oracle.coupling(log_k, weights, oracle.all_but_self(6) & (weights == 0), prior="out_degree")
    spec = Coupling(kernel, partition="negatives", block_size=2)
    assert_same(spec(z, target=from_graph(weights.to_sparse_coo())), expected, [z])


def test_a_kernel_that_is_not_symmetric_says_so():
    class OneWay(kernels.Kernel):
        is_symmetric = False

        def log_similarity(self, geometry):
            first = geometry.a[:, 0]
            return geometry.inner + (first if geometry.paired else first[:, None])

    z = embeddings(6, seed=21)
    expected = oracle.coupling(
        oracle.similarities(lambda x, y: (x * y).sum() + x[0], z, z),
        oracle.same_item([0, 1, 2] * 2),
        oracle.all_but_self(6),
        prior="edges",
    )
    spec = Coupling(OneWay(), prior="edges", normalize=False, block_size=2)
    assert_same(spec(z, target=two_views(3)), expected, [z])
    assert not (OneWay() + GaussianKernel(1.0)).is_symmetric


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_self_edges_of_a_graph_are_ignored(form):
    z = embeddings(5, seed=22)
    weights = torch.rand(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    without = weights.clone().fill_diagonal_(0)
    given = [graph if form == "dense" else graph.to_sparse_coo() for graph in (weights, without)]
    with_self, alone = (Coupling(CosineKernel(0.5))(z, target=from_graph(graph)) for graph in given)
    torch.testing.assert_close(with_self, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("apart", [0.1, 0.03, 0.01])
@pytest.mark.parametrize(
    "kernel",
    [LaplacianKernel(0.1), kernels.ExponentialKernel(0.5, 0.1), GaussianKernel(0.05), CauchyKernel(0.01)],
    ids=repr,
)
def test_float32_gradients_stay_right_when_positives_are_close(kernel, apart):
    """Near the optimum pull and push of the positive almost cancel: rounding must not be what is left."""
    generator = torch.Generator().manual_seed(0)
    a = torch.nn.functional.normalize(torch.randn(128, 32, dtype=torch.float64, generator=generator), dim=1)
    b = a + apart / 32**0.5 * torch.randn(128, 32, dtype=torch.float64, generator=generator)
    gradients = {}
    for dtype in (torch.float32, torch.float64):
        z = torch.cat([a, b]).float().to(dtype).requires_grad_()
        (gradients[dtype],) = torch.autograd.grad(Coupling(kernel)(z, target=two_views(128)), z)
    error = (gradients[torch.float32].double() - gradients[torch.float64]).norm() / gradients[torch.float64].norm()
    assert error < 1e-3


@pytest.mark.parametrize("kernel", [LaplacianKernel(0.1), kernels.ExponentialKernel(0.5, 0.1)], ids=repr)
def test_twins_that_are_no_positives_are_alike_held_whole_and_in_blocks(kernel):
    z = embeddings(12, seed=28).detach()
    z[1], z[8] = z[0] * (1 + 1e-12), z[2]
    z.requires_grad_()
    whole, blocks = (Coupling(kernel, block_size=size)(z, target=two_views(6)) for size in (None, 5))
    assert_same(whole, blocks, [z], 1e-9)


@pytest.mark.parametrize("name", oracle.KERNELS)
@pytest.mark.parametrize("size", [1e-3, 1e2, 1e3])
def test_duplicates_of_any_size_are_finite_in_float32(name, size):
    kernel = read_kernel(oracle.KERNELS[name][0])
    rows = size * torch.randn(20, 16, generator=torch.Generator().manual_seed(1))
    z = rows.repeat(2, 1).requires_grad_()
    loss = Coupling(kernel, normalize=False)(z, target=two_views(20))
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    exact = Coupling(kernel, normalize=False)(rows.double().repeat(2, 1), target=two_views(20)).item()
    assert loss.item() == pytest.approx(exact, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("size", [1e-30, 1e-13, 1e25])
def test_the_sphere_is_reached_from_any_distance(size):
    z = embeddings(8, seed=23).detach().float()
    near = Coupling(CosineKernel(0.1))(z, target=two_views(4))
    far = Coupling(CosineKernel(0.1))(size * z, target=two_views(4))
    torch.testing.assert_close(far, near, rtol=1e-4, atol=1e-4)


def test_a_temperature_that_training_made_negative_is_refused():
    temperature = learnable(0.5)
    spec = Coupling(GaussianKernel(temperature))
    with torch.no_grad():
        temperature.fill_(-0.1)
    with pytest.raises(SettingError, match=r"temperature must be positive and finite; got -0\.1"):
        spec(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), target=two_views(2))


@pytest.mark.parametrize("made_from", [lambda t: -t.log(), lambda t: t + 1, lambda t: t * t], ids=None)
def test_a_setting_made_from_another_passes_its_gradient_on_once(made_from):
    a, b, ids = embeddings(6, seed=3), embeddings(6, seed=4), torch.arange(6)
    slopes = []
    for block_size in (None, 4):  # held, streamed
        temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        kernel = GaussianKernel(temperature) + LaplacianKernel(made_from(temperature))
        loss = Coupling(kernel, partition="all", block_size=block_size)(a, b, target=from_captions(ids, ids))
        slopes.append(torch.autograd.grad(loss, temperature)[0])
    torch.testing.assert_close(slopes[1], slopes[0], rtol=0, atol=1e-12)


def test_learnable_settings_receive_the_loops_gradient():
    z = embeddings(8, seed=9)
    temperature, width, weight = (learnable(v).double().detach().requires_grad_() for v in (0.5, 0.8, 0.4))
    kernel = GaussianKernel(temperature) + weight * LaplacianKernel(width)  # one tensor may also serve twice
    kernel = kernel + LaplacianKernel(temperature)
    rows = oracle.unit(z)

    def formula(x, y):
        d = oracle.distance(x, y)
        return ((-d * d / (2 * temperature)).exp() + weight * (-d / width).exp() + (-d / temperature).exp()).log()

    expected = oracle.coupling(
        oracle.similarities(formula, rows, rows),
        oracle.same_item([0, 1, 2, 3] * 2),
        oracle.all_but_self(8),
        prior="edges",
    )
    ours = Coupling(kernel, prior="edges", block_size=3)(z, target=two_views(4))
    assert_same(ours, expected, [z, temperature, width, weight])


@pytest.mark.parametrize("prior", ["out_degree", "edges", "bernoulli"])
@pytest.mark.parametrize("two_sided", [True, False])
def test_learnable_inner_product_receives_the_loops_gradient(prior, two_sided):
    x, y = embeddings(4, seed=10), embeddings(4, seed=11)
    temperature = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    bias = torch.tensor(-1.5, dtype=torch.float64, requires_grad=True)
    rows = oracle.unit(x)
    columns = oracle.unit(y) if two_sided else rows
    ids = [0, 1, 2, 3] if two_sided else [0, 1, 0, 1]
    expected = oracle.coupling(
        oracle.similarities(lambda a, b: (a * b).sum() / temperature + bias, rows, columns),
        oracle.same_item(ids, ids if two_sided else None),
        torch.ones(4, 4, dtype=torch.bool) if two_sided else oracle.all_but_self(4),
        prior=prior,
    )
    target = SameItem(torch.tensor(ids), torch.tensor(ids) if two_sided else None)
    ours = Coupling(InnerProductKernel(temperature, bias), prior=prior)(x, y if two_sided else None, target=target)
    inputs = [x, y, temperature] if two_sided else [x, temperature]
    assert_same(ours, expected, [*inputs, bias] if prior == "bernoulli" else inputs)


@pytest.mark.parametrize("temperature", [0.01, 0.03, 1.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_temperature_is_finite_and_exact(temperature, dtype):
    z = embeddings(40, 4, seed=12).detach().to(dtype)
    z[20:] = z[:20] + 0.3 * z[20:]
    z.requires_grad_()
    ours = Coupling(CosineKernel(temperature), block_size=16)(z, target=two_views(20))
    (gradient,) = torch.autograd.grad(ours, z)
    w = z.detach().double().requires_grad_()
    rows = torch.nn.functional.normalize(w, dim=1)
    log_q = (rows @ rows.T / temperature).masked_fill(torch.eye(40, dtype=torch.bool), -torch.inf).log_softmax(1)
    dense = -log_q[torch.arange(40), (torch.arange(40) + 20) % 40].mean()
    (expected,) = torch.autograd.grad(dense, w)
    relative = 1e-10 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(ours.double(), dense, rtol=relative, atol=relative)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-3, atol=relative * expected.abs().max().item())


@pytest.mark.parametrize("name", oracle.KERNELS)
def test_duplicates_and_collapse_give_finite_gradients(name):
    kernel = read_kernel(oracle.KERNELS[name][0])
    for dtype in (torch.float32, torch.float64):
        collapsed = torch.ones(6, 4, dtype=dtype, requires_grad=True)
        twins = torch.randn(3, 4, dtype=dtype, generator=torch.Generator().manual_seed(0)).repeat(2, 1).requires_grad_()
        for z in (collapsed, twins):
            loss = Coupling(kernel)(z, target=two_views(3))
            (gradient,) = torch.autograd.grad(loss, z)
            assert loss.isfinite()
            assert gradient.isfinite().all()
        torch.testing.assert_close(
            Coupling(kernel)(collapsed, target=two_views(3)).item(), oracle.LN(5), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    z = embeddings(8, seed=13).detach().to(dtype).requires_grad_()
    loss = Coupling(LaplacianKernel(0.2))(z, target=two_views(4))
    full = Coupling(LaplacianKernel(0.2))(z.detach().float(), target=two_views(4))
    assert loss.dtype == torch.float32
    assert loss.item() == full.item()
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient.dtype == dtype


def test_autocast_does_not_reach_inside():
    z = embeddings(8, seed=14).detach().float()
    plain = Coupling(CosineKernel(0.1))(z, target=two_views(4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert Coupling(CosineKernel(0.1))(z, target=two_views(4)).item() == plain.item()


def test_the_two_terms_add_up_to_the_loss():
    z = embeddings(8, seed=15)
    spec = Coupling(GaussianKernel(0.3), prior="edges")
    terms = spec.terms(z, target=two_views(4))
    torch.testing.assert_close(terms.attraction + terms.repulsion, spec(z, target=two_views(4)), rtol=0, atol=1e-12)


def test_an_anchor_without_positive_does_not_count_in_the_mean():
    z = embeddings(5, seed=16)
    spec = Coupling(CosineKernel(0.5))
    labels = torch.tensor([0, 0, 1, 1, 7])
    total = Coupling(CosineKernel(0.5), reduction="sum")(z, target=from_labels(labels))
    torch.testing.assert_close(spec(z, target=from_labels(labels)), total / 4, rtol=0, atol=1e-12)


def test_second_derivatives_are_refused_in_words():
    z = embeddings(6, seed=17)
    loss = Coupling(CosineKernel(0.5))(z, target=two_views(3))
    (gradient,) = torch.autograd.grad(loss, z, create_graph=True)
    with pytest.raises(EigenviewError, match="first derivatives only"):
        gradient.sum().backward()


def test_no_block_exceeds_the_block_size(monkeypatch):
    seen = []
    original = kernels.Kernel.__call__
    monkeypatch.setattr(
        kernels.Kernel, "__call__", lambda self, a, y: seen.append((len(a), len(y))) or original(self, a, y)
    )
    z = embeddings(50, seed=18)
    Coupling(LaplacianKernel(0.5), block_size=8)(z, target=two_views(25)).backward()
    assert max(rows * columns for rows, columns in seen) == 64


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Coupling(CosineKernel(0.1), prior="edges", divergence="absolute"),
            SettingError,
            "needs prior out_degree",
        ),
        (
            lambda: Coupling(CosineKernel(0.1), prior="bernoulli", divergence="squared"),
            SettingError,
            "needs prior out_degree",
        ),
        (
            lambda: Coupling(CosineKernel(0.1), divergence="squared", partition="negatives"),
            SettingError,
            "inside the partition",
        ),
        (lambda: Coupling(CosineKernel(0.1), prior="poisson"), SettingError, "prior must be one of"),
        (lambda: Coupling("gaussian"), SettingError, "kernel must be a Kernel"),
        (lambda: Coupling(CosineKernel(0.1), block_size=0), SettingError, "block_size must be at least 1"),
        (lambda: Coupling(CosineKernel(-0.1)), SettingError, "temperature must be positive"),
    ],
)
def test_an_illegal_coupling_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("anchors", "options", "error", "message"),
    [
        (torch.ones(1, 3), {"target": from_labels(torch.tensor([0]))}, ShapeError, "at least 2 embeddings; got 1"),
        (torch.ones(4), {"target": two_views(2)}, ShapeError, r"must be \(n, d\) embeddings; got shape \(4,\)"),
        (torch.ones(4, 3).long(), {"target": two_views(2)}, ShapeError, "floating point; got torch.int64"),
        (torch.ones(4, 3), {"target": two_views(3)}, ShapeError, "6 ids for 4 anchors"),
        (
            torch.ones(4, 3),
            {"target": from_captions(torch.arange(4), torch.arange(4))},
            ShapeError,
            "ids and embeddings come for the same sides; both sides have ids",
        ),
        (torch.ones(4, 3), {"target": from_graph(torch.ones(4, 5))}, ShapeError, r"\(4, 4\); got \(4, 5\)"),
        (torch.ones(4, 3), {"target": two_views(2), "extra": torch.ones(2, 5)}, ShapeError, "one width d"),
        (torch.ones(4, 3), {"target": two_views(2), "extra": torch.ones(2, 3).double()}, ShapeError, "one dtype"),
        (torch.zeros(4, 3), {"target": two_views(2)}, DataError, "zero in 4 of 4 rows, first 0, 1, 2, 3"),
        (torch.ones(4, 3), {"target": from_labels(torch.arange(4))}, DataError, "no anchor has any"),
        (torch.tensor([[1.0], [torch.nan], [2.0], [torch.inf]]), {"target": two_views(2)}, DataError, "first 1, 3"),
    ],
)
def test_bad_embeddings_are_refused(anchors, options, error, message):
    with pytest.raises(error, match=message):
        Coupling(CosineKernel(0.1))(anchors, **options)


def test_an_empty_queue_is_refused():
    with pytest.raises(ShapeError, match=r"extra candidates must not be empty; got shape \(0, 3\)"):
        Coupling(CosineKernel(0.1), partition="extra")(torch.ones(4, 3), target=two_views(2), extra=torch.ones(0, 3))
    with pytest.raises(ShapeError, match="needs extra candidates"):
        Coupling(CosineKernel(0.1), partition="extra")(torch.ones(4, 3), target=two_views(2))


def test_the_value_check_can_be_turned_off():
    z = torch.ones(4, 3)
    z[0, 0] = torch.nan
    assert Coupling(CosineKernel(0.1), check_values=False)(z, target=two_views(2)).isnan()
