"""Parameter groups: who is decayed, adapted, scheduled."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.optim import Apart, parameter_groups


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, bias=False))
        self.encoder.append(nn.GroupNorm(2, 4))
        self.head = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
        self.head_two = nn.Linear(4, 2)
        self.log_scale = nn.Parameter(torch.zeros(()))


def members(groups, model) -> dict[str, set[str]]:
    names = {id(value): name for name, value in model.named_parameters()}
    return {group.name: {names[id(value)] for value in group.parameters} for group in groups}


FREE = {
    *("encoder.0.bias", "encoder.1.weight", "encoder.1.bias", "encoder.3.weight", "encoder.3.bias"),
    *("head.0.bias", "head.1.weight", "head.1.bias", "head.2.bias", "head_two.bias"),
}


def test_biases_and_norms_are_excluded():
    model = Model()
    groups = parameter_groups(model, learning_rate=0.1, weight_decay=0.01, exclude=("bias", "norm", "log_scale"))
    grouped = members(groups, model)
    assert grouped["main, excluded"] == FREE | {"log_scale"}
    assert grouped["main"] == {name for name, _ in model.named_parameters()} - FREE - {"log_scale"}
    assert {(group.name, group.weight_decay, group.is_adapted) for group in groups} == {
        ("main", 0.01, True),
        ("main, excluded", 0.0, False),
    }


def test_nothing_is_excluded_when_told_so():
    model = Model()
    (group,) = parameter_groups(model, learning_rate=0.1, weight_decay=0.01, exclude=())
    assert len(group.parameters) == len(list(model.parameters()))
    assert (group.weight_decay, group.is_adapted, group.is_scheduled) == (0.01, True, True)


def test_parts_have_rates_of_their_own():
    model = Model()
    apart = {"head": Apart(0.5), "head.2": Apart(0.7, is_scheduled=False)}
    groups = {group.name: group for group in parameter_groups(model, learning_rate=0.1, apart=apart)}
    grouped = members(groups.values(), model)
    assert grouped["head"] == {"head.0.weight"}
    assert grouped["head.2"] == {"head.2.weight"}  # the longest name counts
    assert grouped["head, excluded"] == {"head.0.bias", "head.1.weight", "head.1.bias"}
    assert "head_two.weight" in grouped["main"]  # head_two does not lie in head
    rates = {name: group.learning_rate for name, group in groups.items()}
    assert rates["main"] == rates["main, excluded"] == 0.1
    assert rates["head"] == rates["head, excluded"] == 0.5
    assert rates["head.2"] == 0.7
    assert [name for name, group in groups.items() if not group.is_scheduled] == ["head.2", "head.2, excluded"]


def test_every_trainable_parameter_comes_once():
    model = Model()
    model.head[0].weight.requires_grad_(False)
    model.tied = model.encoder[0]
    groups = parameter_groups(model, learning_rate=0.1)
    everything = [id(value) for group in groups for value in group.parameters]
    assert sorted(everything) == sorted(id(value) for value in model.parameters() if value.requires_grad)


def test_wrong_names_and_numbers_are_refused():
    model = Model()
    with pytest.raises(SettingError, match=r"no parameter is called 'predictor' .* has encoder, head, head_two, log_"):
        parameter_groups(model, learning_rate=0.1, apart={"predictor": Apart(0.1)})
    with pytest.raises(SettingError, match="no parameter is called 'bais'"):
        parameter_groups(model, learning_rate=0.1, exclude=("bais",))
    with pytest.raises(SettingError, match=r"write \['bias'\]"):
        parameter_groups(model, learning_rate=0.1, exclude="bias")
    with pytest.raises(SettingError, match="a learning rate must be at least 0 and finite; got nan"):
        parameter_groups(model, learning_rate=float("nan"))
    with pytest.raises(SettingError, match="weight_decay must be"):
        parameter_groups(model, learning_rate=0.1, weight_decay=-1)
    with pytest.raises(SettingError, match="at least one trainable parameter"):
        parameter_groups(model.requires_grad_(False), learning_rate=0.1)
