"""Methods on a frozen encoder: the first loss by hand, chance on constant embeddings, refusals."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from eigenview import losses
from eigenview.errors import DataError, SettingError
from eigenview.graph.kernels import GaussianKernel, LaplacianKernel
from eigenview.graph.transport import sinkhorn
from eigenview.methods import METHODS, MethodContext, ViewedBatch, find_method
from eigenview.methods.captions import drawn_captions
from eigenview.methods.pairwise import KernelSettings, chosen_kernel
from eigenview.nn import Tokenizer, wrap

ITEMS, CLASSES, WIDTH = 6, 3, 12
SMALL = {
    "swav": {"prototypes": 5},
    "deepcluster-v2": {"prototypes": (4, 5)},
    "sela-v2": {"prototypes": (4, 5)},
    "moco": {"queue": 7, "splits": 1},
    "clip": {"text": {"width": 8, "depth": 1}},
    "siglip": {"text": {"width": 8, "depth": 1}},
}
CAPTIONS = tuple((f"a {colour} ball", f"the {colour} one") for colour in "red green blue white black grey".split())
TOKENS = Tokenizer.trained([text for texts in CAPTIONS for text in texts], vocabulary=300).reading(8)


class Constant(nn.Module):
    def forward(self, images):
        return torch.linspace(1, 2, WIDTH).expand(len(images), WIDTH) + 0 * images.flatten(1)[:, :1]


def build(name, *, views=(2,), constant=False, classes=CLASSES, items=ITEMS, **options):
    torch.manual_seed(0)
    module = Constant() if constant else nn.Sequential(nn.Flatten(), nn.LazyLinear(WIDTH))
    if not constant:
        module(torch.zeros(1, 3, 4, 4))
    encoder = wrap(module, feature_width=WIDTH, image_size=4)
    kind = find_method(name)
    settings = kind.settings_type(**{"head": "identity", **SMALL.get(name, {}), **options})
    return kind(encoder, settings, MethodContext(items, classes, views, steps_per_epoch=10, tokenizer=TOKENS))


def batch_of(views=(2,), sizes=(4, 4), step=0):
    generator = torch.Generator().manual_seed(1)
    groups = tuple(torch.randn(n * ITEMS, 3, s, s, generator=generator) for n, s in zip(views, sizes, strict=False))
    label = torch.arange(ITEMS) % CLASSES
    return ViewedBatch(groups, ITEMS, torch.arange(ITEMS), label, 0, step, CAPTIONS)


def embeddings(method, batch):
    return torch.split(method.encoder(batch.groups[0]), ITEMS)


def first_loss(name, method, batch):
    """The loss by its formula, from the frozen encoder's embeddings."""
    a, b = embeddings(method, batch)
    if name == "moco":
        return losses.momentum_contrast(a, b, method.queue.rows.clone(), temperature=0.2)
    if name == "swav":
        scores = [normalize(z) @ method.prototypes.weight().T for z in (a, b)]
        return losses.swapped_assignment(scores, [sinkhorn(score.detach()) for score in scores])
    if name in ("deepcluster-v2", "sela-v2"):
        measured = []
        for head in range(2):
            scores = [normalize(z) @ normalize(method.prototypes.weight(head)).T for z in (a, b)]
            measured.append(losses.cluster_assignment(scores, method.assignment[head]))
        return sum(measured) / 2
    if name in ("clip", "siglip"):
        chosen = drawn_captions(batch, (1.0,), seed=0)
        text, ids = method.text_head(method.text(TOKENS(chosen))), torch.arange(ITEMS)
        loss = {"clip": losses.clip_loss, "siglip": losses.siglip_loss}[name]
        return loss(torch.cat([a, b]), text, image_ids=ids.repeat(2), text_ids=ids)
    if name == "simsiam":
        p_a, p_b = torch.split(method.predictor(torch.cat([a, b])), ITEMS)  # batch statistics over both views
        return losses.simsiam_loss(p_a, p_b, a, b)
    return {
        "simclr": lambda: losses.info_nce(a, b, temperature=0.5),
        "kernel-infonce": lambda: losses.kernel_info_nce_loss(a, b, kernel=GaussianKernel(0.1) + LaplacianKernel(0.2)),
        "random-walk": lambda: losses.random_walk_laplacian(a, b),
        "spectral": lambda: losses.spectral_contrastive(a, b),
        "align-uniform": lambda: losses.align_uniform_loss(a, b),
        "laplacian-eigenmaps": lambda: losses.laplacian_eigenmaps_loss(a, b, decorrelation_weight=WIDTH) / WIDTH,
        "supcon": lambda: losses.supervised_contrastive(a, b, labels=batch.label),
        "supervised": lambda: sum(nn.functional.cross_entropy(method.classifier(z), batch.label) for z in (a, b)) / 2,
    }[name]()


