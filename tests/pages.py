"""The code of README.md and docs/*.md, and small stand-ins for what it speaks of: photographs, tables, runs."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from tests.training.runs import run_quietly, settings

ROOT = Path(__file__).parent.parent
PAGES = {str(file.relative_to(ROOT)): file for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
NOT_RUN = r"<!--\s*not run:?\s*(?P<reason>[^>]*?)\s*-->\s*\n"
FENCE = re.compile(rf"({NOT_RUN})?^```(?P<kind>\w*)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)

# What every page may take as given; a page that needs more says so in PREAMBLES.
COMMON = """
import torch
torch.manual_seed(0)
z_a, z_b = (torch.randn(64, 16, requires_grad=True) for _ in range(2))
a, b, labels = z_a, z_b, torch.arange(64) % 4
images, indices = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8), torch.arange(64)
from eigenview.nn import build_encoder
encoder = build_encoder("small", width=0.25)
"""
PREAMBLES = {
    "docs/evaluation.md": """
from eigenview.evaluation import evaluate_run, open_task
from eigenview.runs import open_run
task = open_task("cifar10/train.parquet", "cifar10/test.parquet")
list(evaluate_run(open_run("runs/methods/moco-0"), [task], protocols=["knn"]))
""",
    "docs/diagnostics.md": """
from eigenview.views import preset, CentreView
recipe, view = preset("simclr-cifar"), CentreView(32, 32)
""",
}
# Lengths and sizes that would take minutes, made short. Each must occur in its page.
SHORTENED = {
    "README.md": {"minutes=10": 'steps=4, encoder={"name": "small", "width": 0.25}'},
    "docs/words.md": {"minutes=10": 'steps=2, encoder={"name": "small", "width": 0.25}, workers=0'},
    "docs/guide-research.md": {"minutes=10": 'steps=2, encoder={"name": "small", "width": 0.25}, workers=0'},
    "docs/training.md": {'"epochs": 100': '"steps": 2', '"resnet18", "width": 0.5': '"resnet18", "width": 0.125'},
    "docs/recipes.md": {'.config(out="runs/digits")': '.config(out="runs/digits").model_copy(update={"epochs": 1})'},
}


@dataclass(frozen=True)
class Block:
    """A fenced block: ``line`` is where its text begins, ``reason`` why it is not run, None where it is."""

    page: str
    line: int
    kind: str
    text: str
    reason: str | None


def blocks(page: str) -> list[Block]:
    text = PAGES[page].read_text(encoding="utf-8")
    return [
        Block(page, text[: match.start("text")].count("\n"), match["kind"], match["text"], match["reason"])
        for match in FENCE.finditer(text)
    ]


def commands(page: str) -> list[tuple[str, str]]:
    """Every ``eigenview …`` of the page's blocks with the line that follows it: what it is said to print."""
    lines = [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.kind in ("", "sh") and block.reason is None
        for line in [*block.text.splitlines(), ""]
    ]
    pairs = pairwise([*lines, ""])
    return [(line, after) for line, after in pairs if line.startswith("eigenview ") and "…" not in line]


def write_stand_ins(folder: Path) -> Path:
    """photos/, a few of them with labels, tables, two of them with captions, settings.json and runs of a few steps."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (260, 32, 32, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        for place in ("photos", f"labelled/class {number % 2}")[: 1 + (number < 40)]:
            (folder / place).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / place / f"{number:05d}.jpg")
    shutil.copy(folder / "photos" / "00007.jpg", folder / "new picture.jpg")
    (folder / "settings.json").write_text('{"epochs": 3}', encoding="utf-8")
    write_tables(folder / "cifar10", pixels)
    few = {"source": str(folder / "photos"), "encoder": {"name": "small", "width": 0.25}, "steps": 4}
    run_quietly(settings("simclr", folder / "runs" / "photos", **few), looks_back=True)
    labelled = {**few, "source": f"{folder / 'labelled'}?labelled=yes"}
    for method in ("simclr", "moco", "supervised"):
        run_quietly(settings(method, folder / "runs" / "methods" / f"{method}-0", **labelled))
    shutil.copytree(folder / "runs" / "photos", folder / "runs" / "simclr")
    return folder


def write_tables(folder: Path, pixels: np.ndarray) -> None:
    import io

    import pyarrow
    from pyarrow import parquet

    folder.mkdir()
    for name, chosen in {"train": pixels[:200], "test": pixels[200:]}.items():
        encoded = []
        for image in chosen:
            data = io.BytesIO()
            Image.fromarray(image).save(data, "PNG")
            encoded.append(data.getvalue())
        table = pyarrow.table({"image": encoded, "label": [number % 10 for number in range(len(chosen))]})
        parquet.write_table(table, folder / f"{name}.parquet")
        captions = [[f"number {place % 7} of {name}", "a picture"] for place in range(len(encoded[:40]))]
        captioned = "captions" if name == "train" else name
        parquet.write_table(
            pyarrow.table({"image": encoded[:40], "captions": captions}), folder.parent / f"{captioned}.parquet"
        )
