"""What is chosen, suggested and doubted, as pictures: from Python as from the verbs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenview.cli import main
from eigenview.errors import WriteError
from eigenview.faces.embeddings import Embeddings, open_embeddings
from eigenview.search import embed
from tests.labels.vectors import write_answers
from tests.search.encoders import VIEW, small_encoder, write_pictures


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embeddings:
    """Twelve pictures, of which one is a copy of another, and labels of all in said.csv."""
    monkeypatch.chdir(tmp_path)
    names = [f"{number:02d}.png" for number in range(12)]
    write_pictures(tmp_path / "pictures", names)
    shutil.copy("pictures/00.png", "pictures/11.png")
    write_answers(tmp_path / "said.csv", [(name, "ab"[number % 2]) for number, name in enumerate(names)])
    embed(small_encoder(), tmp_path / "pictures", tmp_path / "seen.npy", view=VIEW, workers=0)
    return open_embeddings("seen.npy")


def test_sheets_in_python_are_those_of_the_verbs(mine: Embeddings):
    def is_same(one: Path, other: str) -> bool:
        return np.array_equal(np.asarray(Image.open(one)), np.asarray(Image.open(other)))

    chosen = mine.choose(4).sheet("mine.png")
    assert main(["choose", "seen.npy", "-n", "4", "-o", "a.csv", "--sheet", "choose.png"]) == 0
    assert is_same(chosen, "choose.png")
    few = {0: "a", 1: "b"}
    write_answers(Path("few.csv"), [(f"{row:02d}.png", label) for row, label in few.items()])
    assert main(["spread", "seen.npy", "--labels", "few.csv", "-o", "b.csv", "--sheet", "spread.png"]) == 0
    assert is_same(mine.spread(few).sheet("suggested.png"), "spread.png")
    words = ["audit", "seen.npy", "--labels", "said.csv", "--against", "seen.npy", "-o", "c.csv"]
    assert main([*words, "--sheet", "audit.png"]) == 0
    audited = mine.audit("said.csv", against=mine)
    assert audited.copies is not None
    assert len(audited.copies.sets) == 1
    assert is_same(audited.sheet("doubted.png"), "audit.png")
    with pytest.raises(WriteError, match=r"mine\.png is there already"):
        mine.choose(4).sheet("mine.png")
    mine.choose(3).sheet("mine.png", overwrite=True)