@pytest.mark.parametrize("name", METHODS)
def test_the_first_loss_is_the_formula(name):
    method, batch = build(name), batch_of()
    method.train()
    method.start_epoch(0, lambda: iter([batch]))
    expected = first_loss(name, method, batch)
    output = method(batch)
    torch.testing.assert_close(output.loss, expected, rtol=1e-6, atol=1e-6)
    assert output.embeddings.shape[1] == ITEMS
    assert not output.embeddings.requires_grad


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].has_chance_level])
def test_constant_embeddings_give_the_declared_chance_level(name):
    method, batch = build(name, constant=True), batch_of()
    with torch.no_grad():
        if name == "moco":
            method.queue.rows.copy_(normalize(torch.linspace(1, 2, WIDTH)[None]).expand(7, -1))
        if hasattr(method, "prototypes"):
            for head in method.prototypes.heads:
                head.weight.copy_(head.weight[:1].expand_as(head.weight))
        if name in ("clip", "siglip"):
            method.text.norm.weight.zero_()
            method.text.norm.bias.fill_(1)
            method.text_head[0].weight.copy_(torch.linspace(1, 2, WIDTH)[:, None].expand(-1, 8))
        if name == "supervised":
            method.classifier.weight.zero_()
            method.classifier.bias.zero_()
    if hasattr(method, "assignment"):
        method.assignment.zero_()
    level = method.chance_level(ITEMS)
    assert float(method(batch).loss.detach()) == pytest.approx(level, abs=1e-5 * max(1, abs(level)))


def test_known_chance_levels():
    assert build("simclr").chance_level(256) == math.log(511)
    assert build("moco").chance_level(256) == math.log(8)
    assert build("swav").chance_level(256) == math.log(5)
    assert build("simsiam").chance_level(256) is None


@pytest.mark.parametrize("name", [name for name in METHODS if name != "moco"])
def test_many_crops_of_two_sizes_reach_every_method(name):
    views = (2, 3)
    torch.manual_seed(0)
    encoder = wrap(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, WIDTH)), feature_width=WIDTH)
    kind = find_method(name)
    settings = kind.settings_type(**{"head": "identity", **SMALL.get(name, {})})
    method = kind(encoder, settings, MethodContext(ITEMS, CLASSES, views, steps_per_epoch=10, tokenizer=TOKENS))
    batch = batch_of(views, (8, 4))
    method.start_epoch(0, lambda: iter([batch]))
    small = batch.groups[1].requires_grad_()
    output = method(batch)
    output.loss.backward()
    assert output.loss.isfinite()
    assert len(output.embeddings) == 2
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
    assert (small.grad.flatten(1).norm(dim=1) > 0).all()  # each of them pulls


VARIANTS = {
    "simclr": [
        {"positive_in_denominator": False},
        {"negatives": 4},
        {"negatives": 3, "positive_in_denominator": False},
    ],
    "random-walk": [{"kernel": "Laplacian(0.5)"}, {"kernel": "Gaussian(1)", "form": "squared", "reduction": "mean"}],
    "spectral": [{"ball": False}],
    "swav": [{"form": "summed"}],
    "moco": [
        {"kernel": "Laplacian(0.5)", "denominator": "queue"},
        {"objective": "align-uniform", "within_batch": False},
    ],
}


