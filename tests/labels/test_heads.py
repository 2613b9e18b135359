"""What a head knows about the vectors that it reads: whose they are, and through which view they were made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from eigenview.errors import DataError, SettingError
from eigenview.labels import read_labeller, shared_pictures, spread_labels
from eigenview.labels.label_files import numbered
from eigenview.search import Embeddings, embed, open_embeddings
from eigenview.search.makers import views_apart
from eigenview.tensors import read_sealed, save_tensors, sealed
from eigenview.views import CentreView
from tests.search.encoders import VIEW, small_encoder, write_pictures

LARGER = CentreView(20, 20)
GIVEN = {0: "fox", 1: "hen", 9: "hen"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[CentreView, Embeddings]:
    """The same pictures by the same encoder, through two views."""
    folder = tmp_path_factory.mktemp("seen")
    pictures = write_pictures(folder / "pictures", [f"{number:02d}.png" for number in range(12)])
    return {
        view: open_embeddings(embed(small_encoder(), pictures, folder / f"{view.size}.npy", view=view, workers=0).path)
        for view in (VIEW, LARGER)
    }


def test_a_head_refuses_pictures_seen_through_another_view(seen: dict[CentreView, Embeddings], tmp_path: Path):
    spread = spread_labels(seen[VIEW], numbered(GIVEN, 12))
    labeller = read_labeller(spread.labeller.save(tmp_path / "head.safetensors"))
    assert torch.allclose(labeller.predict(seen[VIEW]).probabilities.sum(dim=1), torch.ones(12), atol=1e-5)
    with pytest.raises(DataError, match=r"seen at resize=16, size=16; .*20\.npy was made at resize=20, size=20: "):
        labeller.predict(seen[LARGER])


def test_a_head_of_before_that_knows_no_view_still_opens(seen: dict[CentreView, Embeddings], tmp_path: Path):
    file = spread_labels(seen[VIEW], numbered(GIVEN, 12)).labeller.save(tmp_path / "head.safetensors")
    tensors, held = read_sealed(file, from_anywhere=True)
    said = json.loads(held["labels"])
    del said["view"]
    save_tensors(file, tensors, metadata=sealed(tensors, {"labels": json.dumps(said)}))
    assert len(read_labeller(file).predict(seen[LARGER]).labels) == 12


def test_two_sets_seen_through_two_views_are_not_compared(seen: dict[CentreView, Embeddings]):
    assert len(shared_pictures(seen[VIEW], seen[VIEW]).pairs) == 12
    with pytest.raises(DataError, match=r"compared through one view; .*16\.npy .* embed both alike"):
        shared_pictures(seen[VIEW], seen[LARGER])


@pytest.mark.parametrize("certain", [7, -0.1, float("nan")])
def test_what_is_no_probability_is_refused(certain: float, seen: dict[CentreView, Embeddings]):
    given = numbered(GIVEN, 12)
    with pytest.raises(SettingError, match="certain is a probability, 0 to 1"):
        spread_labels(seen[VIEW], given, certain=certain)
    with pytest.raises(SettingError, match="certain is a probability, 0 to 1"):
        spread_labels(seen[VIEW], given).labeller.predict(seen[VIEW], certain=certain)


def test_views_are_told_apart_by_what_differs():
    square = CentreView(16, 16, is_squashed=True)
    grey = CentreView(16, 16, mean=(0.5, 0.5, 0.5))
    assert views_apart(repr(VIEW), repr(square)) == ["is_squashed=False", "is_squashed=True"]
    assert views_apart(repr(grey), repr(VIEW)) == ["mean=(0.5, 0.5, 0.5)", "mean=(0.0, 0.0, 0.0)"]
    assert views_apart("of before", "of now") == ["of before", "of now"]
    assert views_apart(repr(VIEW), repr(VIEW)) == []


def test_views_that_cut_off_another_margin_are_alike():
    seen = [repr(CentreView(resize, 224, is_exact=is_exact)) for resize, is_exact in ((226, False), (256, True))]
    assert views_apart(*seen) == []
    assert views_apart(seen[0], repr(CentreView(300, 224))) == ["resize=226", "resize=300"]
