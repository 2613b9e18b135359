"""Minibatch probes: what the stacked heads learn, and that each learns as if alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigenview.data import ArraySource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import PROBES, Measuring, Subject, Task, extract
from eigenview.evaluation.probe import FeatureRows, ViewRows, train_probe, view_probe_scores
from eigenview.evaluation.protocols import ProbeProtocol
from eigenview.nn import build_encoder
from eigenview.views import CentreView
from tests.processes import run_processes

VIEW = CentreView(8, 8, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
SHORT = ProbeProtocol(0.5, batch_size=64, epochs=5)


def digit_rows() -> tuple[FeatureRows, Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    features, numbers = torch.from_numpy(images).float() / 16, torch.from_numpy(labels)
    return FeatureRows(features[:1200], numbers[:1200]), features[1200:], numbers[1200:]


def digit_source() -> ArraySource:
    images, labels = load_digits(return_X_y=True)
    grey = (images.reshape(-1, 8, 8, 1) * 15).astype(np.uint8)
    return ArraySource(np.repeat(grey[:300], 3, axis=3), labels=labels[:300], layout="nhwc")


def test_a_head_learns_as_a_plain_loop_of_torch_sgd():
    rows, _, _ = digit_rows()
    protocol = ProbeProtocol(
        0.3, batch_size=100, epochs=3, schedule="step", milestones=(2,), factor=0.2, weight_decay=1e-3
    )
    probe = train_probe(protocol, rows, seed=7).classifier
    head = nn.Linear(64, 10)
    nn.init.normal_(head.weight, std=0.01, generator=torch.Generator().manual_seed(7))
    nn.init.zeros_(head.bias)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-3)
    for epoch in range(3):
        optimizer.param_groups[0]["lr"] = 0.3 if epoch < 2 else 0.3 * 0.2
        for index in torch.from_numpy(np.random.default_rng([7, epoch]).permutation(1200)).split(100):
            optimizer.zero_grad()
            cross_entropy(head(rows.features[index]), rows.labels[index]).backward()
            optimizer.step()
    assert torch.allclose(probe.weight, head.weight, atol=1e-5)
    assert torch.allclose(probe.bias, head.bias, atol=1e-5)


@pytest.mark.parametrize("name", sorted(PROBES))
def test_heads_trained_together_learn_as_if_alone(name):
    from eigenview.evaluation.probe import _trained

    rows, _, _ = digit_rows()
    protocol = replace(PROBES[name], epochs=2, milestones=(1,) if PROBES[name].milestones else ())
    together = _trained(protocol, rows, (0.1, 1.0, 3.0), 10, 0, False)
    for multiplier, head in zip((0.1, 1.0, 3.0), together, strict=True):
        alone = _trained(protocol, rows, (multiplier,), 10, 0, False)[0]
        assert torch.allclose(head.weight, alone.weight, rtol=1e-3, atol=1e-3)


def test_digits_are_learnt_and_a_hopeless_rate_is_not_chosen():
    rows, features, labels = digit_rows()
    probe = train_probe(SHORT, rows, multipliers=(1e-6, 1.0))
    assert probe.multiplier == 1.0
    assert probe.held_out_accuracy[1.0] > probe.held_out_accuracy[1e-6]
    assert (probe.classifier.predict(features) == labels).double().mean() > 0.85


def test_views_change_from_epoch_to_epoch_and_the_encoder_does_not():
    torch.manual_seed(0)
    encoder = build_encoder("small", width=0.25).train()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    rows = ViewRows(encoder, digit_source(), view=VIEW, protocol=PROBES.find("moco"))
    first, again, second = (torch.cat([batch for batch, _ in rows.batches(epoch, 64, 0)]) for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first.sort(dim=0).values, second.sort(dim=0).values)
    protocol = replace(PROBES.find("moco"), epochs=2, milestones=(1,), learning_rate=1.0)
    probe = train_probe(protocol, rows, multipliers=(0.1, 1.0))
    assert probe.classifier.weight.shape == (10, encoder.feature_width)
    assert encoder.training
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())


def probed_by_this_rank(rank, group):
    torch.manual_seed(0)
    encoder = build_encoder("small", width=0.25)
    protocol = replace(PROBES.find("moco"), epochs=2, milestones=(1,), batch_size=23)  # a rest of 1 for 2 processes
    rows = ViewRows(encoder, digit_source(), view=VIEW, protocol=protocol, group=group)
    probe = train_probe(protocol, rows, multipliers=(0.01, 0.1), shows_progress=False)
    return probe.classifier.weight, probe.multiplier


def test_two_processes_train_a_probe_as_one():
    weight, multiplier = probed_by_this_rank(0, None)
    for measured, chosen in run_processes(2, probed_by_this_rank):
        assert chosen == multiplier
        assert np.allclose(measured, weight.numpy(), rtol=1e-3, atol=1e-4)


def test_a_view_probes_score_is_that_of_its_head_on_the_papers_test_view():
    torch.manual_seed(0)
    encoder, source = build_encoder("small", width=0.25), digit_source()
    subject, task = Subject("run", encoder, VIEW), Task(source, source, "digits")
    score = next(view_probe_scores(subject, task, Measuring(), protocol="random-walk", epochs=5))
    protocol = PROBES.find("random-walk").shortened(5)
    assert (protocol.epochs, protocol.milestones) == (5, (3, 4))
    seen = CentreView(9, 8, VIEW.mean, VIEW.std)
    head = train_probe(protocol, ViewRows(encoder, source, view=VIEW, protocol=protocol)).classifier
    right = head.predict(extract(encoder, source, view=seen)["pooled"]) == torch.from_numpy(np.asarray(source.labels))
    assert score.items == tuple(right.double().tolist())
    assert (score.name, score.data_name) == ("view probe random-walk", "digits")
    assert score.protocol["epochs"] == 5
    assert score.protocol["multipliers"] == [1.0]


def test_every_paper_resizes_test_images_as_it_says():
    sizes = {"moco": 224, "spectral": 32, "swav": 224, "simsiam": 224, "random-walk": 32, "wang-isola": 64}
    resized = {
        name: PROBES.find(name).test_view(CentreView(size, size)).resize
        for name, size in {**sizes, "kernel-infonce": 32, "simclr-cifar": 32}.items()
    }
    assert resized == {
        **{"moco": 256, "spectral": 40, "swav": 256, "simsiam": 256, "random-walk": 36, "wang-isola": 70},
        **{"kernel-infonce": 35, "simclr-cifar": 32},
    }


def test_bad_input_is_refused_with_its_reason():
    rows, _, _ = digit_rows()
    with pytest.raises(SettingError, match="did you mean moco"):
        PROBES.find("mocco")
    with pytest.raises(SettingError, match="multipliers of the learning rate must be positive"):
        train_probe(SHORT, rows, multipliers=())
    with pytest.raises(DataError, match="one class only"):
        train_probe(SHORT, FeatureRows(rows.features, torch.zeros_like(rows.labels)))
    bare = ArraySource(np.zeros((4, 8, 8, 3), np.uint8), layout="nhwc")
    with pytest.raises(DataError, match="these images have no labels"):
        ViewRows(build_encoder("small"), bare, view=VIEW, protocol=SHORT)