def variant_loss(name, options, method, batch):
    """By the loss of the same settings; of drawn negatives, with loops."""
    a, b = embeddings(method, batch)
    if "negatives" in options:
        drawn = torch.randint(ITEMS - 1, (ITEMS, options["negatives"]), generator=method.generator(batch.step))
        rows = []
        for item in range(ITEMS):
            others = [other for other in range(ITEMS) if other != item]
            rows.append(torch.stack([b[others[number]] for number in drawn[item]]))
        kept = {name: value for name, value in options.items() if name != "negatives"}
        return losses.info_nce(a, b, temperature=0.5, negatives=torch.stack(rows), **kept)
    kernels = {"Laplacian(0.5)": LaplacianKernel(0.5), "Gaussian(1)": GaussianKernel(1.0)}
    given = {name: kernels[value] if name == "kernel" else value for name, value in options.items()}
    if name == "swav":
        scores = [normalize(z) @ method.prototypes.weight().T for z in (a, b)]
        return losses.swapped_assignment(scores, [sinkhorn(score.detach()) for score in scores], **given)
    if name == "moco":
        is_contrast = given.pop("objective", "contrast") == "contrast"
        loss = losses.momentum_contrast if is_contrast else losses.momentum_align_uniform
        return loss(a, b, method.queue.rows.clone(), **given)
    return {
        "simclr": lambda: losses.info_nce(a, b, temperature=0.5, **given),
        "random-walk": lambda: losses.random_walk_laplacian(a, b, **given),
        "spectral": lambda: losses.spectral_contrastive(a, b, **given),
    }[name]()


@pytest.mark.parametrize(("name", "options"), [(name, options) for name in VARIANTS for options in VARIANTS[name]])
def test_settings_of_a_loss_are_settings_of_its_method(name, options):
    method, batch = build(name, **options), batch_of(step=3)
    expected = variant_loss(name, options, method, batch)
    torch.testing.assert_close(method(batch).loss, expected, rtol=1e-6, atol=1e-6)
    plain = build(name)(batch).loss
    assert abs(float(plain.detach() - expected.detach())) > 1e-4
    if name in ("simclr", "random-walk"):
        level = build(name, constant=True, **options)
        assert float(level(batch).loss.detach()) == pytest.approx(level.chance_level(ITEMS), abs=1e-5)


def test_chance_levels_of_such_settings():
    assert build("spectral", ball=False).chance_level(ITEMS) is None
    assert build("swav", form="summed", views=(2, 3)).chance_level(ITEMS) == pytest.approx(8 * math.log(5))
    assert build("simclr", negatives=9).chance_level(256) == math.log(10)


def test_negatives_are_drawn_anew_in_every_step_and_alike_after_a_resume():
    method = build("simclr", negatives=2)
    first, again, next_step = (float(method(batch_of(step=step)).loss.detach()) for step in (3, 3, 4))
    assert first == again
    assert first != next_step
    with pytest.raises(SettingError, match="drawn negatives go with two views of each image; got 5"):
        build("simclr", negatives=2, views=(2, 3))


@pytest.mark.parametrize("name", ["moco", "random-walk", "kernel-infonce"])
def test_what_a_kernel_learns_is_trained_with_the_method(name):
    method = build(name, kernel="Gaussian(learnable(0.5))")
    method(batch_of()).loss.backward()
    assert method.get_parameter("objective.settings.0").grad.abs() > 0


def test_moco_moves_its_key_and_queue_after_the_loss_only():
    method, batch = build("moco", momentum=0.5), batch_of()
    method.train()
    queue, weight = method.queue.rows.clone(), method.key.copy.encoder.module[1].weight.clone()
    with torch.no_grad():
        method.encoder.module[1].weight.add_(1.0)
    method(batch)
    torch.testing.assert_close(method.key.copy.encoder.module[1].weight, weight + 0.5)
    keys = normalize(method.key.copy(torch.split(batch.groups[0], ITEMS)[1]), dim=1)
    torch.testing.assert_close(method.queue.rows[:ITEMS], keys)
    torch.testing.assert_close(method.queue.rows[ITEMS:], queue[ITEMS:])


def test_symmetric_moco_is_the_mean_of_both_directions():
    single, both = build("moco"), build("moco", symmetric=True)
    batch = batch_of()
    a, b = (normalize(z) for z in embeddings(single, batch))
    rows = both.queue.rows.clone()
    expected = (losses.momentum_contrast(a, b, rows) + losses.momentum_contrast(b, a, rows)) / 2
    torch.testing.assert_close(both(batch).loss, expected)


