"""Projection heads: layer by layer what methods give."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError, ShapeError
from eigenview.nn import HEADS, MLP, build_head, simsiam_predictor


def written(head: nn.Module) -> str:
    """A head as text: widths, + for bias; N norm, with s(cale) and b (shift)."""
    words = []
    for layer in head.modules():
        if isinstance(layer, nn.Linear):
            words.append(f"{layer.in_features}>{layer.out_features}{'+' if layer.bias is not None else ''}")
        elif isinstance(layer, nn.BatchNorm1d):
            words.append("N" + ("s" if layer.weight is not None else "") + ("b" if layer.bias is not None else ""))
        elif isinstance(layer, nn.ReLU):
            words.append("R")
    return " ".join(words)


EXPECTED = {
    "simclr-v1": (2048, "2048>2048 Nsb R 2048>128 Ns"),
    "simclr-v2": (2048, "2048>2048 Nsb R 2048>2048 Nsb R 2048>128 Ns"),
    "kernel-infonce": (2048, "2048>2048+ Nsb R 2048>128"),
    "random-walk": (512, "512>512+ R 512>512+"),
    "spectral": (512, "512>2048+ Nsb R 2048>1000+ Nsb"),
    "spectral-imagenet": (2048, "2048>8192+ Nsb R 8192>8192+ Nsb R 8192>8192+ Nsb"),
    "moco-v1": (2048, "2048>128+"),
    "moco-v2": (2048, "2048>2048+ R 2048>128+"),
    "kernel-moco": (512, "512>512+ R 512>128+"),
    "swav": (2048, "2048>2048+ Nsb R 2048>128+"),
    "simsiam": (2048, "2048>2048 Nsb R 2048>2048 Nsb R 2048>2048 N"),
    "simsiam-cifar": (512, "512>2048 Nsb R 2048>2048 N"),
    "clip": (768, "768>512"),
    "linear": (512, "512>128+"),
    "identity": (512, ""),
}


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_the_papers(name):
    features, expected = EXPECTED[name]
    with torch.device("meta"):
        head = build_head(name, features)
    assert written(head) == expected
    widths = [int(word.rstrip("+").split(">")[1]) for word in expected.split() if ">" in word]
    assert head.output_width == (widths[-1] if widths else features)


def test_the_predictor_is_simsiams():
    with torch.device("meta"):
        assert written(simsiam_predictor(2048)) == "2048>512 Nsb R 512>2048+"


def test_a_head_is_its_formula():
    torch.manual_seed(0)
    head = build_head("simclr-v1", 6, output=4).double()
    nn.init.normal_(head[4].weight)
    rows = torch.randn(5, 6, dtype=torch.float64)

    def norm(values):
        return (values - values.mean(0)) / (values.var(0, correction=0) + 1e-5).sqrt()

    expected = norm(norm(rows @ head[0].weight.T).relu() @ head[3].weight.T) * head[4].weight
    torch.testing.assert_close(head(rows), expected)
    head(rows).square().mean().backward()  # a norm without shift has a gradient all the same
    assert bool(head[4].weight.grad.abs().sum() > 0)


@pytest.mark.parametrize("name", HEADS)
def test_widths_can_be_chosen(name):
    if name == "identity":
        return
    torch.manual_seed(0)
    head = build_head(name, 6, output=5)
    assert head.output_width == 5
    out = head(torch.randn(3, 6))
    assert out.shape == (3, 5)
    assert bool((out.std(dim=0) > 0).all())


def test_clip_starts_with_the_deviation_of_its_width():
    torch.manual_seed(0)
    weight = build_head("clip", 400).get_parameter("0.weight")
    assert float(weight.detach().std()) == pytest.approx(0.05, rel=0.01)


def test_wrong_heads_are_refused():
    with pytest.raises(SettingError, match="did you mean simclr-v1"):
        build_head("simclr_v1", 8)
    with pytest.raises(SettingError, match="head 'moco-v1' has no option hidden"):
        build_head("moco-v1", 8, hidden=4)
    with pytest.raises(SettingError, match="head 'simsiam' has no option layers"):
        build_head("simsiam", 8, layers=4)
    with pytest.raises(SettingError, match="width of at least 1; got"):
        MLP(8, 0)
    with pytest.raises(SettingError, match="output_norm must be"):
        MLP(8, 4, output_norm="layer")
    with pytest.raises(ShapeError, match=r"takes features \(n, 8\); got \(2, 9\)"):
        build_head("linear", 8)(torch.randn(2, 9))
