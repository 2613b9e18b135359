"""Methods of a user's own, named module:attribute, from a file outside the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from eigenview.errors import SettingError
from eigenview.losses import info_nce
from eigenview.methods import METHODS, Method, MethodContext, MethodSettings, ViewedBatch, find_method
from eigenview.methods.pairwise import PairwiseMethod
from eigenview.names import named_code
from eigenview.nn import build_encoder

CODE = """
import torch
from eigenview.losses import info_nce
from eigenview.methods import Method, MethodSettings
from eigenview.methods.pairwise import PairwiseMethod

class SharpSettings(MethodSettings):
    sharpness: float = 3.0

class Sharp(PairwiseMethod):
    settings_type = SharpSettings

    def loss(self, views, batch):
        return self.settings.sharpness * info_nce(*views, group=self.context.group)

    def chance_level(self, items):
        return 0.0

class Unfinished(Method):
    pass

def half(*views, group=None):
    return info_nce(*views, group=group) / 2

def without_group(*views):
    return info_nce(*views)

def rows(*views, group=None):
    return views[0].sum(dim=1)

class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, *views, group=None):
        return self.weight * info_nce(*views, group=group)

weighted = Weighted()
number = 3
"""
CONTEXT = MethodContext(items=8, classes=None, views=(2,), steps_per_epoch=1)


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "own_methods.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_methods", None)


def built(attribute: str, **settings: object) -> Method:
    with named_code(f"own_methods:{attribute}"):
        kind = find_method(f"own_methods:{attribute}")
    torch.manual_seed(0)
    encoder = build_encoder("small", width=0.25, channels=1).double()
    return kind(encoder, kind.settings_type(**settings), CONTEXT).double()


def batch() -> ViewedBatch:
    images = torch.randn(16, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return ViewedBatch((images,), 8, torch.arange(8), None, 0, 0)


def expected() -> torch.Tensor:
    torch.manual_seed(0)
    encoder = build_encoder("small", width=0.25, channels=1).double()
    method = METHODS["simclr"](encoder, METHODS["simclr"].settings_type(), CONTEXT).double()
    embeddings = method.head(method.features(batch()))
    return info_nce(embeddings[:8], embeddings[8:])


def test_a_method_class_is_taken_with_its_own_settings():
    method = built("Sharp", sharpness=5.0)
    torch.testing.assert_close(method.step(batch()).loss, 5 * expected())
    assert method.chance_level(8) == 0.0


def test_a_loss_is_trained_behind_the_default_head():
    method = built("half")
    assert isinstance(method, PairwiseMethod)
    assert type(method).__name__ == "half"
    assert method.settings == MethodSettings()
    torch.testing.assert_close(method.step(batch()).loss, expected() / 2)
    assert not method.has_chance_level
    assert method.chance_level(8) is None


def test_a_loss_that_is_a_module_is_trained_too_and_starts_afresh_in_every_run():
    first = built("weighted")
    with torch.no_grad():
        first.get_parameter("objective.weight").fill_(7.0)
    second = built("weighted")
    torch.testing.assert_close(second.step(batch()).loss, 2 * expected())
    second.step(batch()).loss.backward()
    torch.testing.assert_close(second.get_parameter("objective.weight").grad, expected())


def test_code_that_this_call_does_not_name_is_never_imported():
    with pytest.raises(SettingError, match="own_methods:half is code of a user's own, which runs only if"):
        find_method("own_methods:half")
    with named_code("own_methods:Sharp"), pytest.raises(SettingError, match="runs only if this very call names it"):
        find_method("own_methods:half")
    assert "own_methods" not in sys.modules


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("number", "must be a whole subclass of .*Method or a loss.*; got a int"),
        ("Unfinished", "must be a whole subclass .* got the class Unfinished"),
        ("Weighted", "got the class Weighted"),
        ("without_group", "got a function without group="),
        ("hal", "own_methods has no hal; did you mean half"),
    ],
)
def test_what_is_neither_method_nor_loss_is_refused(attribute, message):
    with pytest.raises(SettingError, match=message):
        built(attribute)


def test_a_loss_that_returns_rows_is_refused_by_name():
    with pytest.raises(SettingError, match=r"the loss own_methods:rows must return one number.*shape \(8,\)"):
        built("rows").step(batch())


def test_a_name_that_is_neither_is_answered_with_what_was_meant():
    with pytest.raises(
        SettingError,
        match=r"^'simclrr' is no method; did you mean simclr\? It must be one of .* or module:attribute of your own$",
    ):
        find_method("simclrr")
