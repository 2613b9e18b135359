"""Kernels against their formulas, pair by pair."""

from __future__ import annotations

import pytest
import torch

from eigenview.errors import SettingError, ShapeError
from eigenview.graph import kernels
from eigenview.graph.geometry import Geometry, unit_rows, with_transpose
from eigenview.graph.kernel_text import read_kernel
from eigenview.graph.kernels import (
    CauchyKernel,
    ConcatenatedKernel,
    CosineKernel,
    ExponentialKernel,
    GaussianKernel,
    InnerProductKernel,
    LaplacianKernel,
    ScaledKernel,
    StudentTKernel,
    concatenated,
)
from eigenview.graph.pointwise import distance_power, log_add, log_tail
from eigenview.graph.scalars import learnable
from eigenview.graph.targets import Edges
from tests import oracle


def rows(n: int, seed: int) -> torch.Tensor:
    return torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("name", oracle.KERNELS)
def test_all_pairs_equal_the_formula_with_its_gradient(name):
    written, formula = oracle.KERNELS[name]
    a, y = rows(5, 0), rows(4, 1)
    ours = read_kernel(written)(a, y)
    theirs = torch.stack([torch.stack(row) for row in oracle.similarities(formula, a, y)])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    weight = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for mine, other in zip(
        oracle.gradients((weight * ours).sum(), a, y), oracle.gradients((weight * theirs).sum(), a, y), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", oracle.KERNELS)
def test_row_by_row_is_the_diagonal_of_all_pairs(name):
    kernel = read_kernel(oracle.KERNELS[name][0])
    a, y = rows(5, 3), rows(5, 4)
    torch.testing.assert_close(kernel.pairs(a, y), kernel(a, y).diagonal(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", oracle.KERNELS)
def test_repr_reads_back(name):
    kernel = read_kernel(oracle.KERNELS[name][0])
    assert repr(kernel) == oracle.KERNELS[name][0]
    assert read_kernel(repr(kernel)) == kernel


def test_repr_keeps_the_weight_where_it_stands():
    kernel = LaplacianKernel(1.0) * (0.5 * GaussianKernel(1.0)) + 0.25 * (CauchyKernel(1.0) + LaplacianKernel(2.0))
    assert read_kernel(repr(kernel)) == kernel


def test_weights_of_weights_multiply_and_sum_adds():
    assert 0.5 * (0.25 * GaussianKernel(1.0)) == 0.125 * GaussianKernel(1.0)
    assert sum([GaussianKernel(1.0), LaplacianKernel(1.0)]) == GaussianKernel(1.0) + LaplacianKernel(1.0)


def test_repr_reads_back_what_is_learnable():
    kernel = 0.5 * CosineKernel(learnable(0.1), learnable(-10.0)) + GaussianKernel(0.5)
    again = read_kernel(repr(kernel))
    assert repr(again) == repr(kernel)
    assert [tensor.item() for tensor in again.tensors()] == [tensor.item() for tensor in kernel.tensors()]
    assert len(again.tensors()) == 2


@pytest.mark.parametrize("gamma", [0.1, 0.3, 0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_at_zero_distance_for_every_gamma(gamma, dtype):
    a = torch.randn(4, 8, dtype=dtype, generator=torch.Generator().manual_seed(5)).requires_grad_()
    y = a.detach().clone().requires_grad_()
    kernel = ExponentialKernel(gamma, 0.1)
    for value in (kernel(a, y).sum(), kernel.pairs(a, y).sum()):
        assert all(gradient.isfinite().all() for gradient in oracle.gradients(value, a, y))
    assert kernel.pairs(a, y).abs().max() == 0


@pytest.mark.parametrize("gamma", [0.1, 0.3, 0.5, 1.0, 1.5, 3.0])
def test_powers_are_exact_and_their_slopes_fall_to_0_where_rounding_rules(gamma):
    least = torch.finfo(torch.float64).eps ** 2
    squared = torch.tensor([0.0, least / 100, least, 1e-6, 4.0], dtype=torch.float64, requires_grad=True)
    powers = distance_power(squared, gamma, scale=-3.0)
    for r, power in zip(squared.tolist(), powers.tolist(), strict=True):
        assert power == pytest.approx(-3 * r ** (gamma / 2), rel=1e-13, abs=0)
    (slopes,) = torch.autograd.grad(powers.sum(), squared)
    for r, slope in zip(squared.tolist(), slopes.tolist(), strict=True):
        formula = -3 * gamma / 2 * (r ** (gamma / 2 - 1) if r >= least else r ** (gamma / 2) / least)
        assert slope == pytest.approx(formula, rel=1e-13, abs=0)


def test_a_learnable_scale_or_width_changes_nothing():
    squared = rows(5, 12).detach().square()
    for number, tensor in [
        (
            distance_power(squared, 0.7, scale=-3.0),
            distance_power(squared, 0.7, scale=torch.tensor(-3.0, dtype=torch.float64)),
        ),
        (log_tail(squared, 0.3, 2.0), log_tail(squared, torch.tensor(0.3, dtype=torch.float64), 2.0)),
    ]:
        torch.testing.assert_close(number, tensor, rtol=0, atol=1e-14)


def test_pointwise_functions_have_the_gradients_of_their_formulas():
    x, y = rows(4, 13), rows(4, 14)
    assert torch.autograd.gradcheck(lambda r: log_tail(r.square(), 0.3, 2.0), x)
    assert torch.autograd.gradcheck(log_add, (x, y))
    far = torch.tensor([-1000.0, 0.0, 1000.0], dtype=torch.float64, requires_grad=True)
    total = log_add(far, -far)
    assert total.tolist() == [1000.0, oracle.LN(2), 1000.0]
    assert torch.autograd.grad(total.sum(), far)[0].tolist() == [-1.0, 0.0, 1.0]


def test_collapsed_embeddings_have_exactly_zero_distance():
    constant = torch.full((7, 5), 0.3)
    assert LaplacianKernel(0.1)(constant, constant).abs().max() == 0


def test_special_cases_of_one_another():
    a, y = rows(4, 6), rows(3, 7)
    same = torch.testing.assert_close
    same(LaplacianKernel(0.4)(a, y), ExponentialKernel(1.0, 0.4)(a, y))
    same(GaussianKernel(0.2)(a, y), ExponentialKernel(2.0, 0.4)(a, y))
    same(GaussianKernel.of_authors(0.4)(a, y), ExponentialKernel(2.0, 0.4)(a, y))
    same(CauchyKernel(0.4)(a, y), StudentTKernel(1.0, 0.4)(a, y))
    same(StudentTKernel(1e9, 0.4)(a, y), GaussianKernel(0.4)(a, y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "kernel",
    [
        InnerProductKernel(0.3, 0.2),
        CosineKernel(0.3, 0.2),
        GaussianKernel(0.3),
        ExponentialKernel(2.0, 0.3),
        0.7 * GaussianKernel(0.3),
        GaussianKernel(0.3) * CosineKernel(0.5) * ScaledKernel(2.0, InnerProductKernel(0.9)),
    ],
    ids=repr,
)
def test_the_inner_form_is_the_kernel_on_the_sphere(kernel):
    a, y = oracle.unit(rows(4, 8)), oracle.unit(rows(3, 9))
    form = kernel.inner_form(unit=True)
    torch.testing.assert_close(form.scale * (a @ y.T) + form.bias, kernel(a, y), rtol=0, atol=1e-12)


def test_only_inner_products_have_an_inner_form_off_the_sphere():
    a, y, inner = rows(4, 8), rows(3, 9), InnerProductKernel(0.5)
    form = inner.inner_form(unit=False)
    torch.testing.assert_close(form.scale * (a @ y.T) + form.bias, inner(a, y), rtol=0, atol=1e-12)
    for kernel in (
        CosineKernel(0.5),
        GaussianKernel(0.5),
        LaplacianKernel(0.5),
        InnerProductKernel() * GaussianKernel(0.5),
        InnerProductKernel() + InnerProductKernel(),
    ):
        assert kernel.inner_form(unit=False) is None


def test_sums_inside_sums_are_flat_and_products_too():
    assert repr(GaussianKernel(1.0) + (LaplacianKernel(1.0) + CauchyKernel(1.0))).count("(Gaussian") == 1
    assert len((GaussianKernel(1.0) * LaplacianKernel(1.0) * CauchyKernel(1.0)).kernels) == 3
    assert isinstance(concatenated(GaussianKernel(1.0), LaplacianKernel(1.0)), ConcatenatedKernel)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    a = rows(4, 10).detach().to(dtype)
    assert LaplacianKernel(0.1)(a, a).dtype == torch.float32
    torch.testing.assert_close(LaplacianKernel(0.1)(a, a), LaplacianKernel(0.1)(a.float(), a.float()), rtol=0, atol=0)


def test_a_kernel_of_ones_own_needs_one_method():
    class Quartic(kernels.Kernel):
        def log_similarity(self, geometry):
            return -geometry.squared_distance.square()

    from eigenview.graph.coupling import Coupling
    from eigenview.graph.targets import two_views

    z = rows(6, 11)
    expected = oracle.coupling(
        oracle.similarities(lambda x, y: -((x - y).square().sum() ** 2), oracle.unit(z), oracle.unit(z)),
        oracle.same_item([0, 1, 2] * 2),
        oracle.all_but_self(6),
        prior="out_degree",
    )
    torch.testing.assert_close(Coupling(Quartic())(z, target=two_views(3)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianKernel(0.0), "temperature must be positive and finite; got 0"),
        (lambda: LaplacianKernel(-1.0), "temperature must be positive and finite; got -1"),
        (lambda: CosineKernel(float("nan")), "temperature must be positive and finite; got nan"),
        (lambda: CauchyKernel(float("inf")), "temperature must be positive and finite; got inf"),
        (lambda: ExponentialKernel(2.5), r"gamma in \(0, 2\]; got 2.5"),
        (lambda: ExponentialKernel(0.0), r"gamma in \(0, 2\]; got 0"),
        (lambda: StudentTKernel(0.0), "degrees must be positive"),
        (lambda: -0.5 * GaussianKernel(1.0), "a kernel's weight must be positive"),
        (lambda: GaussianKernel(torch.ones(3)), r"one number; got a tensor of shape \(3,\)"),
    ],
)
def test_settings_outside_their_range_are_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"\(n, d\) and \(m, d\); got \(2, 3\) and \(2, 4\)"):
        GaussianKernel(1.0)(torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(ShapeError, match=r"equal \(n, d\); got \(2, 3\) and \(3, 3\)"):
        GaussianKernel(1.0).pairs(torch.ones(2, 3), torch.ones(3, 3))
    with pytest.raises(ShapeError, match="needs an even width; got 3"):
        concatenated(GaussianKernel(1.0), LaplacianKernel(1.0))(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(TypeError):
        GaussianKernel(1.0) + 3


def test_unit_rows_have_the_gradients_of_autograd_once_and_twice():
    rows = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for size in (1.0, 1e-20):
        assert torch.autograd.gradcheck(lambda z, s=size: unit_rows(z * s), rows.clone().requires_grad_())
        assert torch.autograd.gradgradcheck(lambda z, s=size: unit_rows(z * s), rows.clone().requires_grad_())
    norm = rows.norm(dim=1, keepdim=True)
    torch.testing.assert_close(unit_rows(rows, norm), unit_rows(rows), rtol=0, atol=1e-15)
    assert torch.equal(unit_rows(torch.zeros(2, 3)), torch.zeros(2, 3))


def test_distances_among_rows_have_the_gradients_of_autograd_once_and_twice():
    rows = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    one_each = Edges(torch.arange(6), torch.arange(6).roll(3), torch.ones(6), is_one_each=True)
    several = Edges(torch.tensor([0, 0, 4]), torch.tensor([1, 5, 2]), torch.ones(3))
    for own in (one_each, several, None):
        assert torch.autograd.gradcheck(lambda z, own=own: Geometry(z, z, exact=own).squared_distance, rows)
    assert torch.autograd.gradcheck(lambda z: Geometry(z, z.flip(0), paired=True).squared_distance, rows)
    two_sides = (lambda a, y: Geometry(a, y).squared_distance, (rows, rows.detach()[:4].sin().requires_grad_()))
    assert torch.autograd.gradcheck(*two_sides)
    assert torch.autograd.gradgradcheck(*two_sides)
    assert torch.autograd.gradgradcheck(lambda z: Geometry(z, z, exact=one_each).squared_distance, rows)
    plain = Geometry(rows, rows.clone()).squared_distance
    torch.testing.assert_close(Geometry(rows, rows).squared_distance, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_distance_of_listed_pairs_has_no_rounding(dtype):
    z = torch.randn(4, 8, dtype=dtype, generator=torch.Generator().manual_seed(2)).repeat(2, 1)
    z[4:] += 1e-4 * torch.randn(4, 8, dtype=dtype, generator=torch.Generator().manual_seed(3))
    listed = Edges(torch.arange(8), torch.arange(8).roll(4), torch.ones(8), is_one_each=True)
    squared = Geometry(z, z, exact=listed).squared_distance
    for i in range(8):
        difference = z[i].double() - z[(i + 4) % 8].double()
        assert squared[i, (i + 4) % 8].item() == pytest.approx(difference.square().sum().item(), rel=1e-6)


def test_a_matrix_with_its_transpose_is_a_new_one():
    matrix = torch.randn(5, 5, generator=torch.Generator().manual_seed(4))
    for given in (matrix, matrix.T):
        before = given.clone()
        expected = torch.stack([torch.stack([before[i, j] + before[j, i] for j in range(5)]) for i in range(5)])
        assert torch.equal(with_transpose(given), expected)
        assert torch.equal(given, before)
