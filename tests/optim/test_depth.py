"""Rates that decay with depth, and blocks that do not learn."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.nn import build_encoder
from eigenview.optim import depth_rates, freeze_blocks, parameter_groups
from eigenview.optim.groups import blocks_of


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(2, 2)
        self.blocks = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        self.last = nn.Linear(2, 2)


def test_blocks_are_counted_from_the_input():
    names = [name for name, _ in Network().named_parameters()]
    assert blocks_of(names) == ["stem", "blocks.0", "blocks.1", "last"]
    assert blocks_of(["module.layer.0.a.1.weight", "module.layer.1.a.0.weight"]) == ["module.layer.0", "module.layer.1"]


def test_the_rate_falls_by_one_factor_a_block():
    encoder = Network()
    rates = depth_rates(encoder, "encoder.", top=0.1, decay=0.5)
    expected = {"encoder.last": 0.1, "encoder.blocks.1": 0.05, "encoder.blocks.0": 0.025, "encoder.stem": 0.0125}
    assert {name: apart.learning_rate for name, apart in rates.items()} == pytest.approx(expected)
    whole = nn.ModuleDict({"encoder": encoder, "head": nn.Linear(2, 2)})
    groups = parameter_groups(whole, learning_rate=1.0, apart=rates)
    measured = {id(parameter): group.learning_rate for group in groups for parameter in group.parameters}
    assert measured[id(encoder.blocks[0].weight)] == pytest.approx(0.025)
    assert measured[id(whole["head"].weight)] == 1.0


@pytest.mark.parametrize("name", ["small", "resnet18", "efficientnet-lite0", "vit-tiny"])
def test_every_parameter_of_an_encoder_has_its_block(name: str):
    encoder = build_encoder(name, image_size=32)
    groups = parameter_groups(
        nn.ModuleDict({"encoder": encoder}),
        learning_rate=9.0,
        apart=depth_rates(encoder, "encoder.", top=1.0, decay=0.9),
    )
    rates = [group.learning_rate for group in groups]
    assert max(rates) <= 1.0
    assert len(set(rates)) > 3


def test_frozen_blocks_do_not_learn():
    network = Network()
    assert freeze_blocks(network, 2) == ["stem", "blocks.0"]
    learns = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert learns == {"blocks.1.weight", "blocks.1.bias", "last.weight", "last.bias"}
    with pytest.raises(SettingError, match="frozen_blocks lies in 0 … 4 for this encoder; got 5"):
        freeze_blocks(network, 5)
    with pytest.raises(SettingError, match="a decay with depth lies in"):
        depth_rates(network, "", top=torch.pi, decay=0.0)
