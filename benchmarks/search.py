"""Embed CIFAR-10's 50,000 training images and search them; figures for docs/search.md.

    python benchmarks/search.py [RUN [FOLDER]]

RUN is a run directory trained on such images; without it, an untrained small encoder serves, which costs the same.
FOLDER keeps the embeddings: a second run with it then times the search alone.
Data: $EIGENVIEW_DATA/cifar10, or ../shared/data/cifar10 beside the repository; without them 50,000 drawn shapes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from PIL import Image

from eigenview.data import Source, open_source
from eigenview.nn import build_encoder
from eigenview.search import contact_sheet, duplicates, duplicates_sheet, embed, neighbours, open_embeddings
from eigenview.views import CentreView

Answer = TypeVar("Answer")


def main() -> None:
    spec, fresh = data()
    view = CentreView(32, 32)
    run = Path(sys.argv[1]) if len(sys.argv) > 1 else build_encoder("small")
    chosen = None if isinstance(run, Path) else view
    print(f"{spec}; torch {torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        picture, out = folder / "query.png", folder / "embeddings.parquet"
        Image.fromarray(fresh.image(3).pixels()).save(picture)
        made = timed("embed (or find it done)", lambda: embed(run, spec, out, view=chosen))
        size = out.stat().st_size / 2**20
        print(f"    {made.rows:,} x {made.width}, {size:.0f} MB, {len(made.unreadable)} unreadable")
        stored = timed("open", lambda: open_embeddings(out))
        timed("one query by index, k = 10", lambda: neighbours(stored, 5, k=10), times=5)
        by_file = lambda: neighbours(stored, picture, k=10, run=run, view=chosen)  # noqa: E731
        answer = timed("one query by picture file", by_file, times=5)
        many = stored.vectors[:100]
        timed("100 queries by vector", lambda: neighbours(stored, many, k=10), times=3)
        timed("contact sheet", lambda: contact_sheet(answer, stored, folder / "sheet.png"), times=2)
        repeated = timed("duplicates, cosine 0.99", lambda: duplicates(stored, cosine=0.99))
        print(f"    {len(repeated.sets)} sets, {repeated.copies} copies; {repeated.unclear} images unclear")
        timed("their sheet", lambda: duplicates_sheet(repeated, stored, folder / "duplicates.png"))


def timed(what: str, work: Callable[[], Answer], *, times: int = 1) -> Answer:
    """Run it and print the time; of several times, the median."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        answer = work()
        taken.append(time.perf_counter() - start)
    print(f"{what:32} {sorted(taken)[len(taken) // 2]:8.3f} s", flush=True)
    return answer


def data() -> tuple[str, Source]:
    """What is embedded, and a source of pictures that are not in it."""
    roots = [os.environ.get("EIGENVIEW_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    for root in roots:
        folder = Path(root) / "cifar10" if root else None
        if folder is not None and (folder / "train.parquet").is_file():
            return str(folder / "train.parquet"), open_source(str(folder / "test.parquet"))  # type: ignore[return-value]
    return "shapes?count=50000", open_source("shapes?count=10&seed=1")  # type: ignore[return-value]


if __name__ == "__main__":
    main()
