"""Bad input to the named objectives: one line that names the rule and what arrived."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch

from eigenview import losses
from eigenview.errors import DataError, EigenviewError, SettingError, ShapeError
from eigenview.graph.kernels import CosineKernel, GaussianKernel, LaplacianKernel
from eigenview.graph.scalars import learnable

A, B = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
NAN = A.clone()
NAN[2, 1] = torch.nan
ZERO = A.clone()
ZERO[3] = 0
TWO_VIEWS = {
    "info_nce": losses.info_nce,
    "kernel_info_nce_loss": lambda *views: losses.kernel_info_nce_loss(*views, kernel=LaplacianKernel(0.1)),
    "loss-sum": lambda *views: losses.kernel_info_nce_loss(
        *views, kernel=losses.concatenation_sum_of_authors(), form="loss-sum"
    ),
    "random_walk_laplacian": losses.random_walk_laplacian,
    "spectral_contrastive": losses.spectral_contrastive,
    "alignment": losses.alignment,
    "align_uniform": losses.align_uniform_loss,
    "laplacian_eigenmaps": losses.laplacian_eigenmaps_loss,
    "momentum_contrast": lambda a, b: losses.momentum_contrast(a, b, A),
    "momentum_align_uniform": lambda a, b: losses.momentum_align_uniform(a, b, A),
    "clip": losses.clip_loss,
    "siglip": losses.siglip_loss,
    "sim_siam": lambda a, b: losses.simsiam_loss(a, b, a, b),
    "supervised_contrastive": lambda *views: losses.supervised_contrastive(*views, labels=torch.arange(4) % 2),
}
ON_THE_SPHERE = sorted(set(TWO_VIEWS) - {"spectral_contrastive", "laplacian_eigenmaps"})


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_unequal_shapes(name):
    with pytest.raises(ShapeError, match=r"\(4, 6\).*\(3, 6\)"):
        TWO_VIEWS[name](A, B[:3])


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_nan_rows_are_named(name):
    with pytest.raises(DataError, match="finite; NaN or Inf in 1 of"):
        TWO_VIEWS[name](NAN, B)


@pytest.mark.parametrize("name", ON_THE_SPHERE)
def test_zero_vectors_are_named(name):
    with pytest.raises(DataError, match="non-zero to be put on the sphere; zero in 1 of"):
        TWO_VIEWS[name](ZERO, B)


@pytest.mark.parametrize("name", TWO_VIEWS)
def test_integers_are_refused(name):
    with pytest.raises(ShapeError, match=r"floating point; got torch\.int64|one dtype"):
        TWO_VIEWS[name](A.long(), B.long())


@pytest.mark.parametrize("name", TWO_VIEWS)
@pytest.mark.parametrize(
    "rows", [torch.ones(4, 6), torch.eye(4, 6), 1e-20 * torch.ones(4, 6)], ids=["same", "apart", "tiny"]
)
def test_collapsed_and_orthogonal_embeddings_give_finite_gradients(name, rows):
    a, b = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    loss = TWO_VIEWS[name](a, b)
    gradients = torch.autograd.grad(loss, (a, b), allow_unused=True)
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 100.0])
def test_every_temperature_is_finite(temperature):
    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    for loss in (
        losses.info_nce(a, b, temperature=temperature),
        losses.kernel_info_nce_loss(a, b, kernel=LaplacianKernel(temperature) + GaussianKernel(temperature)),
        losses.random_walk_laplacian(a, b, temperature=temperature),
        losses.random_walk_laplacian(a, b, temperature=temperature, form="squared"),
        losses.momentum_contrast(a, b, B, temperature=temperature),
        losses.clip_loss(a, b, temperature=temperature),
        losses.siglip_loss(a, b, temperature=temperature),
    ):
        (gradient,) = torch.autograd.grad(loss, a)
        assert loss.isfinite()
        assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: losses.info_nce(A), ShapeError, "at least two views of .n, d. each; got 1"),
        (
            lambda: losses.info_nce(A, B, temperature=-0.1),
            SettingError,
            "temperature must be positive and finite; got -0.1",
        ),
        (lambda: losses.info_nce(A[:1], B[:1]), ShapeError, "at least 2 items; got 1"),
        (lambda: losses.clip_loss(A[:1], B[:1]), ShapeError, "at least 2 images; got 1"),
        (lambda: losses.siglip_loss(A[:1], B[:1]), ShapeError, "at least 2 images; got 1"),
        (lambda: losses.info_nce(A, B, negatives=A[:, None], temperature=-1), SettingError, "must be positive"),
        (lambda: losses.momentum_align_uniform(A, B, A, align_weight=-1), SettingError, "weights not negative"),
        (lambda: losses.info_nce(A, B, A, negatives=A), ShapeError, "two views, an anchor and its positive; got 3"),
        (lambda: losses.info_nce(A, B, negatives=A[None]), ShapeError, r"\(n, m, d\) with n = 4; got \(1, 4, 6\)"),
        (lambda: losses.uniformity(A[:1]), ShapeError, "at least 2 embeddings; got 1"),
        (lambda: losses.uniformity(A, t=0), SettingError, "t must be positive; got 0"),
        (lambda: losses.alignment(A, B, alpha=0), SettingError, "alpha must be positive; got 0"),
        (lambda: losses.align_uniform_loss(A, B, align_weight=-1), SettingError, "weights must not be negative"),
        (lambda: losses.spectral_contrastive(A[:1], B[:1]), ShapeError, "at least 2 items; got 1"),
        (lambda: losses.spectral_contrastive(A, B, mu=0), SettingError, "mu must be positive; got 0"),
        (
            lambda: losses.laplacian_eigenmaps_loss(A, B, decorrelation_weight=-1),
            SettingError,
            "must not be negative; got -1",
        ),
        (lambda: losses.random_walk_laplacian(A, B, form="cubic"), SettingError, "absolute .the paper. or squared"),
        (
            lambda: losses.kernel_info_nce_loss(A, B, kernel=GaussianKernel(1.0), form="loss-sum"),
            SettingError,
            "needs a sum of kernels",
        ),
        (
            lambda: losses.kernel_info_nce_loss(A, B, kernel=GaussianKernel(1.0), form="sum"),
            SettingError,
            "kernel-sum or loss-sum",
        ),
        (lambda: losses.simple_sum_of_authors(weight=1.0), SettingError, "a weight between 0 and 1; got 1"),
        (
            lambda: losses.momentum_contrast(A, B, A[:0]),
            ShapeError,
            r"extra candidates must not be empty; got shape \(0, 6\)",
        ),
        (lambda: losses.momentum_contrast(A, B, A[:, :3]), ShapeError, "one width d"),
        (lambda: losses.momentum_contrast(A, B, A, denominator="all"), SettingError, "key_and_queue or queue"),
        (
            lambda: losses.supervised_contrastive(A, labels=torch.arange(3)),
            ShapeError,
            r"\(4,\), one per item; got shape \(3,\)",
        ),
        (lambda: losses.supervised_contrastive(A, labels=torch.arange(4)), DataError, "no anchor has any"),
        (lambda: losses.supervised_contrastive(A, labels=torch.ones(4)), ShapeError, "labels must be integers"),
        (lambda: losses.clip_loss(A, B, image_ids=torch.arange(4)), ShapeError, "come together"),
        (
            lambda: losses.clip_loss(A, B, image_ids=torch.arange(3), text_ids=torch.arange(4)),
            ShapeError,
            "3 ids for 4 anchors",
        ),
        (lambda: losses.swapped_assignment([A], [A]), ShapeError, "got 1 codes, 1 crops"),
        (lambda: losses.swapped_assignment([A, B], [A, B]), DataError, "rows that sum to 1; codes 0 have"),
        (lambda: losses.swapped_assignment([A, B], [A.softmax(1)], form="max"), SettingError, "averaged or summed"),
        (lambda: losses.swapped_assignment([A, B], [A[:3].softmax(1)]), ShapeError, r"codes 0 \(3, 6\)"),
        (
            lambda: losses.swapped_assignment([A, B], [A.softmax(1)], temperature=0),
            SettingError,
            "temperature must be positive",
        ),
        (
            lambda: losses.cluster_assignment([A], torch.tensor([0, 1, 9, 2])),
            DataError,
            r"\[0, 6\) or be -100; got 0 to 9",
        ),
        (lambda: losses.cluster_assignment([A], torch.arange(3)), ShapeError, r"one integer per item, \(4,\)"),
        (lambda: losses.cluster_assignment([], torch.arange(3)), ShapeError, "at least one crop; got none"),
    ],
)
def test_wrong_settings_and_sizes(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, EigenviewError)
    assert "\n" not in str(caught.value)


def test_the_value_check_can_be_turned_off():
    assert losses.info_nce(NAN, B, check_values=False).isnan()


def test_every_module_with_a_kernel_trains_it():
    for module in (
        losses.RandomWalkLaplacian(kernel=GaussianKernel(learnable(0.3))),
        losses.MomentumContrast(kernel=GaussianKernel(learnable(0.3))),
    ):
        views = (A, B, A) if isinstance(module, losses.MomentumContrast) else (A, B)
        module(*views).backward()
        (parameter,) = module.parameters()
        assert parameter.grad != 0


def test_half_precision_queries_meet_full_precision_queues():
    query, key = A.bfloat16(), B.bfloat16()
    for loss in (losses.momentum_contrast(query, key, A), losses.momentum_align_uniform(query, key, A)):
        assert loss.dtype == torch.float32


def test_autocast_does_not_reach_inside_any_loss():
    for name, loss in TWO_VIEWS.items():
        plain = loss(A, B)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert loss(A, B).item() == plain.item(), name


MODULES = [kind for kind in vars(losses).values() if isinstance(kind, type) and issubclass(kind, torch.nn.Module)]


@pytest.mark.parametrize("kind", MODULES, ids=lambda kind: kind.__name__)
def test_a_module_has_its_functions_settings(kind):
    own, of_function = inspect.signature(kind).parameters, inspect.signature(kind.function).parameters
    given = {name for name, setting in of_function.items() if setting.default in (inspect.Parameter.empty, None)}
    assert set(own) >= set(of_function) - given - {"check_values"}  # what is left is given with each call
    defaults = {name: setting.default for name, setting in own.items() if name != "kernel"}
    assert defaults == {name: of_function[name].default for name in defaults}


def test_a_temperature_that_is_learned_is_a_modules_parameter():
    module = losses.InfoNCE(temperature=learnable(0.3))
    module(A, B).backward()
    assert module.state_dict() == {"temperature": torch.tensor(0.3)}
    assert module.get_parameter("temperature").grad != 0
    assert repr(module) == "InfoNCE(temperature=0.30000001192092896, positive_in_denominator=True, normalize=True)"
    copied = copy.deepcopy(module)
    assert copied(A, B).item() == module(A, B).item()
    assert copied.temperature is not module.temperature


def test_modules_hold_what_they_learn():
    kernel = GaussianKernel(learnable(0.3)) + CosineKernel(learnable(0.2))
    module = losses.KernelInfoNCELoss(kernel)
    assert len(list(module.parameters())) == 2
    module(A, B).backward()
    assert all(parameter.grad is not None and parameter.grad != 0 for parameter in module.parameters())
    twin = copy.deepcopy(module)
    assert twin(A, B).item() == module(A, B).item()
    assert twin.kernel.tensors()[0] is not kernel.tensors()[0]
    module = losses.CLIPLoss()
    module(A, B).backward()
    with torch.no_grad():
        module.log_scale.fill_(9.0)
    module.clamp()
    assert module.log_scale.item() == pytest.approx(4.6052, abs=1e-4)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch.compile's own
def test_a_compiled_model_may_call_a_loss():
    head = torch.nn.Linear(6, 3)
    compiled = torch.compile(lambda a, b: losses.info_nce(head(a), head(b)), backend="eager")
    torch.testing.assert_close(compiled(A, B), losses.info_nce(head(A), head(B)))