def test_swav_prototypes_stay_put_while_frozen():
    method, batch = build("swav", frozen_steps=2), batch_of()
    for step in range(3):
        method(batch).loss.backward()
        method.before_update(step)
        assert (method.prototypes.weight().grad is None) == (step < 2)


def test_swav_without_sinkhorn_takes_its_codes_by_softmax():
    method, batch = build("swav", sinkhorn_iterations=0, epsilon=0.5), batch_of()
    scores = [normalize(z) @ method.prototypes.weight().T for z in embeddings(method, batch)]
    codes = [(score.detach() / 0.5).softmax(dim=1) for score in scores]
    torch.testing.assert_close(method(batch).loss, losses.swapped_assignment(scores, codes))


def test_swav_uses_the_queue_once_it_is_full():
    method, batch = build("swav", queue=2 * ITEMS, queue_from_epoch=0), batch_of()
    method.train()
    plain = build("swav")
    for _ in range(2):
        torch.testing.assert_close(method(batch).loss, plain(batch).loss)
    assert method.queue.is_full
    scores = torch.split(method.prototypes(normalize(method.encoder(batch.groups[0])))[0], ITEMS)
    earlier = method.queue.rows[0] @ method.prototypes.weight().T
    code = sinkhorn(torch.cat([earlier, scores[0]]).detach())[-ITEMS:]
    queued = [sinkhorn(torch.cat([method.queue.rows[1] @ method.prototypes.weight().T, scores[1]]).detach())[-ITEMS:]]
    torch.testing.assert_close(method(batch).loss, losses.swapped_assignment(scores, [code, *queued]))


def test_deepcluster_prototypes_are_centroids_and_never_trained():
    method, batch = build("deepcluster-v2"), batch_of()
    method.start_epoch(0, lambda: iter([batch]))
    assert method.bank.seen.all()
    assert (method.assignment >= 0).all()
    assert not any(p.requires_grad for p in method.prototypes.parameters())
    rows = normalize(embeddings(method, batch)[0])
    nearest = (rows @ method.prototypes.weight(0).T).argmax(1)
    torch.testing.assert_close(method.assignment[0], nearest)
    assert any(p.requires_grad for p in build("sela-v2").prototypes.parameters())


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"kernel": "gaussian", "temperature": 0.2}, "Gaussian(temperature=0.1)"),
        ({"kernel": "laplacian", "temperature": 0.2}, "Laplacian(temperature=0.2)"),
        ({"kernel": "exponential", "gamma": 0.5}, "Exponential(gamma=0.5, temperature=0.2)"),
        ({"kernel": "Cauchy(0.5) * Gaussian(1)"}, "(Cauchy(temperature=0.5) * Gaussian(temperature=1))"),
        (
            {"kernel": "simple-sum", "form": "loss-sum", "weight": 0.2, "gaussian_temperature": 0.3},
            "(0.2 * Exponential(gamma=1.0, temperature=0.2) + 0.8 * Gaussian(temperature=0.15))",
        ),
        ({"kernel": "concat-sum"}, "concat(Gaussian(temperature=0.1), Laplacian(temperature=0.2))"),
    ],
)
def test_kernels_by_name_or_text(settings, written):
    assert repr(chosen_kernel(KernelSettings(**settings))) == written


def test_what_a_method_cannot_use_is_refused():
    with pytest.raises(SettingError, match="did you mean simclr"):
        find_method("simclrr")
    with pytest.raises(SettingError, match="use an indexed source"):
        build("deepcluster-v2", items=None)
    for name in ("supcon", "supervised"):
        with pytest.raises(SettingError, match="learns from labels; this source has none"):
            build(name, classes=None)
    with pytest.raises(SettingError, match="at least 2 large views of each image; got 1"):
        build("simclr", views=(1,))
    unlabelled = batch_of()._replace(label=torch.full((ITEMS,), -1))
    with pytest.raises(DataError, match="met images without one"):
        build("supervised")(unlabelled)
